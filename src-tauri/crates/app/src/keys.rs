//! API keys: random secrets. A key gives a program on any machine one kind of access, until the user revokes the key.
//!
//! `api-keys.json` in the settings folder has the digest of each key. The key itself is shown once, when it is created.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_disk::{Disk, DiskError, Mode, RealDisk};
use cairn_store::Digest;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::settings::Settings;
use crate::values::{KeyScope, Timestamp};

/// Version of the file's format.
const FORMAT: u32 = 1;
/// Most keys of a user.
pub const MAX_KEYS: usize = 1_000;
const MAX_NAME_BYTES: usize = 64;
const PREFIX: &str = "cairn-";

/// An API key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// What the key allows.
    pub scope: KeyScope,
    /// Creation time.
    pub created_at: Timestamp,
    /// SHA-256 digest of the key's text, in hexadecimal digits.
    digest: String,
}

/// Why an operation on API keys failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is empty, too long, or has other characters than letters, digits, `.`, `-` and `_`.
    #[error("{0:?} is not a valid name of an API key; use 1 to {MAX_NAME_BYTES} letters, digits, '.', '-' or '_'")]
    Name(String),
    /// Another key has the name.
    #[error("cannot create the API key: {0:?} already exists; revoke it or choose another name")]
    Taken(String),
    /// No key has the name.
    #[error("no API key is named {0:?}; `cairn key list` lists the keys")]
    NotFound(String),
    /// There are as many keys as are allowed.
    #[error("cannot create the API key: the limit of {MAX_KEYS} keys is reached; revoke a key first")]
    TooMany,
    /// The file of the keys cannot be read, so it is not overwritten.
    #[error("cannot read the API keys in {}: {reason}; no key is valid until the file is repaired or removed", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The file of the keys cannot be written.
    #[error("cannot store the API keys: {0}")]
    Unwritten(#[from] DiskError),
    /// The system gives no random numbers.
    #[error("cannot read random numbers from the system: {0}")]
    Random(getrandom::Error),
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    keys: BTreeMap<String, ApiKey>,
}

/// The API keys of this user. Clones share them.
#[derive(Clone)]
pub struct ApiKeys(Arc<Shared>);

struct Shared {
    path: PathBuf,
    clock: Clock,
    /// Keys by name, or why the file cannot be read.
    keys: Mutex<Result<BTreeMap<String, ApiKey>, String>>,
}

impl ApiKeys {
    /// Reads the file of the keys. If that fails, no key is valid and the log has the reason.
    pub(crate) fn open(settings: &Settings, clock: &Clock) -> Self {
        Self::at(settings.places().config.join("api-keys.json"), clock)
    }

    fn at(path: PathBuf, clock: &Clock) -> Self {
        let keys = read(&path);
        if let Err(reason) = &keys {
            tracing::warn!(path = %path.display(), reason, "cannot read the API keys; no key is valid");
        }
        Self(Arc::new(Shared { path, clock: clock.clone(), keys: Mutex::new(keys) }))
    }

    /// Creates a key and returns its text, which is not stored. Blocks.
    ///
    /// # Errors
    /// If the name is invalid or taken, or the file cannot be read or written.
    pub fn create(&self, name: &str, scope: KeyScope) -> Result<String, Error> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_allowed) || is_key(name) {
            return Err(Error::Name(quotable(name)));
        }
        let text = random_key()?;
        let key = ApiKey { scope, created_at: Timestamp(self.0.clock.now()), digest: digest(&text) };
        self.change(|keys| {
            if keys.contains_key(name) {
                return Err(Error::Taken(name.to_owned()));
            }
            if keys.len() >= MAX_KEYS {
                return Err(Error::TooMany);
            }
            keys.insert(name.to_owned(), key);
            Ok(())
        })?;
        Ok(text)
    }

    /// Revokes a key by its name or its text: no later request with it has access. Blocks.
    ///
    /// # Errors
    /// If there is no such key, or the file cannot be read or written.
    pub fn revoke(&self, name: &str) -> Result<(), Error> {
        let digest = digest(name);
        self.change(|keys| {
            let all = keys.len();
            keys.retain(|other, key| other != name && key.digest != digest);
            if keys.len() < all { Ok(()) } else { Err(Error::NotFound(quotable(name))) }
        })
    }

    /// All keys by name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self) -> Result<BTreeMap<String, ApiKey>, Error> {
        self.current().clone().map_err(|reason| self.unreadable(reason))
    }

    /// The keys. An unreadable file is read again, because the user may have repaired it.
    fn current(&self) -> MutexGuard<'_, Result<BTreeMap<String, ApiKey>, String>> {
        let mut keys = self.0.keys.lock();
        if keys.is_err() {
            *keys = read(&self.0.path);
        }
        keys
    }

    /// Whether `text` is a key with this scope. Its digest is compared, so the time of the comparison reveals nothing
    /// about the key.
    #[must_use]
    pub fn allows(&self, text: &str, scope: KeyScope) -> bool {
        let digest = digest(text);
        let keys = self.0.keys.lock();
        keys.as_ref().is_ok_and(|keys| keys.values().any(|key| key.scope == scope && key.digest == digest))
    }

    /// Changes the keys in the file, and in memory if that succeeds.
    fn change(&self, apply: impl FnOnce(&mut BTreeMap<String, ApiKey>) -> Result<(), Error>) -> Result<(), Error> {
        let mut keys = self.current();
        let mut changed = keys.clone().map_err(|reason| self.unreadable(reason))?;
        apply(&mut changed)?;
        let file = File { version: FORMAT, keys: changed };
        let json = serde_json::to_vec_pretty(&file).expect("texts and numbers are serialisable");
        if let Some(folder) = self.0.path.parent() {
            RealDisk.create_dir_all(folder)?;
        }
        RealDisk.write_atomic(&self.0.path, &json, Mode::Private)?;
        *keys = Ok(file.keys);
        Ok(())
    }

    fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable { path: self.0.path.clone(), reason }
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, ApiKey>, String> {
    match RealDisk.read(path) {
        Ok(bytes) => parse(&bytes),
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.source.to_string()),
    }
}

