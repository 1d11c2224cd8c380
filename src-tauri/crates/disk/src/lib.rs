//! Files that are written whole or not at all, locks between processes, and free space.
//!
//! **Invariant:** whoever reads a path that [`Disk::write_atomic`] writes sees the old bytes or the new ones, after a
//! crash or a power cut too. Formats belong to the callers: nothing here looks into a file.
//!
//! Code that keeps files takes `&dyn Disk`. [`RealDisk`] is the disk; tests put one in its place that fails when told.
#![forbid(unsafe_code)]

mod blocks;
mod draft;
mod lock;
mod partial;
mod real;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use blocks::{BLOCK_BYTES, Blocks, Buffer, room_of};
pub use lock::{Claim, Lock, LockError, Presence};
pub use partial::Partial;
pub use real::{RealDisk, total_bytes};

/// Lets other threads go before the calling one from now on, where they want the same core. Linux knows it of single threads;
/// elsewhere nothing changes.
pub fn stand_back() {
    // The least that there is. Where that is refused, the thread goes on as it was.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Leaves the calling thread only what no other thread wants: whoever wakes takes its core at once, which a low priority alone does not
/// give (Linux: `SCHED_IDLE`, see sched(7)). So it may stand still for long, and must hold nothing that somebody in a hurry wants.
pub fn take_what_is_left() {
    use thread_priority::{ThreadPriority, set_current_thread_priority};
    // As above.
    #[cfg(target_os = "linux")]
    let _ = {
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
            .or_else(|_| set_current_thread_priority(ThreadPriority::Min))
    };
    #[cfg(not(target_os = "linux"))]
    let _ = set_current_thread_priority(ThreadPriority::Min);
}

/// What the stores ask of a disk.
pub trait Disk: Send + Sync {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Whatever the system says; `source.kind()` is [`io::ErrorKind::NotFound`] where there is no file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError>;

    /// Replaces a file, or makes it, so that it holds exactly `bytes` and has the access rights `mode` from its first
    /// moment on. When this returns, the bytes are on the disk and so is the name that leads to them.
    ///
    /// # Errors
    /// Whatever the system says. The file is then as it was before; only when the very last step failed, making the
    /// new name durable, the file is new already and a power cut may still bring the old one back.
    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError>;

    /// Makes a folder and those above it that are missing, open to this user only (0700). One that exists stays as it
    /// is.
    ///
    /// # Errors
    /// Whatever the system says.
    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError>;

    /// Space that this user can still fill on the file system that holds `path`, which must exist.
    ///
    /// # Errors
    /// Whatever the system says.
    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Begins a file in `folder` whose name and length are not known yet.
    ///
    /// # Errors
    /// Whatever the system says.
    fn draft(&self, folder: &Path, mode: Mode) -> Result<Box<dyn Draft>, DiskError>;

    /// Removes the drafts in `folder` whose programs ended before they did, and returns how many there were. One that a
    /// living program works on stays.
    ///
    /// # Errors
    /// Whatever the system says about the folder; a draft that cannot be removed stays.
    fn remove_dead_drafts(&self, folder: &Path) -> Result<usize, DiskError>;

    /// Gives the file at `from` a second name, `to`, which must be new, and makes it durable.
    ///
    /// # Errors
    /// Whatever the system says; `source.kind()` is [`io::ErrorKind::CrossesDevices`] where the two names would be on two
    /// file systems.
    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Opens the file at `path` to be filled in any order, or makes an empty one, whose name is then durable.
    ///
    /// # Errors
    /// Whatever the system says.
    fn partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn Partial>, DiskError>;

    /// Gives the file at `from` the name `to` instead, in place of the file that may have it, and makes that durable in
    /// both folders.
    ///
    /// # Errors
    /// Whatever the system says. Nothing has changed then, unless the very last step failed, making it durable.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Removes a file.
    ///
    /// # Errors
    /// Whatever the system says.
    fn remove(&self, path: &Path) -> Result<(), DiskError>;

    /// Opens the file at `path` to be read in blocks.
    ///
    /// # Errors
    /// Whatever the system says; `source.kind()` is [`io::ErrorKind::NotFound`] where there is no file.
    fn open_blocks(&self, path: &Path) -> Result<Box<dyn Blocks>, DiskError>;

    /// Makes a folder's entries durable: after a power cut, what was removed does not come back.
    ///
    /// # Errors
    /// Whatever the system says.
    fn sync_folder(&self, path: &Path) -> Result<(), DiskError>;

    /// Makes a file as young as one that was written just now, on systems whose programs judge by that.
    ///
    /// # Errors
    /// Whatever the system says.
    fn touch(&self, path: &Path) -> Result<(), DiskError>;
}

/// A file that is being written and has no name yet that anybody looks for. Dropping it removes it; so does, later,
/// [`Disk::remove_dead_drafts`], when the program was killed.
pub trait Draft: Send {
    /// Where it is meanwhile, for reading what was written.
    fn path(&self) -> &Path;

    /// Appends bytes.
    ///
    /// # Errors
    /// Whatever the system says.
    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes an empty draft's contents those of `from`, sharing their place on the disk until either is changed.
    ///
    /// # Errors
    /// Where the file system cannot do that; the draft is still empty.
    fn reflink(&mut self, from: &File) -> Result<(), DiskError>;

    /// Brings the contents to the disk and then gives them the name `to`, on the draft's own file system. When this
    /// returns, both are durable.
    ///
    /// # Errors
    /// Whatever the system says. There is then no file of that name, unless the very last step failed, making the name
    /// durable.
    fn keep(self: Box<Self>, to: &Path) -> Result<(), DiskError>;

    /// Gives the contents the name `to`, on the same file system, in place of the file that may have it, and leaves it to the
    /// system when either reaches the disk. After a power cut there may be no file of that name, or one of other or fewer bytes:
    /// for files that say themselves whether they are whole.
    ///
    /// # Errors
    /// Whatever the system says; nothing has changed then.
    fn keep_unsynced(self: Box<Self>, to: &Path) -> Result<(), DiskError>;

    /// Has what is written from now on go past the page cache where it can, see [`Blocks`]. That is fast for writes of whole blocks
    /// from a [`Buffer`].
    fn past_cache(&mut self);
}

/// Who may read a file. On Windows, files take the rights of their folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only this user (0600): keys, tokens, chats.
    Private,
    /// Everybody (0644): models and what describes them.
    Shared,
}

