//! Garbage: files of our library that nobody needs. They go when asked for, and when the daemon starts.

use cairn_disk::{RealDisk, SharedLock};
use cairn_store::{Digest, GarbageKind, GcOptions, GcReport, LibraryState, LibraryWriter};

use crate::library::error::Error;
use crate::library::handle::{InUse, ModelLibrary};

/// Locked by every daemon that uses the library. Ollama passes over files beside its two folders.
const DAEMONS: &str = "cairn-daemons.lock";

impl ModelLibrary {
    /// Removes files of our own library that neither a model nor a pull uses; with `dry_run` it only reports them.
    ///
    /// # Errors
    /// When a manifest cannot be read, so that it is unknown what is used, or when the disk refuses.
    pub(crate) fn collect_garbage(&self, dry_run: bool, partials: bool, in_use: InUse<'_>) -> Result<GcReport, Error> {
        let library = self.catalog.own_library();
        match library.state() {
            LibraryState::Absent(_) => Ok(GcReport::default()),
            LibraryState::Present | LibraryState::Unreadable(_) => {
                let garbage = GcOptions { now: self.clock.now(), dry_run, partials };
                let writer = LibraryWriter::open(library, &RealDisk)?.with_pinned_blobs(in_use());
                Ok(writer.collect_garbage(garbage)?)
            }
        }
    }

    /// Whether our own library exists and can be read.
    pub(crate) fn is_present(&self) -> bool {
        self.catalog.own_library().state() == LibraryState::Present
    }

    /// Says to other daemons that this one uses the library, and removes what programs left there that ended in the middle
    /// of their work, on a thread of its own: unless the user does not want that, another daemon uses the library too, or
    /// Ollama seems to be at work in it. Must be called inside a tokio runtime.
    pub(crate) fn clear_up(&self, in_use: impl Fn() -> Vec<Digest> + Send + Sync + 'static) -> Option<SharedLock> {
        let root = self.catalog.own_library().root();
        if !self.is_present() {
            return None;
        }
        let announced = SharedLock::acquire(&root.join(DAEMONS));
        let presence = match announced {
            Ok(presence) => presence,
            Err(error) => {
                tracing::debug!(%error, "the library cannot be written to, and is not cleared up");
                return None;
            }
        };
        if !presence.was_first() {
            tracing::debug!("another daemon uses the library, which is not cleared up");
        } else if !self.settings.models.keep_unneeded {
            let library = self.clone();
            tokio::task::spawn_blocking(move || library.clear_up_now(&in_use));
        }
        Some(presence)
    }

    fn clear_up_now(&self, in_use: InUse<'_>) {
        // What Ollama has fetched of a model has no manifest until the last of it is there, which may take hours; the rest
        // of it is being written to all the time.
        let is_at_work = |collected: GcReport| {
            collected.kept.iter().any(|leftover| leftover.kind == GarbageKind::Partial && leftover.is_recent)
        };
        let collected = match self.collect_garbage(true, false, in_use).map(is_at_work) {
            Ok(true) => {
                tracing::debug!("another program fetches a model, and the library is not cleared up");
                return;
            }
            Ok(false) => self.collect_garbage(false, false, in_use),
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
