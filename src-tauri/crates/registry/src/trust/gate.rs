//! The token server of a mirror: a known key's owner signs for a token, as Ollama's own clients do for its registry.
//!
//! What is signed is the method, the complete address with a time and a random number in it, and the digest of an empty
//! body. A signature is good for a few minutes and once; a token for an hour.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::PeerKey;
use crate::auth::EMPTY_BODY;

/// How far the time of a signature may be from now.
const SIGNATURE_LIFE: Duration = Duration::from_secs(300);
/// How long a token is good.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// Tokens, and signatures, that are remembered.
const MAX_KEPT: usize = 4096;

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No signature, or none that can be read.
    #[error("a token wants a signature, as Ollama's clients make it")]
    Unsigned,
    /// The signature is not by that key, over that address.
    #[error("the signature is wrong")]
    Wrong,
    /// The signature is of another time, or was used before.
    #[error("the signature is old; compare the clocks of both machines")]
    Old,
    /// Nobody here knows the key.
    #[error("the key is not known here; `cairn mirror allow \"{0}\"` at the mirror lets it in")]
    Stranger(PeerKey),
    /// The system gave no random numbers.
    #[error("no random numbers")]
    Random,
}

/// Who was let in.
#[derive(Debug, Default)]
pub struct Gate {
    /// Each begins with its owner's key.
    tokens: Mutex<HashMap<String, SystemTime>>,
    /// Signatures that were used, and when they would have become too old.
    used: Mutex<HashMap<String, SystemTime>>,
}

impl Gate {
    /// How long the tokens of [`Gate::enter`] are good.
    pub const TOKEN_LIFE: Duration = TOKEN_LIFE;

    /// A token for whoever signed `url`, where `is_known` knows the key. `authorization` is the header's text.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn enter(
        &self,
        url: &str,
        authorization: &str,
        now: SystemTime,
        is_known: impl FnOnce(&PeerKey) -> bool,
    ) -> Result<String, GateError> {
        let (key, signature) = authorization.split_once(':').ok_or(GateError::Unsigned)?;
        let key = PeerKey::from_field(key).ok_or(GateError::Unsigned)?;
        if !key.signed(&format!("GET,{url},{EMPTY_BODY}"), signature) {
            return Err(GateError::Wrong);
        }
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let signed_at = query.split('&').find_map(|pair| pair.strip_prefix("ts=")?.parse::<u64>().ok());
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if signed_at.is_none_or(|at| at.abs_diff(seconds) > SIGNATURE_LIFE.as_secs()) {
            return Err(GateError::Old);
        }
        if !is_known(&key) {
            return Err(GateError::Stranger(key));
        }
        // Twice the life, because a signature may be of the future.
        if !remember(&self.used, signature.to_owned(), now, SIGNATURE_LIFE * 2) {
            return Err(GateError::Old);
        }
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|_| GateError::Random)?;
        let token = format!("{}.{}", hex(key.as_bytes()), hex(&random));
        remember(&self.tokens, token.clone(), now, TOKEN_LIFE);
        Ok(token)
    }

    /// Lets nobody in any more but the owners of these keys.
    pub fn keep_only(&self, keys: &[PeerKey]) {
        let keys: Vec<String> = keys.iter().map(|key| hex(key.as_bytes())).collect();
        lock(&self.tokens).retain(|token, _| keys.iter().any(|key| token.starts_with(key)));
    }

    /// Is that a token which was given out and is still good?
    #[must_use]
    pub fn admits(&self, token: &str, now: SystemTime) -> bool {
        lock(&self.tokens).get(token).is_some_and(|until| now < *until)
    }
}

/// Adds a text for a while; false where it is there. When there are too many, the oldest go.
fn remember(texts: &Mutex<HashMap<String, SystemTime>>, text: String, now: SystemTime, life: Duration) -> bool {
    let mut texts = lock(texts);
    texts.retain(|_, until| now < *until);
    if texts.len() >= MAX_KEPT
        && let Some(oldest) = texts.iter().min_by_key(|(_, until)| **until).map(|(text, _)| text.clone())
    {
        texts.remove(&oldest);
    }
    texts.insert(text, now + life).is_none()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;
    use crate::KeyFile;

    #[tokio::test]
    async fn a_signature_opens_the_gate_once_for_a_known_key() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyFile::made_at(folder.path().join("k"), Arc::new(RealDisk));
        let known = key.peer_key().await.unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let url = "http://nas:11434/v2/token?nonce=abc&scope=repository%3Aa%2Fb%3Apull&service=nas&ts=1800000000";
        let signed = key.sign(format!("GET,{url},{EMPTY_BODY}")).await.unwrap();
        let gate = Gate::default();
        let enter =
            |url: &str, signed: &str, now, knows: bool| gate.enter(url, signed, now, |key| knows && *key == known);
        assert_eq!(enter(url, &signed, now, false), Err(GateError::Stranger(known)), "an unknown key");
        assert_eq!(enter(&url.replace("nas", "bad"), &signed, now, true), Err(GateError::Wrong), "another address");
        assert_eq!(enter(url, &signed, now + SIGNATURE_LIFE * 2, true), Err(GateError::Old), "much later");
        let token = enter(url, &signed, now, true).expect("it is right, new and known");
        assert_eq!(enter(url, &signed, now, true), Err(GateError::Old), "once");
        for unsigned in ["", "a", "a:b", "Bearer x:y"] {
            assert_eq!(enter(url, unsigned, now, true), Err(GateError::Unsigned), "{unsigned:?}");
        }
        assert!(gate.admits(&token, now) && !gate.admits(&token, now + TOKEN_LIFE), "for an hour");
        assert!(!gate.admits("", now) && !gate.admits(&token[1..], now), "nothing else");
        gate.keep_only(&[known]);
        assert!(gate.admits(&token, now), "its owner is still known");
        gate.keep_only(&[]);
        assert!(!gate.admits(&token, now), "whoever is forgotten is out at once, and not when the hour is over");
    }
}
