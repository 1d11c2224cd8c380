//! One file of a model: open, mapped, and checked for changes.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_gguf::Gguf;
use cairn_tensor::Bytes;

use crate::error::{FileChangedError, OpenError};
use crate::mapping::Mapping;

/// Bytes of a file, and their origin.
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

/// Size and modification time of a file, which change with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) len: u64,
    pub(super) modified: Option<SystemTime>,
}

impl Stamp {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self { len: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl Part {
    /// Maps a file and reads its header. Tensors are not read.
    pub(super) fn open(path: &Path) -> Result<(Self, Gguf), OpenError> {
        let owned = || path.to_path_buf();
        let io_error = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => OpenError::Missing { path: owned() },
            _ => OpenError::Io { path: owned(), source },
        };
        // Checked before opening, because opening a pipe blocks until its other end is opened.
        let kind = std::fs::metadata(path).map_err(io_error)?.file_type();
        if kind.is_dir() {
            return Err(OpenError::Directory { path: owned() });
        }
        if !kind.is_file() {
            return Err(OpenError::NotAFile { path: owned() });
        }
        let file = open_shared(path).map_err(io_error)?;
        let opened = Stamp::from_metadata(&file.metadata().map_err(io_error)?);
        if opened.len == 0 {
            return Err(OpenError::Empty { path: owned() });
        }
        let mapping = Arc::new(Mapping::new(&file).map_err(io_error)?);
        let bytes = Bytes::new(Arc::clone(&mapping) as _);
        let part = Self { path: owned(), bytes, mapped: Some(Mapped { file, mapping, opened }) };
        let parsed = Gguf::parse(&part.bytes);
        // Zeros of an unreadable page would be reported as a format error.
        part.check()?;
        let gguf = parsed.map_err(|source| OpenError::Gguf { path: owned(), source })?;
        Ok((part, gguf))
    }

    /// Checks that the file is unchanged.
    pub(super) fn check(&self) -> Result<(), FileChangedError> {
        let Some(mapped) = &self.mapped else { return Ok(()) };
        let changed = |reason: String| Err(FileChangedError { path: self.path.clone(), reason });
        match mapped.file.metadata().as_ref().map(Stamp::from_metadata) {
            Err(error) => changed(error.to_string()),
            Ok(now) if now.len != mapped.opened.len => {
                changed(format!("it had {} bytes and has {}", mapped.opened.len, now.len))
            }
            Ok(now) if now != mapped.opened => changed("it was written to".to_owned()),
            Ok(_) if mapped.mapping.is_poisoned() => changed("a part of it could not be read".to_owned()),
            Ok(_) => Ok(()),
        }
    }
}

/// Opens for reading. On Windows no other process can write meanwhile.
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
