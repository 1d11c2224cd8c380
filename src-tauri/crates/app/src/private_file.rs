//! Versioned JSON files that only this user can read, because they have secrets: `{"version":N,...}`.

use std::io;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, DiskError, Mode, RealDisk, remove_unfinished_writes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of a file. 128 remotes with the longest keys have less.
const MAX_BYTES: u64 = 2 << 20;

/// A file, which may be absent.
#[derive(Debug)]
pub(crate) struct PrivateFile {
    path: PathBuf,
}

impl PrivateFile {
    /// The file at `path`, which need not exist. Removes what a killed process left of a write: it has the same secrets. The daemon
    /// is the only program that writes these files.
    pub(crate) fn open(path: PathBuf) -> Self {
        // The folder may not exist yet. A file that stays is removed at the next start.
        let _ = remove_unfinished_writes(&path);
        Self { path }
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; `None` without a file.
    pub(crate) fn read(&self) -> Result<Option<Content>, String> {
        // A pipe would block, and a device may never end.
        match std::fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => return Err("it is not a regular file".to_owned()),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(format!("it has more than {} MiB", MAX_BYTES >> 20));
            }
            // The read reports the error.
            Ok(_) | Err(_) => {}
        }
        match RealDisk.read(&self.path) {
            Ok(bytes) => Content::of(bytes).map(Some),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.source.to_string()),
        }
    }

    /// Reads a file that has one version of its format; `None` without a file.
    pub(crate) fn read_version<T: DeserializeOwned>(&self, version: u32) -> Result<Option<T>, String> {
        match self.read()? {
            Some(content) if content.version != version => Err(content.unsupported(&version.to_string())),
            Some(content) => content.parse().map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the file, and creates its folder.
    pub(crate) fn write(&self, content: &impl Serialize) -> Result<(), DiskError> {
        let json = serde_json::to_vec_pretty(content).expect("texts and numbers are serialisable");
        if let Some(folder) = self.path.parent() {
            RealDisk.create_dir_all(folder)?;
        }
        RealDisk.write_atomic(&self.path, &json, Mode::Private)
    }
}

/// The content of a file.
pub(crate) struct Content {
    bytes: Vec<u8>,
    version: u32,
}

impl Content {
    pub(crate) fn of(bytes: Vec<u8>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = parse(&bytes)?;
        Ok(Self { bytes, version })
    }

    /// Version of the format.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Parses the whole content.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        parse(&self.bytes)
    }

    /// The error for a version that is not supported.
    pub(crate) fn unsupported(&self, supported: &str) -> String {
        format!("unsupported format version {} (supported: {supported})", self.version)
    }
}

/// Parses JSON. An error names only the line, because the texts of the parser quote values, which may be secrets.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("line {} does not have the expected format", error.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_again_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = PrivateFile::open(folder.path().join("new/secrets.json"));
        assert!(file.read().unwrap().is_none(), "an absent file");
        file.write(&serde_json::json!({"version": 7, "x": "y"})).unwrap();
        let content = file.read().unwrap().expect("a file");
        let value: serde_json::Value = content.parse().unwrap();
        assert_eq!((content.version(), &value["x"]), (7, &serde_json::json!("y")));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "only this user can read the file");
        }
    }

    #[test]
    fn unfinished_writes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let others = [".keys.json.tmp.tmp", ".keys.jsonx.1-0.tmp", ".other.json.1-0.tmp", "keys.json.1-0.tmp"];
        for name in others.into_iter().chain([".keys.json.4711-0.tmp", ".keys.json.1-12.tmp"]) {
            std::fs::write(folder.path().join(name), "sk-1").unwrap();
        }
        PrivateFile::open(folder.path().join("keys.json"));
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, others);
    }

    #[test]
    fn only_a_regular_file_of_limited_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, expected: &str| {
            let error = PrivateFile::open(folder.path().join(name)).read().err().expect("refused");
            assert_eq!(error, expected);
        };
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        check("folder", "it is not a regular file");
        let large = std::fs::File::create(folder.path().join("large")).unwrap();
        large.set_len(600 << 20).unwrap();
        check("large", "it has more than 2 MiB");
        #[cfg(unix)]
        {
            let pipe = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
            assert!(pipe.success(), "{pipe}");
            check("pipe", "it is not a regular file");
        }
    }

    #[test]
    fn damaged_content_is_not_quoted() {
        for content in ["{", r#"{"version":"sk-1"}"#, r#"{"version":1,"sk-1":"#, r#""sk-1""#] {
            let error = Content::of(content.into()).err().expect("damaged");
            assert_eq!(error, "line 1 does not have the expected format", "{content}");
        }
        let content = Content::of(b"{\"version\":1,\n\"keys\":\"sk-1\"}".to_vec()).unwrap();
        let error = content.parse::<std::collections::BTreeMap<String, u32>>().expect_err("damaged");
        assert_eq!(error, "line 2 does not have the expected format");
    }
}
