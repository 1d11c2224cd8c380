//! Changes of settings while a daemon runs.

use std::time::{Duration, SystemTime};

use super::*;
use cairn_tier::TierKind;

use crate::App;
use crate::clock::Clock;
use crate::settings::Applies;
use crate::settings::env::Env;
use crate::settings::places::{Places, System};

struct TestDaemon {
    folder: tempfile::TempDir,
    app: App,
}

impl TestDaemon {
    fn start(variables: &[(&str, &str)], file: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.toml"), file).expect("the folder is writable");
        let home = [("CAIRN_HOME", folder.path().to_str().expect("a plain path")), ("CAIRN_KERNEL", "scalar")];
        let env = Env::of(home.iter().chain(variables).copied());
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("a home folder"));
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH);
        let app = App::for_test(settings, clock);
        Self { folder, app }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("config.toml")).expect("the file exists")
    }

    fn change(&self, changes: &[(&str, Option<Value>)]) -> Result<SettingTable, SettingsError> {
        self.app.settings().change(&changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    fn row(&self, key: &str) -> SettingRow {
        let rows = self.app.settings().table().rows;
        rows.into_iter().find(|row| row.row.key == Some(key)).expect("the setting exists")
    }
}

fn number(number: u64) -> Option<Value> {
    Some(Value::Number(number))
}

fn words(words: &str) -> Option<Value> {
    Some(Value::Text(words.to_owned()))
}

#[tokio::test]
async fn live_settings_take_effect_at_once() {
    let daemon = TestDaemon::start(&[], "[cache]\nram = 100_000_000\nfolder_size = 100000000 # here\nreserve = '1M'\n");
    let changes = [
        ("cache.ram", number(200_000_000)),
        ("cache.folder_size", number(300_000_000)),
        ("downloads.limit", words("2M")),
        ("engine.keep_alive", words("-1")),
        ("engine.context", number(8192)),
        ("server.require_key", words("all")),
        ("ui.theme", words("dark")),
    ];
    let table = daemon.change(&changes).expect("all values are valid");
    assert!(table.rows.iter().all(|row| !row.restart), "{table:?}");
    let tiers = daemon.app.cache().status().expect("the cache is open").tiers.tiers;
    let budget = |kind| tiers.iter().find(|status| status.kind == kind).map(|status| status.budget_bytes);
    assert_eq!(budget(TierKind::Ram), Some(200_000_000), "RAM");
    assert_eq!(budget(TierKind::Ssd), Some(300_000_000), "the folder");
    assert_eq!(daemon.app.transfers().speed_limit(), Some(2_000_000), "downloads");
    assert_eq!(daemon.app.settings().live.keep_alive(), KeepAlive::Forever, "next requests");
    assert_eq!(daemon.app.settings().live.context_tokens(), Some(8192), "next loads");
    assert_eq!(daemon.app.settings().require_key(), RequireKey::All, "next requests");
    assert!(daemon.text().contains("folder_size = 300000000 # here\n"), "{}", daemon.text());
    assert_eq!(
        (daemon.row("ui.theme").value, daemon.row("ui.theme").origin),
        (words("dark"), Origin::File),
        "setting of clients"
    );

    daemon.change(&[("engine.keep_alive", None), ("downloads.limit", None)]).expect("defaults are valid");
    assert_eq!(daemon.app.settings().live.keep_alive(), KeepAlive::For(Duration::from_secs(300)), "the default");
    assert_eq!(daemon.app.transfers().speed_limit(), None, "the default");
    assert_eq!(daemon.row("engine.keep_alive").origin, Origin::Default, "origin");
}

#[tokio::test]
async fn changed_engine_setting_reports_required_restart() {
    let daemon = TestDaemon::start(&[], "");
    daemon
        .change(&[("engine.parallel", number(3)), ("cache.weigh", Some(Value::Bool(false)))])
        .expect("both values are valid");
    for key in ["engine.parallel", "cache.weigh"] {
        let row = daemon.row(key);
        assert!(row.restart && row.origin == Origin::File, "{row:?}");
    }
    daemon.change(&[("engine.parallel", None)]).expect("the default is valid");
    assert!(!daemon.row("engine.parallel").restart, "the value in effect");
}

#[tokio::test]
async fn change_with_invalid_value_writes_nothing() {
    let before = "# mine\n[engine]\nparallel = 2\n";
    let daemon = TestDaemon::start(&[("OLLAMA_MAX_QUEUE", "9")], before);
    let check = |key: &str, value: Option<Value>, part: &str| {
        let changes = [("ui.theme", words("dark")), (key, value)];
        let error = daemon.change(&changes).expect_err("an invalid value");
        let SettingsError::Wrong(wrong) = &error else { panic!("{error:?}") };
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].key == key && wrong[0].problem.to_string().contains(part), "{wrong:?} has no {part:?}");
        assert_eq!(daemon.text(), before, "{key}: nothing was written");
    };
    check("engine.paralel", number(1), "unknown setting");
    check("engine.max_queue", number(1), "OLLAMA_MAX_QUEUE");
    check("engine.kernel", words("scalar"), "CAIRN_KERNEL");
    check("engine.keep_alive", words("soon"), "invalid value for");
    check("engine.parallel", words("many"), "whole number");
    check("engine.kv_type", words("q9"), "f16, bf16");
    check("cache.ram", number(5), "16777216");
    check("cache.ram", number(u64::MAX / 4), "invalid value for");
    check("cache.folder", words("/"), "root");
    check("cache.remote", words("ftp://x/y"), "invalid value for");
    check("network.ca_file", words("/nowhere/x.pem"), "does not exist");
    check("downloads.limit", words("fast"), "invalid value for");
    check("ui.language", words("xx"), "zh-CN");
    check("engine.parallel", number(u64::MAX), "at most");
    check("engine.parallel", number(1 << 40), "at most");
    check("models.folder", words("/a\0b"), "one line");
    check("models.folder", words("/a\nb"), "one line");
    check("server.origins", words(&format!("http://{}", "a".repeat(1 << 20))), "longer");
}

