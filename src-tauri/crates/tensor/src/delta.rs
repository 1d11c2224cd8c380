//! Linear attention by the gated delta rule (Yang et al., arXiv 2412.06464): a state of fixed size for each head instead of keys and
//! values of all positions.
//!
//! A state is computed token by token. The parallel form over chunks of a prompt has other rounding, so its results would depend on
//! the cuts of the prompt.
//!
//! ```text
//! state:  head 0, block 0 | head 0, block 1 | ... | head 1, block 0 | ...
//! block:  [key_dim, up to 32 columns of the value]
//! ```

use std::ops::Range;

use crate::buffer::BufferId;
use crate::state::RecurrentId;

/// Columns of a block of a state: as many as the kernels take.
pub(crate) const BLOCK: usize = cairn_kernels::DELTA_COLUMNS;

/// Which heads use a key/query head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySharing {
    /// Head `h` uses key head `h / (heads / key_heads)`.
    Adjacent,
    /// Head `h` uses key head `h % key_heads`.
    Tiled,
}

/// Parameters of [`Op::DeltaRule`](crate::Op::DeltaRule). For each head of each row, with the state `S [key_dim, value_dim]`:
///
/// ```text
/// S     = decay * S
/// error = beta * (v - Sᵀ k / |k|)
/// S     = S + (k / |k|) errorᵀ
/// out   = Sᵀ q / |q| / sqrt(key_dim)
/// ```
///
/// where `|x| = sqrt(sum(x²) + eps)`. The state before a sequence is zero.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaRule {
    /// State of the layer: `heads * key_dim * value_dim` elements.
    pub state: RecurrentId,
    /// `[rows, 2 * key_heads * key_dim + heads * value_dim]`: queries, keys, values.
    pub qkv: BufferId,
    /// `[rows, heads]`: factors on the states.
    pub decay: BufferId,
    /// `[rows, heads]`: factors on the errors.
    pub beta: BufferId,
    /// Heads of queries and keys; divides `heads`.
    pub key_heads: usize,
    /// Heads of values.
    pub heads: usize,
    /// Elements of a query or a key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// Which heads use a key/query head.
    pub sharing: KeySharing,
    /// Added to the sums of squares.
    pub eps: f32,
    /// Receives `[rows, heads * value_dim]`. None of the inputs.
    pub out: BufferId,
}

impl DeltaRule {
    /// Elements of a row of `qkv`.
    pub(crate) fn input_width(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.heads * self.value_dim
    }

    /// Elements of the state.
    pub(crate) fn elements(&self) -> usize {
        self.heads * self.key_dim * self.value_dim
    }

    /// Key/query head of a head.
    pub(crate) fn key_head(&self, head: usize) -> usize {
        match self.sharing {
            KeySharing::Adjacent => head / (self.heads / self.key_heads),
            KeySharing::Tiled => head % self.key_heads,
        }
    }

    /// Positions of a key/query head's query and key in a row of `qkv`.
    pub(crate) fn query_and_key(&self, key_head: usize) -> [Range<usize>; 2] {
        let at = |first: usize| first * self.key_dim..(first + 1) * self.key_dim;
        [at(key_head), at(self.key_heads + key_head)]
    }

    /// Position of the values in a row of `qkv`.
    pub(crate) fn values(&self) -> usize {
        2 * self.key_heads * self.key_dim
    }

    /// Blocks of a head.
    pub(crate) fn blocks(&self) -> usize {
        self.value_dim.div_ceil(BLOCK)
    }

    /// Columns of a block, as elements of its head's value.
    pub(crate) fn columns(&self, block: usize) -> Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.value_dim)
    }

    /// Elements of a block in the state.
    pub(crate) fn place(&self, head: usize, block: usize) -> Range<usize> {
        let Range { start, end } = self.columns(block);
        let at = |column: usize| self.key_dim * (head * self.value_dim + column);
        at(start)..at(end)
    }
}
