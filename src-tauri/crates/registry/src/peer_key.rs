//! The public key of a machine.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use signature::Verifier;
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{Algorithm, HashAlg, PublicKey, Signature};

/// An ed25519 public key. Its text form is an OpenSSH public key line without a comment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerKey([u8; 32]);

/// The text is not an ed25519 public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an ed25519 public key; one looks like: ssh-ed25519 AAAA... (the line in ~/.ollama/id_ed25519.pub)"
)]
pub struct PeerKeyError(String);

impl PeerKey {
    /// Parses the base64 field of an OpenSSH public key line, as clients send it in token requests.
    #[must_use]
    pub fn from_field(field: &str) -> Option<Self> {
        format!("ssh-ed25519 {field}").parse().ok()
    }

    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The fingerprint `SHA256:...`, as `ssh-keygen -l` shows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        PublicKey::from(KeyData::Ed25519(Ed25519PublicKey(self.0))).fingerprint(HashAlg::Sha256).to_string()
    }

    /// Whether `signature` (64 bytes in base64) is this key's signature of `text`.
    #[must_use]
    pub fn signed(&self, text: &str, signature: &str) -> bool {
        let Ok(bytes) = STANDARD.decode(signature) else { return false };
        let Ok(signature) = Signature::new(Algorithm::Ed25519, bytes) else { return false };
        Ed25519PublicKey(self.0).verify(text.as_bytes(), &signature).is_ok()
    }
}

impl FromStr for PeerKey {
    type Err = PeerKeyError;

    fn from_str(text: &str) -> Result<Self, PeerKeyError> {
        let read = PublicKey::from_openssh(text.trim()).ok();
        let key = read.as_ref().and_then(|key| key.key_data().ed25519());
        key.map(|key| Self(key.0)).ok_or_else(|| PeerKeyError(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for PeerKey {
    type Error = PeerKeyError;

    fn try_from(text: String) -> Result<Self, PeerKeyError> {
        text.parse()
    }
}

impl From<PeerKey> for String {
    fn from(key: PeerKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The wire format: algorithm name and key, each preceded by its length (RFC 8709, section 4).
        let mut wire = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20".to_vec();
        wire.extend_from_slice(&self.0);
        write!(f, "ssh-ed25519 {}", STANDARD.encode(wire))
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerKey({})", self.fingerprint())
    }
}
