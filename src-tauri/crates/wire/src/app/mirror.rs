//! `/app/mirror`: this machine as a mirror for others, and the mirrors that it uses.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// `GET /app/mirror`, and the response to changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorResponse {
    /// Whether other machines may read models here.
    pub shares: bool,
    /// Whether missing models are downloaded for clients.
    pub fetches: bool,
    /// Allowed origins, `host/namespace` each.
    pub origins: Vec<String>,
    /// This machine's public key.
    pub key: String,
    /// Fingerprint of the key, for comparison by users.
    pub fingerprint: String,
    /// Responses with a stored blob.
    pub hits: u64,
    /// Responses with a blob that was downloaded for this or another client.
    pub misses: u64,
    /// Responses with a stored manifest whose origin was unreachable.
    pub stale: u64,
    /// Bytes of blobs that were downloaded for clients.
    pub fetched_bytes: u64,
    /// Bytes of blobs that were sent, to all clients together.
    pub sent_bytes: u64,
    /// Clients since the daemon started; the one with most bytes is first.
    pub clients: Vec<MirrorClient>,
    /// Keys of peers for which missing models are downloaded.
    pub known: Vec<KnownKey>,
    /// Mirrors that this machine has joined.
    pub joined: Vec<KnownKey>,
    /// Peers on the local network, by name.
    pub nearby: Vec<FoundMachine>,
}

/// A machine that reads models here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct MirrorClient {
    pub address: String,
    pub requests: u64,
    pub refused: u64,
    pub open: u64,
    pub sent_bytes: u64,
    pub asked_at: Timestamp,
}

/// A peer on the local network, as it announces itself. The announcement is not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundMachine {
    /// Name of the machine.
    pub name: String,
    /// Address with the port.
    pub address: String,
    /// Version of Cairn.
    pub version: String,
    /// Announced fingerprint of the peer's key.
    pub fingerprint: String,
    /// Whether its key is trusted. An untrusted peer is used only for blobs whose digest is known.
    pub joined: bool,
    /// Whether the peer sent wrong bytes and is not used any more.
    pub dropped: bool,
    /// Time of the last announcement.
    pub seen_at: Timestamp,
    /// Bytes downloaded from the peer.
    pub got_bytes: u64,
}

/// A trusted key, with a name or the address of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct KnownKey {
    pub label: String,
    pub key: String,
    pub fingerprint: String,
}

/// Response to `POST /app/mirror/invite`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteResponse {
    /// Code to enter on the other machine.
    pub code: String,
    /// End of validity.
    pub until: Timestamp,
}

/// `POST /app/mirror/join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct JoinMirrorRequest {
    /// `http://nas:11434`.
    pub address: String,
    /// The code that the mirror shows.
    pub code: String,
}

/// `POST /app/mirror/allow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct AllowRequest {
    /// `ssh-ed25519 AAAA... name`.
    pub key: String,
}

/// `POST /app/mirror/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ForgetRequest {
    /// A label, a key or a fingerprint.
    pub which: String,
}
