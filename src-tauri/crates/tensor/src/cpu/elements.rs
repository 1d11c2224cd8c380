//! Element-wise ops, split by chunks of elements, because one row of a wide layer is enough work for several threads.

use std::ops::Range;

use super::schedule::part_of;
use super::step::Step;
use crate::plan::{BufferId, Glu};
use crate::team::Worker;

/// Granularity of the split in elements: four cache lines.
const CHUNK: usize = 64;

impl Step<'_> {
    /// Returns this thread's elements of a buffer, as a range per row.
    fn own_elements(&self, worker: &Worker<'_>, id: BufferId) -> impl Iterator<Item = Range<usize>> {
        let width = self.width(id);
        let chunks_per_row = width.div_ceil(CHUNK);
        let rows = self.rows(id);
        let chunks = rows.start * chunks_per_row..rows.end * chunks_per_row;
        let own = part_of(chunks, worker.threads(), worker.index());
        let rows = own.start / chunks_per_row..own.end.div_ceil(chunks_per_row);
        rows.map(move |row| {
            let chunks = own.start.max(row * chunks_per_row)..own.end.min((row + 1) * chunks_per_row);
            let element = |chunk: usize| row * width + ((chunk - row * chunks_per_row) * CHUNK).min(width);
            element(chunks.start)..element(chunks.end)
        })
    }

    /// Computes in place.
    pub(super) fn by_chunks(&self, worker: &Worker<'_>, x: BufferId, compute: impl Fn(&mut [f32])) {
        for range in self.own_elements(worker, x) {
            compute(&mut self.buffer(x).write(worker, range));
        }
    }

    /// `out = activation(gate, up)`.
    pub(super) fn glu(&self, worker: &Worker<'_>, activation: Glu, [gate, up, out]: [BufferId; 3]) {
        for range in self.own_elements(worker, gate) {
            let up = self.buffer(up).read(worker, range.clone());
            let mut to = self.buffer(out).write(worker, range.clone());
            if gate != out {
                to.copy_from_slice(&self.buffer(gate).read(worker, range));
            }
            match activation {
                Glu::Silu => (self.variant.swiglu)(&mut to, &up),
                Glu::Gelu => (self.variant.geglu)(&mut to, &up),
                Glu::Clamped { alpha, limit } => (self.variant.clamped_glu)(&mut to, &up, alpha, limit),
            }
        }
    }
}
