//! Byte-pair merging: a word starts as single bytes, and the best-ranked neighbouring pair is joined until no pair has a rank
//! (Sennrich et al. 2016, arXiv:1508.07909, on bytes as in GPT-2). Some vocabularies start from characters instead, and spell
//! those that they lack as bytes, `<0xAB>`.
//!
//! **Invariant:** of pairs with the same rank the leftmost is joined first, for short and long words alike, so both ways of
//! merging give the same ids. Symbols are numbered apart from tokens, because a merge may build a symbol that is no token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::alphabet;
use crate::blanks::BLANK;
use crate::error::Error;
use crate::vocab::{Vocab, byte_name};

/// No symbol, no token, no rank.
const NONE: u32 = u32::MAX;

/// Words of at most this many symbols are merged by looking through all pairs each time, which beats a heap up to here.
const SHORT_SYMBOLS: usize = 32;

/// What joining two symbols gives.
#[derive(Debug, Clone, Copy)]
struct Merge {
    rank: u32,
    joined: u32,
}

/// This bit and the code of a character that is no symbol. No merge has such a symbol.
const FOREIGN: u32 = 1 << 31;

/// What a word is cut into before anything is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Bytes, which the vocabulary writes in its own alphabet.
    Bytes,
    /// Characters, which the vocabulary writes as they are.
    Characters,
}

/// The merges of a vocabulary, over symbols.
#[derive(Debug)]
pub(crate) struct Merges {
    start: Start,
    /// The symbol that each byte starts as, or is spelled as.
    bytes: Vec<u32>,
    /// The symbol that each character starts as, where words start as characters.
    characters: HashMap<char, u32>,
    /// The token that each symbol is, or none.
    tokens: Vec<u32>,
    /// The texts of the symbols that are no tokens, which come after all others.
    texts: Vec<String>,
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
    pub(crate) fn build(vocab: &Vocab, start: Start) -> Result<Merges, Error> {
        if vocab.merges.is_empty() {
            return Err(Error::NoMerges);
        }
        // Later tokens win where two have the same text.
        let mut symbols: HashMap<&str, u32> = HashMap::with_capacity(vocab.tokens.len());
        symbols.extend(vocab.tokens.iter().map(String::as_str).zip(0..));
        let tokens: Vec<u32> = (0..).take(vocab.tokens.len()).collect();

        // Symbols beyond the vocabulary own their text, so they have a table of their own.
        let mut extra: HashMap<String, u32> = HashMap::new();
        let mut texts: Vec<String> = Vec::new();
        let mut symbol = |text: &str| {
            if let Some(&known) = symbols.get(text).or_else(|| extra.get(text)) {
                return known;
            }
            let new = (tokens.len() + texts.len()) as u32;
            texts.push(text.to_owned());
            extra.insert(text.to_owned(), new);
            new
        };
        let bytes = match start {
            Start::Bytes => alphabet::letters().iter().map(|letter| symbol(letter.encode_utf8(&mut [0; 4]))).collect(),
            Start::Characters => spelled_bytes(vocab),
        };
        let mut pairs: HashMap<u64, Merge, _> = HashMap::with_capacity_and_hasher(vocab.merges.len(), Default::default());
        let mut joined = String::new();
        for (rank, (index, merge)) in (0..).zip(vocab.merges.iter().enumerate()) {
            let (left, right) = parts(merge).ok_or_else(|| Error::Merge { index, merge: merge.clone() })?;
            joined.clear();
            joined.extend([left, right]);
            let (left, right, joined) = (symbol(left), symbol(right), symbol(&joined));
            pairs.entry(pair(left, right)).or_insert(Merge { rank, joined });
        }
        let mut characters = HashMap::new();
        if start == Start::Characters {
            let all = vocab.tokens.iter().map(String::as_str).chain(texts.iter().map(String::as_str)).zip(0..);
            characters.extend(all.filter_map(|(text, symbol)| Some((only_character(text)?, symbol))));
        }
        let mut tokens = tokens;
        tokens.resize(tokens.len() + texts.len(), NONE);
        Ok(Merges { start, bytes, characters, tokens, texts, pairs })
    }

    /// Appends the tokens of one word.
    pub(crate) fn encode(&self, word: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        scratch.symbols.clear();
        match self.start {
            Start::Bytes => {
                scratch.symbols.extend(word.bytes().filter_map(|byte| self.bytes.get(usize::from(byte))));
            }
            Start::Characters => scratch.symbols.extend(word.chars().map(|letter| {
                let known = self.characters.get(&letter).copied();
                known.unwrap_or(FOREIGN | u32::from(letter))
            })),
        }
        if scratch.symbols.len() <= SHORT_SYMBOLS {
            self.join_short(scratch);
        } else {
            self.join_long(scratch);
        }
        for &symbol in &scratch.symbols {
            match self.tokens.get(symbol as usize) {
                Some(&token) if token != NONE => ids.push(token),
                _ => self.spell(symbol, ids),
            }
        }
    }

