//! Byte-pair tokenizers, `gpt2` and `gemma4` in files: the pre-tokenizer of the file splits a text into words, and each
//! word is merged separately.

use std::borrow::Cow;

use crate::blanks::{self, Words};
use crate::bpe::{Merges, Scratch, Start, before_blanks};
use crate::error::Error;
use crate::pieces::{Index, Pieces};
use crate::pre::{PreTokenizer, WholeWords};
use crate::recent_words::RecentWords;
use crate::vocab::{TokenKind, Vocab};

/// Byte-pair tokenizer: pre-tokenizer and merges.
#[derive(Debug)]
pub(crate) struct BytePairs {
    pre: PreTokenizer,
    merges: Merges,
    whole_words: Option<WholeWordIndex>,
    /// Splitter of lines into words, if blanks are written as `▁`.
    words: Option<Words>,
}

/// Index of words that are tokens without merging.
#[derive(Debug)]
struct WholeWordIndex {
    texts: Pieces,
    index: Index,
}

impl BytePairs {
    /// Reads the merges for the pre-tokenizer of that name.
    pub(crate) fn build(vocab: &Vocab, kinds: &[TokenKind], pre: &str) -> Result<BytePairs, Error> {
        let pre = PreTokenizer::from_name(pre)?;
        let merges = Merges::build(vocab, pre.start)?;
        let whole_words = (pre.whole_words != WholeWords::None).then(|| {
            let mut texts = Pieces::default();
            for text in &vocab.tokens {
                texts.push(|bytes| match pre.start {
                    Start::Bytes => crate::alphabet::bytes_of(text, bytes),
                    Start::Characters => bytes.extend_from_slice(text.as_bytes()),
                });
            }
            let is_word = |id: u32| kinds.get(id as usize) == Some(&TokenKind::Normal);
            let index = Index::build(&texts, |id| {
                let line_feeds = texts.get(id).iter().all(|&byte| byte == b'\n');
                is_word(id) && (pre.whole_words == WholeWords::All || line_feeds)
            });
            WholeWordIndex { texts, index }
        });
        let words = (pre.start == Start::Characters).then(|| Words::new(before_blanks(&vocab.merges)));
        Ok(BytePairs { pre, merges, whole_words, words })
    }

    /// Returns whether to add BOS if the file has no flag.
    pub(crate) fn default_add_bos(&self) -> bool {
        self.pre.add_bos
    }

    /// Returns the initial units of words, which determine the form of token texts.
    pub(crate) fn start(&self) -> Start {
        self.pre.start
    }

    /// Appends the ids of a part of the input.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut text = Cow::Borrowed(text);
        if self.pre.start == Start::Characters {
            let mut escaped = String::with_capacity(text.len() + text.len() / 2);
            blanks::escape(&text, &mut escaped);
            text = Cow::Owned(escaped);
        }
        let mut scratch = Scratch::default();
        let mut recent = RecentWords::for_text(&text);
        let mut word = |range: std::ops::Range<usize>| {
            let word = text.get(range).unwrap_or_default();
            recent.ids_of(word.as_bytes(), ids, |ids| {
                let whole = self.whole_words.as_ref().and_then(|whole| whole.index.find(&whole.texts, word.as_bytes()));
                match whole {
                    Some(id) => ids.push(id),
                    None => self.merges.encode(word, &mut scratch, ids),
                }
            });
        };
        match &self.words {
            None => self.pre.words(&text, word),
            Some(words) => self.pre.words(&text, |line| {
                words.cut(text.get(line.clone()).unwrap_or_default(), line.start, &mut word);
            }),
        }
    }
}
