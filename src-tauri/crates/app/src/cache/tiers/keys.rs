//! Secrets of the cache: a secret in a file that names chunks, and an encryption key in the system's keychain.
//!
//! Encryption protects files on a stolen disk or in a bucket. So the key should not be stored next to the files: it
//! belongs in the keychain. On a machine without a keychain, such as a headless server, the key is a file that only
//! this user can read, and the log reports this. Without the key, encrypted files cannot be read: to delete the key is
//! to delete the files.

#[cfg_attr(not(feature = "keychain"), path = "keys/no_keychain.rs")]
mod keychain;

use std::fmt;
use std::io;
use std::path::Path;

use cairn_disk::{Disk, Mode};

pub(super) use keychain::SystemKeychain;

/// Bytes of the secret and of the key.
const KEY_BYTES: usize = 32;

/// Place of the encryption key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocation {
    /// In the system's keychain.
    Keychain,
    /// In a file that only this user can read.
    File,
}

impl fmt::Display for KeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keychain => "in the system's keychain",
            Self::File => "in a file",
        })
    }
}

/// A keychain that can store the encryption key.
pub(super) trait Keychain: Sync {
    /// Returns the key; `None` if none is stored.
    fn get(&self) -> Result<Option<Vec<u8>>, String>;

    /// Stores the key.
    fn set(&self, key: &[u8]) -> Result<(), String>;
}

/// Returns the encryption key and its place; creates the key at first use. A key in a file stays in the file.
///
/// If the keychain has the key, an empty marker file records this. Otherwise a keychain that does not respond for a
/// while would lead to a new key, for which all encrypted files would be damaged.
pub(super) fn encryption_key(
    disk: &dyn Disk,
    keychain: Option<&dyn Keychain>,
    file: &Path,
) -> Result<(Vec<u8>, KeyLocation), String> {
    let in_file = || secret(disk, file).map(|key| (key, KeyLocation::File));
    let Some(keychain) = keychain else { return in_file() };
    let marker = file.with_extension("keychain");
    let in_keychain = |key| {
        if !marker.exists() {
            write(disk, &marker, b"")?;
        }
        Ok((key, KeyLocation::Keychain))
    };
    let fallback = |error: String| {
        tracing::warn!(error, file = %file.display(), "cannot use the system's keychain; the key is stored in a file");
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
        Err(error) if marker.exists() && !file.exists() => {
            Err(format!("the system's keychain has the key, but does not return it: {error}"))
        }
        Err(error) => fallback(error),
    }
}

/// Returns the installation's secret from its file; creates the file at first use.
pub(super) fn secret(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, String> {
    match disk.read(path) {
        Ok(secret) if secret.len() == KEY_BYTES => return Ok(secret),
        // Files of a lost secret cannot be read. They belong to no installation, and stay until the user removes them.
        Ok(_) => {
            tracing::warn!(path = %path.display(), "the secret of the cache is damaged; creating a new one")
        }
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.to_string()),
    }
    let secret = random()?;
    write(disk, path, &secret)?;
    Ok(secret)
}

/// Writes a file that only this user can read, and creates its folder.
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
    fn secret_is_stable_until_its_file_is_damaged() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("kv/secret");
        let first = secret(&RealDisk, &path).expect("the folder is writable");
        assert_eq!(secret(&RealDisk, &path), Ok(first.clone()), "the secret is created once");
        std::fs::write(&path, b"short").expect("the folder is writable");
        let second = secret(&RealDisk, &path).expect("the folder is writable");
        assert_eq!(second.len(), KEY_BYTES, "a damaged secret is not used");
        assert_ne!(second, first, "the new secret differs");
    }

    /// A keychain in memory with configurable errors.
    struct FakeKeychain {
        key: Mutex<Option<Vec<u8>>>,
        reads: Result<(), &'static str>,
        writes: Result<(), &'static str>,
    }

    impl FakeKeychain {
        fn new(reads: Result<(), &'static str>, writes: Result<(), &'static str>) -> Self {
            Self { key: Mutex::default(), reads, writes }
        }
    }

    impl Keychain for FakeKeychain {
        fn get(&self) -> Result<Option<Vec<u8>>, String> {
            self.reads.map(|()| self.key.lock().clone()).map_err(str::to_owned)
        }

        fn set(&self, key: &[u8]) -> Result<(), String> {
            self.writes.map(|()| *self.key.lock() = Some(key.to_owned())).map_err(str::to_owned)
        }
    }

    #[test]
    fn key_is_stored_in_the_keychain_or_else_in_a_private_file() {
        let check = |keychain: Option<&FakeKeychain>, expected: KeyLocation, why: &str| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("key");
            let ask = || encryption_key(&RealDisk, keychain.map(|fake| fake as _), &file).expect(why);
            let (key, place) = ask();
            assert_eq!((key.len(), place), (KEY_BYTES, expected), "{why}");
            assert_eq!(ask(), (key, expected), "{why}: the second call returns the same key");
            assert_eq!(file.exists(), expected == KeyLocation::File, "{why}: the key is in one place");
            #[cfg(unix)]
            if file.exists() {
                use std::os::unix::fs::PermissionsExt;
                let mode = file.metadata().expect("the file exists").permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{why}: only the user can read it");
            }
        };
        check(Some(&FakeKeychain::new(Ok(()), Ok(()))), KeyLocation::Keychain, "a keychain");
        check(Some(&FakeKeychain::new(Err("no bus"), Err("no bus"))), KeyLocation::File, "a server without a keychain");
        check(Some(&FakeKeychain::new(Ok(()), Err("locked"))), KeyLocation::File, "a read-only keychain");
        check(None, KeyLocation::File, "no keychain");
    }

    #[test]
    fn locked_keychain_does_not_lead_to_a_new_key() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("kv/key");
        let mut keychain = FakeKeychain::new(Ok(()), Ok(()));
        let first = encryption_key(&RealDisk, Some(&keychain), &file);
        keychain.reads = Err("locked");
        let refused = encryption_key(&RealDisk, Some(&keychain), &file).expect_err("the key cannot be read");
        assert!(refused.contains("locked"), "{refused}");
        assert!(!file.exists(), "no new key is created");
        keychain.reads = Ok(());
        assert_eq!(encryption_key(&RealDisk, Some(&keychain), &file), first, "the key is unchanged");
    }
}
