//! The disk of this machine.
//!
//! A whole-file write goes: temporary file in the same folder, bytes, `fsync`, rename, `fsync` of the folder. Without
//! the first `fsync` a power cut may leave the new name on an empty file; without the second it may lose the rename,
//! which callers that then delete something else could not bear.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::blocks::RealBlocks;
use crate::draft::{self, RealDraft};
use crate::partial::RealPartial;
use crate::{Blocks, Disk, DiskError, Draft, Mode, Partial, Step, failed};

/// Attempts at a name for a temporary file. A taken name is one that a killed process of the same id left behind.
const NAME_ATTEMPTS: u32 = 1000;

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError> {
        fs::read(path).map_err(failed(Step::Read, path))
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError> {
        let folder = folder_of(path);
        let mut temporary = Temporary::beside(path, mode)?;
        temporary.file.write_all(bytes).map_err(failed(Step::Write, &temporary.path))?;
        temporary.file.sync_all().map_err(failed(Step::Sync, &temporary.path))?;
        temporary.rename(path)?;
        sync_folder(folder).map_err(failed(Step::Sync, folder))
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(failed(Step::CreateFolder, path))
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        fs4::available_space(path).map_err(failed(Step::AskFreeSpace, path))
    }

    fn draft(&self, folder: &Path, mode: Mode) -> Result<Box<dyn Draft>, DiskError> {
        Ok(Box::new(RealDraft::new(folder, mode)?))
    }

    fn remove_dead_drafts(&self, folder: &Path) -> Result<usize, DiskError> {
        draft::remove_dead(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::hard_link(from, to).map_err(failed(Step::Link, to))?;
        let folder = folder_of(to);
        sync_folder(folder).map_err(failed(Step::Sync, folder))
    }

    fn partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn Partial>, DiskError> {
        Ok(Box::new(RealPartial::open(path, mode)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::rename(from, to).map_err(failed(Step::Rename, to))?;
        // The new name first: after a power cut between the two there are two names, not none.
        for folder in [folder_of(to), folder_of(from)] {
            sync_folder(folder).map_err(failed(Step::Sync, folder))?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        fs::remove_file(path).map_err(failed(Step::Remove, path))
    }

    fn open_blocks(&self, path: &Path) -> Result<Box<dyn Blocks>, DiskError> {
        Ok(Box::new(RealBlocks::open(path)?))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        sync_folder(path).map_err(failed(Step::Sync, path))
    }

    /// Windows has no call for "now" that asks no clock, and nothing there judges blobs by their age but Ollama's start.
    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        #[cfg(unix)]
        {
            let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
            let touched = rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty());
            touched.map_err(|error| failed(Step::Touch, path)(error.into()))
        }
        #[cfg(not(unix))]
        {
            fs::metadata(path).map(drop).map_err(failed(Step::Touch, path))
        }
    }
}

/// A file that is deleted unless it gets its real name.
pub(crate) struct Temporary {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    renamed: bool,
}

impl Temporary {
    /// Makes `.NAME.PID-COUNT.tmp` in the folder of `path`: the same file system, so that a rename is one step.
    pub(crate) fn beside(path: &Path, mode: Mode) -> Result<Self, DiskError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.bits());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().unwrap_or_default());
            name.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
            let temporary = folder_of(path).join(name);
            match options.open(&temporary) {
                Ok(file) => {
                    let temporary = Self { file, path: temporary, renamed: false };
                    temporary.set_mode(mode)?;
                    return Ok(temporary);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < NAME_ATTEMPTS => {}
                Err(error) => return Err(failed(Step::CreateTemporary, &temporary)(error)),
            }
        }
    }

    /// Sets the rights once more: those given at creation are cut down by the process's umask.
    fn set_mode(&self, mode: Mode) -> Result<(), DiskError> {
        #[cfg(unix)]
        self.file
            .set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode.bits()))
            .map_err(failed(Step::CreateTemporary, &self.path))?;
        #[cfg(not(unix))]
        let _ = mode;
        Ok(())
    }

    pub(crate) fn rename(mut self, to: &Path) -> Result<(), DiskError> {
        fs::rename(&self.path, to).map_err(failed(Step::Rename, to))?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // The error that led here is the one to report; a leftover costs space and nothing else.
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Makes a folder's entries durable. Windows has no such call: NTFS journals renames itself.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Bytes of the file system that holds `path`, used and free.
///
/// # Errors
/// Whatever the system says.
pub fn total_bytes(path: &Path) -> Result<u64, DiskError> {
    fs4::total_space(path).map_err(failed(Step::AskFreeSpace, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("settings");
        for bytes in [&b"a longer first text"[..], b"short", b""] {
            RealDisk.write_atomic(&path, bytes, Mode::Shared).expect("it can be written");
            assert_eq!(RealDisk.read(&path).expect("it can be read"), bytes, "the file holds what was written");
        }
        assert_eq!(names(folder.path()), ["settings"], "no temporary file stays");
    }

    #[test]
    fn a_failed_write_leaves_the_old_state_and_says_where() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("taken");
        fs::create_dir(&path).expect("a folder stands where the file should go");
        let error = RealDisk.write_atomic(&path, b"x", Mode::Private).expect_err("a folder cannot be replaced");
        assert_eq!((error.step, &error.path), (Step::Rename, &path), "the last step before the new name failed");
        assert_eq!(names(folder.path()), ["taken"], "the temporary file is gone");

        let nowhere = folder.path().join("missing/file");
        let error = RealDisk.write_atomic(&nowhere, b"x", Mode::Private).expect_err("there is no such folder");
        assert_eq!(error.step, Step::CreateTemporary, "it failed before any byte");
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound, "the reason is kept");
    }

    #[cfg(unix)]
    #[test]
    fn a_touched_file_is_young() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("old");
        let file = File::create(&path).expect("the folder is writable");
        file.set_modified(std::time::UNIX_EPOCH).expect("a file's time can be set");
        RealDisk.touch(&path).expect("it is ours");
        let fresh = File::create(folder.path().join("new")).expect("the folder is writable");
        let time = |file: &File| file.metadata().and_then(|found| found.modified()).expect("files have times");
        let apart = time(&fresh).duration_since(time(&file)).unwrap_or_default();
        assert!(apart < std::time::Duration::from_secs(60), "as young as one that is made now: {apart:?}");
        let error = RealDisk.touch(&folder.path().join("missing")).expect_err("there is no such file");
        assert_eq!(error.step, Step::Touch, "the step is named");
    }

    #[cfg(unix)]
    #[test]
    fn access_rights_are_as_asked() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        for asked in [Mode::Private, Mode::Shared, Mode::Private] {
            let path = folder.path().join("file");
            RealDisk.write_atomic(&path, b"x", asked).expect("it can be written");
            assert_eq!(mode(&path), asked.bits(), "{asked:?}");
        }
        let deep = folder.path().join("a/b");
        RealDisk.create_dir_all(&deep).expect("it can be made");
        RealDisk.create_dir_all(&deep).expect("it is there already");
        assert_eq!((mode(&deep), mode(&folder.path().join("a"))), (0o700, 0o700), "folders are for this user only");
    }

    #[test]
    fn a_reader_never_sees_half_a_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        let texts = [vec![b'a'; 100_000], vec![b'b'; 50_000]];
        RealDisk.write_atomic(&path, &texts[0], Mode::Shared).expect("it can be written");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for turn in 0..50 {
                    RealDisk.write_atomic(&path, &texts[turn % 2], Mode::Shared).expect("it can be written");
                }
            });
            while !writer.is_finished() {
                let seen = RealDisk.read(&path).expect("there is always a file");
                assert!(texts.contains(&seen), "{} bytes are neither of the two texts", seen.len());
            }
        });
    }

    #[test]
    fn free_space_is_told_for_folders_that_exist() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let free = RealDisk.free_bytes(folder.path()).expect("it is a file system");
        assert!(free > 0, "tests need a little room");
        assert!(total_bytes(folder.path()).expect("as before") > free, "no more is free than there is");
        let error = RealDisk.free_bytes(&folder.path().join("missing")).expect_err("there is no such folder");
        assert_eq!(error.step, Step::AskFreeSpace, "the step is named");
    }
}
