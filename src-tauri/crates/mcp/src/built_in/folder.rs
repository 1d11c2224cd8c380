//! Files of one folder, read-only.
//!
//! Each path is resolved, with all symbolic links, before anything is read. A resolved path outside the folder is refused with the
//! same error as a missing one, so that a model cannot find out what exists there.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::{failure, list, schema};
use crate::limits::{MAX_FOLDER_ENTRIES, MAX_READ_BYTES};
use crate::result::ToolResult;
use crate::text::{one_line, visible};
use crate::tools::ToolList;

const LIST: &str = "list_folder";
const READ: &str = "read_file";

/// Reads files of one folder.
#[derive(Debug, Clone)]
pub struct FolderReader {
    /// The folder without symbolic links.
    root: PathBuf,
}

/// Why a folder or a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder to read from cannot be used.
    #[error("cannot read the folder {}: {cause}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// There is no such file in the folder.
    #[error("the folder has no file or folder {0:?}; {LIST} lists the names")]
    NotFound(String),
    /// A folder was given for a file.
    #[error("{0:?} is a folder; use {LIST}")]
    IsFolder(String),
    /// A file was given for a folder.
    #[error("{0:?} is a file; use {READ}")]
    IsFile(String),
    /// A device, a pipe or a socket.
    #[error("{0:?} is neither a file nor a folder")]
    Special(String),
    /// The file is not text.
    #[error("{0:?} is not a text file")]
    Binary(String),
    /// The start is behind the end.
    #[error("{path:?} has {bytes} bytes, and the start is behind its end")]
    Start {
        /// The path.
        path: String,
        /// Bytes of the file.
        bytes: u64,
    },
    /// The system refused.
    #[error("cannot read {path:?}: {cause}")]
    Read {
        /// The path.
        path: String,
        /// The cause.
        cause: String,
    },
}

impl FolderReader {
    /// Reads from a folder. Blocks.
    ///
    /// # Errors
    /// If the path is not absolute, or is no folder.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let fail = |cause: String| FolderError::Root { path: path.to_owned(), cause };
        if !path.is_absolute() {
            return Err(fail("the path is not absolute".to_owned()));
        }
        let root = path.canonicalize().map_err(|error| fail(error.to_string()))?;
        if !root.is_dir() {
            return Err(fail("it is not a folder".to_owned()));
        }
        Ok(Self { root })
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> ToolList {
        let path = ("path", "string", "Path in the folder, such as notes/today.md", true);
        let start = ("start", "integer", "First byte to read; 0 if absent", false);
        let folder = ("path", "string", "Path in the folder; the folder itself if absent", false);
        list(&[
            (LIST, "Lists files and folders of the user's folder.", schema(&[folder])),
            (READ, "Reads a text file of the user's folder.", schema(&[path, start])),
        ])
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: &Map<String, Value>) -> ToolResult {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let start = arguments.get("start").and_then(Value::as_u64).unwrap_or(0);
        let (reader, tool) = (self.clone(), tool.to_owned());
        let read = spawn_blocking(move || match &*tool {
            LIST => reader.list(&path),
            READ => reader.read(&path, start),
            _ => Err(FolderError::NotFound(one_line(&tool, 64))),
        });
        match read.await {
            Ok(Ok(text)) => ToolResult::from_text(&text),
            Ok(Err(error)) => failure(&error),
            Err(error) => failure(&error),
        }
    }

    fn resolve(&self, path: &str) -> Result<(PathBuf, Metadata), FolderError> {
        let missing = || FolderError::NotFound(one_line(path, 200));
        // An absolute path replaces the folder, and is refused below unless it is in the folder.
        let resolved = self.root.join(path).canonicalize().map_err(|_| missing())?;
        if !resolved.starts_with(&self.root) {
            return Err(missing());
        }
        let metadata = resolved.symlink_metadata().map_err(|_| missing())?;
        Ok((resolved, metadata))
    }

