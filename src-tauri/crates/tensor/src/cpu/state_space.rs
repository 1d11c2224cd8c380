//! State space models, split by blocks of the heads' states.
//!
//! A thread takes a block through all rows of a sequence, so that the block is read from a snapshot once and stays in the
//! first-level cache. No column of a state depends on another one, so the split does not change a bit.

use std::array;

use cairn_kernels::{SCAN_TOKENS, Scan, ScanToken};

use super::scan_scratch::ScanScratch;
use super::schedule::part;
use super::step::Step;
use crate::plan::BufferId;
use crate::state_space::StateSpace;
use crate::team::Worker;
use crate::weight::WeightId;

impl Step<'_> {
    /// This thread's blocks.
    pub(super) fn state_space(&self, worker: &Worker<'_>, scratch: &mut ScanScratch, op: &StateSpace) {
        let ScanScratch { state, out: results } = scratch;
        let (heads, blocks, width) = (op.heads, op.blocks(), op.input_width());
        let skips = &self.vectors[op.skip.0 as usize];
        let own = part(heads * blocks, worker.threads(), worker.index());
        let mut begin = self.rows.range.start;
        for rows in self.batch.rows[self.rows.range.clone()].chunk_by(|a, b| a.seq == b.seq) {
            let (table, first_slot) = (&self.batch.snapshots[rows[0].seq as usize], rows[0].slot);
            let end = begin + rows.len();
            let xbc = self.buffer(op.xbc).read(worker, begin * width..end * width);
            let [steps, decays] =
                [op.step, op.decay].map(|id| self.buffer(id).read(worker, begin * heads..end * heads));
            for (head, block) in own.clone().map(|nth| (nth / blocks, nth % blocks)) {
                let (place, columns) = (op.place(head, block), op.columns(block));
                let columns = head * op.head_dim + columns.start..head * op.head_dim + columns.end;
                let [b, c] = op.matrices(head);
                let token = |nth: usize| {
                    let input = &xbc[nth * width..(nth + 1) * width];
                    let [step, decay] = [&steps, &decays].map(|factors| factors[nth * heads + head]);
                    ScanToken { b: &input[b.clone()], c: &input[c.clone()], x: &input[columns.clone()], step, decay }
                };
                let state = &mut state[..place.len()];
                match table.from {
                    Some(from) => state.copy_from_slice(&self.snapshots.read(worker, from, op.state, place.clone())),
                    None => state.fill(0.0),
                }
                let mut out = self.buffer(op.out).write_columns(worker, columns.clone());
                // Rows up to each snapshot.
                let mut snapshots =
                    table.to.iter().map(|(tokens, to)| ((tokens - first_slot) as usize, *to)).peekable();
                let mut done = 0;
                while done < rows.len() {
                    let until = snapshots.peek().map_or(rows.len(), |(until, _)| rows.len().min(*until));
                    let count = (until - done).min(SCAN_TOKENS);
                    let tokens: [ScanToken<'_>; SCAN_TOKENS] = array::from_fn(|nth| token(done + nth.min(count - 1)));
                    let results = &mut results[..count * columns.len()];
                    (self.variant.scan)(Scan { state, tokens: &tokens[..count], skip: skips[head], out: results });
                    for (nth, result) in results.chunks(columns.len()).enumerate() {
                        out.row(begin + done + nth).copy_from_slice(result);
                    }
                    done += count;
                    if let Some((_, to)) = snapshots.next_if(|(until, _)| *until == done) {
                        self.snapshots.write(worker, to, op.state, place.clone()).copy_from_slice(state);
                    }
                }
            }
            begin = end;
        }
    }

    /// This thread's rows of step sizes and factors on states. There is one of each for each head, so they are computed in f64.
    pub(super) fn discretise(&self, worker: &Worker<'_>, [x, decay]: [BufferId; 2], [rate, bias]: [WeightId; 2]) {
        let [rate, bias] = [rate, bias].map(|id| &self.vectors[id.0 as usize]);
        for row in self.own_rows(worker, x) {
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            let mut decay = self.buffer(decay).write(worker, self.row(decay, row));
            for ((x, decay), (rate, bias)) in x.iter_mut().zip(decay.iter_mut()).zip(rate.iter().zip(bias)) {
                let input = f64::from(*x + *bias);
                // ln(1 + exp(input)) without an overflow.
                let step = input.max(0.0) + (-input.abs()).exp().ln_1p();
                *decay = (f64::from(*rate) * step).exp() as f32;
                *x = step as f32;
            }
        }
    }
}
