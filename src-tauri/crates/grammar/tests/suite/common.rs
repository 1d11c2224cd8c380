//! A vocabulary of single bytes, and answers that are added to a matcher byte by byte.

use std::sync::{Arc, LazyLock};

use cairn_grammar::{Constraint, Error, Matcher, Vocabulary};

/// Id of the end token.
pub(crate) const END: u32 = 256;

/// All bytes, and the end token.
pub(crate) fn bytes() -> Arc<Vocabulary> {
    static VOCABULARY: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| {
        let all: Vec<u8> = (0..=255).collect();
        let pieces = all.chunks(1).chain([&b""[..]]);
        Vocabulary::new(pieces, &[END]).expect("the vocabulary is valid")
    });
    Arc::clone(&VOCABULARY)
}

pub(crate) fn matcher(constraint: &Constraint) -> Result<Matcher, Error> {
    Matcher::new(&bytes(), constraint)
}

pub(crate) fn schema(text: &str) -> Constraint {
    Constraint::JsonSchema(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}")))
}

/// How much of an answer a constraint allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The byte at this position may not come next.
    Refused(usize),
    /// The answer may be continued, but not end.
    Incomplete,
    /// The answer may end.
    Accepted,
}

/// Adds an answer byte by byte.
pub(crate) fn verdict(matcher: &Matcher, answer: &str) -> Verdict {
    let mut matcher = matcher.clone();
    for (position, byte) in answer.bytes().enumerate() {
        let mask = matcher.mask().unwrap_or_else(|error| panic!("{error} after {position} bytes of {answer}"));
        if !mask.is_allowed(u32::from(byte)) {
            return Verdict::Refused(position);
        }
        matcher.accept(u32::from(byte)).unwrap_or_else(|error| panic!("{error} at byte {position} of {answer}"));
    }
    let can_end = matcher.mask().is_ok_and(|mask| mask.is_allowed(END));
    assert_eq!(can_end, matcher.is_accepting(), "the end token is allowed where the answer matches: {answer}");
    if can_end { Verdict::Accepted } else { Verdict::Incomplete }
}

/// Checks which answers a constraint accepts.
pub(crate) fn check(constraint: &Constraint, accepted: &[&str], others: &[&str]) {
    let matcher = matcher(constraint).unwrap_or_else(|error| panic!("{error}: {constraint:?}"));
    for answer in accepted {
        assert_eq!(verdict(&matcher, answer), Verdict::Accepted, "{answer} under {constraint:?}");
    }
    for answer in others {
        assert_ne!(verdict(&matcher, answer), Verdict::Accepted, "{answer} under {constraint:?}");
    }
}
