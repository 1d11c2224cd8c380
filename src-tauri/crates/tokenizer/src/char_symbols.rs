//! Finds words whose merging can start from whole characters, which needs three times fewer symbols for Chinese.
//!
//! Merging works on bytes and joins pairs in the order of their ranks. Merges without a common symbol are independent.
//! So the bytes of each character can be joined first, unless a merge crosses the boundary of two characters with a
//! part of one of them. Vocabularies have some dozens of such merges ([`CrossingMerges`]). A word with the bytes of one
//! at a boundary starts from bytes.

use std::collections::HashMap;

/// No symbol.
const NONE: u32 = u32::MAX;

/// Symbols by character.
#[derive(Debug)]
pub(crate) struct CharSymbols {
    /// By code point, for characters below U+10000.
    basic: Vec<u32>,
    others: HashMap<char, u32>,
}

impl CharSymbols {
    pub(crate) fn new() -> CharSymbols {
        CharSymbols { basic: vec![NONE; 1 << 16], others: HashMap::new() }
    }

    pub(crate) fn insert(&mut self, letter: char, symbol: u32) {
        match self.basic.get_mut(letter as usize) {
            Some(place) => *place = symbol,
            None => {
                self.others.insert(letter, symbol);
            }
        }
    }

    #[inline]
    pub(crate) fn find(&self, letter: char) -> Option<u32> {
        match self.basic.get(letter as usize) {
            Some(&symbol) => Some(symbol).filter(|&symbol| symbol != NONE),
            None => self.others.get(&letter).copied(),
        }
    }
}

/// Merges that join a part of a character to bytes outside it.
#[derive(Debug, Default)]
pub(crate) struct CrossingMerges {
    /// Both sides of each merge, by the last byte of the left and the first byte of the right side.
    merges: HashMap<[u8; 2], Sides>,
}

/// Merges with the same bytes at the boundary.
#[derive(Debug)]
enum Sides {
    Few(Vec<(Vec<u8>, Vec<u8>)>),
    /// Too many for a linear search.
    Many,
}

/// Maximum number of stored merges with the same two bytes.
const MAX_FEW: usize = 16;

impl CrossingMerges {
    /// Adds the merge of two byte strings if it crosses a boundary.
    pub(crate) fn add(&mut self, left: &[u8], right: &[u8]) {
        let (Some(&last), Some(&first)) = (left.last(), right.first()) else { return };
        // A split inside a character is no boundary. Merges of whole characters do not cross.
        if is_continuation(first) || str::from_utf8(left).is_ok() && str::from_utf8(right).is_ok() {
            return;
        }
        match self.merges.entry([last, first]).or_insert_with(|| Sides::Few(Vec::new())) {
            Sides::Many => {}
            Sides::Few(sides) if sides.len() < MAX_FEW => sides.push((left.to_vec(), right.to_vec())),
            many => *many = Sides::Many,
        }
    }

    /// Returns whether a merge may cross the boundary at byte `at` of `word` with a part of a character.
    #[inline]
    pub(crate) fn crossed(&self, word: &[u8], at: usize) -> bool {
        let (before, after) = word.split_at_checked(at).unwrap_or((word, &[]));
        let (Some(&last), Some(&first)) = (before.last(), after.first()) else { return false };
        match self.merges.get(&[last, first]) {
            None => false,
            Some(Sides::Many) => true,
            Some(Sides::Few(sides)) => {
                sides.iter().any(|(left, right)| before.ends_with(left) && after.starts_with(right))
            }
        }
    }
}

/// Returns whether a byte is a UTF-8 continuation byte.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(merges: &[(&[u8], &[u8])], word: &str, at: usize, wanted: bool) {
        let mut borders = CrossingMerges::default();
        merges.iter().for_each(|(left, right)| borders.add(left, right));
        assert_eq!(borders.crossed(word.as_bytes(), at), wanted, "{merges:?} at {at} of {word:?}");
    }

    #[test]
    fn only_merges_of_partial_characters_cross() {
        // 字 is E5 AD 97.
        check(&[(b" ", b"\xE5")], " 字", 1, true);
        check(&[(b" ", b"\xE5\xAE")], " 字", 1, false);
        check(&[(b"\x97", "字".as_bytes())], "字字", 3, true);
        check(&[(b"\x98", "字".as_bytes())], "字字", 3, false);
        check(&[(b" ", "字".as_bytes()), ("字".as_bytes(), "字".as_bytes())], " 字字", 4, false);
        check(&[(b"\xE5", b"\xAD"), (b"\xE5\xAD", b"\x97")], "字", 0, false);
        check(&[], "ab", 1, false);
    }

    #[test]
    fn many_merges_with_same_bytes_always_cross() {
        let many: Vec<(Vec<u8>, Vec<u8>)> = (0..30_u8).map(|n| (vec![n, b'a'], b"b\xE5".to_vec())).collect();
        let many: Vec<(&[u8], &[u8])> = many.iter().map(|(left, right)| (&left[..], &right[..])).collect();
        check(&many, "xab", 2, true);
        check(&many[..MAX_FEW], "xab", 2, false);
    }

    #[test]
    fn characters_of_all_planes_are_found() {
        let mut letters = CharSymbols::new();
        for (symbol, letter) in ['a', '\u{FFFF}', '🦙'].into_iter().enumerate() {
            letters.insert(letter, symbol as u32);
            assert_eq!(letters.find(letter), Some(symbol as u32), "{letter:?}");
        }
        assert_eq!((letters.find('b'), letters.find('🪨')), (None, None), "other characters have no symbol");
    }
}