    fn list(&self, path: &str) -> Result<String, FolderError> {
        let (resolved, metadata) = self.resolve(path)?;
        let shown = one_line(path, 200);
        if !metadata.is_dir() {
            return Err(FolderError::IsFile(shown));
        }
        let read = |error: std::io::Error| FolderError::Read { path: shown.clone(), cause: error.to_string() };
        let mut lines = Vec::new();
        let mut more = 0;
        for entry in std::fs::read_dir(&resolved).map_err(read)?.flatten() {
            if lines.len() >= MAX_FOLDER_ENTRIES {
                more += 1;
                continue;
            }
            let name = one_line(&entry.file_name().to_string_lossy(), 255);
            // Without following links: a link out of the folder must not reveal what it points to.
            lines.push(match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => format!("{name}/"),
                Ok(metadata) if metadata.is_file() => format!("{name} ({} bytes)", metadata.len()),
                Ok(metadata) if metadata.is_symlink() => format!("{name} (link)"),
                _ => name,
            });
        }
        lines.sort_unstable();
        if more > 0 {
            lines.push(format!("[{more} more]"));
        }
        Ok(if lines.is_empty() { "[The folder is empty.]".to_owned() } else { lines.join("\n") })
    }

    fn read(&self, path: &str, start: u64) -> Result<String, FolderError> {
        let (resolved, metadata) = self.resolve(path)?;
        let shown = one_line(path, 200);
        match () {
            () if metadata.is_dir() => return Err(FolderError::IsFolder(shown)),
            // Opening a pipe would wait for its writer.
            () if !metadata.is_file() => return Err(FolderError::Special(shown)),
            () => {}
        }
        let read = |error: std::io::Error| FolderError::Read { path: shown.clone(), cause: error.to_string() };
        let mut file = open(&resolved).map_err(read)?;
        let opened = file.metadata().map_err(read)?;
        // Another program may have replaced the file by a link since it was resolved.
        let again = self.resolve(path)?.1;
        if !opened.is_file() || !is_same_file(&opened, &again) {
            return Err(FolderError::NotFound(shown));
        }
        let bytes = opened.len();
        if start > bytes {
            return Err(FolderError::Start { path: shown, bytes });
        }
        file.seek(SeekFrom::Start(start)).map_err(read)?;
        let mut part = Vec::new();
        file.take(MAX_READ_BYTES as u64).read_to_end(&mut part).map_err(read)?;
        let (text, skipped) = text_of(&part, start).ok_or(FolderError::Binary(shown))?;
        let end = start + (skipped + text.len()) as u64;
        let note = match end < bytes {
            true => format!("\n\n[Bytes {start} to {end} of {bytes}. Call again with \"start\": {end} for more.]"),
            false => String::new(),
        };
        Ok(format!("{}{note}", visible(text)))
    }
}

/// Opens a file without following a link in its last part.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).expect("flags of the system are small"));
    }
    options.open(path)
}

#[cfg(unix)]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    (a.len(), a.created().ok(), a.modified().ok()) == (b.len(), b.created().ok(), b.modified().ok())
}

