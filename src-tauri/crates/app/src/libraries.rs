//! The libraries themselves: which there are, whether they are there, and what they take.

use std::path::{Path, PathBuf};

use cairn_disk::{Disk, RealDisk};
use cairn_store::{Library, Role, State, Usage};

use crate::App;
use crate::settings::Origin;

/// A library, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryInfo {
    /// Its folder.
    pub root: PathBuf,
    /// What it is to its user.
    pub role: Role,
    /// Whether it is there.
    pub state: State,
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
    pub usage: Usage,
    /// Bytes that are free on its disk; `None` where that cannot be told.
    pub free_bytes: Option<u64>,
}

impl App {
    /// All libraries, the one that is written first.
    #[must_use]
    pub fn libraries(&self) -> Vec<LibraryInfo> {
        let named = self.settings.origin("OLLAMA_MODELS") != Some(Origin::Default);
        let survey = self.catalog.libraries().survey().into_iter();
        let info = survey.map(|surveyed| LibraryInfo {
            root: surveyed.library.root().to_owned(),
            role: surveyed.role,
            missed: matches!(surveyed.state, State::Absent(_)) && (surveyed.role != Role::Own || named),
            state: surveyed.state,
            models: surveyed.listing.models.len(),
            skipped: surveyed.listing.skipped.into_iter().map(|skipped| (skipped.path, skipped.reason)).collect(),
        });
        info.collect()
    }

    /// What every library takes on its disk. One that cannot be read says so, and hides no other.
    #[must_use]
    pub fn usage(&self) -> Vec<LibraryUsage> {
        let libraries = self.libraries().into_iter();
        let usage = libraries.map(|mut library| {
            let usage = match library.state {
                State::Present => Library::new(library.root.clone()).usage(self.clock.now()),
                State::Absent(_) | State::Unreadable(_) => Ok(Usage::default()),
            };
            let usage = usage.unwrap_or_else(|error| {
                library.state = State::Unreadable(error.to_string());
                Usage::default()
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
