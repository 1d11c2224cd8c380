//! A model's file: opened once, mapped, and watched for as long as it is in use.
//!
//! Weights are used where they lie in the mapping. A file that is overwritten or cut short under it cannot be prevented on
//! most systems, so [`ModelFile::check`] is asked after each step and before its results are used. A file that is deleted, or
//! replaced by renaming another over it, stays as it was for those who have it open.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_gguf::Gguf;
use cairn_tensor::Bytes;

use crate::error::{OpenError, Vanished};
use crate::mapping::Mapping;

#[cfg(test)]
mod tests;

/// A GGUF file whose head is read and whose tensors lie in memory.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    gguf: Gguf,
    bytes: Bytes,
    mapped: Option<Mapped>,
}

#[derive(Debug)]
struct Mapped {
    file: File,
    mapping: Arc<Mapping>,
    opened: Stamp,
}

/// What a file's metadata tell about its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { len: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl ModelFile {
    /// Maps a file and reads its head. Tensors are not read.
    ///
    /// # Errors
    /// Where the path is no regular file, cannot be read, or is not a whole GGUF file.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
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
        let mapped = Mapped { file, mapping, opened };
        let parsed = Gguf::parse(&bytes);
        // Zeros in the place of a page that is gone would be blamed on the format.
        mapped.check(path)?;
        let gguf = parsed.map_err(|source| OpenError::Gguf { path: named(), source })?;
        Ok(Self { path: named(), gguf, bytes, mapped: Some(mapped) })
    }

    /// A model that is part of the program.
    ///
    /// # Errors
    /// Where the bytes are not a whole GGUF file; `name` takes the path's place in the text.
    pub fn builtin(name: &str, bytes: &'static [u8]) -> Result<Self, OpenError> {
        let path = PathBuf::from(name);
        let gguf = Gguf::parse(bytes).map_err(|source| OpenError::Gguf { path: path.clone(), source })?;
        Ok(Self { path, gguf, bytes: Bytes::new(Arc::new(bytes)), mapped: None })
    }

    /// Where the file was opened, or the name of a built-in one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Metadata and tensor table.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// The whole file.
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Says whether the file is still what was opened. Costs one `fstat`.
    ///
    /// # Errors
    /// Where a page was gone when it was read, or the file's size or time of change is another.
    pub fn check(&self) -> Result<(), Vanished> {
        self.mapped.as_ref().map_or(Ok(()), |mapped| mapped.check(&self.path))
    }
}

impl Mapped {
    fn check(&self, path: &Path) -> Result<(), Vanished> {
        let vanished = |why: String| Err(Vanished { path: path.to_path_buf(), why });
        match self.file.metadata().as_ref().map(Stamp::of) {
            Err(error) => vanished(error.to_string()),
            Ok(now) if now.len != self.opened.len => {
                vanished(format!("it had {} bytes and has {}", self.opened.len, now.len))
            }
            Ok(now) if now != self.opened => vanished("it was written to".to_owned()),
            Ok(_) if self.mapping.poisoned() => vanished("a part of it could not be read".to_owned()),
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
