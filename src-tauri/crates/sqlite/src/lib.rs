//! Versioned SQLite files: one database in one file, with migrations, backups, repair and erasure.
//!
//! A crate describes its file by a [`Format`]: the migrations of its schema, the tables that a repair copies, and the work that
//! only this crate can do. A [`Database`] does the rest:
//!
//! - One process writes the file, through one connection. A second connection reads, so that reads do not wait for writes.
//! - Every change is one transaction that is durable when the call returns, so a killed process loses no acknowledged change.
//! - A file of an older version is backed up and migrated. A file of a newer version or of another program is rejected unchanged.
//! - A damaged file is repaired (`repair`): its readable rows and a backup fill a new file, and the damaged file is kept.
//! - A deletion reaches every copy (`erase`): free pages, search index, write-ahead log, backups, damaged files.
//!
//! **Invariants:** this crate does not depend on the contents of a table. Callers pass in the time in milliseconds since 1970. All
//! calls block.
#![forbid(unsafe_code)]

mod backup;
mod connect;
mod database;
mod erase;
mod error;
mod format;
mod repair;
mod salvage;
mod schema;

pub use database::Database;
pub use error::{DatabaseError, FileError};
pub use format::Format;
pub use repair::{Repair, files_set_aside, quick_check};
pub use salvage::{Table, raise_sequence};
pub use schema::Schema;

#[cfg(test)]
mod tests;
