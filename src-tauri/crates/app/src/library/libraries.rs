//! The libraries themselves: which there are, whether they are there, and what they take.

use std::path::{Path, PathBuf};

use cairn_disk::{Disk, RealDisk};
use cairn_store::{DiskUsage, Library, LibraryRole, LibraryState};

use crate::library::handle::ModelLibrary;
use crate::settings::Origin;

/// A library, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryInfo {
    /// Its folder.
    pub root: PathBuf,
    /// What it is to its user.
    pub role: LibraryRole,
    /// Whether it is there.
    pub state: LibraryState,
    /// Whether its absence is news. Our own library is made with its first model, so before that it is none, unless the
    /// user said where it is.
    pub missed: bool,
    /// Models in it.
    pub models: usize,
    /// Manifests in it that cannot be read, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// A library, and what it takes.
#[derive(Debug)]
pub struct LibraryUsage {
    /// Which.
    pub library: LibraryInfo,
    /// What it takes; nothing unless it is there.
    pub usage: DiskUsage,
    /// Bytes that are free on its disk; `None` where that cannot be told.
    pub free_bytes: Option<u64>,
}

impl ModelLibrary {
    /// All libraries, the one that is written first.
    #[must_use]
    pub fn libraries(&self) -> Vec<LibraryInfo> {
        let named = self.settings.origin("OLLAMA_MODELS") != Some(Origin::Default);
        let snapshots = self.catalog.libraries().snapshots().into_iter();
        let info = snapshots.map(|snapshot| LibraryInfo {
            root: snapshot.library.root().to_owned(),
            role: snapshot.role,
            missed: matches!(snapshot.state, LibraryState::Absent(_)) && (snapshot.role != LibraryRole::Own || named),
            state: snapshot.state,
            models: snapshot.listing.models.len(),
            skipped: snapshot.listing.skipped.into_iter().map(|skipped| (skipped.path, skipped.reason)).collect(),
        });
        info.collect()
    }

    /// What every library takes on its disk. One that cannot be read says so, and hides no other.
    #[must_use]
    pub fn usage(&self) -> Vec<LibraryUsage> {
        let libraries = self.libraries().into_iter();
        let usage = libraries.map(|mut library| {
            let usage = match library.state {
                LibraryState::Present => Library::new(library.root.clone()).usage(self.clock.now()),
                LibraryState::Absent(_) | LibraryState::Unreadable(_) => Ok(DiskUsage::default()),
            };
            let usage = usage.unwrap_or_else(|error| {
                library.state = LibraryState::Unreadable(error.to_string());
                DiskUsage::default()
            });
            let free_bytes = free_bytes(&library.root);
            LibraryUsage { library, usage, free_bytes }
        });
        usage.collect()
    }
}

/// Free space where a folder is, or would be made.
fn free_bytes(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|folder| folder.exists()).and_then(|folder| RealDisk.free_bytes(folder).ok())
}
