//! This machine's key: an ed25519 key pair in OpenSSH's format, as used by `ssh-keygen`.
//!
//! The file is created at its first use, readable by this user only. A lock file ensures that concurrent processes create
//! only one key. The public key is stored as `.pub` next to it, for the user to register at a registry.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairn_disk::{Disk, DiskError, Lock, LockError, Mode};
use signature::Signer;
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{LineEnding, PrivateKey};
use tokio::sync::OnceCell;

use crate::{PeerKey, PeerKeyError};

/// Error of loading or creating the key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key file could not be read or written.
    #[error("the key for registries: {0}")]
    Disk(#[from] DiskError),
    /// The lock file could not be locked.
    #[error("the key for registries: {0}")]
    Lock(#[from] LockError),
    /// The file contains no usable key: another algorithm, or a key with a passphrase.
    #[error("{} contains no usable ed25519 key: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why it is unusable.
        reason: String,
    },
    /// The system returned no random numbers.
    #[error("the key for registries: no random numbers: {0}")]
    Random(String),
}

/// A key in a file, loaded at its first use.
pub struct KeyFile {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// Whether to create a missing key.
    create: bool,
    pair: OnceCell<PrivateKey>,
}

impl KeyFile {
    /// The key at `path`. If the file is missing, it is created at the first use.
    #[must_use]
    pub fn create_if_missing(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, create: true, pair: OnceCell::new() }
    }

    /// The key at `path`, which belongs to another program and is never written.
    #[must_use]
    pub fn read_only(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, create: false, pair: OnceCell::new() }
    }

    /// The public key as an OpenSSH line.
    ///
    /// # Errors
    /// If the key cannot be loaded or created.
    pub async fn public_line(&self) -> Result<String, KeyError> {
        let line = self.pair().await?.public_key().to_openssh();
        line.map_err(|error| KeyError::Unusable { path: self.path.clone(), reason: error.to_string() })
    }

    /// The public key.
    ///
    /// # Errors
    /// If the key cannot be loaded or created.
    pub async fn peer_key(&self) -> Result<PeerKey, KeyError> {
        let line = self.public_line().await?;
        line.parse()
            .map_err(|error: PeerKeyError| KeyError::Unusable { path: self.path.clone(), reason: error.to_string() })
    }

    /// Signs a text and returns `<public key>:<signature>` in base64, the `Authorization` header of Ollama's token server.
    pub(crate) async fn sign(&self, text: String) -> Result<String, KeyError> {
        let unusable = |error: String| KeyError::Unusable { path: self.path.clone(), reason: error };
        let pair = self.pair().await?;
        let public = pair.public_key().to_bytes().map_err(|error| unusable(error.to_string()))?;
        let signature = pair.try_sign(text.as_bytes()).map_err(|error| unusable(error.to_string()))?;
        Ok(format!("{}:{}", STANDARD.encode(public), STANDARD.encode(signature.as_bytes())))
    }

    pub(crate) async fn pair(&self) -> Result<&PrivateKey, KeyError> {
        self.pair
            .get_or_try_init(|| async {
                let (path, disk, create) = (self.path.clone(), Arc::clone(&self.disk), self.create);
                let task = tokio::task::spawn_blocking(move || load(&path, &*disk, create));
                task.await.expect("the task that loads the key does not panic")
            })
            .await
    }
}

/// Hides the key.
impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reads the key, or creates it.
fn load(path: &Path, disk: &dyn Disk, create: bool) -> Result<PrivateKey, KeyError> {
    match read(path, disk) {
        Err(KeyError::Disk(error)) if create && error.source.kind() == std::io::ErrorKind::NotFound => {}
        read => return read,
    }
    if let Some(folder) = path.parent() {
        disk.create_dir_all(folder)?;
    }
    let _lock = Lock::acquire(&with_suffix(path, ".lock"))?;
    match read(path, disk) {
        // Another process may have created it while this one waited for the lock.
        Err(KeyError::Disk(error)) if error.source.kind() == std::io::ErrorKind::NotFound => generate(path, disk),
        read => read,
    }
}

