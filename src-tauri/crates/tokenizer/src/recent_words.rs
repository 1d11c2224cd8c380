//! Cache of recently encoded words. Text repeats words, and copying their ids is several times faster than encoding.

use crate::hash;

/// Words by hash, one per slot. A newer word replaces an older one.
pub(crate) struct RecentWords<'t> {
    slots: Vec<(&'t [u8], usize, usize)>,
}

impl<'t> RecentWords<'t> {
    /// Shorter texts are encoded faster without the table.
    const MIN_TEXT_BYTES: usize = 2048;
    const SLOTS: usize = 4096;
    /// Longer words rarely repeat.
    const MAX_WORD_BYTES: usize = 32;

    pub(crate) fn for_text(text: &str) -> RecentWords<'t> {
        let slots = if text.len() < Self::MIN_TEXT_BYTES { 0 } else { Self::SLOTS };
        RecentWords { slots: vec![(&[], 0, 0); slots] }
    }

    /// Appends the ids of `word`: a copy on a hit, else the result of `encode`.
    pub(crate) fn ids_of(&mut self, word: &'t [u8], ids: &mut Vec<u32>, encode: impl FnOnce(&mut Vec<u32>)) {
        let slot = if word.len() <= Self::MAX_WORD_BYTES { self.slots.get_mut(slot_of(word)) } else { None };
        let Some(slot) = slot else { return encode(ids) };
        let (cached, start, end) = *slot;
        if cached == word && end <= ids.len() {
            return ids.extend_from_within(start..end);
        }
        let start = ids.len();
        encode(ids);
        *slot = (word, start, ids.len());
    }
}

/// Returns the slot of a word. A collision only costs a miss, so the hash needs no random seed.
fn slot_of(word: &[u8]) -> usize {
    hash::of_bytes(word, 0) as usize % RecentWords::SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_words_are_copied() {
        let text = "ab cd ".repeat(1000);
        let mut recent = RecentWords::for_text(&text);
        let (mut ids, mut encoded) = (Vec::new(), 0);
        for word in text.split_inclusive(' ') {
            recent.ids_of(word.as_bytes(), &mut ids, |ids| {
                encoded += 1;
                ids.extend(word.bytes().map(u32::from));
            });
        }
        let wanted: Vec<u32> = text.bytes().map(u32::from).collect();
        assert_eq!(ids, wanted, "copied ids equal encoded ids");
        assert_eq!(encoded, 2, "each word is encoded once");
    }

    #[test]
    fn short_texts_and_long_words_are_not_cached() {
        let long = "x".repeat(33);
        for (text, words) in [("ab ab", 2), (format!("{long} ").repeat(100).as_str(), 100)] {
            let (mut recent, mut ids, mut encoded) = (RecentWords::for_text(text), Vec::new(), 0);
            for word in text.split_whitespace() {
                recent.ids_of(word.as_bytes(), &mut ids, |_| encoded += 1);
            }
            assert_eq!(encoded, words, "{} bytes", text.len());
        }
    }
}
