//! The remotes of this user, in `remotes.json` in the settings folder. Only this user can read the file, because it has API keys.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use cairn_upstream::ServerKind;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::limits::MAX_NAME_BYTES;

/// Version of the file's format.
const FORMAT: u32 = 1;

/// A remote as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredRemote {
    pub(super) url: String,
    pub(super) kind: ServerKind,
    /// The API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// Omits the key.
impl std::fmt::Debug for StoredRemote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredRemote").field("url", &self.url).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Remotes by name.
pub(super) type StoredRemotes = BTreeMap<String, StoredRemote>;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    remotes: StoredRemotes,
}

/// The file of the remotes.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
}

impl Store {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads all remotes. An absent file has none.
    pub(super) fn read(&self) -> Result<StoredRemotes, Error> {
        read(&self.path).map_err(|reason| Error::Unreadable { path: self.path.clone(), reason })
    }

    /// Replaces all remotes.
    pub(super) fn write(&self, remotes: StoredRemotes) -> Result<(), Error> {
        let json = serde_json::to_vec_pretty(&File { version: FORMAT, remotes }).expect("texts are serialisable");
        if let Some(folder) = self.path.parent() {
            RealDisk.create_dir_all(folder)?;
        }
        Ok(RealDisk.write_atomic(&self.path, &json, Mode::Private)?)
    }
}

fn read(path: &Path) -> Result<StoredRemotes, String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let bytes = match RealDisk.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(StoredRemotes::new()),
        Err(error) => return Err(error.source.to_string()),
    };
    // The position alone: the text of the error may quote a key.
    let invalid = |error: serde_json::Error| format!("line {} does not have the expected format", error.line());
    let Version { version } = serde_json::from_slice(&bytes).map_err(invalid)?;
    if version != FORMAT {
        return Err(format!("unsupported format version {version} (supported: {FORMAT})"));
    }
    let file: File = serde_json::from_slice(&bytes).map_err(invalid)?;
    Ok(file.remotes)
}

/// Whether a text can be the name of a remote.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_allowed)
}

/// Returns a name as errors may quote it.
pub(super) fn quotable(name: &str) -> String {
    name.chars().take(MAX_NAME_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_remotes_are_read_again_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("new/remotes.json"));
        assert!(store.read().unwrap().is_empty(), "an absent file");
        let remote =
            StoredRemote { url: "http://gpu:1".to_owned(), kind: ServerKind::OpenAi, key: Some("sk-1".to_owned()) };
        let remotes = StoredRemotes::from([("gpu".to_owned(), remote)]);
        store.write(remotes.clone()).unwrap();
        assert_eq!(store.read().unwrap(), remotes);
        assert!(!format!("{remotes:?}").contains("sk-1"), "{remotes:?}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join("new/remotes.json")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "only this user can read the keys");
        }
    }

    #[test]
    fn file_of_newer_or_damaged_format_is_refused_without_its_keys() {
        for content in [r#"{"version":2,"remotes":[]}"#, "{", r#"{"version":1,"remotes":{"a":{"key":"sk-1"}}}"#] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("remotes.json");
            std::fs::write(&path, content).unwrap();
            let error = Store::new(path).read().expect_err("refused").to_string();
            assert!(!error.contains("sk-1"), "{error}");
        }
    }
}
