//! This machine's key: an ed25519 key pair in OpenSSH's format, as `ssh-keygen` makes and reads them.
//!
//! The file is made when it is first needed, readable by this user only. A lock beside it lets of two programs that need
//! it at once only one make it, and both use that one. The public half lies beside it as `.pub`, for users to show to a
//! registry.

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

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It could not be read or kept.
    #[error("the key for registries: {0}")]
    Disk(#[from] DiskError),
    /// Nobody could be kept from making another one at the same time.
    #[error("the key for registries: {0}")]
    Lock(#[from] LockError),
    /// There is a file, and it holds no key that can be used: another kind, or one with a passphrase.
    #[error("{} holds no usable ed25519 key: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system gave no random numbers.
    #[error("the key for registries: no random numbers: {0}")]
    Random(String),
}

/// A key that lies in a file, or will.
pub struct KeyFile {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// Whether a missing key is made.
    make: bool,
    pair: OnceCell<PrivateKey>,
}

impl KeyFile {
    /// The key at `path`, made there when it is first needed and missing.
    #[must_use]
    pub fn made_at(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, make: true, pair: OnceCell::new() }
    }

    /// The key at `path`, which belongs to another program and is only read.
    #[must_use]
    pub fn read_from(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, make: false, pair: OnceCell::new() }
    }

    /// The public half as a line of OpenSSH's, to show to a registry.
    ///
    /// # Errors
    /// Why there is no key.
    pub async fn public_line(&self) -> Result<String, KeyError> {
        let line = self.pair().await?.public_key().to_openssh();
        line.map_err(|error| KeyError::Unusable { path: self.path.clone(), reason: error.to_string() })
    }

    /// The public half.
    ///
    /// # Errors
    /// Why there is no key.
    pub async fn peer_key(&self) -> Result<PeerKey, KeyError> {
        let line = self.public_line().await?;
        line.parse()
            .map_err(|error: PeerKeyError| KeyError::Unusable { path: self.path.clone(), reason: error.to_string() })
    }

    /// `<public key>:<signature>` of a text, both in base64: what Ollama's token server wants in `Authorization`.
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
                let (path, disk, make) = (self.path.clone(), Arc::clone(&self.disk), self.make);
                let task = tokio::task::spawn_blocking(move || load(&path, &*disk, make));
                task.await.expect("reading a key does not panic")
            })
            .await
    }
}

/// Where it is, and nothing of what it is.
impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reads the key, or makes it.
fn load(path: &Path, disk: &dyn Disk, make: bool) -> Result<PrivateKey, KeyError> {
    match read(path, disk) {
        Err(KeyError::Disk(error)) if make && error.source.kind() == std::io::ErrorKind::NotFound => {}
        read => return read,
    }
    if let Some(folder) = path.parent() {
        disk.create_dir_all(folder)?;
    }
    let _turn = Lock::take(&beside(path, ".lock"))?;
    match read(path, disk) {
        // Whoever had the lock before made it.
        Err(KeyError::Disk(error)) if error.source.kind() == std::io::ErrorKind::NotFound => generate(path, disk),
        read => read,
    }
}

fn read(path: &Path, disk: &dyn Disk) -> Result<PrivateKey, KeyError> {
    let unusable = |reason: &str| KeyError::Unusable { path: path.to_owned(), reason: reason.to_owned() };
    let bytes = disk.read(path)?;
    let pair = PrivateKey::from_openssh(&bytes).map_err(|error| unusable(&error.to_string()))?;
    if pair.is_encrypted() {
        return Err(unusable("it wants a passphrase"));
    }
    match pair.key_data() {
        KeypairData::Ed25519(_) => Ok(pair),
        _ => Err(unusable("it is of another kind")),
    }
}

fn generate(path: &Path, disk: &dyn Disk) -> Result<PrivateKey, KeyError> {
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed).map_err(|error| KeyError::Random(error.to_string()))?;
    let unusable = |error: ssh_key::Error| KeyError::Unusable { path: path.to_owned(), reason: error.to_string() };
    let pair = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
    let text = pair.to_openssh(LineEnding::LF).map_err(unusable)?;
    let public = pair.public_key().to_openssh().map_err(unusable)?;
    disk.write_atomic(&beside(path, ".pub"), format!("{public}\n").as_bytes(), Mode::Shared)?;
    disk.write_atomic(path, text.as_bytes(), Mode::Private)?;
    Ok(pair)
}

/// The path of a file that belongs to the key's.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
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
    async fn a_key_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/id_ed25519");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        assert!(!path.exists(), "not before it is needed");
        let first = KeyFile::made_at(path.clone(), Arc::clone(&disk)).public_line().await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"), "OpenSSH's format");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "nobody else can read it");
        }
        let public = std::fs::read_to_string(beside(&path, ".pub")).unwrap();
        assert_eq!(public.trim_end(), first, "the public half lies beside it");
        let again = KeyFile::made_at(path.clone(), Arc::clone(&disk)).public_line().await.unwrap();
        assert_eq!(again, first, "the same key ever after");
        let read = KeyFile::read_from(path, disk).public_line().await.unwrap();
        assert_eq!(read, first, "for another program too");
    }

    #[tokio::test]
    async fn all_who_come_first_get_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id_ed25519");
        // Each has a lock of its own, as programs of their own would have.
        let all: tokio::task::JoinSet<String> = (0..16)
            .map(|_| {
                let key = KeyFile::made_at(path.clone(), Arc::new(RealDisk));
                async move { key.public_line().await.unwrap() }
            })
            .collect();
        let lines = all.join_all().await;
        assert!(lines.iter().all(|line| *line == lines[0]), "one key: {lines:?}");
    }

    #[tokio::test]
    async fn what_is_no_key_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id_ed25519");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let missing = KeyFile::read_from(path.clone(), Arc::clone(&disk)).public_line().await;
        assert!(matches!(missing, Err(KeyError::Disk(_))), "another program's key is not made: {missing:?}");
        assert!(!path.exists(), "nothing was written");
        for text in ["", "rubbish", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"] {
            std::fs::write(&path, text).unwrap();
            let got = KeyFile::made_at(path.clone(), Arc::clone(&disk)).public_line().await;
            assert!(matches!(got, Err(KeyError::Unusable { .. })), "{text:?}: {got:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a user's file is not replaced");
        }
    }

    /// OpenSSH itself reads our keys, and we read its.
    #[tokio::test]
    async fn ssh_keygen_agrees() {
        let folder = tempfile::tempdir().unwrap();
        let keygen = |args: &[&str]| Command::new("ssh-keygen").args(args).output();
        if keygen(&["-?"]).is_err() {
            eprintln!("skipped: there is no ssh-keygen here");
            return;
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let line = KeyFile::made_at(ours.clone(), Arc::clone(&disk)).public_line().await.unwrap();
        let read = keygen(&["-y", "-f", ours.to_str().unwrap()]).unwrap();
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim_end(), line, "{read:?}");
        let made = keygen(&["-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", theirs.to_str().unwrap()]).unwrap();
        assert!(made.status.success(), "{made:?}");
        let line = KeyFile::made_at(theirs.clone(), disk).public_line().await.unwrap();
        let public = std::fs::read_to_string(beside(&theirs, ".pub")).unwrap();
        assert_eq!(public.trim_end(), line, "with its comment");
    }
}
