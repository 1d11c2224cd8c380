//! Linear attention by the gated delta rule, one element after the other. A state is rounded to f32 after each token, as it is in a
//! snapshot.

use std::ops::Range;

use super::step::Step;
use crate::delta::{BLOCK, DeltaRule};
use crate::plan::BufferId;
use crate::weight::WeightId;

impl Step<'_> {
    pub(super) fn delta_rule(&mut self, rule: &DeltaRule) {
        let [qkv, decay, beta] = [rule.qkv, rule.decay, rule.beta].map(|id| self.copy(id));
        self.recur(rule.state, |run, index, state| {
            let input = &qkv[index * rule.input_width()..][..rule.input_width()];
            for head in 0..rule.heads {
                let factors = [&decay, &beta].map(|factors| f64::from(factors[index * rule.heads + head]));
                let out = step(rule, head, input, factors, state);
                let at = (index * rule.heads + head) * rule.value_dim;
                run.buffers[rule.out.0 as usize][at..at + rule.value_dim].copy_from_slice(&out);
            }
        });
    }

    pub(super) fn decay(&mut self, x: BufferId, rate: WeightId, bias: WeightId) {
        let [rate, bias] = [rate, bias].map(|id| self.weight_row(id, 0));
        for row in self.buffers[x.0 as usize].chunks_mut(rate.len()) {
            for (x, (rate, bias)) in row.iter_mut().zip(rate.iter().zip(&bias)) {
                let input = f64::from(*x) + f64::from(*bias);
                let softplus = if input > 30.0 { input } else { (1.0 + input.exp()).ln() };
                *x = (f64::from(*rate) * softplus).exp() as f32;
            }
        }
    }
}

/// One token of one head. Returns its output.
fn step(rule: &DeltaRule, head: usize, input: &[f32], [decay, beta]: [f64; 2], state: &mut [f32]) -> Vec<f32> {
    let unit = |place: Range<usize>| {
        let x = input[place].iter().map(|x| f64::from(*x));
        let norm = (x.clone().map(|x| x * x).sum::<f64>() + f64::from(rule.eps)).sqrt();
        x.map(|x| x / norm).collect::<Vec<f64>>()
    };
    let [q, k] = rule.query_and_key(rule.key_head(head)).map(unit);
    let mut out = Vec::new();
    for column in 0..rule.value_dim {
        let (block, columns) = (column / BLOCK, rule.columns(column / BLOCK));
        let first = rule.place(head, block).start + column - columns.start;
        let at = |key: usize| first + key * columns.len();
        let dot = |x: &[f64], state: &[f32]| -> f64 {
            x.iter().enumerate().map(|(key, x)| x * f64::from(state[at(key)])).sum()
        };
        let value = f64::from(input[rule.values() + head * rule.value_dim + column]);
        let error = beta * (value - decay * dot(&k, state));
        for (key, k) in k.iter().enumerate() {
            state[at(key)] = (decay * f64::from(state[at(key)]) + k * error) as f32;
        }
        out.push((dot(&q, state) / (rule.key_dim as f64).sqrt()) as f32);
    }
    out
}
