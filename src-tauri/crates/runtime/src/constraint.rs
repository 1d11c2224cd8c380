//! Answers under a constraint, also of models that think before they answer.
//!
//! Reasoning is not constrained. A model begins with it or with the answer, unless its prompt began the reasoning already. So the
//! first token may begin the opening tag or the answer. Once the tag has begun, only its rest may follow. After the closing tag, the
//! constraint applies. Both happen in one generation: no prompt is computed twice, and the rows of the reasoning stay cached.
//!
//! A constraint depends on the answer's tokens only. It does not change when a context is shifted, a prompt is replaced or a sequence
//! is paused.

use cairn_grammar::Matcher;
use cairn_tokenizer::Tokenizer;

use crate::masks::{MaskWorker, Prepared};

/// A constraint on an answer. `app` compiles it, so that an error is found before the generation begins.
#[derive(Clone, Debug)]
pub struct Constrained {
    /// The constraint, at the start of the answer. Made with the vocabulary of the model: [`Lease::vocabulary`](crate::Lease::vocabulary).
    pub matcher: Matcher,
    /// Tags of the reasoning before the answer, if the model may think.
    pub thinking: Option<ThinkingTags>,
}

/// Tags around the reasoning of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinkingTags {
    /// The tag that begins the reasoning. None if the prompt ends with it, so that the model begins with its reasoning.
    pub open: Option<String>,
    /// The tag that ends the reasoning. The constraint applies after it.
    pub close: String,
}

/// The constraint of a running sequence.
#[derive(Debug)]
pub(crate) struct ActiveConstraint {
    phase: Phase,
    /// The closing tag of the reasoning.
    close: Vec<u8>,
    /// None after the worker failed.
    matcher: Option<Prepared>,
    /// None if the system refused the thread. Masks are then computed when they are needed.
    worker: Option<MaskWorker>,
}

/// Part of an answer.
#[derive(Debug)]
enum Phase {
    /// This opening tag or the answer comes next.
    Start(Vec<u8>),
    /// The rest of the opening tag comes next.
    Opening(Vec<u8>),
    /// Reasoning. Its last bytes may be the start of the closing tag.
    Thinking(Vec<u8>),
    Answer,
}

impl ActiveConstraint {
    pub(crate) fn new(constrained: Constrained, worker: Option<MaskWorker>) -> Self {
        let Constrained { matcher, thinking } = constrained;
        let (phase, close) = match thinking {
            None => (Phase::Answer, Vec::new()),
            Some(ThinkingTags { close, .. }) if close.is_empty() => (Phase::Answer, Vec::new()),
            Some(ThinkingTags { open: Some(open), close }) if !open.is_empty() => {
                (Phase::Start(open.into_bytes()), close.into_bytes())
            }
            Some(ThinkingTags { close, .. }) => (Phase::Thinking(Vec::new()), close.into_bytes()),
        };
        let mut constraint = Self { phase, close, matcher: None, worker };
        constraint.prepare(Box::new(matcher));
        constraint
    }

    /// Waits for the next mask, if one is needed and computed by the worker. Otherwise, [`ActiveConstraint::restrict`] waits.
    pub(crate) fn wait_for_mask(&mut self) {
        if matches!(self.phase, Phase::Start(_) | Phase::Answer) {
            // A failure is reported when the mask is used.
            let _ = self.matcher();
        }
    }

    /// Sets the logits of tokens that may not come next to negative infinity. Returns whether there is a constraint at this
    /// position.
    pub(crate) fn restrict(&mut self, logits: &mut [f32], tokenizer: &Tokenizer) -> Result<bool, String> {
        match &self.phase {
            Phase::Thinking(_) => return Ok(false),
            Phase::Answer => self.matcher()?.mask().map_err(|error| error.to_string())?.apply(logits),
            Phase::Opening(rest) => {
                let allowed = tokens_within(tokenizer, rest, logits);
                restore(logits, &allowed, |logits| logits.fill(f32::NEG_INFINITY));
            }
            Phase::Start(open) => {
                let allowed = tokens_within(tokenizer, open, logits);
                let mask = self.matcher()?.mask().map_err(|error| error.to_string())?;
                restore(logits, &allowed, |logits| mask.apply(logits));
            }
        }
        Ok(true)
    }

