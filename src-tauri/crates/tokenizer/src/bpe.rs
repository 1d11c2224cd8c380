//! Byte-pair merging: a word starts as single bytes, and the best-ranked adjacent pair is joined until no pair has a
//! rank (Sennrich et al. 2016, arXiv:1508.07909, on bytes as in GPT-2). Some vocabularies start from characters
//! instead, and encode unknown characters as bytes, `<0xAB>`.
//!
//! **Invariant:** of pairs with the same rank the leftmost is joined first, for short and long words. So both
//! algorithms give the same ids. Symbols have their own numbers, because a merge may build a symbol that is not a
//! token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::alphabet;
use crate::blanks::BLANK;
use crate::char_symbols::{CharSymbols, CrossingMerges};
use crate::error::Error;
use crate::pairs::{Merge, NO_MERGE, NO_RANK, Pairs, pair};
use crate::vocab::{Vocab, byte_name};

/// No symbol, no token, no rank.
const NONE: u32 = u32::MAX;

/// Words of at most this many symbols are merged by linear search, which is faster than a heap up to this length.
const SHORT_SYMBOLS: usize = 64;

/// This bit plus a code point marks a character without a symbol. No merge has such a symbol.
const FOREIGN: u32 = 1 << 31;

/// The units that a word is split into before merging.
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
    /// Symbol of each byte.
    bytes: Vec<u32>,
    /// Symbol of each character that starts as one, or whose bytes are joined first.
    char_symbols: CharSymbols,
    crossing_merges: CrossingMerges,
    /// Token of each symbol, or [`NONE`].
    tokens: Vec<u32>,
    /// Texts of the symbols without a token, which have the highest numbers.
    texts: Vec<String>,
    pairs: Pairs,
    /// Merges of two bytes, indexed by the first byte times 256 plus the second.
    byte_pairs: Vec<Merge>,
}

/// Buffers for merging, reused for all words.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    symbols: Vec<u32>,
    /// Merge of each symbol with the next. Ranks have their own list, so that the search for the minimum is vectorised.
    ranks: Vec<u32>,
    joined: Vec<u32>,
    chain: Vec<Link>,
    queue: BinaryHeap<Reverse<Candidate>>,
}

/// Symbol of a long word, in a linked list.
#[derive(Debug, Clone, Copy)]
struct Link {
    symbol: u32,
    before: u32,
    after: u32,
}

/// Candidate pair, ordered by rank, then by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    right: u32,
    pair: u64,
    joined: u32,
}

impl Merges {
    /// Reads the merges. Parts and results that are not tokens get their own symbols.
    pub(crate) fn build(vocab: &Vocab, start: Start) -> Result<Merges, Error> {
        if vocab.merges.is_empty() {
            return Err(Error::NoMerges);
        }
        // Of two tokens with the same text, the later one wins.
        let mut symbols: HashMap<&str, u32> = HashMap::with_capacity(vocab.tokens.len());
        symbols.extend(vocab.tokens.iter().map(String::as_str).zip(0..));
        let tokens: Vec<u32> = (0..).take(vocab.tokens.len()).collect();

        // Symbols outside the vocabulary own their text, so they have a separate table.
        let mut extra: HashMap<String, u32> = HashMap::new();
        let mut texts: Vec<String> = Vec::new();
        let mut symbol = |text: &str| {
            if let Some(&symbol) = symbols.get(text).or_else(|| extra.get(text)) {
                return symbol;
            }
            let new = (tokens.len() + texts.len()) as u32;
            texts.push(text.to_owned());
            extra.insert(text.to_owned(), new);
            new
        };
        let bytes: Vec<u32> = match start {
            Start::Bytes => alphabet::letters().iter().map(|letter| symbol(letter.encode_utf8(&mut [0; 4]))).collect(),
            Start::Characters => spelled_bytes(vocab),
        };
        let mut pairs = Pairs::with_capacity(vocab.merges.len());
        let mut joined = String::new();
        for (rank, (index, merge)) in (0..).zip(vocab.merges.iter().enumerate()) {
            let (left, right) = parts(merge).ok_or_else(|| Error::Merge { index, merge: merge.clone() })?;
            joined.clear();
            joined.extend([left, right]);
            let (left, right, joined) = (symbol(left), symbol(right), symbol(&joined));
            pairs.add(left, right, Merge { rank, joined });
        }
        let byte_pairs = match start {
            Start::Bytes => bytes.iter().flat_map(|&left| bytes.iter().map(move |&right| (left, right))).collect(),
            Start::Characters => Vec::new(),
        };
        let byte_pairs = byte_pairs.into_iter().map(|(left, right)| pairs.find(left, right)).collect();
        let mut tokens = tokens;
        tokens.resize(tokens.len() + texts.len(), NONE);
        let (char_symbols, crossing_merges) = (CharSymbols::new(), CrossingMerges::default());
        let mut merges = Merges { start, bytes, char_symbols, crossing_merges, tokens, texts, pairs, byte_pairs };
        match start {
            Start::Bytes => merges.find_char_symbols(vocab),
            Start::Characters => {
                let all = vocab.tokens.iter().chain(&merges.texts).zip(0..);
                let letters = all.filter_map(|(text, symbol)| Some((only_character(text)?, symbol)));
                letters.for_each(|(letter, symbol)| merges.char_symbols.insert(letter, symbol));
            }
        }
        Ok(merges)
    }