    /// Appends the tokens of the bytes of a symbol that is no token. A vocabulary that lacks those as well cannot say it, and it
    /// is left out.
    #[cold]
    fn spell(&self, symbol: u32, ids: &mut Vec<u32>) {
        let mut letter = [0; 4];
        let after_tokens = (symbol as usize).checked_sub(self.tokens.len() - self.texts.len());
        let text = match char::from_u32(symbol ^ FOREIGN) {
            Some(foreign) => &*foreign.encode_utf8(&mut letter),
            None => after_tokens.and_then(|at| self.texts.get(at)).map_or("", String::as_str),
        };
        let mut bytes = Vec::with_capacity(text.len());
        match self.start {
            Start::Bytes => alphabet::bytes_of(text, &mut bytes),
            Start::Characters => bytes.extend_from_slice(text.as_bytes()),
        }
        let tokens = bytes.iter().filter_map(|&byte| self.tokens.get(*self.bytes.get(usize::from(byte))? as usize));
        ids.extend(tokens.filter(|&&token| token != NONE));
    }

    /// Whether no merge joins something to a blank behind it, in SentencePiece's writing. Then words can be merged each alone.
    pub(crate) fn keep_to_words(vocab: &Vocab) -> bool {
        !vocab.merges.iter().any(|merge| {
            let (left, right) = parts(merge).unwrap_or_default();
            right.starts_with(BLANK) && !left.ends_with(BLANK)
        })
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

/// The tokens `<0xAB>` by their byte, or none.
fn spelled_bytes(vocab: &Vocab) -> Vec<u32> {
    let mut bytes = vec![NONE; 256];
    for (id, text) in (0..).zip(&vocab.tokens) {
        if let Some(place) = byte_name(text).and_then(|byte| bytes.get_mut(usize::from(byte))) {
            *place = id;
        }
    }
    bytes
}

/// The character that a text consists of.
fn only_character(text: &str) -> Option<char> {
    let mut letters = text.chars();
    letters.next().filter(|_| letters.next().is_none())
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
        merges.encode(word, &mut Scratch::default(), &mut ids);
        ids
    }

    fn check(word: &str, wanted: &[u32]) {
        let vocab =
            vocab(&["a", "b", "c", "ab", "bc", "abc", "aa", "ca"], &["b c", "a a", "a bc", "x y", "xy a", "a b"]);
        let merges = Merges::build(&vocab, Start::Bytes).expect("the merges are well-formed");
        assert_eq!(encode(&merges, word), wanted, "{word:?}");
    }

    #[test]
    fn rank_then_left_decides() {
        check("abc", &[5]);
        check("aaa", &[6, 0]);
        check("aab", &[6, 1]);
        check("abab", &[3, 3]);
        check("xyab", &[0, 1]);
        check("", &[]);
        check("cxb", &[2, 1]);
    }

    #[test]
    fn characters_that_are_no_tokens_are_spelled() {
        let tokens = ["é", "▁", "▁é", "<0xE6>", "<0xBC>", "<0xA2>", "x"];
        let vocab = vocab(&tokens, &["▁ é", "x é"]);
        let merges = Merges::build(&vocab, Start::Characters).expect("the merges are well-formed");
        for (word, wanted) in [("▁é漢", [2, 3, 4, 5].as_slice()), ("é▁", &[0, 1]), ("y", &[]), ("xé", &[])] {
            assert_eq!(encode(&merges, word), wanted, "{word:?}");
        }
        assert!(Merges::keep_to_words(&vocab), "no merge goes on after a blank");
    }

    #[test]
    fn a_merge_needs_two_parts() {
        for merge in ["", "a", "ab", " "] {
            let result = Merges::build(&vocab(&["a"], &[merge]), Start::Bytes);
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
            let merges = Merges::build(&Vocab { tokens, merges, ..Vocab::default() }, Start::Bytes).expect("well-formed");
            let start: Vec<u32> = word.bytes().map(|byte| merges.bytes[usize::from(byte)]).collect();
            let mut short = Scratch { symbols: start.clone(), ..Scratch::default() };
            merges.join_short(&mut short);
            let mut long = Scratch { symbols: start, ..Scratch::default() };
            merges.join_long(&mut long);
            prop_assert_eq!(short.symbols, long.symbols, "the two ways of merging {:?} differ", word);
        }
    }
}
