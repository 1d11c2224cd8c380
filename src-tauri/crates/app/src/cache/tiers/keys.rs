//! What names and seals chunks: a secret in a file, and a key in the system's keychain.
//!
//! Files are sealed so that whoever gets at them, on a stolen disk or in a bucket, cannot read them. So the key should not lie beside
//! them: it belongs into the keychain. On a machine without one, such as a server that nobody is logged in at, it is a file that only
//! this user can read, and that is said. Without the key nobody can read what it sealed: to delete it is to delete all of that.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use cairn_disk::{Disk, Mode};

/// Bytes of the secret and of the key.
const KEY_BYTES: usize = 32;
/// By what the keychain knows the key.
const SERVICE: &str = "app.cairn";
const ACCOUNT: &str = "prefix cache";
/// How long the keychain may take: it may be asking its user for a password.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the key is that seals files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// In the system's keychain.
    Keychain,
    /// In a file that only this user can read.
    File,
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keychain => "in the system's keychain",
            Self::File => "in a file",
        })
    }
}

/// A keychain, with room for our key.
pub(super) trait Keychain: Sync {
    /// The key; none where there is none yet.
    fn get(&self) -> Result<Option<Vec<u8>>, String>;

    /// Keeps the key.
    fn set(&self, key: &[u8]) -> Result<(), String>;
}

/// That of the system: macOS' Keychain, the Credential Manager of Windows, the Secret Service elsewhere.
pub(super) struct SystemKeychain;

impl SystemKeychain {
    /// Asks it on a thread of its own, which is left behind where it does not answer.
    fn ask<T: Send + 'static>(
        call: impl FnOnce(&keyring::v1::Entry) -> Result<T, keyring::v1::Error> + Send + 'static,
    ) -> Result<T, String> {
        let (tell, told) = mpsc::sync_channel(1);
        let asking = move || {
            let answer = keyring::v1::Entry::new(SERVICE, ACCOUNT).and_then(|entry| call(&entry));
            // Nobody listens any more where it took too long.
            let _ = tell.send(answer.map_err(|error| error.to_string()));
        };
        let asked = std::thread::Builder::new().name("keychain".to_owned()).spawn(asking);
        asked.map_err(|error| error.to_string())?;
        told.recv_timeout(PATIENCE).map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?
    }
}

impl Keychain for SystemKeychain {
    fn get(&self) -> Result<Option<Vec<u8>>, String> {
        Self::ask(|entry| match entry.get_secret() {
            Ok(key) => Ok(Some(key)),
            Err(keyring::v1::Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn set(&self, key: &[u8]) -> Result<(), String> {
        let key = key.to_owned();
        Self::ask(move |entry| entry.set_secret(&key))
    }
}

/// The key that seals, and where it is. One that a file has stays there. Where the keychain has it, an empty file beside says so: a
/// keychain that does not answer today must not lead to another key, for which all that is sealed would be damaged.
pub(super) fn seal(
    disk: &dyn Disk,
    keychain: Option<&dyn Keychain>,
    file: &Path,
) -> Result<(Vec<u8>, KeyPlace), String> {
    let in_file = || secret(disk, file).map(|key| (key, KeyPlace::File));
    let Some(keychain) = keychain else { return in_file() };
    let elsewhere = file.with_extension("keychain");
    let in_keychain = |key| {
        if !elsewhere.exists() {
            write(disk, &elsewhere, b"")?;
        }
        Ok((key, KeyPlace::Keychain))
    };
    let fallback = |error: String| {
        tracing::warn!(error, file = %file.display(), "the system's keychain cannot be used: the key is in a file");
        in_file()
    };
    match keychain.get() {
        Ok(Some(key)) if key.len() == KEY_BYTES => in_keychain(key),
        Ok(_) if file.exists() => in_file(),
        Ok(_) => {
            let key = random()?;
            match keychain.set(&key) {
                Ok(()) => in_keychain(key),
                Err(error) => fallback(error),
            }
        }
        Err(error) if elsewhere.exists() && !file.exists() => {
            Err(format!("the system's keychain has it, and does not give it: {error}"))
        }
        Err(error) => fallback(error),
    }
}

/// The installation's secret in a file, which is made at the first need.
pub(super) fn secret(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, String> {
    match disk.read(path) {
        Ok(secret) if secret.len() == KEY_BYTES => return Ok(secret),
        // What was kept under a secret that is lost cannot be read any more. It is nobody's now, and stays until a person removes it.
        Ok(_) => {
            tracing::warn!(path = %path.display(), "the secret of the kept prefixes was damaged; a new one is made")
        }
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.to_string()),
    }
    let secret = random()?;
    write(disk, path, &secret)?;
    Ok(secret)
}

/// Writes a file that only this user can read, and makes its folder.
fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), |folder| disk.create_dir_all(folder));
    made.and_then(|()| disk.write_atomic(path, bytes, Mode::Private)).map_err(|error| error.to_string())
}

fn random() -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system has no random numbers: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use cairn_disk::RealDisk;

