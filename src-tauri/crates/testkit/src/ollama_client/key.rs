//! The key of Ollama's client, and its signatures of token requests.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use signature::Signer;
use ssh_key::PrivateKey;
use ssh_key::private::Ed25519Keypair;

/// SHA-256 of the empty string, in hex, in base64.
const EMPTY: &str = "ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==";

/// The key in `~/.ollama/id_ed25519`, with a fixed clock.
pub struct ClientKey {
    pair: PrivateKey,
    unix_seconds: u64,
    next_nonce: AtomicU64,
}

impl ClientKey {
    /// Creates a key from a number. `unix_seconds` is the client's clock.
    #[must_use]
    pub fn from_number(number: u8, unix_seconds: u64) -> Self {
        let pair = PrivateKey::from(Ed25519Keypair::from_seed(&[number; 32]));
        Self { pair, unix_seconds, next_nonce: AtomicU64::new(0) }
    }

    /// Returns the public key as `ssh-ed25519 AAAA...`.
    ///
    /// # Panics
    /// Never: every such key can be encoded.
    #[must_use]
    pub fn public_line(&self) -> String {
        self.pair.public_key().to_openssh().expect("every key can be encoded")
    }

    /// Returns the query of a token request, sorted and escaped as in Go.
    #[must_use]
    pub fn token_query(&self, service: &str, scope: &str) -> String {
        let nonce = self.next_nonce.fetch_add(1, Ordering::Relaxed);
        let escaped = scope.replace(':', "%3A").replace('/', "%2F").replace(',', "%2C");
        format!("nonce=n{nonce}&scope={escaped}&service={service}&ts={}", self.unix_seconds)
    }

    /// Returns the `Authorization` header of a token request.
    ///
    /// # Panics
    /// Never: the key signs every text.
    #[must_use]
    pub fn authorization(&self, url: &str) -> String {
        let signature = self.pair.try_sign(format!("GET,{url},{EMPTY}").as_bytes()).expect("the key signs every text");
        let line = self.public_line();
        let field = line.split(' ').nth(1).unwrap_or_default();
        format!("{field}:{}", STANDARD.encode(signature.as_bytes()))
    }
}
