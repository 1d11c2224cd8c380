//! The token server of a mirror: a client signs its token request with a trusted key, as Ollama's clients do.
//!
//! The signature covers the method, the complete URL (with a timestamp and a nonce) and the digest of an empty body. A
//! signature is valid for a few minutes and can be used once. A token is valid for an hour.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::PeerKey;
use crate::client::EMPTY_BODY;

/// Maximum difference between the timestamp of a signature and the current time.
const SIGNATURE_LIFE: Duration = Duration::from_secs(300);
/// Lifetime of a token.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// Maximum number of stored tokens, and of stored signatures.
const MAX_ENTRIES: usize = 4096;

/// Error of a token request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The signature is missing or malformed.
    #[error("missing signature: a token request must be signed, as Ollama's clients do")]
    MissingSignature,
    /// The signature does not match the key and the URL.
    #[error("invalid signature")]
    InvalidSignature,
    /// The timestamp is too far from now, or the signature was used before.
    #[error("signature expired or already used; compare the clocks of both machines")]
    ExpiredSignature,
    /// The key is not trusted.
    #[error("unknown key; to allow it, run `cairn mirror allow \"{0}\"` at the mirror")]
    UnknownKey(PeerKey),
    /// The system returned no random numbers.
    #[error("no random numbers")]
    Random,
}

/// Issues and validates tokens.
#[derive(Debug, Default)]
pub struct TokenIssuer {
    /// Expiry time by token. A token begins with the hex key of its owner.
    tokens: Mutex<HashMap<String, SystemTime>>,
    /// Expiry time by used signature.
    used_signatures: Mutex<HashMap<String, SystemTime>>,
}

impl TokenIssuer {
    /// Lifetime of the tokens of [`TokenIssuer::issue`].
    pub const TOKEN_LIFE: Duration = TOKEN_LIFE;

    /// Issues a token if `url` was signed with a key for which `is_trusted` is true. `authorization` is the header's value.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn issue(
        &self,
        url: &str,
        authorization: &str,
        now: SystemTime,
        is_trusted: impl FnOnce(&PeerKey) -> bool,
    ) -> Result<String, TokenError> {
        let (key, signature) = authorization.split_once(':').ok_or(TokenError::MissingSignature)?;
        let key = PeerKey::from_field(key).ok_or(TokenError::MissingSignature)?;
        if !key.signed(&format!("GET,{url},{EMPTY_BODY}"), signature) {
            return Err(TokenError::InvalidSignature);
        }
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let signed_at = query.split('&').find_map(|pair| pair.strip_prefix("ts=")?.parse::<u64>().ok());
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if signed_at.is_none_or(|at| at.abs_diff(seconds) > SIGNATURE_LIFE.as_secs()) {
            return Err(TokenError::ExpiredSignature);
        }
        if !is_trusted(&key) {
            return Err(TokenError::UnknownKey(key));
        }
        // Twice the lifetime, because the timestamp may be in the future.
        if !remember(&self.used_signatures, signature.to_owned(), now, SIGNATURE_LIFE * 2) {
            return Err(TokenError::ExpiredSignature);
        }
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|_| TokenError::Random)?;
        let token = format!("{}.{}", hex::encode(key.as_bytes()), hex::encode(random));
        remember(&self.tokens, token.clone(), now, TOKEN_LIFE);
        Ok(token)
    }

    /// Revokes all tokens except those of these keys.
    pub fn retain_keys(&self, keys: &[PeerKey]) {
        let keys: Vec<String> = keys.iter().map(|key| hex::encode(key.as_bytes())).collect();
        self.tokens.lock().retain(|token, _| keys.iter().any(|key| token.starts_with(key)));
    }

    /// Whether this token was issued and has not expired.
    #[must_use]
    pub fn is_valid(&self, token: &str, now: SystemTime) -> bool {
        self.tokens.lock().get(token).is_some_and(|until| now < *until)
    }
}

/// Inserts a text with a lifetime. Returns false if it is already present. If the map is full, removes the oldest entry.
fn remember(texts: &Mutex<HashMap<String, SystemTime>>, text: String, now: SystemTime, life: Duration) -> bool {
    let mut texts = texts.lock();
    texts.retain(|_, until| now < *until);
    if texts.len() >= MAX_ENTRIES
        && let Some(oldest) = texts.iter().min_by_key(|(_, until)| **until).map(|(text, _)| text.clone())
    {
        texts.remove(&oldest);
    }
    texts.insert(text, now + life).is_none()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;
    use crate::KeyFile;

    #[tokio::test]
    async fn signature_yields_one_token_for_trusted_key() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyFile::create_if_missing(folder.path().join("k"), Arc::new(RealDisk));
        let known = key.peer_key().await.unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let url = "http://nas:11434/v2/token?nonce=abc&scope=repository%3Aa%2Fb%3Apull&service=nas&ts=1800000000";
        let signed = key.sign(format!("GET,{url},{EMPTY_BODY}")).await.unwrap();
        let token_issuer = TokenIssuer::default();
        let enter = |url: &str, signed: &str, now, trusted: bool| {
            token_issuer.issue(url, signed, now, |key| trusted && *key == known)
        };
        assert_eq!(enter(url, &signed, now, false), Err(TokenError::UnknownKey(known)), "an unknown key");
        assert_eq!(
            enter(&url.replace("nas", "bad"), &signed, now, true),
            Err(TokenError::InvalidSignature),
            "another address"
        );
        assert_eq!(
            enter(url, &signed, now + SIGNATURE_LIFE * 2, true),
            Err(TokenError::ExpiredSignature),
            "expired timestamp"
        );
        let token = enter(url, &signed, now, true).expect("a valid, fresh signature of a trusted key");
        assert_eq!(enter(url, &signed, now, true), Err(TokenError::ExpiredSignature), "a signature can be used once");
        for unsigned in ["", "a", "a:b", "Bearer x:y"] {
            assert_eq!(enter(url, unsigned, now, true), Err(TokenError::MissingSignature), "{unsigned:?}");
        }
        assert!(
            token_issuer.is_valid(&token, now) && !token_issuer.is_valid(&token, now + TOKEN_LIFE),
            "a token is valid for an hour"
        );
        assert!(
            !token_issuer.is_valid("", now) && !token_issuer.is_valid(&token[1..], now),
            "other texts are not tokens"
        );
        token_issuer.retain_keys(&[known]);
        assert!(token_issuer.is_valid(&token, now), "its owner is still trusted");
        token_issuer.retain_keys(&[]);
        assert!(!token_issuer.is_valid(&token, now), "removing a key revokes its tokens immediately");
    }
}
