//! Digests of files, computed in chunks.

use std::fs::File;
use std::io::{self, Read};

use sha2::Digest as _;

use crate::Digest;

/// Size of the reads.
const CHUNK_BYTES: usize = 1 << 20;

/// Computes the digest of a file from its current position on. `on_progress` gets the number of bytes read and returns whether to
/// continue. Returns `None` if it returned `false`.
///
/// # Errors
/// Any I/O error.
pub fn hash_file(file: &File, on_progress: &mut dyn FnMut(u64) -> bool) -> io::Result<Option<Digest>> {
    let mut hash = sha2::Sha256::new();
    let mut done_bytes = 0;
    let complete = read_chunks(
        file,
        |error| error,
        |chunk| {
            hash.update(chunk);
            done_bytes += chunk.len() as u64;
            Ok(on_progress(done_bytes))
        },
    )?;
    Ok(complete.then(|| Digest::of_hash(hash)))
}

/// Reads a file in chunks until its end. Returns `false` if `on_chunk` returned `false` before.
pub(crate) fn read_chunks<E>(
    mut file: &File,
    read_error: impl Fn(io::Error) -> E,
    mut on_chunk: impl FnMut(&[u8]) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => {
                if !on_chunk(buffer.get(..count).unwrap_or_default())? {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error)),
        }
    }
}
