//! Adds the squared inputs of a product while its op runs.

use super::squares::{MatrixSquares, OpSquares};
use super::step::Step;
use crate::plan::{BufferId, Op};
use crate::team::Worker;

impl Step<'_> {
    /// Adds this thread's rows of a product's input.
    pub(super) fn add_squares(&self, worker: &Worker<'_>, squares: &mut OpSquares, op: usize) {
        let add = |matrices: &mut Vec<MatrixSquares>, matrix: usize, input: &[f32]| matrices[matrix].add(input);
        let read = |x: BufferId, row: usize| self.buffer(x).read(worker, self.row(x, row));
        match &self.prepared.plan.ops[op] {
            Op::MatMul { x, .. } => {
                let matrices = squares.entry(op).or_insert_with(|| vec![MatrixSquares::default()]);
                self.own_rows(worker, *x).for_each(|row| add(matrices, 0, &read(*x, row)));
            }
            Op::MatMulId { x, routes, experts, projections } => {
                let columns = self.weights[projections[0].weight.0 as usize].cols;
                let matrices = squares.entry(op).or_insert_with(|| vec![MatrixSquares::default(); *experts]);
                for row in self.own_rows(worker, *x) {
                    let (x, routes) = (read(*x, row), read(*routes, row));
                    // The same input for all experts of a row, or a part for each.
                    let parts = x.len() / columns;
                    for (slot, expert) in routes[..routes.len() / 2].iter().enumerate() {
                        let part = if parts == 1 { 0 } else { slot };
                        add(matrices, *expert as usize, &x[part * columns..][..columns]);
                    }
                }
            }
            Op::MatMulHeads { from, weight, .. } => {
                let (columns, width) = (self.weights[weight.0 as usize].cols, self.width(from.buffer));
                let matrices = squares.entry(op).or_insert_with(|| vec![MatrixSquares::default(); from.heads]);
                for row in self.own_rows(worker, from.buffer) {
                    let x = read(from.buffer, row);
                    (0..from.heads).for_each(|head| add(matrices, head, &x[from.range(head, columns, width)]));
                }
            }
            _ => {}
        }
    }
}
