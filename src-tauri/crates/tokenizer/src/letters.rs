//! Where words of bytes may start as whole characters, which is three times fewer symbols for Chinese.
//!
//! Merging works on bytes, and joins pairs in the order of their ranks wherever they stand. Joins that share no symbol do not
//! touch each other, so the bytes of each character can be joined first, unless a merge reaches over the border between two
//! characters with only a part of one of them. Vocabularies have some dozens of such merges ([`Borders`]); a word that has the
//! bytes of one at a border is merged from its bytes on.

use std::collections::HashMap;

/// No symbol.
const NONE: u32 = u32::MAX;

/// Symbols of single characters.
#[derive(Debug)]
pub(crate) struct Letters {
    /// By code, for the characters below U+10000.
    basic: Vec<u32>,
    others: HashMap<char, u32>,
}

impl Letters {
    pub(crate) fn new() -> Letters {
        Letters { basic: vec![NONE; 1 << 16], others: HashMap::new() }
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

/// The merges that join a part of a character to something beyond it.
#[derive(Debug, Default)]
pub(crate) struct Borders {
    /// Both sides of each, by the last byte of the left and the first of the right one.
    merges: HashMap<[u8; 2], Sides>,
}

/// The merges with the same bytes at the border.
#[derive(Debug)]
enum Sides {
    Few(Vec<(Vec<u8>, Vec<u8>)>),
    /// So many that looking through them would not pay.
    Many,
}

/// More merges than this with the same two bytes are not told apart.
const FEW: usize = 16;

impl Borders {
    /// Notes the merge of two byte strings, if it is one of these.
    pub(crate) fn add(&mut self, left: &[u8], right: &[u8]) {
        let (Some(&last), Some(&first)) = (left.last(), right.first()) else { return };
        // Inside a character there is no border, and whole characters on both sides are what is allowed.
        if is_inner(first) || str::from_utf8(left).is_ok() && str::from_utf8(right).is_ok() {
            return;
        }
        match self.merges.entry([last, first]).or_insert_with(|| Sides::Few(Vec::new())) {
            Sides::Many => {}
            Sides::Few(sides) if sides.len() < FEW => sides.push((left.to_vec(), right.to_vec())),
            many => *many = Sides::Many,
        }
    }

    /// Whether a merge may reach over the border at byte `at` of `word` with a part of a character.
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

/// Whether a byte is not the first of a character.
fn is_inner(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(merges: &[(&[u8], &[u8])], word: &str, at: usize, wanted: bool) {
        let mut borders = Borders::default();
        merges.iter().for_each(|(left, right)| borders.add(left, right));
        assert_eq!(borders.crossed(word.as_bytes(), at), wanted, "{merges:?} at {at} of {word:?}");
    }

    #[test]
    fn only_merges_of_parts_cross() {
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
    fn a_crowd_is_not_looked_through() {
        let many: Vec<(Vec<u8>, Vec<u8>)> = (0..30_u8).map(|n| (vec![n, b'a'], b"b\xE5".to_vec())).collect();
        let many: Vec<(&[u8], &[u8])> = many.iter().map(|(left, right)| (&left[..], &right[..])).collect();
        check(&many, "xab", 2, true);
        check(&many[..FEW], "xab", 2, false);
    }

    #[test]
    fn letters_of_all_planes() {
        let mut letters = Letters::new();
        for (symbol, letter) in ['a', '\u{FFFF}', '🦙'].into_iter().enumerate() {
            letters.insert(letter, symbol as u32);
            assert_eq!(letters.find(letter), Some(symbol as u32), "{letter:?}");
        }
        assert_eq!((letters.find('b'), letters.find('🪨')), (None, None), "others are none");
    }
}
