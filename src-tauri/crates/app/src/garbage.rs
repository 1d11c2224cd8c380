//! Garbage: files of our library that nobody needs. They go when asked for, and when the daemon starts.

use cairn_disk::{Presence, RealDisk};
use cairn_store::{Collected, Garbage, LeftoverKind, LibraryWriter, State};

use crate::{App, Error};

/// Locked by every daemon that uses the library. Ollama passes over files beside its two folders.
const DAEMONS: &str = "cairn-daemons.lock";

impl App {
    /// Removes files of our own library that nobody needs, and with `partials` what is left of downloads that nobody
    /// goes on with; with `dry_run` it only tells.
    ///
    /// # Errors
    /// When a manifest cannot be read, so that nobody knows what is needed, or when the disk refuses.
    pub fn collect_garbage(&self, dry_run: bool, partials: bool) -> Result<Collected, Error> {
        let mut collected = self.collect_from_blobs(dry_run, partials)?;
        if self.catalog.own_library().state() == State::Present {
            match self.pulls.clear_leftovers(dry_run || !partials) {
                Ok(left) if partials => collected.removed.extend(left),
                Ok(left) => collected.kept.extend(left),
                Err(error) => tracing::warn!(%error, "what is left of our own downloads stays"),
            }
        }
        Ok(collected)
    }

    fn collect_from_blobs(&self, dry_run: bool, partials: bool) -> Result<Collected, Error> {
        let library = self.catalog.own_library();
        match library.state() {
            State::Absent(_) => Ok(Collected::default()),
            State::Present | State::Unreadable(_) => {
                let garbage = Garbage { now: self.clock.now(), dry_run, partials };
                let writer = LibraryWriter::open(library, &RealDisk)?.keeping(self.pulls.counted_on());
                Ok(writer.collect_garbage(garbage)?)
            }
        }
    }

    /// Says to other daemons that this one uses the library, and removes what programs left there that ended in the middle
    /// of their work, on a thread of its own: unless the user does not want that, another daemon uses the library too, or
    /// Ollama seems to be at work in it. Must be called inside a tokio runtime.
    pub(crate) fn clear_up(&self) -> Option<Presence> {
        let root = self.catalog.own_library().root();
        if self.catalog.own_library().state() != State::Present {
            return None;
        }
        let announced = Presence::announce(&root.join(DAEMONS));
        let presence = match announced {
            Ok(presence) => presence,
            Err(error) => {
                tracing::debug!(%error, "the library cannot be written to, and is not cleared up");
                return None;
            }
        };
        if !presence.was_alone() {
            tracing::debug!("another daemon uses the library, which is not cleared up");
        } else if self.settings.downloads.prunes {
            let app = self.clone();
            tokio::task::spawn_blocking(move || app.clear_up_now());
        }
        Some(presence)
    }

    fn clear_up_now(&self) {
        // What Ollama has fetched of a model has no manifest until the last of it is there, which may take hours; the rest
        // of it is being written to all the time.
        let is_at_work = |collected: Collected| {
            collected.kept.iter().any(|leftover| leftover.kind == LeftoverKind::Partial && leftover.young)
        };
        let collected = match self.collect_from_blobs(true, false).map(is_at_work) {
            Ok(true) => {
                tracing::debug!("another program fetches a model, and the library is not cleared up");
                return;
            }
            Ok(false) => self.collect_from_blobs(false, false),
            Err(error) => Err(error),
        };
        match collected {
            Ok(collected) if collected.removed.is_empty() => {}
            Ok(collected) => {
                let freed_bytes: u64 = collected.removed.iter().map(|leftover| leftover.size_bytes).sum();
                tracing::info!(files = collected.removed.len(), freed_bytes, "removed what no model needs");
            }
            Err(error) => tracing::warn!(%error, "the library is not cleared up"),
        }
    }
}
