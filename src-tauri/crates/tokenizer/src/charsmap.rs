//! Normalisation table of a Unigram vocabulary, `tokenizer.ggml.precompiled_charsmap`: it maps keys in a text to
//! replacements.
//!
//! The bytes are SentencePiece's (`src/normalizer.cc` there): a little-endian length, a double-array trie of that many
//! bytes as darts-clone writes it, and NUL-terminated replacements. A unit of the trie is 32 bits:
//!
//! ```text
//!  bit 31       value flag: the rest is an offset in the replacements
//!  bits 10-30   offset to the children, shifted left by 8 more when bit 9 is set
//!  bit 8        this unit has a value
//!  bits 0-7     byte of the edge to this unit
//! ```

use crate::error::Error;

/// Normalisation table: maps character sequences to their replacements.
#[derive(Debug)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

/// A unit of the double array.
#[derive(Debug, Clone, Copy)]
struct Unit(u32);

impl Unit {
    fn offset(self) -> u32 {
        (self.0 >> 10) << ((self.0 & (1 << 9)) >> 6)
    }

    /// Returns the byte of the edge to this unit. The result for a value unit differs from every byte.
    fn label(self) -> u32 {
        self.0 & (1 << 31 | 0xFF)
    }

    fn has_value(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> usize {
        (self.0 & !(1 << 31)) as usize
    }
}

impl Charsmap {
    /// Reads the table. Returns `None` if there are no bytes.
    pub(crate) fn build(bytes: &[u8]) -> Result<Option<Charsmap>, Error> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let bad = |reason| Error::Charsmap { reason };
        let (length, rest) =
            bytes.split_first_chunk::<4>().ok_or_else(|| bad("the table is shorter than its length field"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (trie, replacements) =
            rest.split_at_checked(length).ok_or_else(|| bad("the trie is longer than the table"))?;
        let (units, odd) = trie.as_chunks::<4>();
        if units.is_empty() || !odd.is_empty() {
            return Err(bad("the trie does not consist of 32-bit units"));
        }
        if replacements.last() != Some(&0) {
            return Err(bad("the last replacement is not terminated"));
        }
        let units = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Some(Charsmap { units, replacements: replacements.to_vec() }))
    }

    /// Returns the length and the replacement of the longest key at the start of `text`. The length is at least 1.
    pub(crate) fn replace(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let mut place = self.unit(0)?.offset();
        let mut found = None;
        for (length, &byte) in (1..).zip(text) {
            // NUL is not a key: its children would be the values.
            if byte == 0 {
                break;
            }
            place ^= u32::from(byte);
            let Some(unit) = self.unit(place).filter(|unit| unit.label() == u32::from(byte)) else { break };
            place ^= unit.offset();
            if unit.has_value()
                && let Some(replacement) = self.unit(place).and_then(|value| self.replacement(value.value()))
            {
                found = Some((length, replacement));
            }
        }
        found
    }

    fn unit(&self, place: u32) -> Option<Unit> {
        self.units.get(place as usize).copied().map(Unit)
    }

    fn replacement(&self, at: usize) -> Option<&[u8]> {
        self.replacements.get(at..)?.split(|&byte| byte == 0).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with the keys `A` -> `a` and `AB` -> nothing, laid out by hand.
    fn table() -> Vec<u8> {
        let mut units = vec![0_u32; 256];
        let unit = |offset: u32, value: u32, label: u8| offset << 10 | value << 8 | u32::from(label);
        units[0] = unit(1, 0, 0);
        let a = 1 ^ u32::from(b'A');
        units[a as usize] = unit(a ^ 200, 1, b'A');
        units[200] = 1 << 31;
        let b = 200 ^ u32::from(b'B');
        units[b as usize] = unit(b ^ 220, 1, b'B');
        units[220] = 1 << 31 | 2;
        let mut bytes = 1024_u32.to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(b"a\0\0");
        bytes
    }

    fn check(text: &str, wanted: Option<(usize, &[u8])>) {
        let map = Charsmap::build(&table()).expect("the table is sound").expect("it is not empty");
        assert_eq!(map.replace(text.as_bytes()), wanted, "{text:?}");
    }

    #[test]
    fn longest_key_is_replaced() {
        check("A", Some((1, b"a")));
        check("AAB", Some((1, b"a")));
        check("ABA", Some((2, b"")));
        check("B", None);
        check("", None);
        check("\0", None);
    }

    #[test]
    fn invalid_tables_are_refused() {
        let refused = |bytes: &[u8]| Charsmap::build(bytes).err().map(|error| error.to_string());
        let whole = table();
        for (bytes, part) in [
            (&whole[..3], "length field"),
            (&whole[..100], "longer than the table"),
            (&whole[..whole.len() - 3], "not terminated"),
            (&[1, 0, 0, 0, 9, 0], "32-bit units"),
            (&[0, 0, 0, 0, 0], "32-bit units"),
        ] {
            let error = refused(bytes).expect("the table is invalid");
            assert!(error.contains(part) && error.contains("precompiled_charsmap"), "{error}");
        }
        assert!(Charsmap::build(&[]).is_ok_and(|map| map.is_none()), "an empty table is valid");
    }

    #[test]
    fn invalid_offsets_do_not_panic() {
        for unit in [u32::MAX, 1 << 31, 1 << 9 | 0x7FFF << 10, 0x1FF] {
            let mut bytes = 4_u32.to_le_bytes().to_vec();
            bytes.extend(unit.to_le_bytes());
            bytes.push(0);
            let map = Charsmap::build(&bytes).expect("the header is valid").expect("not empty");
            for byte in 0..=255 {
                assert!(map.replace(&[byte, byte]).is_none_or(|(length, _)| length <= 2), "{unit:#x}");
            }
        }
    }
}
