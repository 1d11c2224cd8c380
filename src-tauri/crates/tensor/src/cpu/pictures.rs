//! Ops over the rows of pictures, on one thread.

use super::step::Step;
use crate::batch::Input;
use crate::grid;
use crate::plan::BufferId;
use crate::team::Worker;
use crate::weight::WeightId;

impl Step<'_> {
    /// [`Op::AddGridEmbedding`](crate::Op::AddGridEmbedding).
    pub(super) fn add_grid_embedding(
        &self,
        worker: &Worker<'_>,
        memory: &mut [f32],
        x: BufferId,
        table: WeightId,
        side: usize,
    ) {
        let table = &self.weights[table.0 as usize];
        let memory = &mut memory[..table.cols];
        for row in self.own_rows(worker, x) {
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            for (index, weight) in grid::corners(self.batch.rows[row].pos, side) {
                if weight != 0.0 {
                    (self.variant.decode_row)(table.dtype, table.row_bytes(index..index + 1), memory);
                    (self.variant.scale)(memory, weight as f32);
                    (self.variant.add)(&mut x, memory);
                }
            }
        }
    }

    /// [`Op::AddInput`](crate::Op::AddInput).
    pub(super) fn add_input(&self, worker: &Worker<'_>, x: BufferId, first: usize) {
        let width = self.prepared.plan.input_width();
        for row in self.own_rows(worker, x) {
            if let Input::Embedding(at) = self.batch.rows[row].input {
                let mut x = self.buffer(x).write(worker, self.row(x, row));
                let added = &self.batch.embeddings[at as usize * width + first..][..x.len()];
                (self.variant.add)(&mut x, added);
            }
        }
    }

    /// [`Op::Join`](crate::Op::Join).
    pub(super) fn join(&self, worker: &Worker<'_>, [x, out]: [BufferId; 2], count: usize) {
        let width = self.width(x);
        for row in self.own_rows(worker, out) {
            let first = self.batch_row(row) + 1 - count;
            let from = self.buffer(x).read(worker, first * width..(first + count) * width);
            self.buffer(out).write(worker, self.row(out, row)).copy_from_slice(&from);
        }
    }
}
