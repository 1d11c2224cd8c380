//! Files of a checkpoint.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde_json::Value;

use super::error::{ConvertError, invalid};

/// Upper limit of `config.json` and the descriptions of modules. A parsed value takes about 30 times as much memory.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A file of a checkpoint.
#[derive(Debug)]
pub struct CheckpointFile {
    /// Path relative to the checkpoint's folder, with `/`.
    pub name: String,
    /// The file.
    pub file: File,
}

/// Reads a file of JSON; none if it is missing.
pub(super) fn json(files: &[CheckpointFile], name: &str) -> Result<Option<Value>, ConvertError> {
    let Some(bytes) = bytes(files, name, MAX_CONFIG_BYTES)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(name, error.to_string()))
}

/// Reads a file of at most `max` bytes; none if it is missing.
pub(super) fn bytes(files: &[CheckpointFile], name: &str, max: u64) -> Result<Option<Vec<u8>>, ConvertError> {
    let Some(found) = files.iter().find(|file| file.name == name) else { return Ok(None) };
    let mut bytes = Vec::new();
    let mut file = &found.file;
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(max + 1).read_to_end(&mut bytes));
    read.map_err(|error| invalid(name, error.to_string()))?;
    if bytes.len() as u64 > max {
        return Err(invalid(name, format!("it is longer than {} MiB", max >> 20)));
    }
    Ok(Some(bytes))
}
