//! WordPiece: each word is split greedily into the longest pieces; a word that cannot be split is the unknown token
//! (Devlin et al. 2019, arXiv:1810.04805; BERT's published `tokenization.py`).
//!
//! In a GGUF file the first piece of a word begins with `▁` and the others have no mark; BERT's own vocabularies mark
//! the others with `##`. A vocabulary that was converted without this step is recognised by its `##` pieces.
//!
//! Words are split as in llama.cpp: accents are removed, letters are lowercased (both by default), control characters
//! are removed, and each punctuation mark and Chinese character is a word. Only the first part of a decomposed
//! character is kept; for Hangul this differs from BERT, but the ids equal those of llama.cpp.

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};

use crate::blanks::BLANK;
use crate::classes::{Class, class_of};
use crate::trie::Trie;
use crate::vocab::{TokenKind, Vocab};

/// WordPiece tokenizer.
#[derive(Debug)]
pub(crate) struct WordPiece {
    trie: Trie,
    unknown: Option<u32>,
    rules: Rules,
}

/// Normalisation of characters before the lookup.
#[derive(Debug, Clone, Copy)]
struct Rules {
    lowercase: bool,
    strip_accents: bool,
}

/// Chinese characters in BERT's reference code, where the fifth block begins at U+2B920.
const CHINESE: [(char, char); 8] = [
    ('\u{4E00}', '\u{9FFF}'),
    ('\u{3400}', '\u{4DBF}'),
    ('\u{20000}', '\u{2A6DF}'),
    ('\u{2A700}', '\u{2B73F}'),
    ('\u{2B740}', '\u{2B81F}'),
    ('\u{2B920}', '\u{2CEAF}'),
    ('\u{F900}', '\u{FAFF}'),
    ('\u{2F800}', '\u{2FA1F}'),
];

impl WordPiece {
    pub(crate) fn build(vocab: &Vocab, kinds: &[TokenKind], unknown: Option<u32>) -> WordPiece {
        let pieces = || {
            let named = (0_u32..).zip(&vocab.tokens).zip(kinds);
            let text = named
                .filter(|(_, kind)| matches!(kind, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused));
            text.map(|((id, text), _)| (id, text.as_str()))
        };
        let as_published =
            !pieces().any(|(_, text)| text.starts_with(BLANK)) && pieces().any(|(_, text)| text.starts_with("##"));
        let mut texts = Vec::new();
        for (id, text) in pieces() {
            texts.push(match text.strip_prefix("##").filter(|rest| as_published && !rest.is_empty()) {
                Some(rest) => (rest.to_owned(), id),
                None if as_published => (format!("{BLANK}{text}"), id),
                None => (text.to_owned(), id),
            });
        }
        let lowercase = vocab.lowercase.unwrap_or(true);
        WordPiece {
            trie: Trie::build(texts.iter().map(|(text, id)| (text.as_bytes(), *id))),
            unknown,
            rules: Rules { lowercase, strip_accents: vocab.strip_accents.unwrap_or(lowercase) },
        }
    }

    /// Appends the ids of a part of the input.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        self.rules.words(text, |word| self.encode_word(word, ids));
    }

    /// Appends the pieces of one word, which begins with `▁`.
    fn encode_word(&self, word: &str, ids: &mut Vec<u32>) {
        let start = ids.len();
        let mut rest = word.as_bytes();
        while !rest.is_empty() {
            let Some((length, id)) = self.trie.longest(rest) else {
                ids.truncate(start);
                return ids.extend(self.unknown);
            };
            ids.push(id);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

impl Rules {
    /// Calls `word` with each normalised word of `text`, with a leading `▁`.
    fn words(self, text: &str, mut word: impl FnMut(&str)) {
        let mut buffer = String::from(BLANK);
        let mut finish = |buffer: &mut String| {
            if buffer.len() > BLANK.len_utf8() {
                word(buffer);
                buffer.truncate(BLANK.len_utf8());
            }
        };
        for letter in text.chars() {
            let letter = if self.strip_accents { first_part(letter) } else { letter };
            let class = class_of(letter);
            if class == Class::Space {
                finish(&mut buffer);
                continue;
            }
            if class == Class::Control || letter == '\u{FFFD}' || self.strip_accents && class == Class::Mark {
                continue;
            }
            // BERT's vocabularies use the simple case mapping, which is the first character of the full mapping.
            let small = if self.lowercase { letter.to_lowercase().next().unwrap_or(letter) } else { letter };
            let ascii_symbol = class == Class::Symbol && letter.is_ascii();
            if class == Class::Punctuation || ascii_symbol || is_chinese(letter) {
                finish(&mut buffer);
                buffer.push(small);
                finish(&mut buffer);
            } else {
                buffer.push(small);
            }
        }
        finish(&mut buffer);
    }
}

/// Returns the first character of the canonical decomposition: the letter without accents.
fn first_part(letter: char) -> char {
    if letter < '\u{C0}' {
        return letter;
    }
    let table = CanonicalDecompositionBorrowed::new();
    let mut letter = letter;
    loop {
        letter = match table.decompose(letter) {
            Decomposed::Default => return letter,
            Decomposed::Singleton(only) => only,
            Decomposed::Expansion(first, _) => first,
        };
    }
}

fn is_chinese(letter: char) -> bool {
    letter >= '\u{3400}' && CHINESE.iter().any(|&(first, last)| (first..=last).contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_words(rules: Rules, text: &str, wanted: &[&str]) {
        let mut got = Vec::new();
        rules.words(text, |word| got.push(word.to_owned()));
        let wanted: Vec<String> = wanted.iter().map(|word| format!("{BLANK}{word}")).collect();
        assert_eq!(got, wanted, "{text:?} by {rules:?}");
    }

    #[test]
    fn words_are_normalised_by_rules() {
        let uncased = Rules { lowercase: true, strip_accents: true };
        check_words(uncased, " Héllo,\tWORLD!\u{a0}x\r\n", &["hello", ",", "world", "!", "x"]);
        check_words(uncased, "a漢字b ǖ\u{200b}\u{0}Å e\u{301}", &["a", "漢", "字", "b", "ua", "e"]);
        check_words(uncased, "$5+€5 İ ½ 각", &["$", "5", "+", "€5", "i", "½", "ᄀ"]);
        check_words(uncased, "", &[]);
        let cased = Rules { lowercase: false, strip_accents: false };
        check_words(cased, "É e\u{301}", &["É", "e\u{301}"]);
        check_words(Rules { lowercase: true, strip_accents: false }, "ÉÀ", &["éà"]);
    }

    fn check(tokens: &[&str], text: &str, wanted: &[u32]) {
        let vocab = Vocab { tokens: tokens.iter().map(|&token| token.to_owned()).collect(), ..Vocab::default() };
        let kinds = vocab.kinds().expect("the vocabulary is valid");
        let mut ids = Vec::new();
        WordPiece::build(&vocab, &kinds, Some(0)).encode(text, &mut ids);
        assert_eq!(ids, wanted, "{text:?} with {tokens:?}");
    }

    #[test]
    fn longest_piece_is_taken_first() {
        let converted = ["[UNK]", "▁un", "▁u", "aff", "able", "a", "▁,"];
        let published = ["[UNK]", "un", "u", "##aff", "##able", "##a", ","];
        for tokens in [converted, published] {
            check(&tokens, "unaffable, una", &[1, 3, 4, 6, 1, 5]);
            check(&tokens, "unknown able un", &[0, 0, 1]);
        }
    }
}
