//! The stock client's key, and how it signs for a token.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use signature::Signer;
use ssh_key::PrivateKey;
use ssh_key::private::Ed25519Keypair;

/// The SHA-256 of nothing in hex, in base64.
const EMPTY: &str = "ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==";

/// What lies in `~/.ollama/id_ed25519`.
pub struct Key {
    pair: PrivateKey,
    unix_seconds: u64,
    used: AtomicU64,
}

impl Key {
    /// The key of that number, whose owner's clock says so many seconds since 1970.
    #[must_use]
    pub fn numbered(number: u8, unix_seconds: u64) -> Self {
        let pair = PrivateKey::from(Ed25519Keypair::from_seed(&[number; 32]));
        Self { pair, unix_seconds, used: AtomicU64::new(0) }
    }

    /// `ssh-ed25519 AAAA...`.
    ///
    /// # Panics
    /// Never: every such key can be written.
    #[must_use]
    pub fn public_line(&self) -> String {
        self.pair.public_key().to_openssh().expect("every key can be written")
    }

    /// The parameters of a token server's address, sorted and escaped as Go writes them.
    #[must_use]
    pub fn query(&self, service: &str, scope: &str) -> String {
        let nonce = self.used.fetch_add(1, Ordering::Relaxed);
        let escaped = scope.replace(':', "%3A").replace('/', "%2F").replace(',', "%2C");
        format!("nonce=n{nonce}&scope={escaped}&service={service}&ts={}", self.unix_seconds)
    }

    /// The `Authorization` header for an address.
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
