//! SHA-256 digests, which name blobs.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;

/// SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid digest format")]
pub struct DigestError(pub String);

impl Digest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Finishes a hash computation.
    #[must_use]
    pub fn of_hash(hash: sha2::Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// Returns the raw digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns 64 lower-case hex characters, without `sha256:`.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Returns the file name of the blob, `sha256-<hex>`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }
}

/// Parses `sha256:` or `sha256-` and 64 hex characters of either case.
impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let invalid = || DigestError(text.to_owned());
        let hex = text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha256-")).ok_or_else(invalid)?;
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(hex, &mut bytes).map_err(|_| invalid())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-256 of no bytes, from FIPS 180-4's test vectors.
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digest_is_parsed_and_formatted() {
        let digest = Digest::of(b"");
        assert_eq!(digest.hex(), EMPTY, "test vector");
        for text in [format!("sha256:{EMPTY}"), format!("sha256-{}", EMPTY.to_uppercase())] {
            assert_eq!(text.parse(), Ok(digest), "{text}");
        }
        assert_eq!(digest.to_string(), format!("sha256:{EMPTY}"), "format in JSON");
        assert_eq!(digest.file_name(), format!("sha256-{EMPTY}"), "format in a library");
    }

    #[test]
    fn invalid_digests_are_rejected() {
        let short = format!("sha256:{}", EMPTY.get(1..).unwrap());
        let (plus, non_ascii) =
            (format!("sha256:+{}", EMPTY.get(1..).unwrap()), format!("sha256:é{}", EMPTY.get(2..).unwrap()));
        for text in ["", EMPTY, "md5:00", "sha256:../../../etc/passwd", &short, &plus, &non_ascii] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
    }
}
