//! SHA-256 digests, the names of contents.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid digest format")]
pub struct DigestError(pub String);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest that a hash over some bytes came to.
    #[must_use]
    pub fn of_hash(hash: sha2::Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// The digest itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex characters, without `sha256:`.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write;
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing into a string does not fail");
            text
        })
    }

    /// The name of the file that holds these contents.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }
}

/// Reads `sha256:` or `sha256-` and 64 hex characters of either case.
impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let invalid = || DigestError(text.to_owned());
        let hex = text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha256-")).ok_or_else(invalid)?;
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut bytes = [0_u8; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = hex.get(2 * index..2 * index + 2).ok_or_else(invalid)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
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

    /// The SHA-256 of nothing, from FIPS 180-4's test vectors.
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn reads_and_prints() {
        let digest = Digest::of(b"");
        assert_eq!(digest.hex(), EMPTY, "a known digest");
        for text in [format!("sha256:{EMPTY}"), format!("sha256-{}", EMPTY.to_uppercase())] {
            assert_eq!(text.parse(), Ok(digest), "{text}");
        }
        assert_eq!(digest.to_string(), format!("sha256:{EMPTY}"), "as JSON has it");
        assert_eq!(digest.file_name(), format!("sha256-{EMPTY}"), "as a library has it");
    }

    #[test]
    fn refuses() {
        let short = format!("sha256:{}", EMPTY.get(1..).unwrap());
        let (plus, odd) =
            (format!("sha256:+{}", EMPTY.get(1..).unwrap()), format!("sha256:é{}", EMPTY.get(2..).unwrap()));
        for text in ["", EMPTY, "md5:00", "sha256:../../../etc/passwd", &short, &plus, &odd] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
    }
}
