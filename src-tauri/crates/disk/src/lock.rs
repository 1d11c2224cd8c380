//! Locks between processes.
//!
//! A lock is held on an open file, so the system lets go of it when its holder ends, however that happens: there is no
//! stale lock, and a process id inside the file is for people only. It is advisory: it keeps out those who ask.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A lock, held until it is dropped. Its file stays: removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds it.
    #[error("{} is locked by another process", .0.display())]
    Held(PathBuf),
    /// The file could not be opened or locked at all.
    #[error("could not lock {}: {source}", path.display())]
    Failed {
        /// The lock's file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock on the file at `path`, which is made when missing, or says that another holds it. Never waits.
    ///
    /// # Errors
    /// [`LockError::Held`] while another handle, of this process or another, has it; [`LockError::Failed`] where there
    /// can be none.
    pub fn try_take(path: &Path) -> Result<Self, LockError> {
        let file = open(path).map_err(|source| LockError::Failed { path: path.to_owned(), source })?;
        Self::of(file, path)
    }

    /// The lock on a file that was opened at `path`.
    fn of(file: File, path: &Path) -> Result<Self, LockError> {
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(LockError::Failed { path: path.to_owned(), source }),
        }
    }

    /// Takes the lock, waiting for as long as another holds it.
    ///
    /// # Errors
    /// [`LockError::Failed`] where there can be no lock.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let locked = open(path).and_then(|file| file.lock().map(|()| Self { file }));
        locked.map_err(|source| LockError::Failed { path: path.to_owned(), source })
    }
}

/// A lock whose file goes away with it, for locks named after passing things. A killed process leaves the file, and
/// whoever takes the claim next removes it in the end.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _lock: Lock,
}

impl Claim {
    /// Takes the claim whose file is at `path`, or says that another holds it. Never waits.
    ///
    /// # Errors
    /// As [`Lock::try_take`].
    pub fn try_take(path: &Path) -> Result<Self, LockError> {
        loop {
            let file = open(path).map_err(|source| LockError::Failed { path: path.to_owned(), source })?;
            if let Some(claim) = Self::of(file, path)? {
                return Ok(claim);
            }
        }
    }

    /// The claim whose file was opened at `path`, unless that is another file by now: the holder before may have removed
    /// it between its opening here and its locking, and the next comer would then lock another file of the same name.
    fn of(file: File, path: &Path) -> Result<Option<Self>, LockError> {
        let lock = Lock::of(file, path)?;
        Ok(is_at(&lock.file, path).then(|| Self { path: path.to_owned(), _lock: lock }))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is still locked. Elsewhere than on Unix nobody could tell whether the file was replaced, so it stays.
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// That this process is there, among others that may be, for those who should do something only while they are alone.
#[derive(Debug)]
pub struct Presence {
    _file: File,
    alone: bool,
}

impl Presence {
    /// Says of the file at `path` that this process is there, for as long as the result lives.
    ///
    /// # Errors
    /// [`LockError::Failed`] where there can be no lock.
    pub fn announce(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Failed { path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let alone = match file.try_lock() {
            Ok(()) => {
                // Between the two another may come, be alone too, and be gone again: neither harms the other.
                file.unlock().map_err(failed)?;
                true
            }
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        };
        file.lock_shared().map_err(failed)?;
        Ok(Self { _file: file, alone })
    }

    /// Whether nobody else was there when this began.
    #[must_use]
    pub fn was_alone(&self) -> bool {
        self.alone
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: &std::fs::Metadata| (found.dev(), found.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if place(&a) == place(&b))
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    #[test]
    fn one_holder_at_a_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lock");
        let held = Lock::try_take(&path).expect("nobody holds it");
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held(at)) if at == path), "a second handle is refused");
        drop(held);
        Lock::try_take(&path).expect("it was let go");
    }

    #[test]
    fn the_first_who_is_there_is_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("present");
        let first = Presence::announce(&path).expect("it can be said");
        let second = Presence::announce(&path).expect("it can be said");
        assert_eq!((first.was_alone(), second.was_alone()), (true, false), "the second sees the first");
        drop(first);
        assert!(!Presence::announce(&path).expect("it can be said").was_alone(), "the second is still there");
        drop(second);
        // A process that another test is just starting has all open files until it begins.
        let mut tries = 0..200;
        let alone = tries.any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            Presence::announce(&path).expect("it can be said").was_alone()
        });
        assert!(alone, "all have gone");
    }

    #[test]
    fn whoever_waits_gets_it_next() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lock");
        let held = Lock::take(&path).expect("nobody holds it");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::take(&path).map(drop));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished(), "it waits while the lock is held");
            drop(held);
            waiting.join().expect("the thread ends").expect("it has the lock");
        });
    }

    #[test]
    fn a_claim_takes_its_file_along() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("claim");
        let held = Claim::try_take(&path).expect("nobody holds it");
        assert!(matches!(Claim::try_take(&path), Err(LockError::Held(_))), "a second handle is refused");
        drop(held);
        assert!(!path.exists() || cfg!(not(unix)), "the file went with the claim");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_replaced_is_no_claim() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("claim");
        let opened = || open(&path).expect("the folder is writable");
        let (removed, replaced) = (opened(), opened());
        std::fs::remove_file(&path).expect("it is there");
        assert!(Claim::of(removed, &path).expect("nobody holds it").is_none(), "there is no such file any more");
        let current = opened();
        assert!(Claim::of(replaced, &path).expect("nobody holds it").is_none(), "it is another file");
        assert!(path.exists(), "and that one stays");
        assert!(Claim::of(current, &path).expect("nobody holds it").is_some(), "this is the one");
    }

    #[test]
    fn no_folder_no_lock() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = Lock::try_take(&folder.path().join("missing/lock")).expect_err("there is no such folder");
        assert!(
            matches!(&error, LockError::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{error}"
        );
    }

    /// The other process is util-linux's `flock`, which takes the same kind of lock on Linux.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_killed_process_lets_go() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lock");
        let mut child = Command::new("flock")
            .arg("--close")
            .arg(&path)
            .args(["sh", "-c", "echo held; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is part of every Linux system");
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut said).expect("the other process speaks");
        assert_eq!(said, "held\n", "the other process has the lock");
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held(_))), "another process has it");
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");
        Lock::try_take(&path).expect("the system let go of a dead process's lock");
    }
}
