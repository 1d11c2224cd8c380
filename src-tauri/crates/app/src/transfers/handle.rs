//! The handle of transfers. Clones share all state.

use std::sync::Arc;

use cairn_store::{Digest, GarbageFile, StagingError};

use super::mirror::Mirror;
use super::nearby::Lan;
use super::pull::Pulls;
use super::share::Peers;
use super::trust::Trust;
use crate::clock::Clock;
use crate::library::ModelLibrary;
use crate::settings::Settings;

/// All transfers of this daemon.
#[derive(Clone)]
pub struct Transfers {
    pub(super) pulls: Pulls,
    pub(super) mirror: Mirror,
    pub(super) trust: Arc<Trust>,
    pub(super) lan: Arc<Lan>,
    pub(super) peers: Peers,
    pub(super) library: ModelLibrary,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
}

impl Transfers {
    pub(crate) fn new(library: &ModelLibrary, settings: &Arc<Settings>, clock: &Clock, seed: u64) -> Self {
        let pulls = Pulls::new(library.folders(), settings, clock, seed);
        Self {
            mirror: Mirror::new(pulls.clone(), settings.sharing.clone()),
            pulls,
            trust: Arc::new(Trust::new(settings.places().data.join("mirror-clients.json"))),
            lan: Arc::default(),
            peers: Peers::default(),
            library: library.clone(),
            settings: Arc::clone(settings),
            clock: clock.clone(),
        }
    }

    /// Resumes the pulls of the daemon that ran before.
    pub(crate) fn restore(&self) {
        self.pulls.restore();
    }

    /// Digests that pulls in progress rely on.
    pub(crate) fn digests_in_use(&self) -> Vec<Digest> {
        self.pulls.digests_in_use()
    }

    /// Removes partial downloads that no pull resumes; with `dry_run` it only reports them.
    pub(crate) fn clear_leftovers(&self, dry_run: bool) -> Result<Vec<GarbageFile>, StagingError> {
        self.pulls.clear_leftovers(dry_run)
    }
}
