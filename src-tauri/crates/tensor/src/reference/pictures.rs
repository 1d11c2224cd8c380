//! Ops over the rows of pictures.

use super::step::Step;
use crate::batch::Input;
use crate::grid;
use crate::plan::BufferId;
use crate::weight::WeightId;

impl Step<'_> {
    pub(super) fn add_grid_embedding(&mut self, x: BufferId, table: WeightId, side: usize) {
        let width = self.width(x);
        for (index, row) in self.batch.rows.iter().enumerate() {
            let corners = grid::corners(row.pos, side).map(|(entry, weight)| (self.weight_row(table, entry), weight));
            let x = &mut self.buffers[x.0 as usize][index * width..][..width];
            for (at, x) in x.iter_mut().enumerate() {
                let sum: f64 = corners.iter().map(|(entry, weight)| weight * f64::from(entry[at])).sum();
                *x = (f64::from(*x) + sum) as f32;
            }
        }
    }

    pub(super) fn add_input(&mut self, x: BufferId, first: usize) {
        let (width, input_width) = (self.width(x), self.plan.input_width());
        for (index, row) in self.batch.rows.iter().enumerate() {
            if let Input::Embedding(at) = row.input {
                let added = &self.batch.embeddings[at as usize * input_width + first..][..width];
                let x = &mut self.buffers[x.0 as usize][index * width..][..width];
                x.iter_mut().zip(added).for_each(|(x, y)| *x += y);
            }
        }
    }

    pub(super) fn join(&mut self, x: BufferId, count: usize, out: BufferId) {
        let (x, width) = (self.copy(x), self.width(x));
        let lasts = self.batch.rows.iter().enumerate().filter(|(_, row)| row.want_logits).map(|(last, _)| last);
        let joined = lasts.flat_map(|last| x[(last + 1 - count) * width..(last + 1) * width].iter().copied());
        self.buffers[out.0 as usize] = joined.collect();
    }
}
