//! Limits of one rendering in Go's language.
//!
//! The engine limits nested template calls and loop turns, but not the cost of a turn or the output of functions:
//! `{{ $x = print $x $x }}` doubles a text. So an inserted action charges every step ([`super::tree`]), and functions
//! charge every text before they create it ([`super::functions`]).

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gotmpl::TemplateError;

/// Maximum number of steps: actions and parts of their expressions. Published templates take about 10 per message.
const MAX_STEPS: u64 = 2_000_000;
/// Maximum number of loop turns in total. Needed for loops with an empty body, which take no steps.
pub(super) const MAX_TURNS: u64 = 1_000_000;
/// Maximum number of bytes that functions read and create in total: dozens of copies of a long conversation.
const MAX_BYTES: u64 = 40 << 20;
/// Maximum size of one text that a function creates, by its upper bound.
const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Maximum size of the output: more than fits into any model's context.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Budget of one rendering. One thread uses it, but it is shared with functions that must be `Sync`.
#[derive(Debug, Default)]
pub(super) struct Budget {
    steps: AtomicU64,
    bytes: AtomicU64,
    line: AtomicUsize,
    exceeded: OnceLock<&'static str>,
}

impl Budget {
    /// Charges a step and records its line. `cost` is the size of its expressions.
    pub(super) fn step(&self, line: usize, cost: u64) -> Result<(), TemplateError> {
        self.line.store(line, Ordering::Relaxed);
        let before = self.steps.fetch_add(cost, Ordering::Relaxed);
        if before.saturating_add(cost) > MAX_STEPS { Err(self.exceed("steps")) } else { Ok(()) }
    }

    /// Charges bytes that a function reads.
    pub(super) fn read(&self, bytes: u64) -> Result<(), TemplateError> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > MAX_BYTES { Err(self.exceed("memory")) } else { Ok(()) }
    }

    /// Charges a text before it is created. `bytes` is an upper bound of its size.
    pub(super) fn text(&self, bytes: u64) -> Result<(), TemplateError> {
        if bytes > MAX_TEXT_BYTES { Err(self.exceed("memory")) } else { self.read(bytes) }
    }

    fn exceed(&self, what: &'static str) -> TemplateError {
        let what = self.exceeded.get_or_init(|| what);
        TemplateError::Exec(format!("the limit on its {what}"))
    }

    /// Returns the limit that was exceeded.
    pub(super) fn exceeded(&self) -> Option<&'static str> {
        self.exceeded.get().copied()
    }

    /// Returns the line of the latest step.
    pub(super) fn line(&self) -> usize {
        self.line.load(Ordering::Relaxed)
    }
}

/// Writer for the output that stops at the limit.
pub(super) struct Output<'a> {
    pub(super) text: &'a mut String,
    pub(super) budget: &'a Budget,
}

impl fmt::Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > MAX_OUTPUT_BYTES {
            self.budget.exceed("output");
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}
