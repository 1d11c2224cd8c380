//! Drafts on the disk of this machine: large files that get their name once they are whole.
//!
//! A draft lies in the folder of its future name, so that a rename is one step, as `.draft.PID-COUNT.tmp`. It is locked
//! for as long as its program works on it: the system lets go of a dead program's lock, so a draft that can be locked is
//! one that nobody will finish.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::blocks::set_past_cache;
use crate::real::{Temporary, folder_of, sync_folder};
use crate::{DiskError, Draft, Mode, Step, failed};

/// How drafts' names begin, and how they end.
const PREFIX: &str = ".draft.";
const SUFFIX: &str = ".tmp";

/// A draft on the disk of this machine.
pub(crate) struct RealDraft {
    temporary: Temporary,
    past_cache: bool,
}

impl RealDraft {
    pub(crate) fn new(folder: &Path, mode: Mode) -> Result<Self, DiskError> {
        loop {
            let temporary = Temporary::beside(&folder.join("draft"), mode)?;
            // Where there are no locks, nobody can tell a dead draft from a living one, and none is ever removed.
            let _ = temporary.file.try_lock();
            // Somebody who clears up may have taken it for dead before it was locked.
            if temporary.path.exists() {
                return Ok(Self { temporary, past_cache: false });
            }
        }
    }
}

impl Draft for RealDraft {
    fn path(&self) -> &Path {
        &self.temporary.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let file = &mut self.temporary.file;
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => return Err(failed(Step::Write, &self.temporary.path)(io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The system refuses what does not lie on blocks.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.past_cache => {
                    set_past_cache(file, false);
                    self.past_cache = false;
                }
                Err(error) => return Err(failed(Step::Write, &self.temporary.path)(error)),
            }
        }
        Ok(())
    }

    fn reflink(&mut self, from: &File) -> Result<(), DiskError> {
        reflink(from, &self.temporary.file).map_err(failed(Step::Reflink, &self.temporary.path))
    }

    fn keep(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        let temporary = self.temporary;
        temporary.file.sync_all().map_err(failed(Step::Sync, &temporary.path))?;
        temporary.rename(to)?;
        let folder = folder_of(to);
        sync_folder(folder).map_err(failed(Step::Sync, folder))
    }

    fn keep_unsynced(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        self.temporary.rename(to)
    }

    fn past_cache(&mut self) {
        self.past_cache = set_past_cache(&self.temporary.file, true);
    }
}

/// `ioctl(FICLONE)`, which btrfs, XFS and others have (`ioctl_ficlone(2)`).
#[cfg(target_os = "linux")]
fn reflink(from: &File, to: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

#[cfg(not(target_os = "linux"))]
fn reflink(_: &File, _: &File) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "reflinks are made on Linux only"))
}

/// Removes the drafts in a folder that nobody holds a lock on.
pub(crate) fn remove_dead(folder: &Path) -> Result<usize, DiskError> {
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(failed(Step::Read, folder))? {
        let entry = entry.map_err(failed(Step::Read, folder))?;
        let is_draft = entry.file_name().to_str().is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SUFFIX));
        // The lock is held until the name is gone, so that its program, should it be just starting, notices.
        if is_draft
            && let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && file.try_lock().is_ok()
            && fs::remove_file(entry.path()).is_ok()
        {
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, RealDisk};

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("the folder is there").flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_draft_is_nothing_until_it_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut dropped = RealDisk.draft(folder.path(), Mode::Shared).expect("it can be begun");
        dropped.write(b"half").expect("it can be written");
        drop(dropped);
        assert!(names(folder.path()).is_empty(), "a dropped draft leaves nothing");

        let mut draft = RealDisk.draft(folder.path(), Mode::Shared).expect("it can be begun");
        draft.write(b"one ").expect("it can be written");
        draft.write(b"two").expect("it can be written");
        assert_eq!(fs::read(draft.path()).expect("it can be read meanwhile"), b"one two", "what was written so far");
        draft.keep(&folder.path().join("whole")).expect("it can be kept");
        assert_eq!(names(folder.path()), ["whole"], "one file, and nothing beside it");
        assert_eq!(fs::read(folder.path().join("whole")).expect("it is there"), b"one two", "its contents");
    }

    #[test]
    fn dead_drafts_go_and_living_ones_stay() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let living = RealDisk.draft(folder.path(), Mode::Shared).expect("it can be begun");
        for name in [".draft.1-2.tmp", "sha256-x", ".draft.kept"] {
            fs::write(folder.path().join(name), "x").expect("the folder is writable");
        }
        assert_eq!(RealDisk.remove_dead_drafts(folder.path()).expect("it can be cleared"), 1, "one has no program");
        let left = names(folder.path());
        assert!(living.path().exists() && left.len() == 3, "a living draft and what is none stay: {left:?}");
    }

    /// File systems differ in whether they can, and a test machine has what it has; the contents must be right where they
    /// can, and the draft empty where they cannot.
    #[test]
    fn a_reflink_is_whole_or_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("source");
        fs::write(&source, vec![7; 100_000]).expect("the folder is writable");
        let mut draft = RealDisk.draft(folder.path(), Mode::Shared).expect("it can be begun");
        let shared = draft.reflink(&File::open(&source).expect("it is there"));
        let expected = if shared.is_ok() { 100_000 } else { 0 };
        let written = fs::read(draft.path()).expect("it can be read");
        assert!(written.len() == expected && written.iter().all(|byte| *byte == 7), "{shared:?}");
        if let Err(error) = shared {
            assert_eq!(error.step, Step::Reflink, "the step is named: {error}");
        }
    }

    #[test]
    fn a_link_is_a_second_name_and_never_replaces() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, second) = (folder.path().join("source"), folder.path().join("second"));
        fs::write(&source, "x").expect("the folder is writable");
        RealDisk.link(&source, &second).expect("one folder is on one file system");
        RealDisk.remove(&source).expect("it is there");
        assert_eq!(fs::read(&second).expect("it has another name"), b"x", "the contents stay while a name does");
        fs::write(&source, "y").expect("the folder is writable");
        let error = RealDisk.link(&source, &second).expect_err("the name is taken");
        assert_eq!((error.step, error.source.kind()), (Step::Link, io::ErrorKind::AlreadyExists), "{error}");
    }
}
