//! Transfers of models between this machine and others: pull, push, the mirror, sharing on the local network, sign-in
//! to registries, and which machines are trusted.
//!
//! [`Transfers`] is the handle.

mod beyond;
mod discover;
mod error;
mod handle;
mod login;
mod mirror;
mod nearby;
mod pull;
mod push;
mod share;
mod trust;

pub use cairn_registry::{
    DiscoveredModel, JoinError, JoinProof, JoinRequest, Login, ManifestSignature, ModelIndex, PeerKey, TokenError,
    TokenIssuer, TrustedPeer, Variant,
};
pub use discover::{Discover, Discovery, Hit};
pub use error::Error;
pub use handle::Transfers;
pub use login::{LoggedIn, LoginAttempt, LoginError};
pub use mirror::{BlobBytes, BlobReader, Client, MirrorCounts, Offer, OfferedManifest};
pub use nearby::FoundPeer;
pub use pull::{Pull, PullError, PullEvent, PullEvents, PullRow, PullState, PullStep, PulledBlob, check_name};
pub use push::{Push, PushError, PushEvent, pushed_to};
pub use share::{Peer, Peers, Reference, Serving, SharedBlob, SharedManifest};
pub use trust::Invited;
