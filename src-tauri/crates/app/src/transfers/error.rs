//! Errors of transfers: pull, push, mirror, sign-in and trust.

use cairn_registry::{JoinError, KeyError, PeerDiscoveryError, PeerKeyError, PeerListError};
use cairn_store::NameError;

use super::login::LoginError;
use super::pull::PullError;
use super::push::PushError;
use crate::library;

/// Why a transfer, or a change to who may transfer, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model library refused or failed.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A model did not arrive.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// Another machine was not joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// This machine's key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A text that is no key.
    #[error(transparent)]
    PeerKey(#[from] PeerKeyError),
    /// The list of known keys cannot be used.
    #[error(transparent)]
    PeerList(#[from] PeerListError),
    /// The local network cannot be watched.
    #[error(transparent)]
    Lan(#[from] PeerDiscoveryError),
    /// A model did not get to its registry.
    #[error(transparent)]
    Push(#[from] PushError),
    /// What is not asked for on another machine's behalf.
    #[error(
        "{what} is not asked for another machine: {why}; ask on the machine that Cairn runs on, or name the registry there in \
         CAIRN_MIRROR_ORIGINS"
    )]
    Beyond {
        /// The registry or source.
        what: String,
        /// Why it is not.
        why: &'static str,
    },
    /// More words than anybody searches for.
    #[error("a search has at most {0} characters")]
    LongQuery(usize),
    /// A name and a password for a registry were not kept.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// No download of that id or model, as it was sent.
    #[error("there is no download {0:?}; `cairn downloads` lists them")]
    NoDownload(String),
    /// A download that is over can neither be stopped nor go on.
    #[error("{0} is here already: its download is done; `cairn pull` looks for a newer version")]
    DownloadDone(String),
}
