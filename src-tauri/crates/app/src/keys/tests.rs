//! Tests of API keys.

use std::fs;
use std::time::{Duration, SystemTime};

use super::*;
use KeyScope::{Admin, Chat, Metrics, Models};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn open(folder: &tempfile::TempDir) -> ApiKeys {
    ApiKeys::at(folder.path().join("new/api-keys.json"), &Clock::fixed(at(7)))
}

fn names(keys: &ApiKeys) -> Vec<String> {
    keys.list().unwrap().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn key_is_valid_until_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let keys = open(&folder);
    let text = keys.create("phone", &[Models, Chat, Models]).unwrap();
    assert!(text.strip_prefix("cairn_").is_some_and(|hex| hex.len() == 64), "{text:?}");
    let found = keys.find(&text).expect("a valid key");
    assert_eq!((found.name.as_str(), found.scopes.as_slice()), ("phone", [Chat, Models].as_slice()));
    assert!(keys.find(&text[1..]).is_none() && keys.find("phone").is_none() && keys.find("").is_none());
    assert!(matches!(keys.create("phone", &[Metrics]), Err(Error::Taken(_))), "a name is unique");

    let reopened = open(&folder);
    assert!(reopened.find(&text).is_some(), "a key survives a restart");
    assert_eq!(reopened.list().unwrap()[0].1.created_at, Timestamp::from_unix_ms(7_000));
    let path = folder.path().join("new/api-keys.json");
    let stored = fs::read_to_string(&path).unwrap();
    assert!(!stored.contains(&text) && !stored.contains(&text["cairn_".len()..]), "only its digest is stored");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "only this user reads the file");
    }

    reopened.revoke("phone").unwrap();
    assert!(matches!(reopened.revoke("phone"), Err(Error::NotFound(_))));
    for keys in [reopened, open(&folder)] {
        assert!(keys.find(&text).is_none(), "a revoked key is invalid at once and after a restart");
    }
}

#[test]
fn key_allows_its_scopes_and_admin_allows_all() {
    let folder = tempfile::tempdir().unwrap();
    let keys = open(&folder);
    let check = |name: &str, scopes: &[KeyScope], allowed: &[KeyScope]| {
        let key = keys.find(&keys.create(name, scopes).unwrap()).expect("a valid key");
        let found: Vec<_> = KeyScope::ALL.into_iter().filter(|scope| key.allows(*scope)).collect();
        assert_eq!(found, allowed, "{name}");
    };
    check("chat", &[Chat], &[Chat]);
    check("both", &[Chat, Models], &[Chat, Models]);
    check("metrics", &[Metrics], &[Metrics]);
    check("admin", &[Admin], &KeyScope::ALL);
    assert!(matches!(keys.create("none", &[]), Err(Error::NoScope)), "a key without a scope allows nothing");
}

#[test]
fn invalid_names_and_too_many_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let keys = open(&folder);
    for name in ["", "a b", "é", "a/b", &"a".repeat(65)] {
        assert!(matches!(keys.create(name, &[Chat]), Err(Error::Name(_))), "{name:?}");
    }
    keys.create(&"a".repeat(64), &[Chat]).unwrap();
    for number in 1..MAX_KEYS {
        keys.create(&number.to_string(), &[Chat]).unwrap();
    }
    assert!(matches!(keys.create("more", &[Chat]), Err(Error::TooMany)), "the limit");
}

#[test]
fn text_of_a_key_revokes_it_and_is_never_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let keys = open(&folder);
    let text = keys.create("a", &[Chat]).unwrap();
    keys.create("b", &[Chat]).unwrap();
    let name = keys.create(&text, &[Chat]).expect_err("a key cannot be a name").to_string();
    keys.revoke(&text).unwrap();
    assert!(keys.find(&text).is_none(), "the text selects the key");
    assert_eq!(names(&keys), ["b"], "the other key stays");
    let absent = keys.revoke(&text).expect_err("the key is revoked").to_string();
    let first = format!("cairn-{}", "0a".repeat(16));
    let older = keys.revoke(&first).expect_err("there is no such key").to_string();
    for (error, text) in [(name, &text), (absent, &text), (older, &first)] {
        assert!(!error.contains(&text[.."cairn_".len() + 5]) && error.contains("cairn"), "{error}");
    }
    assert!(!format!("{:?}", keys.list().unwrap()).contains(&SecretDigest::of(&text).hex()), "digests are not printed");
}