fn read(path: &Path, disk: &dyn Disk) -> Result<PrivateKey, KeyError> {
    let unusable = |reason: &str| KeyError::Unusable { path: path.to_owned(), reason: reason.to_owned() };
    let bytes = disk.read(path)?;
    let pair = PrivateKey::from_openssh(&bytes).map_err(|error| unusable(&error.to_string()))?;
    if pair.is_encrypted() {
        return Err(unusable("it is protected by a passphrase"));
    }
    match pair.key_data() {
        KeypairData::Ed25519(_) => Ok(pair),
        _ => Err(unusable("it uses another algorithm")),
    }
}

fn generate(path: &Path, disk: &dyn Disk) -> Result<PrivateKey, KeyError> {
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed).map_err(|error| KeyError::Random(error.to_string()))?;
    let unusable = |error: ssh_key::Error| KeyError::Unusable { path: path.to_owned(), reason: error.to_string() };
    let pair = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
    let text = pair.to_openssh(LineEnding::LF).map_err(unusable)?;
    let public = pair.public_key().to_openssh().map_err(unusable)?;
    disk.write_atomic(&with_suffix(path, ".pub"), format!("{public}\n").as_bytes(), Mode::Shared)?;
    disk.write_atomic(path, text.as_bytes(), Mode::Private)?;
    Ok(pair)
}

/// The path with a suffix appended.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use cairn_disk::RealDisk;

    use super::*;

    #[tokio::test]
    async fn missing_key_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/id_ed25519");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        assert!(!path.exists(), "the key is not created before its first use");
        let first = KeyFile::create_if_missing(path.clone(), Arc::clone(&disk)).public_line().await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"), "the OpenSSH format");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "other users cannot read it");
        }
        let public = std::fs::read_to_string(with_suffix(&path, ".pub")).unwrap();
        assert_eq!(public.trim_end(), first, "the .pub file has the public key");
        let again = KeyFile::create_if_missing(path.clone(), Arc::clone(&disk)).public_line().await.unwrap();
        assert_eq!(again, first, "a second instance loads the same key");
        let read = KeyFile::read_only(path, disk).public_line().await.unwrap();
        assert_eq!(read, first, "a read-only instance loads the same key");
    }

    #[tokio::test]
    async fn concurrent_creation_yields_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id_ed25519");
        // Each instance takes the lock itself, like a separate process.
        let all: tokio::task::JoinSet<String> = (0..16)
            .map(|_| {
                let key = KeyFile::create_if_missing(path.clone(), Arc::new(RealDisk));
                async move { key.public_line().await.unwrap() }
            })
            .collect();
        let lines = all.join_all().await;
        assert!(lines.iter().all(|line| *line == lines[0]), "one key: {lines:?}");
    }

    #[tokio::test]
    async fn invalid_key_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id_ed25519");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let missing = KeyFile::read_only(path.clone(), Arc::clone(&disk)).public_line().await;
        assert!(matches!(missing, Err(KeyError::Disk(_))), "a read-only key is not created: {missing:?}");
        assert!(!path.exists(), "nothing was written");
        for text in ["", "rubbish", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"] {
            std::fs::write(&path, text).unwrap();
            let got = KeyFile::create_if_missing(path.clone(), Arc::clone(&disk)).public_line().await;
            assert!(matches!(got, Err(KeyError::Unusable { .. })), "{text:?}: {got:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the file is unchanged");
        }
    }

    /// `ssh-keygen` reads Cairn's keys, and Cairn reads keys of `ssh-keygen`.
    #[tokio::test]
    async fn key_format_is_compatible_with_ssh_keygen() {
        let folder = tempfile::tempdir().unwrap();
        let keygen = |args: &[&str]| Command::new("ssh-keygen").args(args).output();
        if keygen(&["-?"]).is_err() {
            eprintln!("skipped: ssh-keygen is not installed");
            return;
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let line = KeyFile::create_if_missing(ours.clone(), Arc::clone(&disk)).public_line().await.unwrap();
        let read = keygen(&["-y", "-f", ours.to_str().unwrap()]).unwrap();
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim_end(), line, "{read:?}");
        let made = keygen(&["-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", theirs.to_str().unwrap()]).unwrap();
        assert!(made.status.success(), "{made:?}");
        let line = KeyFile::create_if_missing(theirs.clone(), disk).public_line().await.unwrap();
        let public = std::fs::read_to_string(with_suffix(&theirs, ".pub")).unwrap();
        assert_eq!(public.trim_end(), line, "with its comment");
    }
}
