//! The unit in which prefixes are compared: one position of a sequence.

/// What stands at one position, in 128 bits, so that a token and a part of an image or a sound are compared alike.
///
/// A token is its id, so its upper 96 bits are zero. A media position will carry a cryptographic content id, which has all
/// of them zero once in 2^96 contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

impl Key {
    /// The key of a text token.
    pub const fn token(id: u32) -> Self {
        Self(id as u128)
    }
}
