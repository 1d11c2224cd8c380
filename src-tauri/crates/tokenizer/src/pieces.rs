//! The bytes of all tokens in a single allocation, and an index from bytes to ids.

use crate::hash;

/// No token.
const NONE: u32 = u32::MAX;

/// Byte strings numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    /// End of each piece. It starts at the end of the previous one.
    ends: Vec<usize>,
}

impl Pieces {
    /// Adds the piece that `write` appends to the buffer.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Returns the bytes of piece `id`, or nothing for an invalid id.
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        let at = id as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(at).and_then(|&end| self.bytes.get(start..end)).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Hash table from bytes to ids without a copy of the bytes: open addressing, at most half full, with a random seed so
/// that a file cannot force collisions.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<u32>,
    seed: u64,
}

impl Index {
    /// Indexes the pieces that `wanted` accepts. Of equal pieces the last one wins.
    pub(crate) fn build(pieces: &Pieces, wanted: impl Fn(u32) -> bool) -> Index {
        let size = (pieces.len() * 2).next_power_of_two().max(2);
        let mut index = Index { slots: vec![NONE; size], seed: hash::random_seed() };
        for id in (0..).take(pieces.len()).filter(|&id| wanted(id)) {
            let place = index.place(pieces, pieces.get(id));
            if let Some(slot) = index.slots.get_mut(place) {
                *slot = id;
            }
        }
        index
    }

    /// Returns the id of the piece that equals `bytes`.
    pub(crate) fn find(&self, pieces: &Pieces, bytes: &[u8]) -> Option<u32> {
        self.slots.get(self.place(pieces, bytes)).copied().filter(|&id| id != NONE)
    }

    /// Returns the slot of `bytes`, or the empty slot for them. Half of the slots are empty.
    fn place(&self, pieces: &Pieces, bytes: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = hash::of_bytes(bytes, self.seed) as usize & mask;
        while let Some(&id) = self.slots.get(place) {
            if id == NONE || pieces.get(id) == bytes {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexed_pieces_are_found() {
        let words: Vec<Vec<u8>> = (0..1000_u32).map(|n| format!("word {}", n % 900).into_bytes()).collect();
        let mut pieces = Pieces::default();
        for word in &words {
            pieces.push(|bytes| bytes.extend_from_slice(word));
        }
        let index = Index::build(&pieces, |id| id != 5);
        for (id, word) in (0..).zip(&words) {
            assert_eq!(pieces.get(id), word, "piece {id}");
            let wanted = if id < 100 { id + 900 } else { id };
            assert_eq!(index.find(&pieces, word), Some(wanted), "the last of equal pieces wins, for {id}");
        }
        assert_eq!(index.find(&pieces, b"absent"), None, "an absent piece has no id");
        assert_eq!(pieces.get(1000), b"", "an id beyond the end has no bytes");
    }
}
