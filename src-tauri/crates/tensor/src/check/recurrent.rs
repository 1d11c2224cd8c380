//! Checks of recurrent states and of the snapshots that a batch reads and writes.

use super::{PlanCheck, require};
use crate::batch::Batch;
use crate::plan::{BufferId, Plan};
use crate::snapshot::SnapshotTable;
use crate::state::RecurrentId;
use crate::weight::{Weight, WeightId};

/// Most rows of a convolution. Models have three or four.
const MAX_KERNEL: usize = 16;
/// Most elements of one recurrent state: 128 heads of 256 x 256, twice the largest model's.
const MAX_ELEMENTS: usize = 8 << 20;

/// Checks that each recurrent state has a size and exactly one op.
pub(super) fn states(plan: &Plan) -> Result<(), String> {
    let mut uses = vec![0; plan.recurrent.len()];
    for op in &plan.ops {
        if let Some(state) = op.recurrent() {
            uses[state.0 as usize] += 1;
        }
    }
    for (index, (state, uses)) in plan.recurrent.iter().zip(uses).enumerate() {
        let elements = state.elements;
        require((1..=MAX_ELEMENTS).contains(&elements), || format!("recurrent state {index} has {elements} elements"))?;
        require(uses == 1, || format!("recurrent state {index} has {uses} ops, not one"))?;
    }
    Ok(())
}

impl PlanCheck<'_> {
    fn elements(&self, state: RecurrentId) -> Result<usize, String> {
        let elements = self.plan.recurrent.get(state.0 as usize).map(|state| state.elements);
        elements.ok_or_else(|| format!("there is no recurrent state {}", state.0))
    }

    /// Checks the size of a recurrent state.
    pub(super) fn recurrent(&self, state: RecurrentId, wanted: usize) -> Result<(), String> {
        let elements = self.elements(state)?;
        require(elements == wanted, || {
            format!("recurrent state {} has {elements} elements, its op needs {wanted}", state.0)
        })
    }

    pub(super) fn conv(
        &self,
        state: RecurrentId,
        [x, out]: [BufferId; 2],
        weight: WeightId,
        bias: Option<WeightId>,
    ) -> Result<(), String> {
        let elements = self.elements(state)?;
        let Weight { name, rows, cols, .. } = self.weight(weight)?;
        self.batch_rows(x, *rows)?;
        self.batch_rows(out, *rows)?;
        require((2..=MAX_KERNEL).contains(cols), || {
            format!("{name} is {rows} x {cols}, a convolution has 2 to {MAX_KERNEL} rows")
        })?;
        require(elements == (cols - 1) * rows, || {
            format!("{name} is {rows} x {cols}, its state has {elements} elements")
        })?;
        bias.map_or(Ok(()), |bias| self.vector(bias, *rows))?;
        Self::apart(x, out)
    }
}

/// Checks that the rows of each sequence continue from a snapshot to others that only it writes.
pub(super) fn snapshots(batch: &Batch, count: usize) -> Result<(), String> {
    let mut row = 0;
    for rows in batch.rows.chunk_by(|a, b| a.seq == b.seq) {
        let (seq, first, end) = (rows[0].seq, rows[0].slot, rows[0].slot as usize + rows.len());
        let is_consecutive = rows[rows.len() - 1].slot as usize + 1 == end;
        require(is_consecutive, || format!("the rows from {row} on skip slots, which recurrent states need"))?;
        row += rows.len();
        let table = batch.snapshots.get(seq as usize);
        let SnapshotTable { from, to } = table.ok_or_else(|| format!("sequence {seq} has no snapshots"))?;
        require(from.is_some() == (first > 0), || format!("sequence {seq} continues from {from:?} at slot {first}"))?;
        let ascending = to.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let begins_after = to.first().is_some_and(|(tokens, _)| *tokens > first);
        let ends = to.last().is_some_and(|(tokens, _)| *tokens as usize == end);
        require(ascending && begins_after && ends, || {
            format!("sequence {seq} has slots {first}..{end}, its snapshots are after {to:?}")
        })?;
        for (nth, (_, written)) in to.iter().enumerate() {
            let read = batch.snapshots.iter().filter(|table| table.from == Some(*written)).count();
            let writes = batch.snapshots.iter().flat_map(|table| &table.to).filter(|(_, id)| id == written).count();
            require(read == 0 && writes == 1, || format!("snapshot {nth} of sequence {seq} has another use"))?;
        }
        let mut used = to.iter().map(|(_, id)| id).chain(from);
        let beyond = used.find(|id| id.0 as usize >= count);
        beyond.map_or(Ok(()), |id| Err(format!("snapshot {} is beyond the pool's {count}", id.0)))?;
    }
    Ok(())
}
