//! Limits of one rendering in Go's language.
//!
//! `{{ $x = print $x $x }}` doubles a text, so functions charge every text before they create it.

use std::cell::Cell;

use super::super::Error;

/// Maximum number of steps: nodes, loop turns and parts of expressions. Published templates take about 20 per message.
const MAX_STEPS: u64 = 4_000_000;
/// Maximum number of bytes that functions read and create in total: dozens of copies of a long conversation.
const MAX_BYTES: u64 = 40 << 20;
/// Maximum size of one text that a function creates, by its upper bound.
const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Maximum size of the output: more than fits into any model's context.
pub(super) const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// Maximum depth of nested blocks, expressions and calls of templates. A template without calls has at most 200, and a
/// level takes up to 4 KiB of stack in a debug build.
pub(super) const MAX_DEPTH: usize = 300;

/// Budget of one rendering.
#[derive(Debug, Default)]
pub(super) struct Budget {
    steps: Cell<u64>,
    bytes: Cell<u64>,
}

impl Budget {
    /// Charges steps.
    pub(super) fn steps(&self, count: u64) -> Result<(), Error> {
        self.steps.set(self.steps.get().saturating_add(count));
        if self.steps.get() > MAX_STEPS { Err(Error::TooLarge { what: "steps" }) } else { Ok(()) }
    }

    /// Charges bytes that a function reads.
    pub(super) fn read(&self, bytes: u64) -> Result<(), Error> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() > MAX_BYTES { Err(Error::TooLarge { what: "memory" }) } else { Ok(()) }
    }

    /// Charges a text before it is created. `bytes` is an upper bound of its size.
    pub(super) fn text(&self, bytes: u64) -> Result<(), Error> {
        if bytes > MAX_TEXT_BYTES { Err(Error::TooLarge { what: "memory" }) } else { self.read(bytes) }
    }
}
