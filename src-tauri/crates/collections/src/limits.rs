//! Limits of collections.

/// Most chunks of a collection. The vectors of so many are compared in a fraction of a second.
pub const MAX_CHUNKS: u64 = 100_000;
/// Most documents of a collection.
pub const MAX_DOCUMENTS: u64 = 1_000;
/// Most bytes of text of a collection.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Most collections.
pub const MAX_COLLECTIONS: u64 = 1_000;
/// Longest name of a collection.
pub const MAX_NAME_CHARS: usize = 200;
