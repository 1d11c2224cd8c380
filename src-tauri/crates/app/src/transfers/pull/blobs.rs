//! The blobs of one pull, with an index by digest and the order of their changes.
//!
//! A manifest may have thousands of layers. So no lookup and no watcher goes through all blobs for each change.

use std::collections::{BTreeMap, HashMap};

use cairn_store::Digest;

/// Progress of one blob of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledBlob {
    /// The blob.
    pub digest: Digest,
    /// Size of the blob.
    pub size_bytes: u64,
    /// Bytes that are on this machine.
    pub held_bytes: u64,
    /// Current download speed.
    pub bytes_per_s: u64,
    /// Host of the source.
    pub host: Option<String>,
    /// Whether the blob is published in the library. Discarding the pull does not remove a published blob.
    pub published: bool,
}

/// Blobs in the order of their downloads. A digest occurs once.
#[derive(Default)]
pub(super) struct Blobs {
    list: Vec<PulledBlob>,
    /// Positions in `list`.
    index: HashMap<Digest, usize>,
    /// Numbers of the last changes, by position.
    numbers: Vec<u64>,
    /// Positions by the number of their last change.
    changes: BTreeMap<u64, usize>,
    last_number: u64,
}

impl Blobs {
    /// Replaces all blobs and returns the previous ones. All new blobs count as changed, in their order.
    pub(super) fn replace(&mut self, list: Vec<PulledBlob>) -> Vec<PulledBlob> {
        let first = self.last_number + 1;
        self.last_number += list.len() as u64;
        self.index = list.iter().enumerate().map(|(position, blob)| (blob.digest, position)).collect();
        self.numbers = (first..).take(list.len()).collect();
        self.changes = (first..).zip(0..list.len()).collect();
        std::mem::replace(&mut self.list, list)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, PulledBlob> {
        self.list.iter()
    }

    /// Iterates over all blobs for changes that watchers do not see as progress.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, PulledBlob> {
        self.list.iter_mut()
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<&PulledBlob> {
        self.index.get(digest).and_then(|position| self.list.get(*position))
    }

    pub(super) fn contains(&self, digest: &Digest) -> bool {
        self.index.contains_key(digest)
    }

    /// Updates a blob if there is one of this digest. It counts as changed if its held bytes change.
    pub(super) fn update(&mut self, digest: &Digest, update: impl FnOnce(&mut PulledBlob)) {
        let Some(position) = self.index.get(digest).copied() else { return };
        let (Some(blob), Some(number)) = (self.list.get_mut(position), self.numbers.get_mut(position)) else { return };
        let before = blob.held_bytes;
        update(blob);
        if blob.held_bytes != before {
            self.changes.remove(number);
            self.last_number += 1;
            *number = self.last_number;
            self.changes.insert(*number, position);
        }
    }

    /// Returns the first blob that changed after the change `number`, and the number of its last change.
    pub(super) fn next_change(&self, number: u64) -> Option<(u64, &PulledBlob)> {
        let (number, position) = self.changes.range(number + 1..).next()?;
        Some((*number, self.list.get(*position)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(text: &str) -> PulledBlob {
        let digest = Digest::of(text.as_bytes());
        PulledBlob { digest, size_bytes: 9, held_bytes: 0, bytes_per_s: 0, host: None, published: false }
    }

    /// Returns the held bytes of all blobs that changed after `number`, and the number of the last change.
    fn changes(blobs: &Blobs, mut number: u64) -> (Vec<u64>, u64) {
        let mut held = Vec::new();
        while let Some((next, blob)) = blobs.next_change(number) {
            held.push(blob.held_bytes);
            number = next;
        }
        (held, number)
    }

    #[test]
    fn changes_are_listed_once_in_their_order() {
        let mut blobs = Blobs::default();
        assert!(blobs.replace(vec![blob("a"), blob("b"), blob("c")]).is_empty(), "no previous blobs");
        let (held, seen) = changes(&blobs, 0);
        assert_eq!(held, [0, 0, 0], "all blobs are new");
        let set = |blobs: &mut Blobs, text: &str, held_bytes: u64| {
            blobs.update(&Digest::of(text.as_bytes()), |blob| (blob.held_bytes, blob.bytes_per_s) = (held_bytes, 1));
        };
        set(&mut blobs, "b", 0);
        set(&mut blobs, "absent", 5);
        assert_eq!(changes(&blobs, seen).0, [0; 0], "another speed is no progress");
        set(&mut blobs, "c", 1);
        set(&mut blobs, "a", 2);
        set(&mut blobs, "c", 3);
        let (held, seen) = changes(&blobs, seen);
        assert_eq!(held, [2, 3], "a blob has one entry, the latest");
        assert_eq!(changes(&blobs, 0).0, [0, 2, 3], "a late watcher gets all blobs");
        let before = blobs.replace(vec![blob("c"), blob("d")]);
        assert_eq!(before.len(), 3, "the previous blobs");
        assert_eq!(changes(&blobs, seen).0, [0, 0], "the blobs of another manifest are new");
        assert!(blobs.contains(&Digest::of(b"d")) && blobs.get(&Digest::of(b"a")).is_none(), "the index is replaced");
    }
}
