//! How likely the tokens of an answer were, told together with their text.
//!
//! Text is held back while it may become a stop text or ends within a character. What is told of a token goes out with the
//! piece of text in which the token's own text ends, so that a reader can lay the two side by side; a token whose text was
//! cut off by a stop text is not told at all.

use std::collections::VecDeque;

use cairn_tokenizer::Tokenizer;

use crate::request::{IMPOSSIBLE, Likely, Logprob};

/// One answer's.
pub(crate) struct Logprobs {
    /// How many of the likeliest are wanted beside the chosen one.
    top: usize,
    /// The logits of the current step, as the model gave them: a sampler changes its own in place.
    logits: Vec<f32>,
    /// Tokens whose text has not gone out yet.
    waiting: VecDeque<Waiting>,
    /// Bytes of text that the tokens have come to.
    decoded_bytes: usize,
    /// Bytes of it that have gone out.
    shown_bytes: usize,
}

struct Waiting {
    logprob: Logprob,
    /// Where its text begins, and where it ends once its last character is whole.
    starts: usize,
    ends: Option<usize>,
}

impl Logprobs {
    pub(crate) fn new(top: usize) -> Self {
        Self { top, logits: Vec::new(), waiting: VecDeque::new(), decoded_bytes: 0, shown_bytes: 0 }
    }

    /// Takes note of a step's logits, before the sampler changes them.
    pub(crate) fn see(&mut self, logits: &[f32]) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
    }

    /// Takes the token that was chosen, and the length of the text that became whole with it.
    pub(crate) fn take(&mut self, token: u32, tokenizer: &Tokenizer, decoded_bytes: usize) {
        let (chosen, top) = likeliest(&self.logits, token, self.top);
        let likely = |(token, logprob): (u32, f64)| Likely {
            token,
            bytes: tokenizer.piece_with_special(token).to_vec(),
            logprob,
        };
        let logprob = Logprob { chosen: likely((token, chosen)), top: top.into_iter().map(likely).collect() };
        let has_text = !tokenizer.piece(token).is_empty();
        self.push(logprob, has_text, decoded_bytes);
    }

    fn push(&mut self, logprob: Logprob, has_text: bool, decoded_bytes: usize) {
        self.waiting.push_back(Waiting { logprob, starts: self.decoded_bytes, ends: None });
        self.decoded_bytes += decoded_bytes;
        // A token that has text and completed none ends within a character, and so do those before it that wait.
        if decoded_bytes > 0 || !has_text {
            for waiting in self.waiting.iter_mut().rev().take_while(|waiting| waiting.ends.is_none()) {
                waiting.ends = Some(self.decoded_bytes);
            }
        }
    }

    /// What is told with the next `bytes` of text, of which, when the answer `stopped`, no more will follow.
    pub(crate) fn shown(&mut self, bytes: usize, stopped: bool) -> Vec<Logprob> {
        self.shown_bytes += bytes;
        let shown = self.shown_bytes;
        let goes = |waiting: &Waiting| match stopped {
            // A part of its text has gone out, and the rest never will.
            true => waiting.starts < shown,
            false => waiting.ends.is_some_and(|ends| ends <= shown),
        };
        let count = self.waiting.iter().take_while(|waiting| goes(waiting)).count();
        self.waiting.drain(..count).map(|waiting| waiting.logprob).collect()
    }

    /// What is told at the end of an answer that no stop text cut.
    pub(crate) fn rest(&mut self) -> Vec<Logprob> {
        self.waiting.drain(..).map(|waiting| waiting.logprob).collect()
    }
}

