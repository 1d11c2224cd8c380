//! Atomic file writes, locks between processes, and free space.
//!
//! **Invariant:** a reader of a path that [`Disk::write_atomic`] writes sees the old bytes or the new ones, even after a
//! crash or a power cut. Callers own the file formats; this crate never parses contents.
//!
//! Code that writes files takes `&dyn Disk`. [`RealDisk`] is the production implementation; tests use one that injects faults.
#![forbid(unsafe_code)]

mod block_reader;
mod disk;
mod error;
mod folder;
mod lock;
mod mode;
mod partial_file;
mod priority;
mod real_disk;
mod temp_file;

pub use block_reader::{AlignedBuffer, BLOCK_BYTES, BlockReader, allocated_bytes};
pub use disk::Disk;
pub use error::{DiskError, Step};
pub use lock::{Lock, LockError, LockFile, SharedLock};
pub use mode::Mode;
pub use partial_file::PartialFile;
pub use priority::{set_idle_thread_priority, set_low_thread_priority};
pub use real_disk::{RealDisk, remove_unfinished_writes, total_bytes};
pub use temp_file::TempFile;

#[cfg(test)]
mod tests;
