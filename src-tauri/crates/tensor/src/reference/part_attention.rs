//! Attention to a part of a sequence, row by row.

use super::arithmetic;
use super::step::Step;
use crate::part_attention::{Part, PartAttention};

impl Step<'_> {
    pub(super) fn part_attention(&mut self, op: &PartAttention) {
        let state = self.state(op.state);
        let (head_dim, value_dim, group) = (state.head_dim, state.value_dim(), op.heads / state.kv_heads);
        let (q, mut out) = (self.copy(op.q), self.copy(op.out));
        for (index, row) in self.batch.rows.iter().enumerate() {
            let first = row.pos[3] as usize;
            let slots = match op.part {
                Part::Input => 0..first,
                Part::Own => first..row.until as usize,
            };
            for head in 0..op.heads {
                let seen = self.key_values(op.state, row.seq, head / group, slots.clone());
                let bias = |slot: usize| {
                    let Some(bias) = op.bias else { return 0.0 };
                    let buckets = self.weights[bias.table.0 as usize].rows;
                    let bucket = bias.bucket(slot as i64 - i64::from(row.slot), buckets);
                    self.weight_row(bias.table, bucket)[head]
                };
                let biases: Vec<f32> = slots.clone().map(bias).collect();
                let nth = index * op.heads + head;
                let q = &q[nth * head_dim..][..head_dim];
                arithmetic::attend_biased(q, &seen, op.scale, &biases, &mut out[nth * value_dim..][..value_dim]);
            }
        }
        self.buffers[op.out.0 as usize] = out;
    }
}
