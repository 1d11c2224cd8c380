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

    /// Encodes the key in little-endian order, as it is hashed and stored.
    pub const fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Decodes a key that [`Key::to_le_bytes`] encoded.
    pub const fn from_le_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}