#[tokio::test]
async fn host_with_unusable_address_is_rejected() {
    let daemon = TestDaemon::start(&[], "");
    for wrong in ["203.0.113.7:11434", "no-such-host.invalid", "127.0.0.1:99999", "127.0.0.1:22x", "[::1", "*"] {
        let refused = daemon.change(&[("server.host", words(wrong))]);
        assert!(matches!(refused, Err(SettingsError::Wrong(_))), "{wrong}: {refused:?}");
    }
    assert_eq!(daemon.text(), "", "nothing was written");
    for right in ["0.0.0.0", "127.0.0.1:11999", "localhost:11999", ":11999", "http://127.0.0.1:11999", "127.0.0.1:0"] {
        let accepted = daemon.change(&[("server.host", words(right))]);
        assert!(accepted.is_ok(), "{right}: {accepted:?}");
    }
    daemon.change(&[("server.host", None)]).expect("the default is valid");
}

#[tokio::test]
async fn item_in_place_of_group_is_not_overwritten() {
    for before in ["ui = 5 # mine\n", "[[ui]]\ntheme = 'dark'\n[[ui]]\n"] {
        let daemon = TestDaemon::start(&[], before);
        let refused = daemon.change(&[("ui.theme", words("dark"))]);
        assert!(matches!(refused, Err(SettingsError::Wrong(_))), "{before}: {refused:?}");
        assert_eq!(daemon.text(), before, "unchanged");
    }
}

#[tokio::test]
async fn settings_file_with_syntax_error_is_not_overwritten() {
    let daemon = TestDaemon::start(&[], "[engine\n");
    assert!(daemon.app.settings().table().problem.is_some(), "the cause is reported");
    let error = daemon.change(&[("ui.theme", words("dark"))]).expect_err("an invalid value").to_string();
    assert!(error.contains("nothing was changed"), "{error}");
    assert_eq!(daemon.text(), "[engine\n", "unchanged");
}

#[test]
fn settings_without_restart_are_all_applied() {
    let live: Vec<_> = TABLE.iter().filter(|row| row.applies != Applies::Restart && row.variable.is_some()).collect();
    let keys: Vec<_> = live.iter().filter_map(|row| row.key).collect();
    let expected = [
        "server.require_key",
        "engine.keep_alive",
        "engine.context",
        "cache.ram",
        "cache.folder_size",
        "downloads.limit",
    ];
    assert_eq!(keys, expected, "`SettingsStore::apply` and `Apply::apply` handle each; a test above checks each");
}
