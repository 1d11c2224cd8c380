//! The unit in which prefixes are compared: one position of a sequence.

/// What stands at one position, in 128 bits, so that a token and a part of an image or a sound are compared alike.
///
/// A token is its id, so its upper 96 bits are zero. A media position carries a cryptographic content id, which has all
/// of them zero once in 2^96 contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

impl Key {
    /// The key of a text token.
    pub const fn token(id: u32) -> Self {
        Self(id as u128)
    }

    /// The token's id, where the key is one.
    pub const fn as_token(self) -> Option<u32> {
        if self.0 >> 32 == 0 { Some(self.0 as u32) } else { None }
    }

    /// The key of a part of an image or a sound, from its 128-bit content id.
    pub const fn media(content: u128) -> Self {
        Self(content)
    }

    /// The form in which keys are hashed and stored: little-endian.
    pub const fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// What [`Key::to_le_bytes`] gave.
    pub const fn from_le_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}
