//! A mirror's word on a name: its signature over the name, the manifest's digest and the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairn_store::{Digest, ModelRef};
use signature::Signer;
use ssh_key::PrivateKey;

use super::PeerKey;
use crate::{KeyError, KeyFile};

/// How far the time of a signature may be from now, either way: clocks differ, and an old answer must not be played again.
const LIFE: Duration = Duration::from_secs(300);

/// A signed statement that a name means a manifest. Its text, `<unix seconds>:<base64>`, travels in the header
/// [`Seal::HEADER`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal(String);

impl Seal {
    /// Where it travels.
    pub const HEADER: &str = "cairn-signature";

    /// States it.
    ///
    /// # Errors
    /// Why there is no key.
    pub async fn state(key: &KeyFile, name: &ModelRef, digest: &Digest, now: SystemTime) -> Result<Self, KeyError> {
        Ok(Self::by(key.pair().await?, name, digest, now))
    }

    /// The same by the key itself.
    pub(crate) fn by(key: &PrivateKey, name: &ModelRef, digest: &Digest, now: SystemTime) -> Self {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = key.try_sign(statement(name, digest, seconds).as_bytes());
        // Keys are checked to be of the one kind that signs anything when they are read.
        let signature = signature.map(|signature| STANDARD.encode(signature.as_bytes())).unwrap_or_default();
        Self(format!("{seconds}:{signature}"))
    }

    /// One that came.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// As it travels.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Does it say, now and by that key, that the name means the manifest?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, key: &PeerKey, name: &ModelRef, digest: &Digest, now: SystemTime) -> Result<(), &'static str> {
        let (seconds, signature) = self.0.split_once(':').ok_or("its signature cannot be read")?;
        let seconds: u64 = seconds.parse().map_err(|_| "its signature cannot be read")?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if now.abs_diff(seconds) > LIFE.as_secs() {
            return Err("its signature is of another time; compare the clocks of both machines");
        }
        match key.signed(&statement(name, digest, seconds), signature) {
            true => Ok(()),
            false => Err("its signature is not by the key that was pinned when it was joined"),
        }
    }
}

/// The text that is signed. Its first line keeps it apart from everything else that the key signs.
fn statement(name: &ModelRef, digest: &Digest, seconds: u64) -> String {
    format!("cairn manifest 1\n{}\n{digest}\n{seconds}", name.full().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;

    #[tokio::test]
    async fn a_seal_is_for_one_name_one_digest_one_time_and_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let key_in = |name: &str| KeyFile::made_at(folder.path().join(name), Arc::new(RealDisk));
        let (mirror, other) = (key_in("a"), key_in("b"));
        let (pinned, wrong_key) = (mirror.peer_key().await.unwrap(), other.peer_key().await.unwrap());
        let (name, digest) = ("llama3".parse().unwrap(), Digest::of(b"m"));
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let seal = Seal::state(&mirror, &name, &digest, now).await.unwrap();
        let seal = Seal::from_text(seal.text());
        assert_eq!(seal.check(&pinned, &name, &digest, now), Ok(()), "as it was stated");
        let spelled = "LLAMA3".parse().unwrap();
        assert_eq!(seal.check(&pinned, &spelled, &digest, now + LIFE), Ok(()), "names differ in more than case");
        let check = |key: &PeerKey, name: &str, digest: &Digest, now: SystemTime, what: &str| {
            assert!(seal.check(key, &name.parse().unwrap(), digest, now).is_err(), "{what}");
        };
        check(&wrong_key, "llama3", &digest, now, "another key");
        check(&pinned, "llama3:8b", &digest, now, "another tag");
        check(&pinned, "hf.co/library/llama3", &digest, now, "another registry's");
        check(&pinned, "llama3", &Digest::of(b"n"), now, "another manifest");
        check(&pinned, "llama3", &digest, now + LIFE * 2, "an old one");
        check(&pinned, "llama3", &digest, now - LIFE * 2, "one of the future");
        for text in ["", "1", ":", "1800000000:", "1800000000:AAAA", "x:y"] {
            assert!(Seal::from_text(text).check(&pinned, &name, &digest, now).is_err(), "{text:?}");
        }
    }
}
