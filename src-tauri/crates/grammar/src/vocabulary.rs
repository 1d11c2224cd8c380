//! A model's vocabulary in the form that masks are computed from.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::error::Error;
use crate::limits;

/// Longest piece that may occur in a constrained answer. The trie of pieces is limited to 1024 levels.
const MAX_PIECE_BYTES: usize = 512;
/// Maximum number of bytes of all pieces: the trie has at most as many nodes, and 22 bits for their number.
const MAX_TRIE_BYTES: usize = (1 << 22) - 1;
/// Number of tokens with equal pieces that may occur. A list of equal pieces is searched from its start.
const MAX_EQUAL_PIECES: u32 = 16;

/// The bytes of a model's tokens, indexed. For 128,000 tokens that takes about a second and some 50 MB, so it is built once for each
/// model and then shared.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    tokens: usize,
    end_ids: Vec<u32>,
}

impl Vocabulary {
    /// Builds a vocabulary from the bytes of each token, in the order of ids. Tokens without bytes, such as control tokens, never
    /// occur in a constrained answer. `end_ids` end an answer; their bytes do not matter.
    ///
    /// # Errors
    /// When there are too many tokens, or an end token is none of them.
    pub fn new<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, end_ids: &[u32]) -> Result<Arc<Self>, Error> {
        let mut equal: HashMap<&[u8], u32> = HashMap::new();
        let mut words: Vec<Vec<u8>> = Vec::new();
        for piece in pieces {
            // Byte 0xFF is never part of UTF-8, and marks special tokens in the trie.
            let mut is_text = piece.len() <= MAX_PIECE_BYTES && !piece.contains(&TokTrie::SPECIAL_TOKEN_MARKER);
            is_text &= !end_ids.contains(&(words.len() as u32));
            if is_text && !piece.is_empty() {
                let count = equal.entry(piece).or_default();
                *count += 1;
                is_text = *count <= MAX_EQUAL_PIECES;
            }
            words.push(if is_text { piece.to_vec() } else { Vec::new() });
        }
        drop(equal);
        let tokens = words.len();
        let bytes: usize = words.iter().map(Vec::len).sum();
        if bytes == 0 || bytes > MAX_TRIE_BYTES {
            return Err(Error::Vocabulary(format!(
                "{bytes} bytes in {tokens} tokens, 1 to {MAX_TRIE_BYTES} are supported"
            )));
        }
        if let Some(end) = end_ids.iter().find(|&&id| id as usize >= tokens) {
            return Err(Error::Vocabulary(format!("end token {end} is not one of {tokens} tokens")));
        }
        let mut trie = TokTrie::from(&TokRxInfo::new(tokens as u32, INVALID_TOKEN), &words);
        if !end_ids.is_empty() {
            trie = trie.with_eos_tokens(end_ids);
        }
        // This environment never forces tokens: the model chooses how a text is divided into tokens.
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(|error| Error::Vocabulary(error.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = limits::parser();
        Ok(Arc::new(Self { factory, tokens, end_ids: end_ids.to_vec() }))
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether it has no tokens. It always has one.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// Ids that end an answer.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("tokens", &self.tokens).field("end_ids", &self.end_ids).finish()
    }
}
