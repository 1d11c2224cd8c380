//! `/app/mirror`: this machine as a registry for others, and the mirrors that it uses itself.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// `GET /app/mirror`, and the answer to what changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorResponse {
    /// Whether other machines may read models here.
    pub shares: bool,
    /// Whether what is missing is fetched for clients.
    pub fetches: bool,
    /// From where, `host/namespace` each.
    pub origins: Vec<String>,
    /// This machine's public key.
    pub key: String,
    /// Its fingerprint, for people to compare.
    pub fingerprint: String,
    /// Answers with a blob that was here.
    pub hits: u64,
    /// Answers with a blob that was fetched for the client, or for another one at the time.
    pub misses: u64,
    /// Answers with a manifest whose origin could not be asked.
    pub stale: u64,
    /// Bytes of blobs that came from origins for clients.
    pub fetched_bytes: u64,
    /// Bytes of blobs that were sent, to all clients together.
    pub sent_bytes: u64,
    /// Who read models since the daemon started, the one that took most first.
    pub clients: Vec<MirrorClient>,
    /// Keys for whose owners models are fetched.
    pub known: Vec<KnownKey>,
    /// Mirrors that this machine joined.
    pub joined: Vec<KnownKey>,
    /// Machines that were found on the local network, by name.
    pub nearby: Vec<FoundMachine>,
}

/// A machine that reads models here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct MirrorClient {
    pub address: String,
    pub requests: u64,
    pub refused: u64,
    pub open: u64,
    pub sent_bytes: u64,
    pub asked_at: Timestamp,
}

/// A machine of the local network, as it announces itself. Nothing proves what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundMachine {
    /// Its name.
    pub name: String,
    /// Where it listens, with the port.
    pub address: String,
    /// Its version of this program.
    pub version: String,
    /// The fingerprint of the key that it says it has.
    pub fingerprint: String,
    /// That key is known here. Otherwise it is asked for contents whose digest is known, and for nothing else.
    pub joined: bool,
    /// It sent wrong bytes, and is not asked any more.
    pub dropped: bool,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Bytes that came from it.
    pub got_bytes: u64,
}

/// A key, and what it is called here: by a name, or by the address of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct KnownKey {
    pub label: String,
    pub key: String,
    pub fingerprint: String,
}

/// The answer to `POST /app/mirror/invite`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteResponse {
    /// To be typed at the other machine.
    pub code: String,
    /// Until when it is good.
    pub until: Timestamp,
}

/// `POST /app/mirror/join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinMirrorRequest {
    /// `http://nas:11434`.
    pub address: String,
    /// What the mirror shows.
    pub code: String,
}

/// `POST /app/mirror/allow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowRequest {
    /// `ssh-ed25519 AAAA... name`.
    pub key: String,
}

/// `POST /app/mirror/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetRequest {
    /// A label, a key or a fingerprint.
    pub which: String,
}
