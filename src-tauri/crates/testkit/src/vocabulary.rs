//! A small byte-level BPE vocabulary: every byte, merges that build common words, three special tokens, padding.
//!
//! Ids in order: 0 to 255 the bytes, then one token per merge, then `<|endoftext|>`, `<|im_start|>`, `<|im_end|>`, then
//! padding up to the requested size. No merge creates a padding token, so text never encodes to one, but a model may
//! generate one.

use cairn_gguf::Writer;

use crate::spec::Family;

/// Size of the smallest vocabulary: the bytes and the special tokens.
pub const MIN_TOKENS: u64 = 256 + SPECIAL_TOKENS.len() as u64;

/// The special tokens, in the order of their ids.
pub const SPECIAL_TOKENS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// The ChatML template in the files.
pub const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
     message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}\
     {{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Words that merges build, most common first.
pub(crate) const WORDS: &str = " the and ing in er on to of re at en is it or es an he ed al ou ar as ic ion ve ll me ti ro st \
    that for you with this are have not was from they which one all there what when your can more about out other \
    model token memory cache disk page layer weight number word file time name list open close read write start stop \
    hello world user assistant system question answer yes no please thanks water light stone river paper green house";

/// Kinds of tokens, numbered as in llama.cpp.
pub(crate) const NORMAL: i32 = 1;
pub(crate) const CONTROL: i32 = 3;

/// Vocabulary of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Texts by id, in the byte alphabet of GPT-2.
    pub tokens: Vec<String>,
    /// Merges, best first: two texts with a space between.
    pub merges: Vec<String>,
    /// The id of the first special token.
    pub first_special: u32,
}

impl Vocabulary {
    /// Creates a vocabulary of `size` tokens.
    ///
    /// # Panics
    /// When `size` is below [`MIN_TOKENS`].
    pub fn new(size: u64) -> Vocabulary {
        assert!(size >= MIN_TOKENS, "a vocabulary of {size} tokens is smaller than the minimum of {MIN_TOKENS}");
        let room = (size - MIN_TOKENS) as usize;
        let mut tokens: Vec<String> = (0..=255u8).map(|byte| alphabet_char(byte).to_string()).collect();
        let mut merges = Vec::new();
        for word in WORDS.split_whitespace().flat_map(|word| [format!(" {word}"), word.to_owned()]) {
            let mut joined = String::new();
            for next in word.bytes().map(alphabet_char) {
                let longer = format!("{joined}{next}");
                if !joined.is_empty() && !tokens.contains(&longer) && merges.len() < room {
                    merges.push(format!("{joined} {next}"));
                    tokens.push(longer.clone());
                }
                joined = longer;
            }
        }
        let first_special = tokens.len() as u32;
        tokens.extend(SPECIAL_TOKENS.map(str::to_owned));
        let padding = tokens.len() as u64..size;
        tokens.extend(padding.map(|id| format!("{}fill{id}", alphabet_char(b' '))));
        Vocabulary { tokens, merges, first_special }
    }

    /// Returns the id of a special token.
    pub fn special(&self, text: &str) -> Option<u32> {
        SPECIAL_TOKENS.iter().position(|&special| special == text).map(|at| self.first_special + at as u32)
    }

    /// Writes the tokenizer's keys.
    pub(crate) fn describe(&self, family: &Family, writer: &mut Writer<'_>) {
        let special = self.first_special as usize..self.first_special as usize + SPECIAL_TOKENS.len();
        let kinds = (0..self.tokens.len()).map(|id| if special.contains(&id) { CONTROL } else { NORMAL });
        let id = |text: &str| self.special(text).expect("the three are special tokens");
        writer.set("tokenizer.ggml.model", "gpt2");
        writer.set("tokenizer.ggml.pre", family.pre_tokenizer);
        writer.set("tokenizer.ggml.tokens", self.tokens.clone());
        writer.set("tokenizer.ggml.token_type", kinds.collect::<Vec<i32>>());
        writer.set("tokenizer.ggml.merges", self.merges.clone());
        writer.set("tokenizer.ggml.bos_token_id", id("<|endoftext|>"));
        writer.set("tokenizer.ggml.eos_token_id", id("<|im_end|>"));
        writer.set("tokenizer.ggml.padding_token_id", id("<|endoftext|>"));
        writer.set("tokenizer.ggml.add_bos_token", family.adds_bos);
        writer.set("tokenizer.chat_template", CHAT_TEMPLATE);
    }
}

/// Returns the character of a byte in GPT-2's alphabet: printable bytes map to themselves, the others in order to the
/// characters from U+0100 on.
pub(crate) fn alphabet_char(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        char::from(byte)
    } else {
        let before = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
        char::from_u32(0x100 + before).expect("68 characters from U+0100 on are all assigned")
    }
}

/// Returns a text in the byte alphabet of GPT-2.
pub(crate) fn alphabet_text(text: &str) -> String {
    text.bytes().map(alphabet_char).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn vocabulary_has_unique_tokens_of_requested_count() {
        for size in [MIN_TOKENS, 300, 512, 2048] {
            let vocabulary = Vocabulary::new(size);
            let different: HashSet<_> = vocabulary.tokens.iter().collect();
            assert_eq!(vocabulary.tokens.len() as u64, size, "the requested size");
            assert_eq!(different.len() as u64, size, "none occurs twice");
        }
    }

    #[test]
    fn every_merge_joins_tokens_to_a_token() {
        let vocabulary = Vocabulary::new(2048);
        let tokens: HashSet<_> = vocabulary.tokens.iter().cloned().collect();
        assert!(vocabulary.merges.len() > 200, "enough merges to matter: {}", vocabulary.merges.len());
        for merge in &vocabulary.merges {
            let (left, right) = merge.split_once(' ').expect("two texts");
            let all_tokens =
                [left.to_owned(), right.to_owned(), format!("{left}{right}")].iter().all(|t| tokens.contains(t));
            assert!(all_tokens, "{merge}");
        }
    }

    #[test]
    fn bytes_map_to_alphabet_of_gpt_2() {
        let check = |byte: u8, expected: char| assert_eq!(alphabet_char(byte), expected, "byte {byte}");
        check(b'A', 'A');
        check(b' ', '\u{120}');
        check(b'\n', '\u{10a}');
        check(0x7f, '\u{121}');
        check(0xad, '\u{143}');
        check(0xff, '\u{ff}');
    }
}
