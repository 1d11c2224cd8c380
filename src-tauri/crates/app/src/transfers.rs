//! Transfers of models between this machine and others: pull, push, the mirror, sharing on the local network, sign-in
//! to registries, and which machines are trusted.
//!
//! [`Transfers`] is the handle.

mod discover;
mod downloading_blob;
mod error;
mod login;
mod mirror;
mod nearby;
mod pull;
mod push;
mod remote_clients;
mod share;
mod trust;
mod updates;

use std::sync::Arc;

use cairn_registry::Transport;
use cairn_store::{Digest, GarbageFile, StagingError};

use crate::clock::Clock;
use crate::library::ModelLibrary;
use crate::settings::Settings;
use mirror::Mirror;
use nearby::Lan;
use pull::Pulls;
use trust::Trust;

pub use cairn_registry::{
    DiscoveredModel, JoinError, JoinProof, JoinRequest, Login, ManifestSignature, ModelIndex, PeerKey, TokenError,
    TokenIssuer, TrustedPeer, Variant, tls_config,
};
pub use discover::{Discover, Discovery, Hit};
pub use error::Error;
pub use login::{LoggedIn, LoginAttempt, LoginError};
pub use mirror::{BlobBytes, BlobReader, Client, MirrorCounts, Offer, OfferedManifest};
pub use nearby::FoundPeer;
pub use pull::{Pull, PullError, PullEvent, PullEvents, PullRow, PullState, PullStep, PulledBlob, check_name};
pub use push::{Push, PushError, PushEvent, pushed_to};
pub use share::{Peer, Peers, Reference, Serving, SharedBlob, SharedManifest};
pub use trust::Invited;
pub use updates::{ModelUpdate, UpdateState};

/// All transfers of this daemon. Clones share all state.
#[derive(Clone)]
pub struct Transfers {
    pulls: Pulls,
    mirror: Mirror,
    trust: Arc<Trust>,
    lan: Arc<Lan>,
    peers: Peers,
    library: ModelLibrary,
    settings: Arc<Settings>,
    clock: Clock,
}

impl Transfers {
    pub(crate) fn new(library: &ModelLibrary, settings: &Arc<Settings>, clock: &Clock, seed: u64) -> Self {
        let pulls = Pulls::new(library, settings, clock, seed);
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

    /// The transport of all connections to other machines. Blocks on first use to load the system's certificates.
    pub(crate) fn transport(&self) -> Result<Transport, PullError> {
        self.pulls.registry_access().transport()
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