/// Returns the text in a part of a file, and the bytes before it; `None` if the part is not text. A character that the end of the part
/// cuts belongs to the next part.
fn text_of(part: &[u8], start: u64) -> Option<(&str, usize)> {
    if part.contains(&0) {
        return None;
    }
    let skipped = match start {
        0 => 0,
        _ => part.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count(),
    };
    let part = &part[skipped..];
    let text = match std::str::from_utf8(part) {
        Ok(text) => Some(text),
        // No length: the last character is incomplete.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&part[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    Some((text?, skipped))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    fn folder() -> (tempfile::TempDir, FolderReader) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("chosen");
        std::fs::create_dir_all(root.join("notes")).unwrap();
        std::fs::write(home.path().join("secret.txt"), "key").unwrap();
        std::fs::write(root.join("a.txt"), "hello").unwrap();
        std::fs::write(root.join("notes/b.md"), "# Notes").unwrap();
        std::fs::write(root.join("c.bin"), [0, 1, 2]).unwrap();
        symlink("../secret.txt", root.join("out.txt")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("a.txt", root.join("in.txt")).unwrap();
        let reader = FolderReader::open(&root).unwrap();
        (home, reader)
    }

    async fn call(reader: &FolderReader, tool: &str, arguments: Value) -> (bool, String) {
        let result = reader.call(tool, arguments.as_object().unwrap()).await;
        (!result.is_error, result.text)
    }

    #[tokio::test]
    async fn files_of_the_folder_are_listed_and_read() {
        let (_home, reader) = folder();
        let listed = "a.txt (5 bytes)\nc.bin (3 bytes)\nin.txt (link)\nnotes/\nout.txt (link)\nup (link)";
        assert_eq!(call(&reader, LIST, json!({})).await, (true, listed.to_owned()));
        assert_eq!(call(&reader, LIST, json!({ "path": "notes" })).await, (true, "b.md (7 bytes)".to_owned()));
        assert_eq!(call(&reader, READ, json!({ "path": "notes/../a.txt" })).await, (true, "hello".to_owned()));
        assert_eq!(call(&reader, READ, json!({ "path": "in.txt" })).await, (true, "hello".to_owned()), "a link inside");
        assert_eq!(call(&reader, READ, json!({ "path": "a.txt", "start": 3 })).await, (true, "lo".to_owned()));
    }

    #[tokio::test]
    async fn nothing_outside_the_folder_is_reached() {
        let (home, reader) = folder();
        let absolute = home.path().join("secret.txt");
        let mut texts = Vec::new();
        for path in [
            "../secret.txt",
            "out.txt",
            "up/secret.txt",
            "notes/../../secret.txt",
            absolute.to_str().unwrap(),
            "/etc/passwd",
        ] {
            let (is_read, text) = call(&reader, READ, json!({ "path": path })).await;
            assert!(!is_read && text.contains("has no file"), "{path}: {text}");
            texts.push(text.replace(path, ""));
        }
        let (_, missing) = call(&reader, READ, json!({ "path": "missing" })).await;
        assert!(
            texts.iter().all(|text| *text == missing.replace("missing", "")),
            "the error reveals nothing: {texts:?}"
        );
        for path in ["..", "up", "/", "/etc"] {
            let (is_read, text) = call(&reader, LIST, json!({ "path": path })).await;
            assert!(!is_read && text.contains("has no file"), "{path}: {text}");
        }
    }

    #[tokio::test]
    async fn binary_special_and_large_files_are_bounded() {
        let (home, reader) = folder();
        let (is_read, text) = call(&reader, READ, json!({ "path": "c.bin" })).await;
        assert!(!is_read && text.contains("not a text file"), "{text}");
        let latin = home.path().join("chosen/latin.txt");
        std::fs::write(latin, b"caf\xe9 au lait").unwrap();
        assert!(!call(&reader, READ, json!({ "path": "latin.txt" })).await.0);
        let pipe = home.path().join("chosen/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (is_read, text) = call(&reader, READ, json!({ "path": "pipe" })).await;
        assert!(!is_read && text.contains("neither"), "{text}");
        let long = "ä".repeat(MAX_READ_BYTES);
        std::fs::write(home.path().join("chosen/long.txt"), format!("x{long}")).unwrap();
        let (is_read, text) = call(&reader, READ, json!({ "path": "long.txt" })).await;
        let end = format!("[Bytes 0 to {} of {}.", MAX_READ_BYTES - 1, 2 * MAX_READ_BYTES + 1);
        assert!(is_read && text.contains(&end) && text.len() < MAX_READ_BYTES + 200, "{}", &text[text.len() - 150..]);
        let (is_read, text) = call(&reader, READ, json!({ "path": "long.txt", "start": 2 * MAX_READ_BYTES })).await;
        assert_eq!((is_read, text.as_str()), (true, ""), "half a character");
    }

    #[test]
    fn relative_and_missing_roots_are_refused() {
        for path in ["notes", "/no/such/folder", "/etc/passwd"] {
            assert!(FolderReader::open(Path::new(path)).is_err(), "{path}");
        }
    }
}
