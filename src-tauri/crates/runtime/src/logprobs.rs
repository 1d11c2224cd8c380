//! Log probabilities of an answer's tokens, sent with the text of the tokens.
//!
//! Text is held back while it may become a stop text or ends within a character. A token's log probability is sent with the
//! delta in which its text ends, so that clients can align the two. Tokens whose text a stop text cut off are not reported.

use std::collections::VecDeque;

use cairn_tokenizer::Tokenizer;

use crate::request::{Logprob, MIN_LOGPROB, TokenLogprob};

/// Log probabilities of one answer.
pub(crate) struct Logprobs {
    /// Number of most likely tokens to report for each position.
    top: usize,
    /// Logits of the current step, shape `[vocab]`. The sampler changes the originals in place.
    logits: Vec<f32>,
    /// Log probability of the chosen token, until the token is added.
    chosen: Option<Logprob>,
    /// Tokens whose text has not been sent.
    waiting: VecDeque<Waiting>,
    /// Bytes of decoded text.
    decoded_bytes: usize,
    /// Bytes of sent text.
    sent_bytes: usize,
}

struct Waiting {
    logprob: Logprob,
    /// Start of the token's text in the answer.
    start: usize,
    /// End of the token's text, once its last character is complete.
    end: Option<usize>,
}

impl Logprobs {
    pub(crate) fn new(top: usize) -> Self {
        Self { top, logits: Vec::new(), chosen: None, waiting: VecDeque::new(), decoded_bytes: 0, sent_bytes: 0 }
    }

    /// Copies a step's logits, before the sampler changes them.
    pub(crate) fn copy_logits(&mut self, logits: &[f32]) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
    }

    /// Computes the log probability of the chosen token.
    pub(crate) fn compute(&mut self, token: u32, tokenizer: &Tokenizer) {
        let (chosen, top) = log_softmax(&self.logits, token, self.top);
        let of_token = |(token, logprob): (u32, f64)| TokenLogprob {
            token,
            bytes: tokenizer.piece_with_special(token).to_vec(),
            logprob,
        };
        self.chosen = Some(Logprob { chosen: of_token((token, chosen)), top: top.into_iter().map(of_token).collect() });
    }

    /// Adds the chosen token. It completed `decoded_bytes` of text.
    pub(crate) fn add(&mut self, tokenizer: &Tokenizer, decoded_bytes: usize) {
        let Some(logprob) = self.chosen.take() else { return };
        let has_text = !tokenizer.piece(logprob.chosen.token).is_empty();
        self.push(logprob, has_text, decoded_bytes);
    }

    fn push(&mut self, logprob: Logprob, has_text: bool, decoded_bytes: usize) {
        self.waiting.push_back(Waiting { logprob, start: self.decoded_bytes, end: None });
        self.decoded_bytes += decoded_bytes;
        // A token that has text and completed none ends within a character. So do the tokens before it that wait.
        if decoded_bytes > 0 || !has_text {
            for waiting in self.waiting.iter_mut().rev().take_while(|waiting| waiting.end.is_none()) {
                waiting.end = Some(self.decoded_bytes);
            }
        }
    }

    /// Log probabilities to send with the next `bytes` of text. If `stopped`, no more text will follow.
    pub(crate) fn take_for_text(&mut self, bytes: usize, stopped: bool) -> Vec<Logprob> {
        self.sent_bytes += bytes;
        let sent = self.sent_bytes;
        let is_sent = |waiting: &Waiting| match stopped {
            // A part of its text was sent, and the rest never will be.
            true => waiting.start < sent,
            false => waiting.end.is_some_and(|end| end <= sent),
        };
        let count = self.waiting.iter().take_while(|waiting| is_sent(waiting)).count();
        self.waiting.drain(..count).map(|waiting| waiting.logprob).collect()
    }

    /// The remaining log probabilities, for an answer that ends without a stop text.
    pub(crate) fn take_all(&mut self) -> Vec<Logprob> {
        self.waiting.drain(..).map(|waiting| waiting.logprob).collect()
    }
}

