//! Files that are filled in any order, over several runs of the program, until they are complete.
//!
//! A [`PartialFile`] keeps its name when the process ends. Bytes that no [`PartialFile::sync`] followed may be lost or wrong after
//! a power cut. The owner records which bytes are valid.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{DiskError, Step, disk_error};
use crate::folder;
use crate::mode::Mode;

/// File that is filled in any order. Its methods take `&self`: one thread may write while another flushes earlier writes.
pub trait PartialFile: Send + Sync {
    /// Writes bytes at an offset, which may be beyond the end. Skipped bytes read as zeros.
    ///
    /// # Errors
    /// Any I/O error; some of the bytes may be written then.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Reads from an offset until `into` is full or the file ends. Returns the number of bytes read.
    ///
    /// # Errors
    /// Any I/O error.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Returns the current length.
    ///
    /// # Errors
    /// Any I/O error.
    fn len_bytes(&self) -> Result<u64, DiskError>;

    /// Sets the length: cuts the end off or appends zeros.
    ///
    /// # Errors
    /// Any I/O error.
    fn truncate(&self, len_bytes: u64) -> Result<(), DiskError>;

    /// Makes all writes durable that returned before this call.
    ///
    /// # Errors
    /// Any I/O error. All bytes since the last successful call are then invalid.
    fn sync(&self) -> Result<(), DiskError>;
}

/// [`PartialFile`] of [`RealDisk`](crate::RealDisk).
pub(crate) struct RealPartialFile {
    file: File,
    path: PathBuf,
}

impl RealPartialFile {
    pub(crate) fn open(path: &Path, mode: Mode) -> Result<Self, DiskError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                mode.set_on_create(options.create(true));
                let file = options.open(path).and_then(|file| mode.set(&file).map(|()| file));
                let file = file.map_err(disk_error(Step::CreateTemporary, path))?;
                // Records about a file must not outlive the file's name.
                let folder = folder::parent_of(path);
                folder::sync(folder).map_err(disk_error(Step::Sync, folder))?;
                file
            }
            Err(error) => return Err(disk_error(Step::Read, path)(error)),
        };
        Ok(Self { file, path: path.to_owned() })
    }
}

impl PartialFile for RealPartialFile {
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError> {
        write_all_at(&self.file, offset_bytes, bytes).map_err(disk_error(Step::Write, &self.path))
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        read_while(&self.file, offset_bytes, into, |_| true).map_err(disk_error(Step::Read, &self.path))
    }

    fn len_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|found| found.len()).map_err(disk_error(Step::Read, &self.path))
    }

    fn truncate(&self, len_bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(len_bytes).map_err(disk_error(Step::Write, &self.path))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(disk_error(Step::Sync, &self.path))
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset_bytes)
}

/// Reads until `into` is full, the file ends, or `should_continue` returns false for the number of bytes read so far.
pub(crate) fn read_while(
    file: &File,
    offset_bytes: u64,
    into: &mut [u8],
    should_continue: impl Fn(usize) -> bool,
) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() && should_continue(done) {
        match read_some_at(file, offset_bytes + done as u64, &mut into[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_some_at(file: &File, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, offset_bytes)
}

#[cfg(windows)]
fn write_all_at(file: &File, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match std::os::windows::fs::FileExt::seek_write(file, &bytes[done..], offset_bytes + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(windows)]
fn read_some_at(file: &File, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset_bytes)
}
