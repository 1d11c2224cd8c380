//! Temporary files: large files that get their final name when they are complete.
//!
//! A temporary file is in the folder of its final name, so that one rename publishes it. It is named `.draft.PID-COUNT.tmp` and
//! locked while its process works on it. The system releases the locks of dead processes, so a file that can be locked is stale.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block_reader::set_direct_io;
use crate::error::{DiskError, Step, disk_error};
use crate::folder;
use crate::mode::Mode;

const PREFIX: &str = ".draft.";
const SUFFIX: &str = ".tmp";
/// Attempts at a free name. A taken name is left over from a killed process with the same id.
const NAME_ATTEMPTS: u32 = 1000;

/// File without a final name. Dropping it removes it. If the process is killed, [`Disk::remove_stale_temp_files`] removes it later.
///
/// [`Disk::remove_stale_temp_files`]: crate::Disk::remove_stale_temp_files
pub trait TempFile: Send {
    /// Current path, for reading what was written.
    fn path(&self) -> &Path;

    /// Appends bytes.
    ///
    /// # Errors
    /// Any I/O error.
    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes this empty file a copy of `from` that shares its extents on the disk until one of them changes.
    ///
    /// # Errors
    /// If the file system does not support reflinks. The file is then still empty.
    fn reflink(&mut self, from: &File) -> Result<(), DiskError>;

    /// Flushes the contents and renames the file to `to`, which must be on the same file system. On return both are durable.
    ///
    /// # Errors
    /// Any I/O error. `to` does not exist then, unless the last step (syncing the folder) failed.
    fn persist(self: Box<Self>, to: &Path) -> Result<(), DiskError>;

    /// Renames the file to `to`, on the same file system, replaces an existing file there, and flushes nothing. After a power cut
    /// `to` may be missing, shorter, or contain other bytes. Use it for formats that detect incomplete files.
    ///
    /// # Errors
    /// Any I/O error. Nothing has changed then.
    fn persist_unsynced(self: Box<Self>, to: &Path) -> Result<(), DiskError>;

    /// Bypasses the page cache for further writes, where the file system can (see [`BlockReader`](crate::BlockReader)). Such writes
    /// are fast for whole blocks from an [`AlignedBuffer`](crate::AlignedBuffer).
    fn bypass_page_cache(&mut self);
}

/// [`TempFile`] of [`RealDisk`](crate::RealDisk).
pub(crate) struct RealTempFile {
    unnamed: UnnamedFile,
    direct_io: bool,
}

impl RealTempFile {
    pub(crate) fn new(folder: &Path, mode: Mode) -> Result<Self, DiskError> {
        loop {
            let unnamed = UnnamedFile::beside(&folder.join("draft"), mode)?;
            // Without locks, stale files cannot be detected and are never removed.
            let _ = unnamed.file.try_lock();
            // Another process may have removed the file as stale before it was locked.
            if unnamed.path.exists() {
                return Ok(Self { unnamed, direct_io: false });
            }
        }
    }
}

impl TempFile for RealTempFile {
    fn path(&self) -> &Path {
        &self.unnamed.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let file = &mut self.unnamed.file;
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => return Err(disk_error(Step::Write, &self.unnamed.path)(io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Direct I/O rejects unaligned writes.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.direct_io => {
                    set_direct_io(file, false);
                    self.direct_io = false;
                }
                Err(error) => return Err(disk_error(Step::Write, &self.unnamed.path)(error)),
            }
        }
        Ok(())
    }

    fn reflink(&mut self, from: &File) -> Result<(), DiskError> {
        reflink(from, &self.unnamed.file).map_err(disk_error(Step::Reflink, &self.unnamed.path))
    }

    fn persist(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        self.unnamed.persist(to)
    }

    fn persist_unsynced(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        self.unnamed.rename(to)
    }

    fn bypass_page_cache(&mut self) {
        self.direct_io = set_direct_io(&self.unnamed.file, true);
    }
}

/// `ioctl(FICLONE)`, which btrfs, XFS and others support (`ioctl_ficlone(2)`).
#[cfg(target_os = "linux")]
fn reflink(from: &File, to: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

#[cfg(not(target_os = "linux"))]
fn reflink(_: &File, _: &File) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "reflinks are supported on Linux only"))
}

/// Removes the temporary files of a folder that no process has locked.
pub(crate) fn remove_stale(folder: &Path) -> Result<usize, DiskError> {
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(disk_error(Step::Read, folder))? {
        let entry = entry.map_err(disk_error(Step::Read, folder))?;
        let is_temp_file = entry.file_name().to_str().is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SUFFIX));
        // The lock is held until the name is gone, so that a process that has just created the file notices.
        if is_temp_file
            && let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && file.try_lock().is_ok()
            && fs::remove_file(entry.path()).is_ok()
        {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes the temporary files of the file at `path`.
pub(crate) fn remove_unfinished(path: &Path) -> Result<usize, DiskError> {
    let folder = folder::parent_of(path);
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    let is_temporary = |name: &std::ffi::OsStr| {
        let name = name.as_encoded_bytes();
        let number = name.strip_prefix(prefix.as_encoded_bytes()).and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
        number.is_some_and(|number| number.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-'))
    };
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(disk_error(Step::Read, folder))? {
        let entry = entry.map_err(disk_error(Step::Read, folder))?;
        if is_temporary(&entry.file_name()) && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// File under a temporary name, removed on drop unless it was renamed.
pub(crate) struct UnnamedFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    renamed: bool,
}

impl UnnamedFile {
    /// Creates `.NAME.PID-COUNT.tmp` in the folder of `path`. That is the same file system, so a rename is atomic.
    pub(crate) fn beside(path: &Path, mode: Mode) -> Result<Self, DiskError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        mode.set_on_create(&mut options);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().unwrap_or_default());
            name.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
            let path = folder::parent_of(path).join(name);
            match options.open(&path) {
                Ok(file) => {
                    let unnamed = Self { file, path, renamed: false };
                    mode.set(&unnamed.file).map_err(disk_error(Step::CreateTemporary, &unnamed.path))?;
                    return Ok(unnamed);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < NAME_ATTEMPTS => {}
                Err(error) => return Err(disk_error(Step::CreateTemporary, &path)(error)),
            }
        }
    }

    /// Flushes the contents, renames the file and syncs the folder. Without the first flush a power cut may leave the new name
    /// with an empty file. Without the second one it may undo the rename after the caller has removed the old file.
    pub(crate) fn persist(self, to: &Path) -> Result<(), DiskError> {
        self.file.sync_all().map_err(disk_error(Step::Sync, &self.path))?;
        self.rename(to)?;
        let folder = folder::parent_of(to);
        folder::sync(folder).map_err(disk_error(Step::Sync, folder))
    }

    fn rename(mut self, to: &Path) -> Result<(), DiskError> {
        fs::rename(&self.path, to).map_err(disk_error(Step::Rename, to))?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if !self.renamed {
            // The caller reports the error that led here; a file that stays only takes space.
            let _ = fs::remove_file(&self.path);
        }
    }
}
