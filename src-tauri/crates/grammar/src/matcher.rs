//! Follows one answer under a constraint.

use std::fmt;
use std::sync::Arc;

use llguidance::api::{StopReason, TopLevelGrammar};
use llguidance::toktrie::SimpleVob;

use crate::constraint::Constraint;
use crate::error::{Error, MatchError, excerpt};
use crate::limits::COMPILE_STACK_BYTES;
use crate::mask::Mask;
use crate::regex;
use crate::vocabulary::Vocabulary;

/// Longest reason in an error, in characters.
const MAX_REASON_CHARS: usize = 300;

/// The state of one answer under a constraint. A clone continues on its own.
pub struct Matcher {
    inner: llguidance::Matcher,
    vocabulary: Arc<Vocabulary>,
    /// The mask of the current position, once it was computed.
    mask: Option<SimpleVob>,
}

impl Matcher {
    /// Compiles a constraint, for the start of an answer. Takes milliseconds, and up to seconds for hostile input.
    ///
    /// # Errors
    /// When the constraint is invalid, too large, too complex, or not supported.
    pub fn new(vocabulary: &Arc<Vocabulary>, constraint: &Constraint) -> Result<Self, Error> {
        // Both the rewriting and the compiler recurse, and callers may have small stacks.
        let compile = || {
            constraint.check_size()?;
            let grammar = constraint.to_grammar()?;
            compile(vocabulary, grammar).map_err(|reason| compile_error(constraint, &reason))
        };
        let inner = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("cairn-grammar".to_owned()).stack_size(COMPILE_STACK_BYTES);
            let thread = thread.spawn_scoped(scope, compile).map_err(|_| Error::Thread)?;
            let panicked = |_| Error::Compile { kind: constraint.kind(), reason: "the compiler failed".to_owned() };
            thread.join().map_err(panicked)?
        })?;
        let mut matcher = Self { inner, vocabulary: Arc::clone(vocabulary), mask: None };
        // A constraint that allows nothing fails now, not during the answer.
        matcher.mask().map_err(|error| compile_error(constraint, &error.0))?;
        Ok(matcher)
    }

    /// Returns the tokens that may come next, and computes them first if [`Matcher::mask`] was not called since the last token.
    /// Only end tokens may follow a complete answer, and they may also follow an incomplete one that matches.
    ///
    /// # Errors
    /// When no token may come next, or the limit of work is reached.
    pub fn mask(&mut self) -> Result<Mask<'_>, MatchError> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.compute()?,
        };
        Ok(Mask::new(self.mask.insert(mask)))
    }

    fn compute(&mut self) -> Result<SimpleVob, MatchError> {
        if self.is_complete() {
            let mut ends = SimpleVob::alloc(self.vocabulary.len());
            self.vocabulary.end_ids().iter().for_each(|&id| ends.allow_token(id));
            return Ok(ends);
        }
        self.inner.compute_mask().map_err(|error| self.match_error(&error.to_string()))
    }

    /// Adds the next token of the answer.
    ///
    /// # Errors
    /// When the token may not come next, or the limit of work is reached. The matcher cannot be used any more.
    pub fn accept(&mut self, token: u32) -> Result<(), MatchError> {
        self.mask = None;
        self.inner.consume_token(token).map_err(|error| self.match_error(&error.to_string()))
    }

    /// Adds text that is part of the answer but not a whole token.
    ///
    /// # Errors
    /// As for [`Matcher::accept`].
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Result<(), MatchError> {
        let trie = self.vocabulary.factory.tok_env().tok_trie();
        let tokens = trie.greedy_tokenize(bytes);
        if trie.decode_raw(&tokens) != bytes {
            return Err(MatchError("text that the vocabulary cannot represent".to_owned()));
        }
        tokens.into_iter().try_for_each(|token| self.accept(token))
    }

    /// Whether the answer so far matches the constraint. It may still be continued.
    pub fn is_accepting(&mut self) -> bool {
        self.is_complete() || self.inner.is_accepting().unwrap_or(false)
    }

    /// Whether the answer matches the constraint and cannot be continued.
    pub fn is_complete(&self) -> bool {
        matches!(self.inner.stop_reason(), StopReason::NoExtension | StopReason::EndOfSentence)
    }

    fn match_error(&self, error: &str) -> MatchError {
        MatchError(match self.inner.stop_reason() {
            StopReason::LexerTooComplex | StopReason::ParserTooComplex => "it needs too much work".to_owned(),
            StopReason::NoExtensionBias => "no token can continue the answer".to_owned(),
            _ => summary(error),
        })
    }
}

impl Clone for Matcher {
    fn clone(&self) -> Self {
        // The clones would otherwise wait for each other's locks.
        let inner = self.inner.deep_clone();
        Self { inner, vocabulary: Arc::clone(&self.vocabulary), mask: self.mask.clone() }
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("is_complete", &self.is_complete()).finish_non_exhaustive()
    }
}

fn compile(vocabulary: &Vocabulary, grammar: TopLevelGrammar) -> Result<llguidance::Matcher, String> {
    let parser = vocabulary.factory.create_parser(grammar).map_err(|error| format!("{error:#}"))?;
    Ok(llguidance::Matcher::new(Ok(parser)))
}

fn compile_error(constraint: &Constraint, reason: &str) -> Error {
    let reason = match constraint {
        // The compiler puts the expression and its place in a grammar in front of the reason.
        Constraint::Regex(text) => {
            let of_compiler = || summary(reason.rsplit_once("(in regex): ").map_or(reason, |(_, reason)| reason));
            regex::problem(text).unwrap_or_else(of_compiler)
        }
        // The compiler catches its own panics. This is the one that a grammar can cause: no token of a vocabulary is special.
        _ if reason.contains("missing special token prefix") => "special tokens are not supported".to_owned(),
        _ => summary(reason),
    };
    match reason.split_once("Unsatisfiable schema: ") {
        Some((_, why)) => Error::Unsatisfiable(why.to_owned()),
        None => Error::Compile { kind: constraint.kind(), reason },
    }
}

/// The start of the first line of an error: the compiler repeats its input, and adds states and backtraces. If an expression is
/// invalid, its reason is in the last line, below a drawing of the expression.
fn summary(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default().trim();
    let reason = error.lines().rev().find_map(|line| line.strip_prefix("error: "));
    match line.strip_suffix(": regex parse error:").zip(reason) {
        Some((place, reason)) => {
            format!("{}: {}", excerpt(place, MAX_REASON_CHARS), excerpt(reason, MAX_REASON_CHARS))
        }
        None => excerpt(line, MAX_REASON_CHARS),
    }
}
