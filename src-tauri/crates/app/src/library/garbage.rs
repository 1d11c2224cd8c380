//! Garbage: files of Cairn's library that no model needs. They are removed on request and at the start of the daemon.

use cairn_disk::{RealDisk, SharedLock};
use cairn_store::{Digest, GarbageKind, GcOptions, GcReport, LibraryState, LibraryWriter};

use crate::library::error::Error;
use crate::library::handle::{InUse, ModelLibrary};

/// Lock file of all daemons that use the library. Ollama ignores files next to its two folders.
const DAEMON_LOCK: &str = "cairn-daemons.lock";

impl ModelLibrary {
    /// Removes files of Cairn's library that neither a model nor a pull uses. With `dry_run` it only reports them.
    ///
    /// # Errors
    /// If a manifest cannot be read, because then the used files are unknown, or on a disk error.
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

    /// Whether Cairn's library exists and can be read.
    pub(crate) fn is_present(&self) -> bool {
        self.catalog.own_library().state() == LibraryState::Present
    }

    /// Announces to other daemons that this one uses the library, and removes leftovers of interrupted programs on a
    /// blocking thread. Skips the removal if the user disabled it, another daemon uses the library, or Ollama is
    /// downloading. Must be called inside a tokio runtime.
    pub(crate) fn clear_up(&self, in_use: impl Fn() -> Vec<Digest> + Send + Sync + 'static) -> Option<SharedLock> {
        let root = self.catalog.own_library().root();
        if !self.is_present() {
            return None;
        }
        let announced = SharedLock::acquire(&root.join(DAEMON_LOCK));
        let presence = match announced {
            Ok(presence) => presence,
            Err(error) => {
                tracing::debug!(%error, "cannot write to the library; skipping garbage collection");
                return None;
            }
        };
        if !presence.was_first() {
            tracing::debug!("another daemon uses the library; skipping garbage collection");
        } else if !self.settings.models.keep_unneeded {
            let library = self.clone();
            tokio::task::spawn_blocking(move || library.clear_up_now(&in_use));
        }
        Some(presence)
    }

    fn clear_up_now(&self, in_use: InUse<'_>) {
        // Ollama writes a manifest only after the last blob, which may take hours. A recently written partial file
        // means that a download is in progress.
        let is_downloading = |collected: GcReport| {
            collected.kept.iter().any(|leftover| leftover.kind == GarbageKind::Partial && leftover.is_recent)
        };
        let collected = match self.collect_garbage(true, false, in_use).map(is_downloading) {
            Ok(true) => {
                tracing::debug!("another program is downloading a model; skipping garbage collection");
                return;
            }
            Ok(false) => self.collect_garbage(false, false, in_use),
            Err(error) => Err(error),
        };
        match collected {
            Ok(collected) if collected.removed.is_empty() => {}
            Ok(collected) => {
                let freed_bytes: u64 = collected.removed.iter().map(|leftover| leftover.size_bytes).sum();
                tracing::info!(files = collected.removed.len(), freed_bytes, "removed garbage");
            }
            Err(error) => tracing::warn!(%error, "cannot collect garbage"),
        }
    }
}
