//! [`Disk`] on the file system of this machine.

use std::fs;
use std::path::Path;

use crate::block_reader::{BlockReader, RealBlockReader};
use crate::disk::Disk;
use crate::error::{DiskError, Step, disk_error};
use crate::folder;
use crate::mode::Mode;
use crate::partial_file::{PartialFile, RealPartialFile};
use crate::temp_file::{self, RealTempFile, TempFile, UnnamedFile};

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError> {
        fs::read(path).map_err(disk_error(Step::Read, path))
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError> {
        use std::io::Write;
        let mut unnamed = UnnamedFile::beside(path, mode)?;
        unnamed.file.write_all(bytes).map_err(disk_error(Step::Write, &unnamed.path))?;
        unnamed.persist(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let created = folder::missing(path);
        builder.create(path).map_err(disk_error(Step::CreateFolder, path))?;
        for folder in created.into_iter().map(folder::parent_of) {
            match folder::sync(folder) {
                // A folder may be writable and not readable; such a folder cannot be synced.
                Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => {
                    return Err(disk_error(Step::Sync, folder)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        fs4::available_space(path).map_err(disk_error(Step::QueryFreeSpace, path))
    }

    fn create_temp_file(&self, folder: &Path, mode: Mode) -> Result<Box<dyn TempFile>, DiskError> {
        Ok(Box::new(RealTempFile::new(folder, mode)?))
    }

    fn remove_stale_temp_files(&self, folder: &Path) -> Result<usize, DiskError> {
        temp_file::remove_stale(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::hard_link(from, to).map_err(disk_error(Step::Link, to))?;
        self.sync_folder(folder::parent_of(to))
    }

    fn open_partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn PartialFile>, DiskError> {
        Ok(Box::new(RealPartialFile::open(path, mode)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::rename(from, to).map_err(disk_error(Step::Rename, to))?;
        // The new name first: a power cut between the two syncs leaves two names, not none.
        self.sync_folder(folder::parent_of(to))?;
        self.sync_folder(folder::parent_of(from))
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        fs::remove_file(path).map_err(disk_error(Step::Remove, path))
    }

    fn open_blocks(&self, path: &Path) -> Result<Box<dyn BlockReader>, DiskError> {
        Ok(Box::new(RealBlockReader::open(path)?))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        folder::sync(path).map_err(disk_error(Step::Sync, path))
    }

    /// Windows has no call that sets the time to "now"; there only Ollama's start-up deletes blobs by age.
    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        #[cfg(unix)]
        {
            let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
            let touched = rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty());
            touched.map_err(|error| disk_error(Step::Touch, path)(error.into()))
        }
        #[cfg(not(unix))]
        {
            fs::metadata(path).map(drop).map_err(disk_error(Step::Touch, path))
        }
    }
}

/// Removes the temporary files of writes of the file at `path` ([`Disk::write_atomic`]) that ended with their process, and returns
/// their number. No process may be writing the file.
///
/// # Errors
/// Any I/O error about the folder. A file that cannot be removed is skipped.
pub fn remove_unfinished_writes(path: &Path) -> Result<usize, DiskError> {
    temp_file::remove_unfinished(path)
}

/// Returns the size of the file system of `path`, used and free bytes together.
///
/// # Errors
/// Any I/O error.
pub fn total_bytes(path: &Path) -> Result<u64, DiskError> {
    fs4::total_space(path).map_err(disk_error(Step::QueryFreeSpace, path))
}