/// The logarithm of the probability of `chosen`, and those of the `top` likeliest with their ids, lower ids first among
/// equals. Sums are in `f64`, whose 53 bits outlast any vocabulary.
fn likeliest(logits: &[f32], chosen: u32, top: usize) -> (f64, Vec<(u32, f64)>) {
    let number = |logit: f32| if logit.is_nan() { f64::NEG_INFINITY } else { f64::from(logit) };
    // The largest comes off first: exp() overflows on raw logits past 709.
    let max = logits.iter().map(|logit| number(*logit)).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (number(*logit) - max).exp()).sum();
    let logprob = |logit: f32| match number(logit) - max - sum.ln() {
        logprob if logprob.is_finite() => logprob.max(IMPOSSIBLE),
        _ => IMPOSSIBLE,
    };
    let mut ids: Vec<u32> = Vec::new();
    if top > 0 {
        let logit = |id: u32| number(logits[id as usize]);
        let likelier = |a: &u32, b: &u32| logit(*b).total_cmp(&logit(*a)).then(a.cmp(b));
        ids.extend(0..logits.len() as u32);
        if top < ids.len() {
            ids.select_nth_unstable_by(top, likelier);
            ids.truncate(top);
        }
        ids.sort_unstable_by(likelier);
    }
    let chosen = logits.get(chosen as usize).map_or(IMPOSSIBLE, |logit| logprob(*logit));
    (chosen, ids.into_iter().map(|id| (id, logprob(logits[id as usize]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_softmax_of_known_logits() {
        // Probabilities 1 : 2 : 4 : 2, moved far from zero.
        let logits = [900.0, 2f32.ln() + 900.0, 4f32.ln() + 900.0, 2f32.ln() + 900.0];
        let (chosen, top) = likeliest(&logits, 0, 3);
        assert!((chosen - (1.0 / 9.0_f64).ln()).abs() < 1e-4, "one of nine: {chosen}");
        assert_eq!(top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 1, 3], "lower ids first among equals");
        assert!((top[0].1 - (4.0 / 9.0_f64).ln()).abs() < 1e-4, "four of nine: {top:?}");
        assert_eq!(likeliest(&logits, 0, 99).1.len(), 4, "there are no more than there are");
        assert!(likeliest(&logits, 0, 0).1.is_empty(), "none were asked for");
    }

    #[test]
    fn hostile_logits_have_finite_logarithms() {
        for logits in [&[f32::INFINITY, 0.0][..], &[f32::NEG_INFINITY; 2], &[f32::NAN, 1.0], &[f32::NAN; 2]] {
            let (chosen, top) = likeliest(logits, 0, 2);
            let all = top.iter().map(|(_, logprob)| *logprob).chain([chosen]);
            assert!(all.into_iter().all(f64::is_finite), "{logits:?}: {chosen} {top:?}");
        }
        assert_eq!(likeliest(&[0.0, f32::NEG_INFINITY], 1, 0).0, IMPOSSIBLE, "what cannot be");
        assert_eq!(likeliest(&[0.0], 7, 0).0, IMPOSSIBLE, "what the model does not have");
    }

    /// Pushes tokens, each as whether it has text and the bytes that became whole with it, shows text after each, and
    /// says which tokens went out when.
    fn told(steps: &[(bool, usize, usize, bool)]) -> Vec<Vec<u32>> {
        let mut logprobs = Logprobs::new(0);
        let mut told = Vec::new();
        for (token, (has_text, decoded, shown, stopped)) in steps.iter().enumerate() {
            let chosen = Likely { token: token as u32, bytes: Vec::new(), logprob: 0.0 };
            logprobs.push(Logprob { chosen, top: Vec::new() }, *has_text, *decoded);
            told.push(logprobs.shown(*shown, *stopped).iter().map(|logprob| logprob.chosen.token).collect());
        }
        told
    }

    #[test]
    fn tokens_go_out_with_the_end_of_their_text() {
        let check = |steps: &[(bool, usize, usize, bool)], expected: &[&[u32]]| {
            assert_eq!(told(steps), expected, "{steps:?}");
        };
        check(&[(true, 2, 2, false), (true, 3, 3, false)], &[&[0], &[1]]);
        // A character of three tokens.
        check(&[(true, 0, 0, false), (true, 0, 0, false), (true, 4, 4, false)], &[&[], &[], &[0, 1, 2]]);
        // Held back as the beginning of a stop text, and let go.
        check(&[(true, 2, 1, false), (true, 2, 3, false)], &[&[], &[0, 1]]);
        // Held back, and then it is one: the second token's text is shown in part, the third's not at all.
        check(&[(true, 2, 2, false), (true, 2, 1, false), (true, 2, 0, true)], &[&[0], &[], &[1]]);
        // A control token has no text to wait for.
        check(&[(false, 0, 0, false), (true, 1, 1, false)], &[&[0], &[1]]);
    }
}
