//! Words of a text that were encoded already. Text repeats itself, and copying ids is several times faster than finding them.

use crate::hash;

/// Words by a hash of their bytes, one per slot: the newest stays.
pub(crate) struct Recent<'t> {
    slots: Vec<(&'t [u8], usize, usize)>,
}

impl<'t> Recent<'t> {
    /// Below this many bytes a text is done before the table pays for itself.
    const WORTH_IT_BYTES: usize = 2048;
    const SLOTS: usize = 4096;
    /// Longer words hardly ever repeat.
    const LONGEST_BYTES: usize = 32;

    pub(crate) fn for_text(text: &str) -> Recent<'t> {
        let slots = if text.len() < Self::WORTH_IT_BYTES { 0 } else { Self::SLOTS };
        Recent { slots: vec![(&[], 0, 0); slots] }
    }

    /// Appends the ids of `word`, from earlier if it was seen before, else by `encode`.
    pub(crate) fn ids_of(&mut self, word: &'t [u8], ids: &mut Vec<u32>, encode: impl FnOnce(&mut Vec<u32>)) {
        let slot = if word.len() <= Self::LONGEST_BYTES { self.slots.get_mut(slot_of(word)) } else { None };
        let Some(slot) = slot else { return encode(ids) };
        let (known, start, end) = *slot;
        if known == word && end <= ids.len() {
            return ids.extend_from_within(start..end);
        }
        let start = ids.len();
        encode(ids);
        *slot = (word, start, ids.len());
    }
}

/// The slot of a word. No seed is needed, as a collision only costs the copy.
fn slot_of(word: &[u8]) -> usize {
    hash::of_bytes(word, 0) as usize % Recent::SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_words_are_copied() {
        let text = "ab cd ".repeat(1000);
        let mut recent = Recent::for_text(&text);
        let (mut ids, mut encoded) = (Vec::new(), 0);
        for word in text.split_inclusive(' ') {
            recent.ids_of(word.as_bytes(), &mut ids, |ids| {
                encoded += 1;
                ids.extend(word.bytes().map(u32::from));
            });
        }
        let wanted: Vec<u32> = text.bytes().map(u32::from).collect();
        assert_eq!(ids, wanted, "copies equal what encoding gives");
        assert_eq!(encoded, 2, "each word is encoded once");
    }

    #[test]
    fn short_texts_and_long_words_are_encoded_each_time() {
        let long = "x".repeat(33);
        for (text, words) in [("ab ab", 2), (format!("{long} ").repeat(100).as_str(), 100)] {
            let (mut recent, mut ids, mut encoded) = (Recent::for_text(text), Vec::new(), 0);
            for word in text.split_whitespace() {
                recent.ids_of(word.as_bytes(), &mut ids, |_| encoded += 1);
            }
            assert_eq!(encoded, words, "{} bytes", text.len());
        }
    }
}
