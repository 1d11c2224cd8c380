//! The head of a model file: its metadata and tensor table, read without the tensors.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cairn_gguf::{Error as GgufError, Gguf};

use crate::Error;

/// The first piece that is read. Vocabularies of 150,000 tokens fit.
const FIRST_BYTES: u64 = 8 << 20;
/// No head is longer; the largest vocabularies make 20 MB.
const MAX_HEAD_BYTES: u64 = 1 << 30;

/// A file's head and length.
#[derive(Debug)]
pub struct Head {
    /// Metadata and tensor table.
    pub gguf: Gguf,
    /// Length of the whole file.
    pub file_bytes: u64,
}

/// Reads the head of the file at `path`, taking more of it until the head is whole.
///
/// # Errors
/// [`Error::File`] when it cannot be read, or is no GGUF file.
pub fn read(path: &Path) -> Result<Head, Error> {
    let failed = |reason: String| Error::File { path: path.to_owned(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    let found = std::fs::metadata(path).map_err(io)?;
    if found.is_dir() {
        return Err(failed("it is a directory".to_owned()));
    }
    // A pipe or a device has no length, and reading one may never end.
    if !found.is_file() {
        return Err(failed("it is a pipe or a device, and a model must be a file".to_owned()));
    }
    let mut file = File::open(path).map_err(io)?;
    let file_bytes = found.len();
    let mut bytes = Vec::new();
    let mut wanted = FIRST_BYTES;
    loop {
        let missing = wanted.min(file_bytes).saturating_sub(bytes.len() as u64);
        file.by_ref().take(missing).read_to_end(&mut bytes).map_err(io)?;
        match Gguf::parse_header(&bytes, file_bytes) {
            Ok(gguf) => return Ok(Head { gguf, file_bytes }),
            Err(GgufError::Truncated { .. }) if wanted < file_bytes.min(MAX_HEAD_BYTES) => wanted *= 4,
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_named() {
        let check = |path: &Path, part: &str| {
            let said = read(path).expect_err("it is no model").to_string();
            assert!(said.contains(part) && said.contains(&path.display().to_string()), "{said}");
        };
        let folder = tempfile::tempdir().unwrap();
        check(folder.path(), "it is a directory");
        check(&folder.path().join("absent"), "No such file");
        #[cfg(unix)]
        check(Path::new("/dev/zero"), "a pipe or a device");
    }
}
