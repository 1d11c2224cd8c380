//! Byte-pair merging: a word starts as single bytes, and the best-ranked neighbouring pair is joined until no pair has a rank
//! (Sennrich et al. 2016, arXiv:1508.07909, on bytes as in GPT-2).
//!
//! **Invariant:** of pairs with the same rank the leftmost is joined first, for short and long words alike, so both ways of
//! merging give the same ids. Symbols are numbered apart from tokens, because a merge may build a symbol that is no token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::alphabet;
use crate::error::Error;
use crate::vocab::Vocab;

/// No symbol, no token, no rank.
const NONE: u32 = u32::MAX;

/// Words of at most this many bytes are merged by looking through all pairs each time, which beats a heap up to here.
const SHORT_BYTES: usize = 32;

/// What joining two symbols gives.
#[derive(Debug, Clone, Copy)]
struct Merge {
    rank: u32,
    joined: u32,
}

/// The merges of a vocabulary, over symbols.
#[derive(Debug)]
pub(crate) struct Merges {
    /// The symbol that each byte starts as.
    bytes: Vec<u32>,
    /// The token that each symbol is, or none.
    tokens: Vec<u32>,
    pairs: HashMap<u64, Merge, BuildHasherDefault<PairHasher>>,
}

/// Room for merging, kept between words.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    symbols: Vec<u32>,
    ranks: Vec<Option<Merge>>,
    chain: Vec<Link>,
    queue: BinaryHeap<Reverse<Candidate>>,
}

/// A symbol of a long word, in a chain from which joined symbols drop out.
#[derive(Debug, Clone, Copy)]
struct Link {
    symbol: u32,
    before: u32,
    after: u32,
}

/// A pair that may be joined, ordered by rank, then from the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    right: u32,
    pair: u64,
    joined: u32,
}

impl Merges {
    /// Reads the merges; parts and results that are no tokens become symbols of their own.
    pub(crate) fn build(vocab: &Vocab) -> Result<Merges, Error> {
        if vocab.merges.is_empty() {
            return Err(Error::NoMerges);
        }
        // Later tokens win where two have the same text.
        let mut symbols: HashMap<&str, u32> = HashMap::with_capacity(vocab.tokens.len());
        symbols.extend(vocab.tokens.iter().map(String::as_str).zip(0..));
        let tokens = (0..).take(vocab.tokens.len()).collect();
        let mut merges = Merges { bytes: Vec::with_capacity(256), tokens, pairs: HashMap::default() };

        // Symbols beyond the vocabulary own their text, so they have a table of their own.
        let mut extra: HashMap<String, u32> = HashMap::new();
        let mut symbol = |text: &str, tokens: &mut Vec<u32>| {
            if let Some(&known) = symbols.get(text).or_else(|| extra.get(text)) {
                return known;
            }
            let new = tokens.len() as u32;
            tokens.push(NONE);
            extra.insert(text.to_owned(), new);
            new
        };
        for letter in alphabet::letters() {
            let byte = symbol(letter.encode_utf8(&mut [0; 4]), &mut merges.tokens);
            merges.bytes.push(byte);
        }
        merges.pairs.reserve(vocab.merges.len());
        let mut joined = String::new();
        for (rank, (index, merge)) in (0..).zip(vocab.merges.iter().enumerate()) {
            let (left, right) = parts(merge).ok_or_else(|| Error::Merge { index, merge: merge.clone() })?;
            joined.clear();
            joined.extend([left, right]);
            let left = symbol(left, &mut merges.tokens);
            let right = symbol(right, &mut merges.tokens);
            let joined = symbol(&joined, &mut merges.tokens);
            merges.pairs.entry(pair(left, right)).or_insert(Merge { rank, joined });
        }
        Ok(merges)
    }

    /// Appends the tokens of one word.
    pub(crate) fn encode(&self, word: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        scratch.symbols.clear();
        scratch.symbols.extend(word.iter().filter_map(|&byte| self.bytes.get(usize::from(byte))));
        if word.len() <= SHORT_BYTES {
            self.join_short(scratch);
        } else {
            self.join_long(scratch);
        }
        for &symbol in &scratch.symbols {
            match self.tokens.get(symbol as usize) {
                // Only a vocabulary that lacks bytes or results of its own merges gets here; what it cannot say is left out.
                None | Some(&NONE) => {}
                Some(&token) => ids.push(token),
            }
        }
    }

    fn find(&self, left: u32, right: u32) -> Option<Merge> {
        self.pairs.get(&pair(left, right)).copied()
    }

