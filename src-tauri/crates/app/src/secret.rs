//! Secrets that authorise requests: random texts, and the digests that are stored instead of them.

use std::fmt;

use cairn_store::Digest;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("cannot read random numbers from the system: {0}")]
pub struct RandomError(getrandom::Error);

/// Returns random bytes as hexadecimal digits.
///
/// # Errors
/// If the system gives no random numbers.
pub fn random_hex<const BYTES: usize>() -> Result<String, RandomError> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(RandomError)?;
    Ok(hex::encode(bytes))
}

/// SHA-256 digest of a secret, stored instead of the secret. The secrets are random, so a slow hash function would not
/// protect them better.
#[derive(Clone, Copy)]
pub struct SecretDigest(Digest);

impl SecretDigest {
    /// Hashes a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(Digest::of(secret.as_bytes()))
    }

    /// Whether `secret` is the hashed secret. Takes the same time for all texts of one length.
    #[must_use]
    pub fn is(&self, secret: &str) -> bool {
        self.matches(&Self::of(secret))
    }

    /// Whether both are digests of one secret. Takes the same time for all digests.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let pairs = self.0.as_bytes().iter().zip(other.0.as_bytes());
        pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }

    /// The digest as 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.hex()
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(..)")
    }
}

impl Serialize for SecretDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for SecretDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        format!("sha256:{hex}").parse().map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_matches_only_its_own_secret() {
        let digest = SecretDigest::of("abc");
        assert!(digest.is("abc"), "the same text");
        for other in ["", "ab", "abcd", "ABC"] {
            assert!(!digest.is(other), "{other:?}");
        }
    }

    #[test]
    fn digest_survives_json_and_is_not_printed() {
        let digest = SecretDigest::of("abc");
        let json = serde_json::to_string(&digest).unwrap();
        assert!(serde_json::from_str::<SecretDigest>(&json).unwrap().is("abc"), "{json}");
        assert!(serde_json::from_str::<SecretDigest>("\"12\"").is_err(), "a damaged digest");
        assert_eq!(format!("{digest:?}"), "SecretDigest(..)");
    }

    #[test]
    fn random_texts_have_two_digits_per_byte_and_differ() {
        let (first, second) = (random_hex::<16>().unwrap(), random_hex::<16>().unwrap());
        assert_eq!((first.len(), second.len()), (32, 32));
        assert_ne!(first, second);
    }
}
