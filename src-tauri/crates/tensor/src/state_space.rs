//! State space models (Mamba 2: Dao and Gu, arXiv 2405.21060): a state of fixed size for each head, which each token lets decay and adds
//! to.
//!
//! A state is computed token by token. The paper's form over chunks of a prompt has other rounding, so its results would depend on the
//! cuts of the prompt.
//!
//! ```text
//! state:  head 0, block 0 | head 0, block 1 | ... | head 1, block 0 | ...
//! block:  [state_size, up to 32 columns of the head]
//! ```

use std::ops::Range;

use crate::buffer::BufferId;
use crate::state::RecurrentId;
use crate::weight::WeightId;

/// Columns of a block.
pub(crate) const BLOCK: usize = cairn_kernels::SCAN_COLUMNS;

/// Parameters of [`Op::StateSpace`](crate::Op::StateSpace). For each head of each row, with the state `S [state_size, head_dim]`:
///
/// ```text
/// S   = decay * S + B (step * x)ᵀ
/// out = Sᵀ C + skip * x
/// ```
///
/// The state before a sequence is zero.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSpace {
    /// State of the layer: `heads * state_size * head_dim` elements.
    pub state: RecurrentId,
    /// `[rows, heads * head_dim + 2 * groups * state_size]`: inputs `x`, then `B` and `C` of each group.
    pub xbc: BufferId,
    /// `[rows, heads]`: step sizes.
    pub step: BufferId,
    /// `[rows, heads]`: factors on the states.
    pub decay: BufferId,
    /// `[heads]`: factors on the inputs.
    pub skip: WeightId,
    /// Groups of adjacent heads with the same `B` and `C`; divides `heads`.
    pub groups: usize,
    /// Heads.
    pub heads: usize,
    /// Elements of a head's input.
    pub head_dim: usize,
    /// Elements of `B` and of `C`.
    pub state_size: usize,
    /// Receives `[rows, heads * head_dim]`. None of the inputs.
    pub out: BufferId,
}

impl StateSpace {
    /// Elements of a row of `xbc`.
    pub(crate) fn input_width(&self) -> usize {
        self.heads * self.head_dim + 2 * self.groups * self.state_size
    }

    /// Elements of the state.
    pub(crate) fn elements(&self) -> usize {
        self.heads * self.state_size * self.head_dim
    }

    /// Positions of a head's `B` and `C` in a row of `xbc`.
    pub(crate) fn matrices(&self, head: usize) -> [Range<usize>; 2] {
        let group = head / (self.heads / self.groups);
        let first = self.heads * self.head_dim + group * self.state_size;
        [first, first + self.groups * self.state_size].map(|first| first..first + self.state_size)
    }

    /// Blocks of a head.
    pub(crate) fn blocks(&self) -> usize {
        self.head_dim.div_ceil(BLOCK)
    }

    /// Columns of a block, as elements of its head.
    pub(crate) fn columns(&self, block: usize) -> Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.head_dim)
    }

    /// Elements of a block in the state.
    pub(crate) fn place(&self, head: usize, block: usize) -> Range<usize> {
        let Range { start, end } = self.columns(block);
        let at = |column: usize| self.state_size * (head * self.head_dim + column);
        at(start)..at(end)
    }
}
