//! Whose chunks: a chat or a client, by a name that means nothing here.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Somebody who may ask that all that is only theirs be deleted. An opaque name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Bytes that a name may have.
    pub const MAX_BYTES: usize = 128;
    /// How many owners of one thing are remembered. Clients may name another one with each request, and what so many share is nobody's
    /// own: it goes with the last of those.
    pub const MOST: usize = 64;

    /// The owner of this name; none where the name is empty or too long to store.
    pub fn new(name: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES).contains(&name.len()).then(|| Self(Arc::from(name)))
    }

    /// Becomes one of these owners, as long as there are not too many. Returns whether that is news.
    pub fn join(&self, owners: &mut BTreeSet<Self>) -> bool {
        owners.len() < Self::MOST && owners.insert(self.clone())
    }

    /// The name.
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