/// The log probability of `chosen`, and those of the `top` most likely tokens. Equal tokens are ordered by id. Sums are `f64`, which
/// is exact enough for any vocabulary.
fn log_softmax(logits: &[f32], chosen: u32, top: usize) -> (f64, Vec<(u32, f64)>) {
    let number = |logit: f32| if logit.is_nan() { f64::NEG_INFINITY } else { f64::from(logit) };
    // Subtract the maximum: exp() overflows for logits above 709.
    let max = logits.iter().map(|logit| number(*logit)).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (number(*logit) - max).exp()).sum();
    let logprob = |logit: f32| match number(logit) - max - sum.ln() {
        logprob if logprob.is_finite() => logprob.max(MIN_LOGPROB),
        _ => MIN_LOGPROB,
    };
    let mut ids: Vec<u32> = Vec::new();
    if top > 0 {
        let logit = |id: u32| number(logits[id as usize]);
        let by_logit = |a: &u32, b: &u32| logit(*b).total_cmp(&logit(*a)).then(a.cmp(b));
        ids.extend(0..logits.len() as u32);
        if top < ids.len() {
            ids.select_nth_unstable_by(top, by_logit);
            ids.truncate(top);
        }
        ids.sort_unstable_by(by_logit);
    }
    let chosen = logits.get(chosen as usize).map_or(MIN_LOGPROB, |logit| logprob(*logit));
    (chosen, ids.into_iter().map(|id| (id, logprob(logits[id as usize]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_softmax_matches_expected_probabilities() {
        // Probabilities 1 : 2 : 4 : 2, moved far from zero.
        let logits = [900.0, 2f32.ln() + 900.0, 4f32.ln() + 900.0, 2f32.ln() + 900.0];
        let (chosen, top) = log_softmax(&logits, 0, 3);
        assert!((chosen - (1.0 / 9.0_f64).ln()).abs() < 1e-4, "one of nine: {chosen}");
        assert_eq!(top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 1, 3], "equal tokens are ordered by id");
        assert!((top[0].1 - (4.0 / 9.0_f64).ln()).abs() < 1e-4, "four of nine: {top:?}");
        assert_eq!(log_softmax(&logits, 0, 99).1.len(), 4, "at most the whole vocabulary");
        assert!(log_softmax(&logits, 0, 0).1.is_empty(), "no top tokens requested");
    }

    #[test]
    fn log_softmax_of_hostile_logits_is_finite() {
        for logits in [&[f32::INFINITY, 0.0][..], &[f32::NEG_INFINITY; 2], &[f32::NAN, 1.0], &[f32::NAN; 2]] {
            let (chosen, top) = log_softmax(logits, 0, 2);
            let all = top.iter().map(|(_, logprob)| *logprob).chain([chosen]);
            assert!(all.into_iter().all(f64::is_finite), "{logits:?}: {chosen} {top:?}");
        }
        assert_eq!(log_softmax(&[0.0, f32::NEG_INFINITY], 1, 0).0, MIN_LOGPROB, "an impossible token");
        assert_eq!(log_softmax(&[0.0], 7, 0).0, MIN_LOGPROB, "a token outside of the vocabulary");
    }

    /// Pushes tokens and sends text after each. A step is: whether the token has text, bytes that it completed, bytes that are
    /// sent, and whether the answer stopped. Returns the tokens that were sent after each step.
    fn sent_tokens(steps: &[(bool, usize, usize, bool)]) -> Vec<Vec<u32>> {
        let mut logprobs = Logprobs::new(0);
        let mut sent_tokens = Vec::new();
        for (token, (has_text, decoded, sent, stopped)) in steps.iter().enumerate() {
            let chosen = TokenLogprob { token: token as u32, bytes: Vec::new(), logprob: 0.0 };
            logprobs.push(Logprob { chosen, top: Vec::new() }, *has_text, *decoded);
            let sent = logprobs.take_for_text(*sent, *stopped);
            sent_tokens.push(sent.iter().map(|logprob| logprob.chosen.token).collect());
        }
        sent_tokens
    }

    #[test]
    fn tokens_are_sent_with_the_end_of_their_text() {
        let check = |steps: &[(bool, usize, usize, bool)], expected: &[&[u32]]| {
            assert_eq!(sent_tokens(steps), expected, "{steps:?}");
        };
        check(&[(true, 2, 2, false), (true, 3, 3, false)], &[&[0], &[1]]);
        // A character of three tokens.
        check(&[(true, 0, 0, false), (true, 0, 0, false), (true, 4, 4, false)], &[&[], &[], &[0, 1, 2]]);
        // Text that was held back as the start of a stop text, and then sent.
        check(&[(true, 2, 1, false), (true, 2, 3, false)], &[&[], &[0, 1]]);
        // A stop text: a part of the second token's text is sent, and nothing of the third's.
        check(&[(true, 2, 2, false), (true, 2, 1, false), (true, 2, 0, true)], &[&[0], &[], &[1]]);
        // A control token has no text to wait for.
        check(&[(false, 0, 0, false), (true, 1, 1, false)], &[&[0], &[1]]);
    }
}
