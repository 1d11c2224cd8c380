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
pub(crate) struct Head {
    pub(crate) gguf: Gguf,
    pub(crate) file_bytes: u64,
}

/// Reads the head of the file at `path`, taking more of it until the head is whole.
pub(crate) fn read(path: &Path) -> Result<Head, Error> {
    let failed = |reason: String| Error::File { path: path.to_owned(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    let found = std::fs::metadata(path).map_err(io)?;
    if !found.is_file() {
        return Err(failed("it is not a file".to_owned()));
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
