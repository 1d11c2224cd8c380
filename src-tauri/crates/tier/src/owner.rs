//! Owners of chunks, such as a chat or a client.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Opaque name of an owner. An owner can delete the chunks that no other owner shares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Maximum length of a name.
    pub const MAX_BYTES: usize = 128;
    /// Maximum number of owners of one chunk. A client may send a new owner with each request, so the number is
    /// bounded. A chunk with this many owners is deleted together with the last of them.
    pub const MAX_PER_CHUNK: usize = 64;

    /// Returns the owner with this name, or `None` if the name is empty or too long.
    pub fn new(name: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES).contains(&name.len()).then(|| Self(Arc::from(name)))
    }

    /// Adds this owner unless the set is full. Returns whether the set changed.
    pub fn add_to(&self, owners: &mut BTreeSet<Self>) -> bool {
        owners.len() < Self::MAX_PER_CHUNK && owners.insert(self.clone())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Owner {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