#[test]
fn mistyped_key_is_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let keys = open(&folder);
    let digits = "0123456789abcdef".repeat(4);
    let check = |text: &str, expected: &str| {
        let error = keys.revoke(text).expect_err("no such key").to_string();
        assert!(error.contains(&format!("{expected:?}")), "{text}: {error}");
    };
    check(&format!("cairn_{}", &digits[1..]), "cairn_1234…");
    check(&format!("cairn_{digits}0"), "cairn_0123…");
    check(&format!("Cairn_x{digits}"), "Cairn_x012…");
    check(&format!("Bearer cairn_{digits}"), "Bearer cairn_0123…");
    check(&format!("airn_{digits}"), "airn_0123…");
    check(&digits, "0123…");
    check("my-phone", "my-phone");
}

#[test]
fn file_is_read_again_after_its_repair() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("new")).unwrap();
    let path = folder.path().join("new/api-keys.json");
    fs::write(&path, "{").unwrap();
    let keys = open(&folder);
    assert!(keys.list().is_err() && keys.find("a").is_none());
    fs::remove_file(&path).unwrap();
    assert!(keys.list().unwrap().is_empty(), "a removed file has no keys");
    keys.create("a", &[Chat]).unwrap();
}

#[test]
fn file_of_newer_or_damaged_format_is_kept() {
    for content in [r#"{"version":3,"keys":[]}"#, "{", r#"{"version":2,"keys":{"a":{}}}"#] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("new")).unwrap();
        fs::write(folder.path().join("new/api-keys.json"), content).unwrap();
        let keys = open(&folder);
        assert!(matches!(keys.create("a", &[Chat]), Err(Error::Unreadable { .. })), "{content}");
        assert!(matches!(keys.list(), Err(Error::Unreadable { .. })), "{content}");
        assert_eq!(fs::read_to_string(folder.path().join("new/api-keys.json")).unwrap(), content);
    }
}

#[test]
fn last_use_is_coarse_and_written_only_when_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api-keys.json");
    let now = Arc::new(Mutex::new(at(10_000)));
    let clock = Clock::from_fn({
        let now = Arc::clone(&now);
        move || *now.lock()
    });
    let keys = ApiKeys::at(path.clone(), &clock);
    let (text, unused) = (keys.create("a", &[Chat]).unwrap(), keys.create("unused", &[Chat]).unwrap());
    let last_use = |keys: &ApiKeys| keys.list().unwrap()[0].1.last_used_at;
    assert_eq!(last_use(&keys), None, "never used");
    let written = fs::read(&path).unwrap();
    for (seconds, expected) in [(10_000, 10_000), (13_599, 10_000), (13_600, 13_600), (9_000, 9_000)] {
        *now.lock() = at(seconds);
        keys.find(&text).expect("a valid key");
        assert_eq!(last_use(&keys), Some(Timestamp(at(expected))), "used at {seconds}");
    }
    assert_eq!(fs::read(&path).unwrap(), written, "requests do not write the file");
    keys.save_uses();
    let reopened = ApiKeys::at(path.clone(), &clock);
    assert_eq!(last_use(&reopened), Some(Timestamp(at(9_000))), "saved");

    fs::remove_file(&path).unwrap();
    keys.save_uses();
    assert!(!path.exists(), "nothing changed, so nothing is written");
    keys.revoke(&unused).unwrap();
    assert_eq!(last_use(&keys), Some(Timestamp(at(9_000))), "other changes keep the time");
}
