//! Locks between processes.
//!
//! A lock belongs to an open file, so the system releases it when the process ends, even after a crash. There are no stale
//! locks, and a process id in the file is only information. Locks are advisory: they bind only processes that use them.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Exclusive lock, released on drop. Its file stays: if it were removed, two processes could lock two files of one name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Failure to acquire a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another handle holds the lock.
    #[error("{} is locked by another process", .0.display())]
    Held(PathBuf),
    /// The file could not be opened or locked.
    #[error("could not lock {}: {source}", path.display())]
    Failed {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl Lock {
    /// Acquires the lock on the file at `path` without waiting. A missing file is created.
    ///
    /// # Errors
    /// [`LockError::Held`] while another handle of this or another process holds the lock; [`LockError::Failed`] on I/O errors.
    pub fn try_acquire(path: &Path) -> Result<Self, LockError> {
        let file = open(path).map_err(|source| LockError::Failed { path: path.to_owned(), source })?;
        Self::from_file(file, path)
    }

    /// Locks a file that was opened at `path`.
    fn from_file(file: File, path: &Path) -> Result<Self, LockError> {
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(LockError::Failed { path: path.to_owned(), source }),
        }
    }

    /// Acquires the lock and waits while another handle holds it.
    ///
    /// # Errors
    /// [`LockError::Failed`] on I/O errors.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let locked = open(path).and_then(|file| file.lock().map(|()| Self { file }));
        locked.map_err(|source| LockError::Failed { path: path.to_owned(), source })
    }
}

/// Exclusive lock whose file is removed when the lock is released, for locks on short-lived things. A killed process leaves the
/// file; the next holder removes it.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    _lock: Lock,
}

impl LockFile {
    /// Acquires the lock with the file at `path` without waiting.
    ///
    /// # Errors
    /// Same as [`Lock::try_acquire`].
    pub fn try_acquire(path: &Path) -> Result<Self, LockError> {
        loop {
            let file = open(path).map_err(|source| LockError::Failed { path: path.to_owned(), source })?;
            if let Some(lock_file) = Self::from_file(file, path)? {
                return Ok(lock_file);
            }
        }
    }

    /// Locks a file that was opened at `path`. Returns `None` if `path` is another file by now: the previous holder may have
    /// removed the file between the open and the lock, and the next process would then lock a new file of the same name.
    fn from_file(file: File, path: &Path) -> Result<Option<Self>, LockError> {
        let lock = Lock::from_file(file, path)?;
        Ok(is_at(&lock.file, path).then(|| Self { path: path.to_owned(), _lock: lock }))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The file is still locked here. Other systems than Unix cannot detect a replaced file, so there it stays.
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Shared lock that every process of a group holds. It records whether this process was the only holder at the start.
#[derive(Debug)]
pub struct SharedLock {
    _file: File,
    first: bool,
}

impl SharedLock {
    /// Acquires a shared lock on the file at `path`, held until drop.
    ///
    /// # Errors
    /// [`LockError::Failed`] on I/O errors.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Failed { path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let first = match file.try_lock() {
            Ok(()) => {
                // Between the two locks another process may be first too and end again. That is harmless.
                file.unlock().map_err(failed)?;
                true
            }
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        };
        file.lock_shared().map_err(failed)?;
        Ok(Self { _file: file, first })
    }

    /// Returns whether no other process held the lock when this process acquired it.
    #[must_use]
    pub fn was_first(&self) -> bool {
        self.first
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if identity(&a) == identity(&b))
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
    fn lock_has_one_holder_at_a_time() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("lock");
        let held = Lock::try_acquire(&path).expect("lock is free");
        let second = Lock::try_acquire(&path);
        assert!(matches!(second, Err(LockError::Held(at)) if at == path), "a second handle is refused");
        drop(held);
        Lock::try_acquire(&path).expect("lock was released");
    }

    #[test]
    fn shared_lock_detects_its_first_holder() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("shared");
        let acquire = || SharedLock::acquire(&path).expect("shared lock");
        let first = acquire();
        let second = acquire();
        assert_eq!((first.was_first(), second.was_first()), (true, false), "the second holder sees the first");
        drop(first);
        assert!(!acquire().was_first(), "the second holder remains");
        drop(second);
        // A child process that another test is just starting has all open files until its exec.
        let is_first = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            acquire().was_first()
        });
        assert!(is_first, "no holder remains");
    }

    #[test]
    fn acquire_waits_for_the_release() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("lock");
        let held = Lock::acquire(&path).expect("lock is free");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::acquire(&path).map(drop));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished(), "the thread waits while the lock is held");
            drop(held);
            waiting.join().expect("thread ends").expect("thread acquires the lock");
        });
    }

    #[test]
    fn lock_file_is_removed_on_release() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("lock");
        let held = LockFile::try_acquire(&path).expect("lock is free");
        assert!(matches!(LockFile::try_acquire(&path), Err(LockError::Held(_))), "a second handle is refused");
        drop(held);
        assert!(!path.exists() || cfg!(not(unix)), "the file is removed with the lock");
    }

    #[cfg(unix)]
    #[test]
    fn lock_on_a_replaced_file_is_not_valid() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("lock");
        let opened = || open(&path).expect("file is opened");
        let (removed, replaced) = (opened(), opened());
        std::fs::remove_file(&path).expect("file is removed");
        assert!(LockFile::from_file(removed, &path).expect("lock is free").is_none(), "the path has no file any more");
        let current = opened();
        assert!(LockFile::from_file(replaced, &path).expect("lock is free").is_none(), "the path has another file");
        assert!(path.exists(), "the other file stays");
        assert!(LockFile::from_file(current, &path).expect("lock is free").is_some(), "the current file is locked");
    }

    #[test]
    fn lock_in_a_missing_folder_fails() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let error = Lock::try_acquire(&folder.path().join("missing/lock")).expect_err("the folder is missing");
        assert!(
            matches!(&error, LockError::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{error}"
        );
    }

    /// The other process is util-linux's `flock`, which takes the same kind of lock on Linux.
    #[cfg(target_os = "linux")]
    #[test]
    fn kill_releases_the_lock() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("lock");
        let mut child = Command::new("flock")
            .arg("--close")
            .arg(&path)
            .args(["sh", "-c", "echo held; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is part of every Linux system");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        output.read_line(&mut line).expect("the other process prints a line");
        assert_eq!(line, "held\n", "the other process has the lock");
        assert!(matches!(Lock::try_acquire(&path), Err(LockError::Held(_))), "the other process has the lock");
        child.kill().expect("kill succeeds");
        child.wait().expect("process ends");
        Lock::try_acquire(&path).expect("the system released the lock of the dead process");
    }
}
