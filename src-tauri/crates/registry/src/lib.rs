//! Models that come from elsewhere and go there: the registry protocol over the store, as a client and as a server.
//!
//! A registry keeps manifests by name and blobs by digest. This crate asks registries for both, brings blobs in through
//! downloads that survive anything, and publishes a model only when all of it is here and checked. Blobs can come from
//! any [`BlobSource`], because a digest proves what came; a name is resolved only by who may resolve it.
//!
//! Specifications: the OCI distribution specification 1.1, and what Ollama's client and registry do beside it.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod auth;
mod client;
mod discover;
mod download;
mod downloads;
#[cfg(test)]
mod fake;
mod nearby;
mod push;
#[cfg(test)]
mod served;
mod source;
mod sources;
mod trust;

pub use auth::{KeyError, KeyFile, Login, Logins, LoginsError, SignIn};
pub use client::{
    AddressError, Clock, ManifestBytes, Proxies, Reach, Registry, Transport, TransportConfig, TransportError,
    is_inside_network,
};
pub use discover::{Discovered, Hub, Shelf, Variant, catalogue};
pub use download::{BlobProgress, Config, DownloadError, Notice, Phase, Ready};
pub use downloads::{DownloadEvent, DownloadId, DownloadRow, Downloads, EventKind, FetchBlob, Priority, Subscription};
pub use nearby::{Announcement, Found, Lookout, LookoutError, Nearby, NearbyPeer, Sighting};
pub use push::{PushError, PushRules, PushStep, PushWatcher};
pub use source::{BlobSource, Body, Distrust, Opened, Pending, SourceError};
pub use sources::{
    HealthRules, ModelSources, Place, Resolved, SignInByHost, SourceEvent, SourceMemory, Sources, Trust,
};
pub use trust::{
    Gate, GateError, Invitation, JoinCode, JoinError, JoinProof, JoinRequest, Known, PeerKey, PeerKeyError, Roll,
    RollError, Seal, ask_to_join,
};
