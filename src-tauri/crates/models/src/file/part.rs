//! One file of a model: opened, mapped, its head read, and watched.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_gguf::Gguf;
use cairn_tensor::Bytes;

use crate::error::{OpenError, Vanished};
use crate::mapping::Mapping;

/// A file's bytes, and where they came from.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
    pub(super) mapped: Option<Mapped>,
}

#[derive(Debug)]
pub(super) struct Mapped {
    file: File,
    mapping: Arc<Mapping>,
    pub(super) opened: Stamp,
}

/// What a file's metadata tell about its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) len: u64,
    pub(super) modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { len: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl Part {
    /// Maps a file and reads its head. Tensors are not read.
    pub(super) fn open(path: &Path) -> Result<(Self, Gguf), OpenError> {
        let named = || path.to_path_buf();
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => OpenError::Missing { path: named() },
            _ => OpenError::Io { path: named(), source },
        };
        // Asked before opening, since to open a pipe waits for its other end.
        let kind = std::fs::metadata(path).map_err(refused)?.file_type();
        if kind.is_dir() {
            return Err(OpenError::Directory { path: named() });
        }
        if !kind.is_file() {
            return Err(OpenError::NotAFile { path: named() });
        }
        let file = open_shared(path).map_err(refused)?;
        let opened = Stamp::of(&file.metadata().map_err(refused)?);
        if opened.len == 0 {
            return Err(OpenError::Empty { path: named() });
        }
        let mapping = Arc::new(Mapping::new(&file).map_err(refused)?);
        let bytes = Bytes::new(Arc::clone(&mapping) as _);
        let part = Self { path: named(), bytes, mapped: Some(Mapped { file, mapping, opened }) };
        let parsed = Gguf::parse(&part.bytes);
        // Zeros in the place of a page that is gone would be blamed on the format.
        part.check()?;
        let gguf = parsed.map_err(|source| OpenError::Gguf { path: named(), source })?;
        Ok((part, gguf))
    }

    /// Says whether the file is still what was opened.
    pub(super) fn check(&self) -> Result<(), Vanished> {
        let Some(mapped) = &self.mapped else { return Ok(()) };
        let vanished = |why: String| Err(Vanished { path: self.path.clone(), why });
        match mapped.file.metadata().as_ref().map(Stamp::of) {
            Err(error) => vanished(error.to_string()),
            Ok(now) if now.len != mapped.opened.len => {
                vanished(format!("it had {} bytes and has {}", mapped.opened.len, now.len))
            }
            Ok(now) if now != mapped.opened => vanished("it was written to".to_owned()),
            Ok(_) if mapped.mapping.poisoned() => vanished("a part of it could not be read".to_owned()),
            Ok(_) => Ok(()),
        }
    }
}

/// Opens for reading; on Windows so that nobody can write meanwhile.
fn open_shared(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_SHARE_READ: u32 = 1;
        options.share_mode(FILE_SHARE_READ);
    }
    options.open(path)
}