    /// Adds the token that was chosen, which does not end the generation. Returns whether the answer is complete.
    pub(crate) fn accept(&mut self, token: u32, tokenizer: &Tokenizer) -> Result<bool, String> {
        let piece = tokenizer.piece_with_special(token);
        if let Phase::Start(open) = &self.phase {
            // A token that begins both is the answer's.
            let open = open.clone();
            let is_answer = self.matcher()?.mask().map_err(|error| error.to_string())?.is_allowed(token);
            self.phase = if is_answer { Phase::Answer } else { Phase::Opening(open) };
        }
        match &mut self.phase {
            Phase::Start(_) | Phase::Answer => self.extend(|matcher| matcher.accept(token)),
            Phase::Opening(rest) => {
                rest.drain(..piece.len().min(rest.len()));
                if rest.is_empty() {
                    self.phase = Phase::Thinking(Vec::new());
                }
                Ok(false)
            }
            Phase::Thinking(end) => {
                end.extend_from_slice(piece);
                let Some(at) = end.windows(self.close.len()).position(|window| window == self.close) else {
                    let kept = end.len().min(self.close.len() - 1);
                    end.drain(..end.len() - kept);
                    return Ok(false);
                };
                let after = end[at + self.close.len()..].trim_ascii_start().to_vec();
                self.phase = Phase::Answer;
                // The token may have ended the tag and begun the answer.
                if after.is_empty() { Ok(false) } else { self.extend(|matcher| matcher.accept_bytes(&after)) }
            }
        }
    }

    /// Extends the answer, and has the next mask computed. Returns whether the answer is complete.
    fn extend(
        &mut self,
        add: impl FnOnce(&mut Matcher) -> Result<(), cairn_grammar::MatchError>,
    ) -> Result<bool, String> {
        let mut matcher = self.take()?;
        add(&mut matcher).map_err(|error| error.to_string())?;
        let is_complete = matcher.is_complete();
        if !is_complete {
            self.prepare(matcher);
        }
        Ok(is_complete)
    }

    fn prepare(&mut self, matcher: Box<Matcher>) {
        self.matcher = Some(match &self.worker {
            Some(worker) => worker.prepare(matcher),
            None => Prepared::Ready(matcher),
        });
    }

    fn take(&mut self) -> Result<Box<Matcher>, String> {
        let matcher = self.matcher.take().and_then(Prepared::wait);
        matcher.ok_or_else(|| "internal error: the mask was not computed".to_owned())
    }

    /// The matcher, after its mask was computed.
    fn matcher(&mut self) -> Result<&mut Matcher, String> {
        let matcher = self.take()?;
        match self.matcher.insert(Prepared::Ready(matcher)) {
            Prepared::Ready(matcher) => Ok(matcher),
            Prepared::Computing(_) => unreachable!("it was just replaced"),
        }
    }
}

/// Tokens with a text that `text` starts with, and their logits.
fn tokens_within(tokenizer: &Tokenizer, text: &[u8], logits: &[f32]) -> Vec<(usize, f32)> {
    let is_within = |id: &usize| {
        let piece = tokenizer.piece_with_special(*id as u32);
        !piece.is_empty() && text.starts_with(piece)
    };
    (0..tokenizer.vocab_size().min(logits.len())).filter(is_within).map(|id| (id, logits[id])).collect()
}

/// Changes logits, but not those of these tokens.
fn restore(logits: &mut [f32], tokens: &[(usize, f32)], change: impl FnOnce(&mut [f32])) {
    change(logits);
    tokens.iter().for_each(|&(id, logit)| logits[id] = logit);
}

#[cfg(test)]
mod tests {
    use cairn_gguf::Gguf;
    use cairn_grammar::{Constraint, Vocabulary};

    use super::*;

    /// A sequence of tokens that stand for one byte each, up to the end token.
    struct Case {
        tokenizer: Tokenizer,
        constraint: ActiveConstraint,
    }

    impl Case {
        fn new(regex: &str, open: Option<&str>, close: &str) -> Self {
            let file = cairn_testkit::write(&cairn_testkit::tiny_llama());
            let gguf = Gguf::parse(&file).expect("testkit writes complete files");
            let tokenizer = Tokenizer::from_metadata(gguf.metadata()).expect("the vocabulary is valid");
            let pieces = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.piece(id));
            let vocabulary = Vocabulary::new(pieces, tokenizer.end_ids()).expect("the vocabulary is valid");
            let matcher = Matcher::new(&vocabulary, &Constraint::Regex(regex.to_owned())).expect("it compiles");
            let thinking = Some(ThinkingTags { open: open.map(str::to_owned), close: close.to_owned() });
            let constraint = ActiveConstraint::new(Constrained { matcher, thinking }, MaskWorker::start().ok());
            Self { tokenizer, constraint }
        }

