//! Checks of latent attention: products and copies by head, and keys that contain their values.

use super::{PlanCheck, require};
use crate::plan::{Buffer, BufferId, HeadPart, Rows};
use crate::state::{State, StateId, Values};
use crate::weight::{Weight, WeightId};

impl PlanCheck<'_> {
    /// Returns the rows of a buffer that has this part with this number of elements.
    fn part(&self, part: HeadPart, width: usize) -> Result<Rows, String> {
        let HeadPart { buffer, heads, first } = part;
        let Buffer { rows, width: row } = self.buffer(buffer)?;
        let is_whole = heads > 0 && row.is_multiple_of(heads);
        let end = first.checked_add(width).filter(|end| is_whole && *end <= row / heads && width > 0);
        end.map(|_| rows).ok_or_else(|| {
            format!("buffer {} of width {row} has no {heads} heads with {width} elements from {first} on", buffer.0)
        })
    }

    /// Checks [`Op::MatMulHeads`](crate::Op::MatMulHeads).
    pub(super) fn multiply_heads(&self, from: HeadPart, weight: WeightId, to: HeadPart) -> Result<(), String> {
        let Weight { name, rows, cols, .. } = self.weight(weight)?;
        require(from.heads == to.heads && from.heads > 0 && rows.is_multiple_of(from.heads), || {
            format!("{name} is {rows} x {cols}, for {} heads and outputs of {}", from.heads, to.heads)
        })?;
        let alike = self.part(from, *cols)? == self.part(to, rows / from.heads)?;
        require(alike, || format!("buffers {} and {} have different rows", from.buffer.0, to.buffer.0))?;
        Self::apart(from.buffer, to.buffer)
    }

    /// Checks [`Op::CopyHeads`](crate::Op::CopyHeads).
    pub(super) fn copy_heads(&self, from: HeadPart, to: HeadPart, width: usize) -> Result<(), String> {
        let alike = self.part(from, width)? == self.part(to, width)?;
        require(alike && (from.heads == to.heads || from.heads == 1), || {
            format!("{} heads of buffer {} are no source of {} others", from.heads, from.buffer.0, to.heads)
        })?;
        Self::apart(from.buffer, to.buffer)
    }

    /// Checks [`Op::StoreKv`](crate::Op::StoreKv).
    pub(super) fn store(&self, state: StateId, k: BufferId, v: BufferId) -> Result<(), String> {
        match self.state(state)? {
            State { kv_heads, head_dim, values: Values::Rows(value_dim), .. } => {
                self.batch_rows(k, kv_heads * head_dim)?;
                self.batch_rows(v, kv_heads * value_dim)
            }
            other => Err(format!("state {} stores no values: {other:?}", state.0)),
        }
    }

    /// Checks [`Op::StoreLatent`](crate::Op::StoreLatent).
    pub(super) fn store_latent(&self, state: StateId, k: BufferId, v: BufferId) -> Result<(), String> {
        match self.state(state)? {
            State { kv_heads: 1, head_dim, values: Values::InKeys(value_dim), .. } => {
                self.batch_rows(k, head_dim.saturating_sub(value_dim))?;
                self.batch_rows(v, value_dim)
            }
            other => Err(format!("state {} has no values in the keys of one head: {other:?}", state.0)),
        }
    }
}