    /// Joins in place, looking for the best pair anew after each join; `ranks[i]` is for symbols i and i + 1.
    fn join_short(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, .. } = scratch;
        let look = |symbols: &[u32], at: usize| match symbols.get(at..) {
            Some(&[left, right, ..]) => self.find(left, right),
            _ => None,
        };
        ranks.clear();
        ranks.extend((0..symbols.len().saturating_sub(1)).map(|at| look(symbols, at)));
        loop {
            let mut best: Option<(usize, Merge)> = None;
            for (at, merge) in ranks.iter().enumerate() {
                if let Some(merge) = merge
                    && best.is_none_or(|(_, found)| merge.rank < found.rank)
                {
                    best = Some((at, *merge));
                }
            }
            let Some((at, merge)) = best else { return };
            if let Some(symbol) = symbols.get_mut(at) {
                *symbol = merge.joined;
            }
            symbols.remove(at + 1);
            ranks.remove(at);
            for place in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                let found = look(symbols, place);
                if let Some(rank) = ranks.get_mut(place) {
                    *rank = found;
                }
            }
        }
    }

    /// Joins with a queue of candidates. A candidate is stale when either of its symbols has changed since it was queued.
    fn join_long(&self, scratch: &mut Scratch) {
        let Scratch { symbols, chain, queue, .. } = scratch;
        chain.clear();
        queue.clear();
        let Ok(count) = u32::try_from(symbols.len()) else { return };
        chain.extend((0..count).zip(symbols.iter()).map(|(at, &symbol)| Link {
            symbol,
            before: at.wrapping_sub(1),
            after: if at + 1 < count { at + 1 } else { NONE },
        }));
        let offer = |chain: &[Link], left: u32, right: u32, queue: &mut BinaryHeap<Reverse<Candidate>>| {
            if let (Some(first), Some(second)) = (chain.get(left as usize), chain.get(right as usize))
                && let Some(Merge { rank, joined }) = self.find(first.symbol, second.symbol)
            {
                queue.push(Reverse(Candidate { rank, left, right, pair: pair(first.symbol, second.symbol), joined }));
            }
        };
        for left in 0..count {
            offer(chain, left, left + 1, queue);
        }
        while let Some(Reverse(Candidate { left, right, pair: wanted, joined, .. })) = queue.pop() {
            let (Some(&first), Some(&second)) = (chain.get(left as usize), chain.get(right as usize)) else { continue };
            if first.symbol == NONE || second.symbol == NONE || pair(first.symbol, second.symbol) != wanted {
                continue;
            }
            if let Some(link) = chain.get_mut(left as usize) {
                *link = Link { symbol: joined, before: first.before, after: second.after };
            }
            if let Some(link) = chain.get_mut(right as usize) {
                link.symbol = NONE;
            }
            if let Some(link) = chain.get_mut(second.after as usize) {
                link.before = left;
            }
            offer(chain, first.before, left, queue);
            offer(chain, left, second.after, queue);
        }
        symbols.clear();
        symbols.extend(chain.iter().map(|link| link.symbol).filter(|&symbol| symbol != NONE));
    }
}

/// The two parts of a merge. The first character may itself be a blank, so the separator is looked for after it.
fn parts(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let at = first + merge.get(first..)?.find(' ')?;
    Some((merge.get(..at)?, merge.get(at + 1..)?))
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Mixes a pair of symbols: two multiplications by odd constants with the halves folded between (splitmix64's finish).
#[derive(Debug, Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let mixed = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.0 = mixed ^ (mixed >> 31);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vocab(tokens: &[&str], merges: &[&str]) -> Vocab {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Vocab { tokens: owned(tokens), merges: owned(merges), ..Vocab::default() }
    }

    fn encode(merges: &Merges, word: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        merges.encode(word.as_bytes(), &mut Scratch::default(), &mut ids);
        ids
    }

    fn check(word: &str, wanted: &[u32]) {
        let vocab =
            vocab(&["a", "b", "c", "ab", "bc", "abc", "aa", "ca"], &["b c", "a a", "a bc", "x y", "xy a", "a b"]);
        let merges = Merges::build(&vocab).expect("the merges are well-formed");
        assert_eq!(encode(&merges, word), wanted, "{word:?}");
    }

    #[test]
    fn rank_then_left_decides() {
        check("abc", &[5]);
        check("aaa", &[6, 0]);
        check("aab", &[6, 1]);
        check("abab", &[3, 3]);
        check("xyab", &[1]);
        check("", &[]);
        check("cxb", &[2, 1]);
    }

    #[test]
    fn a_merge_needs_two_parts() {
        for merge in ["", "a", "ab", " "] {
            let result = Merges::build(&vocab(&["a"], &[merge]));
            assert_eq!(result.err(), Some(Error::Merge { index: 0, merge: merge.to_owned() }), "{merge:?}");
        }
    }

    proptest! {
        #[test]
        fn the_queue_equals_the_search(
            merges in prop::collection::vec("[a-d]{1,3} [a-d]{1,3}", 1..30),
            word in "[a-d]{0,60}",
        ) {
            let tokens: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into_iter().chain(merges.iter().map(|merge| merge.replace(' ', ""))).collect();
            let merges = Merges::build(&Vocab { tokens, merges, ..Vocab::default() }).expect("well-formed");
            let start: Vec<u32> = word.bytes().map(|byte| merges.bytes[usize::from(byte)]).collect();
            let mut short = Scratch { symbols: start.clone(), ..Scratch::default() };
            merges.join_short(&mut short);
            let mut long = Scratch { symbols: start, ..Scratch::default() };
            merges.join_long(&mut long);
            prop_assert_eq!(short.symbols, long.symbols, "the two ways of merging {:?} differ", word);
        }
    }
}