impl Mode {
    /// Access rights as Unix writes them.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Shared => 0o644,
        }
    }
}

/// A step on the disk that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {step} {}: {source}", path.display())]
pub struct DiskError {
    /// What was tried.
    pub step: Step,
    /// On which file or folder.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Steps that can fail, in the order in which a write takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reading a file.
    Read,
    /// Making a folder.
    CreateFolder,
    /// Making the temporary file beside the real one.
    CreateTemporary,
    /// Writing its bytes.
    Write,
    /// Bringing bytes or a folder's entries from memory to the disk.
    Sync,
    /// Giving the temporary file the real name.
    Rename,
    /// Asking for free space.
    AskFreeSpace,
    /// Sharing another file's place on the disk.
    Reflink,
    /// Giving a file a second name.
    Link,
    /// Removing a file.
    Remove,
    /// Making a file young.
    Touch,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::CreateFolder => "create the folder",
            Self::CreateTemporary => "create",
            Self::Write => "write",
            Self::Sync => "flush to disk",
            Self::Rename => "rename a finished file to",
            Self::AskFreeSpace => "tell the free space at",
            Self::Reflink => "share a file's place on the disk with",
            Self::Link => "hard-link a file to",
            Self::Remove => "remove",
            Self::Touch => "set the time of",
        })
    }
}

/// For `map_err`: names the step and the path of an I/O error.
pub(crate) fn failed(step: Step, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError { step, path, source }
}
