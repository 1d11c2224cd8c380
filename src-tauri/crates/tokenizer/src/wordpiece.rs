//! WordPiece: each word is cut into the longest pieces from its front on; a word that cannot be cut so is the unknown token
//! (Devlin et al. 2019, arXiv:1810.04805; BERT's published `tokenization.py`).
//!
//! In a GGUF file the first piece of a word begins with `▁` and the others are plain, where BERT's own vocabularies write plain
//! and `##`. A vocabulary that was converted without that step is recognised by its `##` pieces and read as BERT writes it.
//!
//! Words are made as llama.cpp makes them: accents go, letters become small (both unless the file says otherwise), control
//! characters go, and each punctuation mark and each Chinese character is a word. Of a decomposed character only the first part
//! stays; for Hangul, that is less than BERT itself keeps, but the ids equal those that GGUF files are used with.

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};

use crate::blanks::BLANK;
use crate::classes::{Class, class_of};
use crate::trie::Trie;
use crate::vocab::{Kind, Vocab};

/// Pieces of words.
#[derive(Debug)]
pub(crate) struct WordPiece {
    trie: Trie,
    unknown: Option<u32>,
    rules: Rules,
}

/// What happens to letters before they are looked up.
#[derive(Debug, Clone, Copy)]
struct Rules {
    lowercase: bool,
    strip_accents: bool,
}

/// The Chinese characters that BERT sets apart, as its reference code lists them; the fifth block begins at U+2B920 there.
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
    pub(crate) fn build(vocab: &Vocab, kinds: &[Kind], unknown: Option<u32>) -> WordPiece {
        let pieces = || {
            let named = (0_u32..).zip(&vocab.tokens).zip(kinds);
            let text = named.filter(|(_, kind)| matches!(kind, Kind::Normal | Kind::UserDefined | Kind::Unused));
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
    /// Calls `word` with each word of `text`, written in small letters without accents and with a `▁` in front.
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
            // The first character of what Unicode maps to is its simple mapping, which is what BERT's vocabularies are made with.
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

/// The first character of the canonical decomposition, which is the letter without its accents.
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
    fn words_by_the_rules() {
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
        let kinds = vocab.kinds().expect("the vocabulary is sound");
        let mut ids = Vec::new();
        WordPiece::build(&vocab, &kinds, Some(0)).encode(text, &mut ids);
        assert_eq!(ids, wanted, "{text:?} with {tokens:?}");
    }

    #[test]
    fn the_longest_piece_first() {
        let converted = ["[UNK]", "▁un", "▁u", "aff", "able", "a", "▁,"];
        let published = ["[UNK]", "un", "u", "##aff", "##able", "##a", ","];
        for tokens in [converted, published] {
            check(&tokens, "unaffable, una", &[1, 3, 4, 6, 1, 5]);
            check(&tokens, "unknown able un", &[0, 0, 1]);
        }
    }
}
