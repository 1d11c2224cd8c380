//! Sets of token ids.

use llguidance::toktrie::SimpleVob;

/// The tokens that may come next.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a>(&'a SimpleVob);

impl<'a> Mask<'a> {
    pub(crate) fn new(tokens: &'a SimpleVob) -> Self {
        Self(tokens)
    }

    /// Whether the token may come next. False outside of the vocabulary.
    pub fn is_allowed(self, token: u32) -> bool {
        (token as usize) < self.0.len() && self.0.is_allowed(token)
    }

    /// Number of allowed tokens.
    pub fn count(self) -> usize {
        self.0.num_set()
    }

    /// One bit for each token id, the lowest bit of each word first. Bits beyond the vocabulary are 0.
    pub fn words(self) -> &'a [u32] {
        self.0.as_slice()
    }

    /// Sets the logits of all other tokens to negative infinity. Logits beyond the vocabulary are padding, and never allowed.
    pub fn apply(self, logits: &mut [f32]) {
        let words = self.words().iter().copied().chain(std::iter::repeat(0));
        for (chunk, word) in logits.chunks_mut(u32::BITS as usize).zip(words) {
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if word & (1 << bit) == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
}
