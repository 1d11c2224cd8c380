//! Garbage: files of our library that nobody needs.

use cairn_disk::RealDisk;
use cairn_store::{Collected, Garbage, LibraryWriter, State};

use crate::{App, Error};

impl App {
    /// Removes files of our own library that nobody needs, and with `partials` what is left of downloads by other programs
    /// too; with `dry_run` it only tells.
    ///
    /// # Errors
    /// When a manifest cannot be read, so that nobody knows what is needed, or when the disk refuses.
    pub fn collect_garbage(&self, dry_run: bool, partials: bool) -> Result<Collected, Error> {
        let library = self.catalog.own_library();
        match library.state() {
            State::Absent(_) => Ok(Collected::default()),
            State::Present | State::Unreadable(_) => {
                let garbage = Garbage { now: self.clock.now(), dry_run, partials };
                Ok(LibraryWriter::open(library, &RealDisk)?.collect_garbage(garbage)?)
            }
        }
    }
}
