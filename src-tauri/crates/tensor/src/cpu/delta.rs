//! Linear attention by the gated delta rule, split by blocks of the heads' states.
//!
//! A thread takes a block through all rows of a sequence, so that the block is read from a snapshot once and stays in the
//! first-level cache. No column of a state depends on another one, so the split does not change a bit.

use super::delta_scratch::DeltaScratch;
use super::schedule::part;
use super::step::Step;
use crate::delta::DeltaRule;
use crate::plan::BufferId;
use crate::team::Worker;
use crate::weight::WeightId;

impl Step<'_> {
    /// This thread's blocks.
    pub(super) fn delta_rule(&self, worker: &Worker<'_>, scratch: &mut DeltaScratch, rule: &DeltaRule) {
        let DeltaScratch { state, q, k, factors } = scratch;
        let (q, k) = (&mut q[..rule.key_dim], &mut k[..rule.key_dim]);
        let (blocks, width) = (rule.blocks(), rule.input_width());
        let own = part(rule.heads * blocks, worker.threads(), worker.index());
        let mut begin = self.rows.range.start;
        for rows in self.batch.rows[self.rows.range.clone()].chunk_by(|a, b| a.seq == b.seq) {
            let table = &self.batch.snapshots[rows[0].seq as usize];
            let end = begin + rows.len();
            let qkv = self.buffer(rule.qkv).read(worker, begin * width..end * width);
            let [decay, beta] =
                [rule.decay, rule.beta].map(|id| self.buffer(id).read(worker, begin * rule.heads..end * rule.heads));
            for (head, block) in own.clone().map(|nth| (nth / blocks, nth % blocks)) {
                let (place, columns) = (rule.place(head, block), rule.columns(block));
                let columns = head * rule.value_dim + columns.start..head * rule.value_dim + columns.end;
                let state = &mut state[..place.len()];
                match table.from {
                    Some(from) => {
                        state.copy_from_slice(&self.snapshots.read(worker, from, rule.state, place.clone()));
                    }
                    None => state.fill(0.0),
                }
                let mut out = self.buffer(rule.out).write_columns(worker, columns.clone());
                let [query, key] = rule.query_and_key(rule.key_head(head));
                let mut snapshots = table.to.iter();
                let mut next = snapshots.next();
                for (nth, row) in rows.iter().enumerate() {
                    let input = &qkv[nth * width..][..width];
                    self.normalise(rule, &input[query.clone()], &mut factors[..rule.key_dim], rule.key_dim, q);
                    self.normalise(rule, &input[key.clone()], &mut factors[..rule.key_dim], 1, k);
                    (self.variant.delta)(cairn_kernels::DeltaStep {
                        state,
                        k,
                        q,
                        v: &input[rule.values()..][columns.clone()],
                        decay: decay[nth * rule.heads + head],
                        beta: beta[nth * rule.heads + head],
                        out: out.row(begin + nth),
                    });
                    if let Some((_, to)) = next.filter(|(tokens, _)| *tokens == row.slot + 1) {
                        self.snapshots.write(worker, *to, rule.state, place.clone()).copy_from_slice(state);
                        next = snapshots.next();
                    }
                }
            }
            begin = end;
        }
    }

    /// `out = x / sqrt(sum(x²) + eps) / sqrt(divisor)`, which is an RMS norm with other constants.
    fn normalise(&self, rule: &DeltaRule, x: &[f32], factors: &mut [f32], divisor: usize, out: &mut [f32]) {
        let dim = rule.key_dim as f32;
        factors.fill(1.0 / (dim * divisor as f32).sqrt());
        (self.variant.rms_norm)(x, factors, rule.eps / dim, out);
    }

    /// This thread's rows of the factors on states. There is one for each head, so they are computed in f64.
    pub(super) fn decay(&self, worker: &Worker<'_>, x: BufferId, [rate, bias]: [WeightId; 2]) {
        let [rate, bias] = [rate, bias].map(|id| &self.vectors[id.0 as usize]);
        for row in self.own_rows(worker, x) {
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            for ((x, rate), bias) in x.iter_mut().zip(rate).zip(bias) {
                let input = f64::from(*x + *bias);
                // ln(1 + exp(input)) without an overflow.
                let softplus = input.max(0.0) + (-input.abs()).exp().ln_1p();
                *x = (f64::from(*rate) * softplus).exp() as f32;
            }
        }
    }
}