    use super::*;

    #[test]
    fn the_secret_stays_and_a_damaged_one_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("kv/secret");
        let first = secret(&RealDisk, &path).expect("the folder is writable");
        assert_eq!(secret(&RealDisk, &path), Ok(first.clone()), "it is made once");
        std::fs::write(&path, b"short").expect("the folder is writable");
        let second = secret(&RealDisk, &path).expect("the folder is writable");
        assert_eq!(second.len(), KEY_BYTES, "a damaged one is not used");
        assert_ne!(second, first, "and the new one is another");
    }

    /// One with this in it, that does what it is asked or says why not.
    struct Fake {
        key: Mutex<Option<Vec<u8>>>,
        reads: Result<(), &'static str>,
        writes: Result<(), &'static str>,
    }

    impl Fake {
        fn new(reads: Result<(), &'static str>, writes: Result<(), &'static str>) -> Self {
            Self { key: Mutex::default(), reads, writes }
        }
    }

    impl Keychain for Fake {
        fn get(&self) -> Result<Option<Vec<u8>>, String> {
            self.reads.map(|()| self.key.lock().clone()).map_err(str::to_owned)
        }

        fn set(&self, key: &[u8]) -> Result<(), String> {
            self.writes.map(|()| *self.key.lock() = Some(key.to_owned())).map_err(str::to_owned)
        }
    }

    #[test]
    fn the_key_is_in_the_keychain_where_there_is_one_and_else_in_a_private_file() {
        let check = |keychain: Option<&Fake>, expected: KeyPlace, why: &str| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("key");
            let ask = || seal(&RealDisk, keychain.map(|fake| fake as _), &file).expect(why);
            let (key, place) = ask();
            assert_eq!((key.len(), place), (KEY_BYTES, expected), "{why}");
            assert_eq!(ask(), (key, expected), "{why}: the same again");
            assert_eq!(file.exists(), expected == KeyPlace::File, "{why}: it is in one place");
            #[cfg(unix)]
            if file.exists() {
                use std::os::unix::fs::PermissionsExt;
                let mode = file.metadata().expect("it is there").permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{why}: for nobody else");
            }
        };
        check(Some(&Fake::new(Ok(()), Ok(()))), KeyPlace::Keychain, "a keychain");
        check(Some(&Fake::new(Err("no bus"), Err("no bus"))), KeyPlace::File, "a server without one");
        check(Some(&Fake::new(Ok(()), Err("locked"))), KeyPlace::File, "one that takes nothing");
        check(None, KeyPlace::File, "none is wanted");
    }

    #[test]
    fn a_keychain_that_is_locked_for_once_does_not_lead_to_another_key() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("kv/key");
        let mut keychain = Fake::new(Ok(()), Ok(()));
        let first = seal(&RealDisk, Some(&keychain), &file);
        keychain.reads = Err("locked");
        let refused = seal(&RealDisk, Some(&keychain), &file).expect_err("nobody can read what is sealed");
        assert!(refused.contains("locked"), "{refused}");
        assert!(!file.exists(), "and nothing is sealed with another key");
        keychain.reads = Ok(());
        assert_eq!(seal(&RealDisk, Some(&keychain), &file), first, "it is the same as before");
    }
}
