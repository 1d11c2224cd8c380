//! The tools of this user, in `tools.json` in the settings folder. Only this user can read the file, because variables and headers
//! of servers may be secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_mcp::{Endpoint, Permissions};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::limits::MAX_FILE_BYTES;
use crate::private_file::PrivateFile;

/// Version of the file's format.
const FORMAT: u32 = 1;

/// A server as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredServer {
    #[serde(flatten)]
    pub(super) endpoint: Endpoint,
    /// Whether its tools are offered.
    pub(super) is_enabled: bool,
}

/// All tools as they are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTools {
    /// Servers by name.
    #[serde(default)]
    pub(super) servers: BTreeMap<String, StoredServer>,
    /// Permissions of tools.
    #[serde(default)]
    pub(super) permissions: Permissions,
    /// Whether pages of the web may be fetched.
    #[serde(default)]
    pub(super) has_pages: bool,
    /// The folder to read files from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folder: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    tools: StoredTools,
}

/// The file of the tools.
#[derive(Debug)]
pub(super) struct Store {
    file: PrivateFile,
}

impl Store {
    pub(super) fn open(path: PathBuf) -> Self {
        Self { file: PrivateFile::open(path) }
    }

    /// Reads the tools. An absent file has none.
    pub(super) fn read(&self) -> Result<StoredTools, Error> {
        let file: Option<File> = self
            .file
            .read_version(FORMAT)
            .map_err(|reason| Error::Unreadable { path: self.file.path().to_owned(), reason })?;
        Ok(file.map(|file| file.tools).unwrap_or_default())
    }

    /// Replaces the tools.
    pub(super) fn write(&self, tools: &StoredTools) -> Result<(), Error> {
        let file = File { version: FORMAT, tools: tools.clone() };
        let bytes = serde_json::to_vec(&file).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MAX_FILE_BYTES {
            return Err(Error::TooLarge);
        }
        Ok(self.file.write(&file)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(value: &str) -> StoredServer {
        let env = BTreeMap::from([("KEY".to_owned(), value.to_owned())]);
        let endpoint = Endpoint::Stdio { command: "npx".to_owned(), args: vec!["-y".to_owned()], env };
        StoredServer { endpoint, is_enabled: true }
    }

    #[test]
    fn stored_tools_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("new/tools.json"));
        assert_eq!(store.read().unwrap(), StoredTools::default(), "an absent file");
        let servers = BTreeMap::from([("files".to_owned(), server("sk-1"))]);
        let tools = StoredTools { servers, has_pages: true, folder: Some("/notes".into()), ..StoredTools::default() };
        store.write(&tools).unwrap();
        assert_eq!(store.read().unwrap(), tools);
        assert!(!format!("{tools:?}").contains("sk-1"), "{tools:?}");
    }

    #[test]
    fn file_of_newer_or_damaged_format_is_refused_without_its_secrets() {
        let server = r#"{"version":1,"tools":{"servers":{"a":{"kind":"stdio","env":{"KEY":"sk-1"}}}}}"#;
        for content in [r#"{"version":2,"tools":{}}"#, "{", server] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tools.json");
            std::fs::write(&path, content).unwrap();
            let error = Store::open(path).read().expect_err("refused").to_string();
            assert!(!error.contains("sk-1"), "{error}");
        }
    }

    #[test]
    fn tools_above_the_limit_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("tools.json"));
        let servers = (0..40).map(|number| (format!("s{number}"), server(&"x".repeat(32 << 10)))).collect();
        let tools = StoredTools { servers, ..StoredTools::default() };
        assert!(matches!(store.write(&tools), Err(Error::TooLarge)));
        assert_eq!(store.read().unwrap(), StoredTools::default());
    }
}
