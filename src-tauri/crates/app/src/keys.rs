//! API keys: random secrets. A key gives a program on any machine the access of its scopes, until the user revokes it.
//!
//! `api-keys.json` in the settings folder has the digest of each key. The key itself is shown once, when it is created.
//! The daemon reads the file at its start and is the only program that writes it. The time of a key's last use is
//! coarse: it changes at most once an hour, and is written now and then instead of with each request.

mod file;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cairn_disk::DiskError;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::private_file::PrivateFile;
use crate::secret::{RandomError, SecretDigest, random_hex};
use crate::settings::Settings;
use crate::short_name::{MAX_NAME_BYTES, is_name};
use crate::values::{KeyScope, Timestamp, beginning};
use file::Keys;

/// Most keys of a user. Each request with a key compares it with all of them.
pub const MAX_KEYS: usize = 256;
/// Lets secret scanners find keys.
const PREFIX: &str = "cairn_";
/// Random bytes of a key.
const KEY_BYTES: usize = 32;
/// Prefix and number of digits of keys that earlier versions created.
const FIRST_FORM: (&str, usize) = ("cairn-", 32);
/// Characters of a key that errors may quote.
const QUOTED_KEY_CHARS: usize = 4;
/// Resolution of the time of a key's last use.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);
/// Time between two writes of changed times of use.
const SAVE_INTERVAL: Duration = Duration::from_secs(600);

/// An API key as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredKey {
    /// What the key allows.
    pub scopes: Vec<KeyScope>,
    /// Creation time.
    pub created_at: Timestamp,
    /// When the key was used, at most [`USE_RESOLUTION`] before its last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    digest: SecretDigest,
}

/// A key that a client has presented.
#[derive(Debug, Clone)]
pub struct PresentedKey {
    /// Name of the key.
    pub name: String,
    /// What the key allows.
    pub scopes: Vec<KeyScope>,
    /// Digest of the key's text.
    pub digest: SecretDigest,
}

impl PresentedKey {
    /// Whether the key has a scope that includes `needed`.
    #[must_use]
    pub fn allows(&self, needed: KeyScope) -> bool {
        self.scopes.iter().any(|scope| scope.includes(needed))
    }
}

/// Why an operation on API keys failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is empty, too long, begins with another character than a letter or digit, or has other characters than those, `.`,
    /// `-` and `_`.
    #[error(
        "{0:?} is not a valid name of an API key; use 1 to {MAX_NAME_BYTES} letters, digits, '.', '-' or '_', and begin with a \
         letter or digit"
    )]
    Name(String),
    /// A key without a scope would allow nothing.
    #[error("cannot create the API key: it has no scope; the scopes are {}", KeyScope::ALL.map(KeyScope::name).join(", "))]
    NoScope,
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
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The API keys of this user. Clones share them.
#[derive(Clone)]
pub struct ApiKeys(Arc<Shared>);

struct Shared {
    file: PrivateFile,
    clock: Clock,
    state: Mutex<State>,
    /// Serialises writes of the file. Requests do not wait for them.
    writing: Mutex<()>,
    /// Changes when keys are revoked.
    revocations: watch::Sender<()>,
}

struct State {
    /// Keys by name, or why the file cannot be read.
    keys: Result<Keys, String>,
    /// Whether a time of use is newer than in the file.
    has_unsaved_use: bool,
}

impl ApiKeys {
    /// Reads the file of the keys. If that fails, no key is valid and the log has the reason.
    pub(crate) fn open(settings: &Settings, clock: &Clock) -> Self {
        Self::at(settings.places().config.join("api-keys.json"), clock)
    }

    fn at(path: PathBuf, clock: &Clock) -> Self {
        let file = PrivateFile::open(path);
        let keys = file::read(&file);
        if let Err(reason) = &keys {
            tracing::warn!(path = %file.path().display(), reason, "cannot read the API keys; no key is valid");
        }
        let state = Mutex::new(State { keys, has_unsaved_use: false });
        Self(Arc::new(Shared {
            file,
            clock: clock.clone(),
            state,
            writing: Mutex::default(),
            revocations: watch::Sender::new(()),
        }))
    }

    /// Creates a key and returns its text, which is not stored. Blocks.
    ///
    /// # Errors
    /// If the name is invalid or taken, there is no scope, or the file cannot be read or written.
    pub fn create(&self, name: &str, scopes: &[KeyScope]) -> Result<String, Error> {
        if !is_name(name) || is_key(name) {
            return Err(Error::Name(quotable(name)));
        }
        let mut scopes = scopes.to_vec();
        scopes.sort_unstable();
        scopes.dedup();
        if scopes.is_empty() {
            return Err(Error::NoScope);
        }
        let text = format!("{PREFIX}{}", random_hex::<KEY_BYTES>()?);
        let created_at = Timestamp(self.0.clock.now());
        let key = StoredKey { scopes, created_at, last_used_at: None, digest: SecretDigest::of(&text) };
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
        let digest = SecretDigest::of(name);
        self.change(|keys| {
            let all = keys.len();
            keys.retain(|other, key| other != name && !key.digest.matches(&digest));
            if keys.len() < all { Ok(()) } else { Err(Error::NotFound(quotable(name))) }
        })?;
        self.0.revocations.send_replace(());
        Ok(())
    }

