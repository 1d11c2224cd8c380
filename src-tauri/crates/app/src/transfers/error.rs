//! Errors of transfers: pull, push, mirror, sign-in and trust.

use cairn_registry::{JoinError, KeyError, PeerDiscoveryError, PeerKeyError, PeerListError};
use cairn_store::NameError;

use super::login::LoginError;
use super::pull::PullError;
use super::push::PushError;
use crate::library;
use crate::values::excerpt;

/// Error of a transfer, or of a change to the list of trusted machines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model library refused or failed.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A pull failed.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// Another machine could not be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The key of this machine cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A text is not a key.
    #[error(transparent)]
    PeerKey(#[from] PeerKeyError),
    /// The list of trusted keys cannot be used.
    #[error(transparent)]
    PeerList(#[from] PeerListError),
    /// The local network cannot be searched.
    #[error(transparent)]
    Lan(#[from] PeerDiscoveryError),
    /// A push failed.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The source may not be used for another machine.
    #[error(
        "cannot use {what} for another machine: {why}; send the request on the machine that runs Cairn, or add the \
         registry to CAIRN_MIRROR_ORIGINS there"
    )]
    RemoteClientRefused {
        /// The registry or source.
        what: String,
        /// The cause.
        why: &'static str,
    },
    /// The search text is too long; the limit in characters.
    #[error("the search is too long: at most {0} characters")]
    LongQuery(usize),
    /// A login failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The download does not exist. Contains the id or name, as the client sent it.
    #[error("there is no download {:?}; run `cairn downloads` for the list", excerpt(.0))]
    NoDownload(String),
    /// The download is complete and can be neither stopped nor resumed.
    #[error("cannot change {0}: its download is done; run `cairn pull` to check for a newer version")]
    DownloadDone(String),
}
