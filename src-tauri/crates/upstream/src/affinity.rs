//! Prefixes of conversations that a server has computed, so that its KV cache probably has their rows.
//!
//! A conversation is a sequence of bytes, divided into blocks. The hash of a block covers all bytes before it, so two conversations
//! have as many equal hashes as they have common blocks. The hashes of each server are in an LRU list of limited length, because
//! the server's cache is limited too. Nothing else of a conversation is stored.

use std::collections::{HashMap, VecDeque};

use twox_hash::XxHash3_128;

/// Bytes of a block: some 128 tokens. A cache restores whole pages or chunks, so shorter common prefixes are worth little.
const BLOCK_BYTES: usize = 512;
/// Most blocks of a conversation that are compared: 4 MiB of text.
const MAX_BLOCKS: usize = 8192;
/// Most blocks that are remembered for a server: 32 MiB of text, or about 8 million tokens. Servers do not report the size of their
/// cache.
pub const SERVER_BLOCKS: usize = 65_536;

/// Hashes of a conversation's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(Vec<u64>);

impl Prefix {
    /// Hashes the parts of a conversation with a model, whose name must be the same for all spellings. An incomplete block at the end
    /// is left out: the next turn changes it.
    #[must_use]
    pub fn of(model: &str, parts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut seed = XxHash3_128::oneshot(model.as_bytes()) as u64;
        let (mut hashes, mut block) = (Vec::new(), Vec::with_capacity(BLOCK_BYTES));
        for mut part in parts {
            // Keeps the end of a part apart from the beginning of the next one.
            part.push(0);
            let mut rest = part.as_slice();
            while !rest.is_empty() && hashes.len() < MAX_BLOCKS {
                let (more, after) = rest.split_at(rest.len().min(BLOCK_BYTES - block.len()));
                block.extend_from_slice(more);
                rest = after;
                if block.len() == BLOCK_BYTES {
                    seed = XxHash3_128::oneshot_with_seed(seed, &block) as u64;
                    hashes.push(seed);
                    block.clear();
                }
            }
        }
        Self(hashes)
    }

    /// A prefix of these hashes, for simulations.
    #[must_use]
    pub fn of_hashes(hashes: Vec<u64>) -> Self {
        Self(hashes)
    }

    /// The hashes, the first block first.
    #[must_use]
    pub fn blocks(&self) -> &[u64] {
        &self.0
    }
}

/// LRU list of the blocks that one server has computed.
#[derive(Debug)]
pub struct Affinity {
    limit: usize,
    clock: u64,
    /// Time of the last use by block.
    used_at: HashMap<u64, u64>,
    /// Blocks in the order of their use. An entry is stale if the block was used later.
    order: VecDeque<(u64, u64)>,
}

impl Affinity {
    /// An empty list of at most `limit` blocks.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, clock: 0, used_at: HashMap::new(), order: VecDeque::new() }
    }

    /// The number of leading blocks of a conversation that the server has.
    #[must_use]
    pub fn matching(&self, prefix: &Prefix) -> usize {
        prefix.0.iter().take_while(|block| self.used_at.contains_key(block)).count()
    }

    /// The number of all blocks of the server.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.used_at.len()
    }

    /// Records that the server computes a conversation.
    pub fn record(&mut self, prefix: &Prefix) {
        // The first block is used last, so that a conversation is evicted from its end.
        for block in prefix.0.iter().take(self.limit).rev() {
            self.clock += 1;
            self.used_at.insert(*block, self.clock);
            self.order.push_back((*block, self.clock));
        }
        while self.used_at.len() > self.limit || self.order.len() > 2 * self.limit {
            let Some((block, at)) = self.order.pop_front() else { break };
            match self.used_at.get(&block) {
                Some(last) if *last == at => drop(self.used_at.remove(&block)),
                _ => {}
            }
        }
    }

    /// Forgets everything: the server has restarted.
    pub fn clear(&mut self) {
        self.used_at.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(blocks: impl IntoIterator<Item = u64>) -> Prefix {
        Prefix::of_hashes(blocks.into_iter().collect())
    }

    #[test]
    fn hash_of_a_block_covers_all_before_it() {
        let of = |texts: &[&str]| Prefix::of("m", texts.iter().map(|text| text.as_bytes().to_vec()));
        let (a, b) = ("a".repeat(2000), "b".repeat(2000));
        let (first, second) = (of(&[&a, &b]), of(&[&b, &b]));
        assert_eq!(first.blocks().len(), 4002 / BLOCK_BYTES);
        assert!(first.blocks().iter().zip(second.blocks()).all(|(a, b)| a != b), "all blocks differ");
        assert_ne!(of(&["ab", &a]), of(&["a", &format!("b{a}")]), "the boundary of parts counts");
        assert_ne!(Prefix::of("m", [a.clone().into_bytes()]), Prefix::of("n", [a.into_bytes()]), "the model counts");
        assert!(of(&["short"]).blocks().is_empty(), "an incomplete block is left out");
    }

    #[test]
    fn oldest_conversation_is_evicted_from_its_end() {
        let mut affinity = Affinity::new(10);
        affinity.record(&prefix(0..6));
        affinity.record(&prefix(10..16));
        assert_eq!(affinity.matching(&prefix(10..16)), 6, "the newer one");
        assert_eq!(affinity.matching(&prefix(0..6)), 4, "the beginning of the older one");
        affinity.record(&prefix(0..4));
        affinity.record(&prefix(20..22));
        assert_eq!(affinity.matching(&prefix(0..6)), 4, "used again");
        assert_eq!(affinity.matching(&prefix(10..16)), 4, "now the oldest");
        affinity.clear();
        assert_eq!((affinity.matching(&prefix(0..6)), affinity.blocks()), (0, 0));
    }

    proptest! {
        #[test]
        fn list_is_bounded_and_has_the_last_conversation(
            starts in proptest::collection::vec((0_u64..40, 1_u64..30), 1..200),
            limit in 1_usize..50,
        ) {
            let mut affinity = Affinity::new(limit);
            for (start, length) in starts {
                let last = prefix(start..start + length);
                affinity.record(&last);
                prop_assert!(affinity.blocks() <= limit && affinity.order.len() <= 2 * limit);
                prop_assert_eq!(affinity.matching(&last), (length as usize).min(limit));
            }
        }
    }
}
