//! The remotes of this user, in `remotes.json` in the settings folder. Only this user can read the file, because it has API keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_upstream::ServerKind;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::private_file::PrivateFile;

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
    file: PrivateFile,
}

impl Store {
    pub(super) fn open(path: PathBuf) -> Self {
        Self { file: PrivateFile::open(path) }
    }

    /// Reads all remotes. An absent file has none.
    pub(super) fn read(&self) -> Result<StoredRemotes, Error> {
        let file: Option<File> = self
            .file
            .read_version(FORMAT)
            .map_err(|reason| Error::Unreadable { path: self.file.path().to_owned(), reason })?;
        Ok(file.map(|file| file.remotes).unwrap_or_default())
    }

    /// Replaces all remotes.
    pub(super) fn write(&self, remotes: StoredRemotes) -> Result<(), Error> {
        Ok(self.file.write(&File { version: FORMAT, remotes })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_remotes_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("new/remotes.json"));
        assert!(store.read().unwrap().is_empty(), "an absent file");
        let remote =
            StoredRemote { url: "http://gpu:1".to_owned(), kind: ServerKind::OpenAi, key: Some("sk-1".to_owned()) };
        let remotes = StoredRemotes::from([("gpu".to_owned(), remote)]);
        store.write(remotes.clone()).unwrap();
        assert_eq!(store.read().unwrap(), remotes);
        assert!(!format!("{remotes:?}").contains("sk-1"), "{remotes:?}");
    }

    #[test]
    fn file_of_newer_or_damaged_format_is_refused_without_its_keys() {
        for content in [r#"{"version":2,"remotes":[]}"#, "{", r#"{"version":1,"remotes":{"a":{"key":"sk-1"}}}"#] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("remotes.json");
            std::fs::write(&path, content).unwrap();
            let error = Store::open(path).read().expect_err("refused").to_string();
            assert!(!error.contains("sk-1"), "{error}");
        }
    }
}
