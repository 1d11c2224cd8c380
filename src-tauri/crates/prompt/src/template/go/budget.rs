//! What one rendering in Go's language may use.
//!
//! The engine itself bounds calls of templates in templates, and turns of loops. It does not bound what a turn costs, nor what
//! its functions make: `{{ $x = print $x $x }}` doubles a text. So every step is charged here, by an action that is put before
//! it ([`super::tree`]), and every text before it is made ([`super::functions`]).

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gotmpl::TemplateError;

/// Steps of a rendering: actions, and what their expressions consist of. Published templates take about ten for a message.
const MAX_STEPS: u64 = 2_000_000;
/// Turns of all loops together; more would run out of steps anyway, but for loops around nothing.
pub(super) const MAX_TURNS: u64 = 1_000_000;
/// Bytes that functions may read and make in all: dozens of copies of the longest conversation.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes of one text that a function makes, by what it takes at most.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Bytes of output: more than fits any model's context.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The budget of one rendering. It is shared with functions that must be `Sync`, and used by one thread.
#[derive(Debug, Default)]
pub(super) struct Budget {
    steps: AtomicU64,
    bytes: AtomicU64,
    line: AtomicUsize,
    exceeded: Mutex<Option<&'static str>>,
}

impl Budget {
    /// Charges a step on a line, by the size of its expressions.
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

    /// Charges a text that is to be made and has so many bytes at most.
    pub(super) fn text(&self, bytes: u64) -> Result<(), TemplateError> {
        if bytes > MAX_TEXT_BYTES { Err(self.exceed("memory")) } else { self.read(bytes) }
    }

    fn exceed(&self, what: &'static str) -> TemplateError {
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
        TemplateError::Exec(format!("the limit on its {what}"))
    }

    /// The limit that was exceeded.
    pub(super) fn exceeded(&self) -> Option<&'static str> {
        *self.exceeded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line of the latest step.
    pub(super) fn line(&self) -> usize {
        self.line.load(Ordering::Relaxed)
    }
}

/// The output, up to the limit.
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
