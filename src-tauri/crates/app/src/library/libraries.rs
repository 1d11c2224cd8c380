//! The libraries: their state and disk usage.

use std::path::{Path, PathBuf};

use cairn_disk::{Disk, RealDisk};
use cairn_store::{DiskUsage, Library, LibraryRole, LibraryState};

use crate::library::handle::ModelLibrary;
use crate::settings::Origin;

/// State of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryInfo {
    /// Root folder.
    pub root: PathBuf,
    /// Role of the library.
    pub role: LibraryRole,
    /// Whether the library exists and can be read.
    pub state: LibraryState,
    /// Whether the absence is unexpected. Cairn's library is created with its first model, so its absence is expected
    /// unless the user set its path.
    pub missed: bool,
    /// Number of models.
    pub models: usize,
    /// Unreadable manifests, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// A library and its disk usage.
#[derive(Debug)]
pub struct LibraryUsage {
    /// The library.
    pub library: LibraryInfo,
    /// Disk usage; 0 if the library is absent.
    pub usage: DiskUsage,
    /// Free bytes of its disk; `None` if the system does not report them.
    pub free_bytes: Option<u64>,
}

impl ModelLibrary {
    /// Returns all libraries; Cairn's own is first.
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

    /// Returns the disk usage of all libraries. An unreadable library is reported and does not affect the others.
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

/// Free bytes on the disk of a folder, which may not exist yet.
fn free_bytes(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|folder| folder.exists()).and_then(|folder| RealDisk.free_bytes(folder).ok())
}
