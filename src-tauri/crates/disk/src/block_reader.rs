//! Direct I/O: large files that are written once and read once, without the page cache.
//!
//! The process caches such contents in memory already; the page cache would keep a second copy and evict more useful pages, such
//! as a model's weights. On Linux `O_DIRECT` bypasses it where the file system supports that. Offsets, lengths and memory must
//! then be multiples of [`BLOCK_BYTES`]; an [`AlignedBuffer`] is such memory. Elsewhere files are read through the page cache,
//! and the system is advised to drop the pages afterwards.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{DiskError, Step, disk_error};
use crate::partial_file::read_while;

/// Alignment of offsets and lengths. Disks have blocks of 512 or 4,096 bytes.
pub const BLOCK_BYTES: usize = 4096;

/// File that is read in blocks. Its methods take `&self`, so that several threads can read at once.
pub trait BlockReader: Send + Sync {
    /// Reads from an offset until `into` is full or the file ends. Returns the number of bytes read. The fast path needs an
    /// offset and a length that are multiples of [`BLOCK_BYTES`], and an `into` with that alignment in an [`AlignedBuffer`].
    ///
    /// # Errors
    /// Any I/O error.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Returns the file's length.
    ///
    /// # Errors
    /// Any I/O error.
    fn len_bytes(&self) -> Result<u64, DiskError>;

    /// Returns the disk space that the file takes: less than its length on file systems that compress.
    ///
    /// # Errors
    /// Any I/O error.
    fn allocated_bytes(&self) -> Result<u64, DiskError>;
}

/// Memory that is aligned to [`BLOCK_BYTES`].
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len_bytes: usize,
}

impl AlignedBuffer {
    /// Allocates zeros.
    pub fn new(len_bytes: usize) -> Self {
        let bytes = vec![0; len_bytes + BLOCK_BYTES];
        // The vector never grows, so its bytes never move.
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        Self { bytes, start, len_bytes }
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len_bytes]
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len_bytes]
    }
}

/// [`BlockReader`] of [`RealDisk`](crate::RealDisk).
pub(crate) struct RealBlockReader {
    file: File,
    path: PathBuf,
    direct_io: AtomicBool,
}

impl RealBlockReader {
    pub(crate) fn open(path: &Path) -> Result<Self, DiskError> {
        let mut options = File::options();
        options.read(true);
        // Opening a named pipe would block without this flag. It has no effect on files.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(disk_error(Step::Read, path))?;
        let direct_io = AtomicBool::new(set_direct_io(&file, true));
        Ok(Self { file, path: path.to_owned(), direct_io })
    }

    fn read_buffered(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
        let done = read_while(&self.file, offset_bytes, into, |_| true)?;
        drop_cached_pages(&self.file, offset_bytes, done as u64);
        Ok(done)
    }

    /// Reads whole blocks. A count that is no multiple of a block means the end of the file.
    fn read_direct(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
        read_while(&self.file, offset_bytes, into, |done| done.is_multiple_of(BLOCK_BYTES))
    }
}

impl BlockReader for RealBlockReader {
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        if self.direct_io.load(Ordering::Relaxed) {
            match self.read_direct(offset_bytes, into) {
                // Direct I/O rejects unaligned reads; some file systems reject it only here and not at `fcntl`.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    set_direct_io(&self.file, false);
                    self.direct_io.store(false, Ordering::Relaxed);
                }
                read => return read.map_err(disk_error(Step::Read, &self.path)),
            }
        }
        self.read_buffered(offset_bytes, into).map_err(disk_error(Step::Read, &self.path))
    }

    fn len_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(disk_error(Step::Read, &self.path))
    }

    fn allocated_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|metadata| allocated_bytes(&metadata)).map_err(disk_error(Step::Read, &self.path))
    }
}

/// Returns the disk space that a file takes. If the system has not allocated its blocks yet, the length rounded up to blocks.
pub fn allocated_bytes(metadata: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    let allocated = std::os::unix::fs::MetadataExt::blocks(metadata) * 512;
    #[cfg(not(unix))]
    let allocated = 0;
    if allocated == 0 { metadata.len().next_multiple_of(BLOCK_BYTES as u64) } else { allocated }
}

/// Enables or disables direct I/O for an open file. Returns whether it is enabled.
#[cfg(target_os = "linux")]
pub(crate) fn set_direct_io(file: &File, enabled: bool) -> bool {
    use rustix::fs::OFlags;
    let Ok(flags) = rustix::fs::fcntl_getfl(file) else { return false };
    let flags = if enabled { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    rustix::fs::fcntl_setfl(file, flags).is_ok() && enabled
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_direct_io(_: &File, _: bool) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn drop_cached_pages(file: &File, offset_bytes: u64, len_bytes: u64) {
    // Advice only, so errors are ignored. A length of zero would mean the rest of the file.
    if let Some(len_bytes) = std::num::NonZeroU64::new(len_bytes) {
        let _ = rustix::fs::fadvise(file, offset_bytes, Some(len_bytes), rustix::fs::Advice::DontNeed);
    }
}

#[cfg(not(target_os = "linux"))]
fn drop_cached_pages(_: &File, _: u64, _: u64) {}