        /// Texts of the tokens that may come next, longest last; none if there is no constraint.
        fn allowed(&mut self) -> Option<Vec<String>> {
            let mut logits = vec![0.0; self.tokenizer.vocab_size()];
            let is_restricted = self.constraint.restrict(&mut logits, &self.tokenizer).expect("a token may come");
            let ids = (0..logits.len() as u32).filter(|&id| logits[id as usize] == 0.0);
            let mut texts: Vec<String> =
                ids.map(|id| String::from_utf8_lossy(self.tokenizer.piece_with_special(id)).into_owned()).collect();
            texts.sort();
            is_restricted.then_some(texts)
        }

        /// Adds a token for each of these texts. Returns whether the answer is complete.
        fn add(&mut self, texts: &[&str]) -> Result<bool, String> {
            let mut is_complete = false;
            for text in texts {
                assert!(!is_complete, "nothing follows a complete answer");
                let ids = 0..self.tokenizer.vocab_size() as u32;
                let token = ids.into_iter().find(|&id| self.tokenizer.piece(id) == text.as_bytes());
                let token = token.unwrap_or_else(|| panic!("no token {text:?}"));
                is_complete = self.constraint.accept(token, &self.tokenizer)?;
            }
            Ok(is_complete)
        }
    }

    #[test]
    fn answer_or_opening_tag_comes_first() {
        let mut case = Case::new("x[yz]", Some("<in>"), "</in>");
        assert_eq!(case.allowed().expect("restricted"), ["<", "x"], "the tag or the answer");
        assert_eq!(case.add(&["x"]), Ok(false), "the answer");
        assert_eq!(case.allowed().expect("restricted"), ["y", "z"], "no tag within the answer");
        assert_eq!(case.add(&["z"]), Ok(true), "the answer is complete");
    }

    #[test]
    fn reasoning_is_free_until_its_closing_tag() {
        let mut case = Case::new("x[yz]", Some("<in>"), "</in>");
        assert_eq!(case.add(&["<"]), Ok(false), "the tag begins");
        assert_eq!(case.allowed().expect("restricted"), ["i", "in"], "only the rest of the tag");
        assert_eq!(case.add(&["in", ">"]), Ok(false), "the tag");
        assert_eq!(case.allowed(), None, "reasoning");
        assert_eq!(case.add(&["x", "q", "<", "<", "/", "<", "/", "i", "n"]), Ok(false), "not the whole closing tag");
        assert_eq!(case.allowed(), None, "reasoning");
        assert_eq!(case.add(&[">"]), Ok(false), "the closing tag");
        assert_eq!(case.allowed().expect("restricted"), ["x"], "the answer begins");
        assert_eq!(case.add(&["x", "y"]), Ok(true), "the answer is complete");
    }

    #[test]
    fn prompt_that_began_the_reasoning_leaves_it_free() {
        let mut case = Case::new("[a-z]{3}", None, "g");
        assert_eq!(case.allowed(), None, "reasoning");
        assert_eq!(case.add(&["x", "ing"]), Ok(false), "a token ends with the closing tag");
        assert_eq!(case.allowed().expect("restricted").iter().filter(|text| text.len() == 1).count(), 26, "the answer");
        let mut case = Case::new("[a-z]{3}", None, "e");
        assert_eq!(case.add(&["mem"]), Ok(false), "a token ends the reasoning and begins the answer");
        assert_eq!(case.add(&["in"]), Ok(true), "the rest of the answer");
        let mut case = Case::new("[0-9]", None, "e");
        assert!(case.add(&["mem"]).is_err(), "the start of the answer is not valid");
    }

    #[test]
    fn empty_closing_tag_means_no_reasoning() {
        let mut case = Case::new("x[yz]", Some("<in>"), "");
        assert_eq!(case.allowed().expect("restricted"), ["x"], "the answer");
    }

    #[test]
    fn mask_is_computed_by_the_worker() {
        let mut case = Case::new("x[yz]", None, "");
        assert!(matches!(case.constraint.matcher, Some(Prepared::Computing(_))), "the first mask");
        assert_eq!(case.add(&["x"]), Ok(false), "a token");
        assert!(matches!(case.constraint.matcher, Some(Prepared::Computing(_))), "the next mask");
        case.constraint.worker = None;
        assert_eq!(case.add(&["y"]), Ok(true), "without the worker");
    }
}
