//! llama.cpp's older files, all numbers little-endian:
//!
//! ```text
//! i32 entries
//! for each entry: i32 length, name, i32 calls, i32 values, values x f32     the importance is value / calls
//! i32 chunks, i32 length, name of the text                                  missing in the oldest files
//! ```

use super::{Importance, ImportanceError, MAX_ENTRIES, MAX_NAME_BYTES, format_error};

/// Bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize, of: &str) -> Result<&'a [u8], ImportanceError> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format_error(format!("{of} needs {count} bytes, and {} are left", self.0.len())))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self, of: &str) -> Result<i32, ImportanceError> {
        let bytes = self.bytes(4, of)?.first_chunk().copied().unwrap_or_default();
        Ok(i32::from_le_bytes(bytes))
    }

    /// Reads a count from `least` to `most`.
    fn count(&mut self, of: &str, least: usize, most: usize) -> Result<usize, ImportanceError> {
        let number = self.number(of)?;
        let count = usize::try_from(number).ok().filter(|count| (least..=most).contains(count));
        count.ok_or_else(|| format_error(format!("{of} is {number}, but must be from {least} to {most}")))
    }

    fn text(&mut self, of: &str, least: usize) -> Result<&'a str, ImportanceError> {
        let length = self.count(&format!("the length of {of}"), least, MAX_NAME_BYTES)?;
        let bytes = self.bytes(length, of)?;
        std::str::from_utf8(bytes).map_err(|_| format_error(format!("{of} is not UTF-8")))
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Importance, ImportanceError> {
    let mut reader = Reader(bytes);
    let mut importance = Importance::default();
    for entry in 1..=reader.count("the number of entries", 1, MAX_ENTRIES)? {
        let name = reader.text(&format!("the name of entry {entry}"), 1)?;
        let calls = reader.number("the number of calls")?;
        let count = reader.count(&format!("the number of values of entry {entry}"), 1, i32::MAX as usize)?;
        // A count that is larger than the file fails here, before any memory is reserved for it.
        let values = reader.bytes(count.saturating_mul(4), &format!("entry {entry}"))?;
        let divisor = if calls > 0 { calls as f32 } else { 1.0 };
        let values = values.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes) / divisor).collect();
        importance.insert(name, values)?;
    }
    if !reader.0.is_empty() {
        importance.chunks = u32::try_from(reader.number("the number of chunks")?).unwrap_or(0);
        importance.datasets = vec![reader.text("the name of the text", 0)?.to_owned()];
    }
    Ok(importance)
}
