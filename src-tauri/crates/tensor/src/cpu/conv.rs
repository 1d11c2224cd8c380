//! Convolutions along the tokens of a sequence, split by elements.
//!
//! An element of a row is the sum of the same element of the last rows, oldest first, from the batch or from the snapshot that the
//! sequence continues from. So its bits do not depend on the cuts of a prompt.

use std::ops::Range;

use super::schedule::grouped_part;
use super::step::Step;
use crate::plan::BufferId;
use crate::snapshot::SnapshotTable;
use crate::state::RecurrentId;
use crate::team::Worker;
use crate::weight::WeightId;

/// Granularity of the split in elements: four cache lines.
const CHUNK: usize = 64;

impl Step<'_> {
    /// This thread's elements of a convolution. `history` has room for the state.
    pub(super) fn conv(
        &self,
        worker: &Worker<'_>,
        history: &mut [f32],
        state: RecurrentId,
        [x, out]: [BufferId; 2],
        bias: Option<WeightId>,
    ) {
        let width = self.width(x);
        let columns = grouped_part(width, CHUNK, worker.threads(), worker.index());
        if columns.is_empty() {
            return;
        }
        let taps = &self.prepared.taps[state.0 as usize];
        let before = taps.len() / width - 1;
        let history = &mut history[..before * columns.len()];
        let mut begin = self.rows.range.start;
        for rows in self.batch.rows[self.rows.range.clone()].chunk_by(|a, b| a.seq == b.seq) {
            let table = &self.batch.snapshots[rows[0].seq as usize];
            self.load_history(worker, history, state, table, &columns);
            let input = self.buffer(x).read(worker, begin * width..(begin + rows.len()) * width);
            // Row `nth` of those that begin `before` rows before the batch's.
            let row = |history: &[f32], nth: usize, to: &mut dyn FnMut(&[f32])| match nth.checked_sub(before) {
                Some(nth) => to(&input[nth * width..][columns.clone()]),
                None => to(&history[nth * columns.len()..][..columns.len()]),
            };
            for nth in 0..rows.len() {
                let start = (begin + nth) * width;
                let mut sum = self.buffer(out).write(worker, start + columns.start..start + columns.end);
                match bias {
                    Some(bias) => sum.copy_from_slice(&self.vectors[bias.0 as usize][columns.clone()]),
                    None => sum.fill(0.0),
                }
                for (tap, weight) in taps.chunks(width).enumerate() {
                    row(history, nth + tap, &mut |x| (self.variant.add_product)(&mut sum, x, &weight[columns.clone()]));
                }
            }
            for (tokens, to) in &table.to {
                let last = (tokens - rows[0].slot) as usize;
                for nth in 0..before {
                    let place = offset(&columns, nth * width);
                    row(history, last + nth, &mut |x| {
                        self.snapshots.write(worker, *to, state, place.clone()).copy_from_slice(x);
                    });
                }
            }
            begin += rows.len();
        }
    }

    /// Loads this thread's elements of the rows before a batch.
    fn load_history(
        &self,
        worker: &Worker<'_>,
        history: &mut [f32],
        state: RecurrentId,
        table: &SnapshotTable,
        columns: &Range<usize>,
    ) {
        let Some(from) = table.from else { return history.fill(0.0) };
        let width = self.prepared.plan.recurrent[state.0 as usize].elements / (history.len() / columns.len());
        for (nth, to) in history.chunks_mut(columns.len()).enumerate() {
            to.copy_from_slice(&self.snapshots.read(worker, from, state, offset(columns, nth * width)));
        }
    }
}

fn offset(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}
