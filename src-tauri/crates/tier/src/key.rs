//! The unit in which prefixes are compared: one position of a sequence.

/// Content of one position, in 128 bits. Tokens and parts of images or sounds are compared the same way.
///
/// A token's key is its id, so its upper 96 bits are zero. A media position has a cryptographic content id; its upper
/// 96 bits are zero with probability 2^-96.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

impl Key {
    /// Returns the key of a text token.
    pub const fn token(id: u32) -> Self {
        Self(id as u128)
    }

    /// Returns the token id if this is the key of a token.
    pub const fn as_token(self) -> Option<u32> {
        if self.0 >> 32 == 0 { Some(self.0 as u32) } else { None }
    }

    /// Returns the key of a part of an image or a sound, from its 128-bit content id.
    pub const fn media(content: u128) -> Self {
        Self(content)
    }

    /// Returns the key of a part of an image or a sound: of everything that determines the rows of all its parts, and the part's number.
    pub fn part_of(content: &[&[u8]], part: u32) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cairn 2026-11 part of an image or a sound");
        for field in content {
            // The lengths make the encoding unambiguous.
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        hasher.update(&part.to_le_bytes());
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self::from_le_bytes(bytes)
    }

    /// Encodes the key in little-endian order, as it is hashed and stored.
    pub const fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Decodes a key that [`Key::to_le_bytes`] encoded.
    pub const fn from_le_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

impl From<u32> for Key {
    fn from(token: u32) -> Self {
        Self::token(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_parts_differ_with_content_and_number() {
        let key = Key::part_of(&[b"tower", b"pixels"], 3);
        assert_eq!(key, Key::part_of(&[b"tower", b"pixels"], 3), "equal content");
        assert_eq!(key.as_token(), None, "no token has this key");
        for (other, why) in [
            (Key::part_of(&[b"tower", b"pixels"], 4), "another part"),
            (Key::part_of(&[b"tower", b"pixelt"], 3), "other pixels"),
            (Key::part_of(&[b"towerp", b"ixels"], 3), "other borders"),
            (Key::part_of(&[b"tower"], 3), "fewer fields"),
        ] {
            assert_ne!(key, other, "{why}");
        }
    }
}
