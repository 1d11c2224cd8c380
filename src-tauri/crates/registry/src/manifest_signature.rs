//! A mirror's signature over a model name, the digest of its manifest, and the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairn_store::{Digest, ModelRef};
use signature::Signer;
use ssh_key::PrivateKey;

use crate::{KeyError, KeyFile, PeerKey};

/// Maximum difference between the timestamp and now, either way: clocks differ, and old responses must not be replayed.
const LIFE: Duration = Duration::from_secs(300);

/// Signature that binds a model name to a manifest. Its text, `<unix seconds>:<base64>`, is sent in the header
/// [`ManifestSignature::HEADER`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestSignature(String);

impl ManifestSignature {
    /// The name of the response header.
    pub const HEADER: &str = "cairn-signature";

    /// Signs with this machine's key.
    ///
    /// # Errors
    /// If the key is not available.
    pub async fn sign(key: &KeyFile, name: &ModelRef, digest: &Digest, now: SystemTime) -> Result<Self, KeyError> {
        Ok(Self::sign_with(key.pair().await?, name, digest, now))
    }

    /// Signs with a private key.
    pub(crate) fn sign_with(key: &PrivateKey, name: &ModelRef, digest: &Digest, now: SystemTime) -> Self {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = key.try_sign(statement(name, digest, seconds).as_bytes());
        // Only ed25519 keys are loaded; they can sign any text.
        let signature = signature.map(|signature| STANDARD.encode(signature.as_bytes())).unwrap_or_default();
        Self(format!("{seconds}:{signature}"))
    }

    /// Wraps the value of a header. Nothing is checked until [`Self::verify`].
    #[must_use]
    pub fn from_header(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The header's value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Verifies the signature and its timestamp.
    ///
    /// # Errors
    /// Why the signature is invalid.
    pub fn verify(&self, key: &PeerKey, name: &ModelRef, digest: &Digest, now: SystemTime) -> Result<(), &'static str> {
        let (seconds, signature) = self.0.split_once(':').ok_or("malformed manifest signature")?;
        let seconds: u64 = seconds.parse().map_err(|_| "malformed manifest signature")?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if now.abs_diff(seconds) > LIFE.as_secs() {
            return Err("manifest signature expired; compare the clocks of both machines");
        }
        match key.signed(&statement(name, digest, seconds), signature) {
            true => Ok(()),
            false => Err("manifest signature does not match the key that was pinned at joining"),
        }
    }
}

/// The signed text. Its first line separates it from other texts that the key signs.
fn statement(name: &ModelRef, digest: &Digest, seconds: u64) -> String {
    format!("cairn manifest 1\n{}\n{digest}\n{seconds}", name.full().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;

    #[tokio::test]
    async fn signature_is_bound_to_name_digest_time_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let key_in = |name: &str| KeyFile::create_if_missing(folder.path().join(name), Arc::new(RealDisk));
        let (mirror, other) = (key_in("a"), key_in("b"));
        let (pinned, wrong_key) = (mirror.peer_key().await.unwrap(), other.peer_key().await.unwrap());
        let (name, digest) = ("llama3".parse().unwrap(), Digest::of(b"m"));
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let signature = ManifestSignature::sign(&mirror, &name, &digest, now).await.unwrap();
        let signature = ManifestSignature::from_header(signature.as_str());
        assert_eq!(signature.verify(&pinned, &name, &digest, now), Ok(()), "the signed values");
        let spelled = "LLAMA3".parse().unwrap();
        assert_eq!(signature.verify(&pinned, &spelled, &digest, now + LIFE), Ok(()), "names are compared without case");
        let check = |key: &PeerKey, name: &str, digest: &Digest, now: SystemTime, what: &str| {
            assert!(signature.verify(key, &name.parse().unwrap(), digest, now).is_err(), "{what}");
        };
        check(&wrong_key, "llama3", &digest, now, "another key");
        check(&pinned, "llama3:8b", &digest, now, "another tag");
        check(&pinned, "hf.co/library/llama3", &digest, now, "another registry's");
        check(&pinned, "llama3", &Digest::of(b"n"), now, "another manifest");
        check(&pinned, "llama3", &digest, now + LIFE * 2, "an old one");
        check(&pinned, "llama3", &digest, now - LIFE * 2, "one of the future");
        for text in ["", "1", ":", "1800000000:", "1800000000:AAAA", "x:y"] {
            assert!(ManifestSignature::from_header(text).verify(&pinned, &name, &digest, now).is_err(), "{text:?}");
        }
    }
}
