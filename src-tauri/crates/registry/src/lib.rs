//! Transfer of models to and from registries: the registry protocol, downloads, uploads, mirrors and peers.
//!
//! A registry stores manifests by name and blobs by digest. This crate requests both and downloads blobs with resumable
//! downloads. Blobs can come from any [`BlobSource`], because the digest proves the content. A name is resolved only by
//! its own registry or by a trusted mirror.
//!
//! Specifications: the OCI distribution specification 1.1, and the extensions of Ollama's client and registry.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod auth;
mod client;
mod discover;
mod download;
mod downloads;
mod manifest_signature;
mod nearby;
mod peer_key;
mod push;
mod source;
mod sources;
mod trust;

#[cfg(test)]
mod tests;

pub use auth::{Credentials, KeyError, KeyFile, Login, LoginStore, LoginStoreError};
pub use client::{
    AddressError, Clock, FetchedManifest, Proxies, RedirectPolicy, Registry, Transport, TransportConfig,
    TransportError, has_private_address, is_public, tls_config,
};
pub use discover::{DiscoveredModel, Hub, ModelIndex, Variant, catalogue};
pub use download::{BlobProgress, CompletedBlob, DownloadConfig, DownloadError, DownloadNotice, Phase};
pub use downloads::{
    BlobRequest, DownloadEvent, DownloadEventKind, DownloadId, DownloadRow, Downloads, Priority, Subscription,
};
pub use manifest_signature::ManifestSignature;
pub use nearby::{Announcement, NearbyPeer, NearbyPeers, PeerDiscovery, PeerDiscoveryError, PeerEvent, PeerInfo};
pub use peer_key::{PeerKey, PeerKeyError};
pub use push::{PushConfig, PushError, PushStep, PushWatcher};
pub use source::{BlobSource, Body, BoxFuture, RangeResponse, SourceError, TlsError};
pub use sources::{
    BackoffConfig, CredentialsByHost, MirrorTrust, ModelSources, ResolvedManifest, SourceEntry, SourceEvent,
    SourceStateFile, Sources,
};
pub use trust::{
    Invitation, JoinCode, JoinError, JoinProof, JoinRequest, PeerList, PeerListError, TokenError, TokenIssuer,
    TrustedPeer, join_mirror,
};
