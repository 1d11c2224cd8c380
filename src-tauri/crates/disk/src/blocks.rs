//! Large files that are written once and read once, past the page cache.
//!
//! What a cache of our own keeps in memory would otherwise be kept a second time by the system, in place of things that are
//! wanted more, such as a model's weights. On Linux that is `O_DIRECT` where the file system has it, which wants places, lengths
//! and memory in multiples of [`BLOCK_BYTES`]: a [`Buffer`] is such memory. Where there is none, bytes go the ordinary way and the
//! system is told afterwards that they are not wanted again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::partial::read_some_at;
use crate::{DiskError, Step, failed};

/// What places and lengths are multiples of. Disks have blocks of 512 or 4,096 bytes.
pub const BLOCK_BYTES: usize = 4096;

/// A file that is read in blocks. Its methods take `&self`, so that several threads read it at once.
pub trait Blocks: Send + Sync {
    /// Reads from a place until `into` is full or the file ends, and returns how many bytes that were. It is fast where the place
    /// and the length are multiples of [`BLOCK_BYTES`] and `into` begins where a [`Buffer`] does or such a multiple later.
    ///
    /// # Errors
    /// Whatever the system says.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Its length.
    ///
    /// # Errors
    /// Whatever the system says.
    fn len_bytes(&self) -> Result<u64, DiskError>;

    /// The room that it takes on the disk, which is less than its length where the file system compresses.
    ///
    /// # Errors
    /// Whatever the system says.
    fn room_bytes(&self) -> Result<u64, DiskError>;
}

/// Memory that begins at a multiple of [`BLOCK_BYTES`].
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len_bytes: usize,
}

impl Buffer {
    /// Zeros.
    pub fn new(len_bytes: usize) -> Self {
        let bytes = vec![0; len_bytes + BLOCK_BYTES];
        // A vector's bytes stay where they are for as long as it does not grow, and this one never does.
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        Self { bytes, start, len_bytes }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len_bytes]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len_bytes]
    }
}

/// A file on the disk of this machine.
pub(crate) struct RealBlocks {
    file: File,
    path: PathBuf,
    past_cache: AtomicBool,
}

impl RealBlocks {
    pub(crate) fn open(path: &Path) -> Result<Self, DiskError> {
        let mut options = File::options();
        options.read(true);
        // A pipe that somebody put there would keep its reader waiting. Files know no such difference.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(failed(Step::Read, path))?;
        let past_cache = AtomicBool::new(set_past_cache(&file, true));
        Ok(Self { file, path: path.to_owned(), past_cache })
    }

    fn read_ordinarily(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match read_some_at(&self.file, offset_bytes + done as u64, &mut into[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        forget_cached(&self.file, offset_bytes, done as u64);
        Ok(done)
    }

    /// Reads whole blocks. A count that is none is the end of the file.
    fn read_blocks(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() && done.is_multiple_of(BLOCK_BYTES) {
            match read_some_at(&self.file, offset_bytes + done as u64, &mut into[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl Blocks for RealBlocks {
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        if self.past_cache.load(Ordering::Relaxed) {
            match self.read_blocks(offset_bytes, into) {
                // The system refuses what does not lie on blocks; some file systems refuse only now.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    set_past_cache(&self.file, false);
                    self.past_cache.store(false, Ordering::Relaxed);
                }
                read => return read.map_err(failed(Step::Read, &self.path)),
            }
        }
        self.read_ordinarily(offset_bytes, into).map_err(failed(Step::Read, &self.path))
    }

    fn len_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|found| found.len()).map_err(failed(Step::Read, &self.path))
    }

    fn room_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|found| room_of(&found)).map_err(failed(Step::Read, &self.path))
    }
}

/// The room that a file takes on the disk. Whole blocks of its length count where the system has not said yet where the bytes will lie.
pub fn room_of(found: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    let taken = std::os::unix::fs::MetadataExt::blocks(found) * 512;
    #[cfg(not(unix))]
    let taken = 0;
    if taken == 0 { found.len().next_multiple_of(BLOCK_BYTES as u64) } else { taken }
}

/// Has the system read and write past its cache, or not, and returns whether it does.
#[cfg(target_os = "linux")]
pub(crate) fn set_past_cache(file: &File, past: bool) -> bool {
    use rustix::fs::OFlags;
    let Ok(flags) = rustix::fs::fcntl_getfl(file) else { return false };
    let flags = if past { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    rustix::fs::fcntl_setfl(file, flags).is_ok() && past
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_past_cache(_: &File, _: bool) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn forget_cached(file: &File, offset_bytes: u64, len_bytes: u64) {
    // Advice; nothing is wrong where it is not taken. A length of zero would mean all that follows.
    if let Some(len_bytes) = std::num::NonZeroU64::new(len_bytes) {
        let _ = rustix::fs::fadvise(file, offset_bytes, Some(len_bytes), rustix::fs::Advice::DontNeed);
    }
}

#[cfg(not(target_os = "linux"))]
fn forget_cached(_: &File, _: u64, _: u64) {}

#[cfg(test)]
mod tests {
    use crate::{Disk, Mode, RealDisk};

    use super::*;

    #[test]
    fn what_is_written_past_the_cache_is_read_past_it_and_otherwise() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("blocks");
        let mut buffer = Buffer::new(3 * BLOCK_BYTES);
        assert_eq!(buffer.as_ptr().align_offset(BLOCK_BYTES), 0, "a buffer begins at a block");
        buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
        let mut draft = RealDisk.draft(folder.path(), Mode::Private).expect("it can be begun");
        draft.past_cache();
        draft.write(&buffer).expect("it can be written");
        // Bytes that lie anywhere are written too, if more slowly.
        draft.write(&buffer[5..10]).expect("it can be written");
        draft.keep_unsynced(&path).expect("it gets its name");

        let blocks = RealDisk.open_blocks(&path).expect("it is there");
        assert_eq!(blocks.len_bytes().expect("it has a length"), 3 * BLOCK_BYTES as u64 + 5, "all was written");
        assert!(blocks.room_bytes().expect("it takes room") >= 3 * BLOCK_BYTES as u64, "random bytes do not shrink");
        let mut read = Buffer::new(4 * BLOCK_BYTES);
        assert_eq!(blocks.read_at(0, &mut read).expect("it can be read"), 3 * BLOCK_BYTES + 5, "it ends before that");
        assert!(
            read[..3 * BLOCK_BYTES] == buffer[..] && read[3 * BLOCK_BYTES..][..5] == buffer[5..10],
            "the same bytes"
        );
        let mut few = [0; 9];
        assert_eq!(blocks.read_at(7, &mut few).expect("it can be read"), 9, "anywhere, at any length");
        assert_eq!(few, buffer[7..16], "the same bytes");
        assert_eq!(blocks.read_at(1 << 30, &mut few).expect("it can be read"), 0, "nothing lies beyond its end");
    }
}