fn parse(bytes: &[u8]) -> Result<BTreeMap<String, ApiKey>, String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if version != FORMAT {
        return Err(format!("unsupported format version {version} (supported: {FORMAT})"));
    }
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(file.keys)
}

fn digest(key: &str) -> String {
    Digest::of(key.as_bytes()).hex().to_owned()
}

/// Whether a text has the form of a key.
fn is_key(text: &str) -> bool {
    let digits = text.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a name as errors may quote it: the beginning of a text that may be a key, because errors are logged.
fn quotable(name: &str) -> String {
    let chars = if is_key(name.trim()) { PREFIX.len() + 4 } else { MAX_NAME_BYTES };
    match name.char_indices().nth(chars) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns `cairn-` and 128 random bits in hexadecimal digits. The prefix lets secret scanners find keys.
fn random_key() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(format!("{PREFIX}{}", hex::encode(bytes)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn open(folder: &tempfile::TempDir) -> ApiKeys {
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        ApiKeys::at(folder.path().join("new/api-keys.json"), &clock)
    }

    #[test]
    fn key_is_valid_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let keys = open(&folder);
        let text = keys.create("grafana", KeyScope::Metrics).unwrap();
        assert!(text.strip_prefix("cairn-").is_some_and(|hex| hex.len() == 32), "{text:?}");
        assert!(keys.allows(&text, KeyScope::Metrics) && !keys.allows(&text[1..], KeyScope::Metrics));
        assert!(matches!(keys.create("grafana", KeyScope::Metrics), Err(Error::Taken(_))), "a name is unique");

        let reopened = open(&folder);
        assert!(reopened.allows(&text, KeyScope::Metrics), "a key survives a restart");
        assert_eq!(reopened.list().unwrap()["grafana"].created_at, Timestamp::from_unix_ms(7_000));
        let stored = fs::read_to_string(folder.path().join("new/api-keys.json")).unwrap();
        assert!(!stored.contains(&text) && !stored.contains(&text["cairn-".len()..]), "only its digest is stored");

        reopened.revoke("grafana").unwrap();
        assert!(matches!(reopened.revoke("grafana"), Err(Error::NotFound(_))));
        for keys in [reopened, open(&folder)] {
            assert!(!keys.allows(&text, KeyScope::Metrics), "a revoked key is invalid at once and after a restart");
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let keys = open(&folder);
        for name in ["", "a b", "é", "a/b", &"a".repeat(65)] {
            assert!(matches!(keys.create(name, KeyScope::Metrics), Err(Error::Name(_))), "{name:?}");
        }
        keys.create(&"a".repeat(64), KeyScope::Metrics).unwrap();
    }

    #[test]
    fn text_of_a_key_revokes_it_and_is_never_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let keys = open(&folder);
        let text = keys.create("a", KeyScope::Metrics).unwrap();
        keys.create("b", KeyScope::Metrics).unwrap();
        let name = keys.create(&text, KeyScope::Metrics).expect_err("a key cannot be a name").to_string();
        keys.revoke(&text).unwrap();
        assert!(!keys.allows(&text, KeyScope::Metrics), "the text selects the key");
        assert_eq!(keys.list().unwrap().into_keys().collect::<Vec<_>>(), ["b"], "the other key stays");
        let absent = keys.revoke(&text).expect_err("the key is revoked").to_string();
        for error in [name, absent] {
            assert!(!error.contains(&text[.."cairn-".len() + 5]) && error.contains("cairn-"), "{error}");
        }
    }

    #[test]
    fn file_is_read_again_after_its_repair() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("new")).unwrap();
        let path = folder.path().join("new/api-keys.json");
        fs::write(&path, "{").unwrap();
        let keys = open(&folder);
        assert!(keys.list().is_err());
        fs::remove_file(&path).unwrap();
        assert!(keys.list().unwrap().is_empty(), "a removed file has no keys");
        keys.create("a", KeyScope::Metrics).unwrap();
    }

    #[test]
    fn file_of_newer_or_damaged_format_is_kept() {
        for content in [r#"{"version":2,"keys":[]}"#, "{", r#"{"version":1,"keys":{"a":{}}}"#] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("new")).unwrap();
            fs::write(folder.path().join("new/api-keys.json"), content).unwrap();
            let keys = open(&folder);
            assert!(matches!(keys.create("a", KeyScope::Metrics), Err(Error::Unreadable { .. })), "{content}");
            assert!(matches!(keys.list(), Err(Error::Unreadable { .. })), "{content}");
            assert_eq!(fs::read_to_string(folder.path().join("new/api-keys.json")).unwrap(), content);
        }
    }
}