    /// Waits until no key has this digest.
    pub async fn revoked(&self, digest: &SecretDigest) {
        let mut revocations = self.0.revocations.subscribe();
        let is_valid = || {
            let state = self.0.state.lock();
            state.keys.as_ref().is_ok_and(|keys| keys.values().any(|key| key.digest.matches(digest)))
        };
        // The sender is dropped only after this handle.
        while is_valid() && revocations.changed().await.is_ok() {}
    }

    /// All keys by name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self) -> Result<Vec<(String, StoredKey)>, Error> {
        let keys = self.current().keys.clone().map_err(|reason| self.unreadable(reason))?;
        Ok(keys.into_iter().collect())
    }

    /// Returns the key with this text, and records its use. Compares digests in constant time, so the duration reveals
    /// nothing about the keys.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<PresentedKey> {
        let presented = SecretDigest::of(text);
        let now = self.0.clock.now();
        let mut state = self.0.state.lock();
        let State { keys, has_unsaved_use } = &mut *state;
        let mut found = None;
        for (name, key) in keys.as_mut().ok()? {
            if key.digest.matches(&presented) {
                found = Some((name, key));
            }
        }
        let (name, key) = found?;
        if key.last_used_at.is_none_or(|last| is_older(last, now)) {
            key.last_used_at = Some(Timestamp(now));
            *has_unsaved_use = true;
        }
        Some(PresentedKey { name: name.clone(), scopes: key.scopes.clone(), digest: key.digest })
    }

    /// Writes changed times of use to the file. Blocks.
    pub fn save_uses(&self) {
        if !self.0.state.lock().has_unsaved_use {
            return;
        }
        if let Err(error) = self.change(|_| Ok(())) {
            tracing::warn!(%error, "cannot store when API keys were used");
        }
    }

    /// Saves changed times of use at intervals, until the last handle is dropped. Needs a tokio runtime.
    pub(crate) fn save_uses_at_intervals(&self) {
        let shared = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SAVE_INTERVAL).await;
                let Some(shared) = shared.upgrade() else { return };
                if let Err(error) = tokio::task::spawn_blocking(move || Self(shared).save_uses()).await {
                    tracing::warn!(%error, "cannot store when API keys were used");
                }
            }
        });
    }

    /// The keys. An unreadable file is read again, because the user may have repaired it.
    fn current(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock();
        if state.keys.is_err() {
            state.keys = file::read(&self.0.file);
        }
        state
    }

    /// Changes the keys in the file, and in memory if that succeeds.
    fn change(&self, apply: impl FnOnce(&mut Keys) -> Result<(), Error>) -> Result<(), Error> {
        let _writing = self.0.writing.lock();
        let mut changed = {
            let mut state = self.current();
            state.has_unsaved_use = false;
            state.keys.clone().map_err(|reason| self.unreadable(reason))?
        };
        let written = apply(&mut changed).and_then(|()| file::write(&self.0.file, &changed).map_err(Error::from));
        let mut state = self.0.state.lock();
        if let Err(error) = written {
            state.has_unsaved_use = true;
            return Err(error);
        }
        // Keys may have been used during the write.
        for (name, before) in state.keys.iter().flatten() {
            if let Some(key) = changed.get_mut(name).filter(|key| key.digest.matches(&before.digest)) {
                key.last_used_at = before.last_used_at;
            }
        }
        state.keys = Ok(changed);
        Ok(())
    }

    fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable { path: self.0.file.path().to_owned(), reason }
    }
}

/// Whether a time of use is old enough to be replaced. A time in the future is too: the clock was set back.
fn is_older(last: Timestamp, now: SystemTime) -> bool {
    now.duration_since(last.0).map_or(true, |age| age >= USE_RESOLUTION)
}

/// Whether a text has the form of a key.
#[must_use]
pub fn is_key(text: &str) -> bool {
    [(PREFIX, 2 * KEY_BYTES), FIRST_FORM].into_iter().any(|(prefix, length)| {
        let digits = text.strip_prefix(prefix).unwrap_or_default();
        digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns a name as errors may quote it. Errors are logged, and the text may be a key, also one with a typing error: after the
/// prefix of keys, or without it after some digits of a key, only four characters are quoted.
fn quotable(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let prefixes = [PREFIX, FIRST_FORM.0].into_iter();
    let after_prefix = prefixes.filter_map(|prefix| lower.find(prefix).map(|at| at + prefix.len())).min();
    let is_digits = |word: &str| word.len() >= FIRST_FORM.1 / 2 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = lower.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| is_digits(word));
    let secret_at = after_prefix.or_else(|| digits.and_then(|word| lower.find(word)));
    let chars = secret_at.map_or(MAX_NAME_BYTES, |at| lower[..at].chars().count() + QUOTED_KEY_CHARS);
    beginning(name, chars.min(MAX_NAME_BYTES)).into_owned()
}

#[cfg(test)]
mod tests;
