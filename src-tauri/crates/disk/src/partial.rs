//! Files that are written at any place, over many runs of the program, until they are whole.
//!
//! A [`Partial`] is no draft: it keeps its name when the program ends, and promises nothing about bytes that were not
//! followed by [`Partial::sync`]. What of it can be trusted is for its owner to write down.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::real::{folder_of, sync_folder};
use crate::{DiskError, Mode, Step, failed};

/// A file that is filled in any order. Its methods take `&self`: one thread may write while another brings to the disk
/// what was written before.
pub trait Partial: Send + Sync {
    /// Writes bytes at a place, which may lie beyond the end: what is skipped reads as zeros.
    ///
    /// # Errors
    /// Whatever the system says; some of the bytes may be written then.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Reads from a place until `into` is full or the file ends, and returns how many bytes that were.
    ///
    /// # Errors
    /// Whatever the system says.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Its length now.
    ///
    /// # Errors
    /// Whatever the system says.
    fn len_bytes(&self) -> Result<u64, DiskError>;

    /// Cuts it off, or fills it up with zeros.
    ///
    /// # Errors
    /// Whatever the system says.
    fn truncate(&self, len_bytes: u64) -> Result<(), DiskError>;

    /// Brings to the disk everything whose writing ended before this call.
    ///
    /// # Errors
    /// Whatever the system says. Nothing is known then about what was written since the last call.
    fn sync(&self) -> Result<(), DiskError>;
}

/// A partial on the disk of this machine.
pub(crate) struct RealPartial {
    file: File,
    path: PathBuf,
}

impl RealPartial {
    pub(crate) fn open(path: &Path, mode: Mode) -> Result<Self, DiskError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                options.create(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.bits());
                let file = options.open(path).map_err(failed(Step::CreateTemporary, path))?;
                #[cfg(unix)]
                file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode.bits()))
                    .map_err(failed(Step::CreateTemporary, path))?;
                #[cfg(not(unix))]
                let _ = mode;
                // What is written about a file must not outlive the file's name.
                let folder = folder_of(path);
                sync_folder(folder).map_err(failed(Step::Sync, folder))?;
                file
            }
            Err(error) => return Err(failed(Step::Read, path)(error)),
        };
        Ok(Self { file, path: path.to_owned() })
    }
}

impl Partial for RealPartial {
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError> {
        write_all_at(&self.file, offset_bytes, bytes).map_err(failed(Step::Write, &self.path))
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let mut done = 0;
        while done < into.len() {
            match read_some_at(&self.file, offset_bytes + done as u64, &mut into[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(Step::Read, &self.path)(error)),
            }
        }
        Ok(done)
    }

    fn len_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|found| found.len()).map_err(failed(Step::Read, &self.path))
    }

    fn truncate(&self, len_bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(len_bytes).map_err(failed(Step::Write, &self.path))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(failed(Step::Sync, &self.path))
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset_bytes)
}

#[cfg(unix)]
pub(crate) fn read_some_at(file: &File, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
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
pub(crate) fn read_some_at(file: &File, offset_bytes: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, RealDisk};

    #[test]
    fn bytes_lie_where_they_were_put_and_stay_over_a_second_opening() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("partial");
        let partial = RealDisk.partial(&path, Mode::Shared).expect("it can be made");
        partial.write_at(5, b"fgh").expect("it can be written beyond its end");
        partial.write_at(0, b"ab").expect("it can be written at its start");
        partial.sync().expect("it can be synced");
        drop(partial);

        let partial = RealDisk.partial(&path, Mode::Shared).expect("it can be opened again");
        let mut seen = [9; 16];
        assert_eq!(partial.read_at(1, &mut seen).expect("it can be read"), 7, "it ends before the buffer does");
        assert_eq!(&seen[..8], b"b\0\0\0fgh\x09", "what was skipped is zeros, what lies beyond is untouched");
        partial.truncate(3).expect("it can be cut");
        assert_eq!(partial.len_bytes().expect("it has a length"), 3, "it was cut");
        assert_eq!(partial.read_at(3, &mut seen).expect("it can be read"), 0, "nothing lies at its end");
    }

    #[test]
    fn a_rename_takes_the_place_of_what_was_there() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, "new").expect("the folder is writable");
        std::fs::write(&to, "old").expect("the folder is writable");
        RealDisk.rename(&from, &to).expect("one folder is on one file system");
        assert!(!from.exists(), "the old name is gone");
        assert_eq!(RealDisk.read(&to).expect("it is there"), b"new", "the new name leads to the file");
        let error = RealDisk.rename(&from, &to).expect_err("there is no such file");
        assert_eq!((error.step, error.source.kind()), (Step::Rename, io::ErrorKind::NotFound), "{error}");
    }
}