    /// Finds the characters whose bytes join to one symbol, and the merges that cross character boundaries.
    fn find_char_symbols(&mut self, vocab: &Vocab) {
        let mut scratch = Scratch::default();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for text in &vocab.tokens {
            left.clear();
            alphabet::bytes_of(text, &mut left);
            let Some(letter) = str::from_utf8(&left).ok().and_then(only_character) else { continue };
            self.start_as_bytes(&left, &mut scratch);
            self.join_short(&mut scratch);
            if let &[symbol] = scratch.symbols.as_slice() {
                self.char_symbols.insert(letter, symbol);
            }
        }
        for merge in &vocab.merges {
            let Some((one, other)) = parts(merge) else { continue };
            left.clear();
            right.clear();
            alphabet::bytes_of(one, &mut left);
            alphabet::bytes_of(other, &mut right);
            self.crossing_merges.add(&left, &right);
        }
    }

    /// Appends the tokens of one word.
    pub(crate) fn encode(&self, word: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        match self.start {
            Start::Bytes if word.is_ascii() || !self.start_as_chars(word, scratch) => {
                self.start_as_bytes(word.as_bytes(), scratch);
            }
            Start::Bytes => {}
            Start::Characters => {
                scratch.symbols.clear();
                let symbols =
                    word.chars().map(|letter| self.char_symbols.find(letter).unwrap_or(FOREIGN | u32::from(letter)));
                scratch.symbols.extend(symbols);
                self.rank(scratch);
            }
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

    /// Sets the symbols of a word's bytes, and their ranks.
    fn start_as_bytes(&self, word: &[u8], scratch: &mut Scratch) {
        let Scratch { symbols, ranks, joined, .. } = scratch;
        symbols.clear();
        ranks.clear();
        joined.clear();
        symbols.extend(word.iter().filter_map(|&byte| self.bytes.get(usize::from(byte))));
        for two in word.array_windows::<2>() {
            let merge = self.byte_pairs.get(usize::from(u16::from_be_bytes(*two))).copied().unwrap_or(NO_MERGE);
            ranks.push(merge.rank);
            joined.push(merge.joined);
        }
    }

    /// Sets the symbols of a word's characters, and their ranks. Returns false if the word must start as bytes.
    fn start_as_chars(&self, word: &str, scratch: &mut Scratch) -> bool {
        scratch.symbols.clear();
        for (at, letter) in word.char_indices() {
            match self.char_symbols.find(letter) {
                Some(symbol) if !self.crossing_merges.crossed(word.as_bytes(), at) => scratch.symbols.push(symbol),
                _ => return false,
            }
        }
        self.rank(scratch);
        true
    }

    /// Looks up the merges of all adjacent symbols.
    fn rank(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, joined, .. } = scratch;
        ranks.clear();
        joined.clear();
        for &[left, right] in symbols.array_windows() {
            let merge = self.pairs.find(left, right);
            ranks.push(merge.rank);
            joined.push(merge.joined);
        }
    }

    /// Appends the byte tokens of a symbol that is not a token. Bytes without a token are dropped.
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

    /// Joins in place, with a linear search for the best pair after each join. `ranks[i]` belongs to symbols i and i +
    /// 1.
    fn join_short(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, joined, .. } = scratch;
        loop {
            let best = ranks.iter().copied().min().unwrap_or(NO_RANK);
            let Some(at) = ranks.iter().position(|&rank| rank == best).filter(|_| best != NO_RANK) else { return };
            ranks.remove(at);
            let symbol = joined.remove(at);
            symbols.remove(at + 1);
            if let Some(place) = symbols.get_mut(at) {
                *place = symbol;
            }
            for place in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                if let (Some(&[left, right, ..]), Some(rank), Some(symbol)) =
                    (symbols.get(place..), ranks.get_mut(place), joined.get_mut(place))
                {
                    let merge = self.pairs.find(left, right);
                    (*rank, *symbol) = (merge.rank, merge.joined);
                }
            }
        }
    }

    /// Joins with a queue of candidates. A candidate is stale when either of its symbols has changed since it was
    /// queued.
    fn join_long(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, joined, chain, queue } = scratch;
        let Ok(count) = u32::try_from(symbols.len()) else { return };
        chain.clear();
        chain.extend((0..count).zip(symbols.iter()).map(|(at, &symbol)| Link {
            symbol,
            before: at.wrapping_sub(1),
            after: if at + 1 < count { at + 1 } else { NONE },
        }));
        let first = (0..).zip(symbols.array_windows()).zip(ranks.iter().zip(joined.iter()));
        let first = first.filter(|(_, (rank, _))| **rank != NO_RANK).map(|((left, &[one, two]), (&rank, &joined))| {
            Reverse(Candidate { rank, left, right: left + 1, pair: pair(one, two), joined })
        });
        let mut heap = std::mem::take(queue).into_vec();
        heap.clear();
        heap.extend(first);
        *queue = BinaryHeap::from(heap);
        let offer = |chain: &[Link], left: u32, right: u32, queue: &mut BinaryHeap<Reverse<Candidate>>| {
            if let (Some(first), Some(second)) = (chain.get(left as usize), chain.get(right as usize)) {
                let Merge { rank, joined } = self.pairs.find(first.symbol, second.symbol);
                if rank != NO_RANK {
                    queue.push(Reverse(Candidate {
                        rank,
                        left,
                        right,
                        pair: pair(first.symbol, second.symbol),
                        joined,
                    }));
                }
            }
        };
        while let Some(Reverse(Candidate { left, right, pair: expected, joined, .. })) = queue.pop() {
            let (Some(&first), Some(&second)) = (chain.get(left as usize), chain.get(right as usize)) else { continue };
            if first.symbol == NONE || second.symbol == NONE || pair(first.symbol, second.symbol) != expected {
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

/// Returns the characters that a merge joins with a following blank, written as `▁`.
pub(crate) fn before_blanks(merges: &[String]) -> Vec<char> {
    let joins = merges.iter().filter_map(|merge| parts(merge)).filter(|(_, right)| right.starts_with(BLANK));
    joins.filter_map(|(left, _)| left.chars().next_back()).filter(|&letter| letter != BLANK).collect()
}

/// Returns the token `<0xAB>` of each byte, or [`NONE`].
fn spelled_bytes(vocab: &Vocab) -> Vec<u32> {
    let mut bytes = vec![NONE; 256];
    for (id, text) in (0..).zip(&vocab.tokens) {
        if let Some(place) = byte_name(text).and_then(|byte| bytes.get_mut(usize::from(byte))) {
            *place = id;
        }
    }
    bytes
}

/// Returns the only character of a text.
fn only_character(text: &str) -> Option<char> {
    let mut letters = text.chars();
    letters.next().filter(|_| letters.next().is_none())
}

/// Splits a merge into its parts. The first character may be a blank, so the search for the separator starts after it.
fn parts(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let at = first + merge.get(first..)?.find(' ')?;
    Some((merge.get(..at)?, merge.get(at + 1..)?))
}

#[cfg(test)]
mod tests;
