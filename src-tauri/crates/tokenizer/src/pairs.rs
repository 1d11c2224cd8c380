//! Hash table of merges by pair, with open addressing: most lookups take one memory read.

use crate::hash;

/// Rank of [`NO_MERGE`].
pub(crate) const NO_RANK: u32 = i32::MAX.cast_unsigned();

/// Result of joining two symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merge {
    /// Index in the list of merges, below [`NO_RANK`]. The lowest is joined first.
    pub(crate) rank: u32,
    pub(crate) joined: u32,
}

/// No merge.
pub(crate) const NO_MERGE: Merge = Merge { rank: NO_RANK, joined: 0 };

#[derive(Debug, Clone, Copy)]
struct Slot {
    pair: u64,
    merge: Merge,
}

/// Merges by pair, at most three quarters full.
#[derive(Debug)]
pub(crate) struct Pairs {
    slots: Vec<Slot>,
    seed: u64,
}

impl Pairs {
    /// Creates a table with room for `count` merges.
    pub(crate) fn with_capacity(count: usize) -> Pairs {
        let size = (count + count / 3 + 1).next_power_of_two().max(4);
        Pairs { slots: vec![Slot { pair: 0, merge: NO_MERGE }; size], seed: hash::random_seed() }
    }

    /// Adds a merge unless the pair has one. The caller adds at most `count`.
    pub(crate) fn add(&mut self, left: u32, right: u32, merge: Merge) {
        let pair = pair(left, right);
        let place = self.place(pair);
        if let Some(slot) = self.slots.get_mut(place)
            && slot.merge.rank == NO_RANK
        {
            *slot = Slot { pair, merge };
        }
    }

    /// Returns the merge of a pair, or [`NO_MERGE`].
    #[inline]
    pub(crate) fn find(&self, left: u32, right: u32) -> Merge {
        self.slots.get(self.place(pair(left, right))).map_or(NO_MERGE, |slot| slot.merge)
    }

    /// Returns the slot of the pair, or the empty slot for it. The table always has an empty slot.
    #[inline]
    fn place(&self, pair: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = hash::of_number(pair, self.seed) as usize & mask;
        while let Some(slot) = self.slots.get(place) {
            if slot.pair == pair || slot.merge.rank == NO_RANK {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }
}

/// Packs two symbols into one number.
#[inline]
pub(crate) fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_merges_are_found() {
        let mut pairs = Pairs::with_capacity(1000);
        for n in 0..1000 {
            pairs.add(n % 40, n / 40, Merge { rank: n, joined: n + 7 });
        }
        pairs.add(0, 0, Merge { rank: 5, joined: 5 });
        for n in 0..1000 {
            let found = pairs.find(n % 40, n / 40);
            assert_eq!(found, Merge { rank: n, joined: n + 7 }, "pair {n}; the first of two equal pairs wins");
        }
        assert_eq!(pairs.find(40, 0), NO_MERGE, "no such pair");
        assert_eq!(Pairs::with_capacity(0).find(0, 0), NO_MERGE, "an empty table has no pair 0, 0");
    }
}
