//! State space models, one element after the other. A state is rounded to f32 after each token, as it is in a snapshot.

use super::step::Step;
use crate::plan::BufferId;
use crate::state_space::{BLOCK, StateSpace};
use crate::weight::WeightId;

impl Step<'_> {
    pub(super) fn state_space(&mut self, op: &StateSpace) {
        let [xbc, steps, decays] = [op.xbc, op.step, op.decay].map(|id| self.copy(id));
        let skips = self.weight_row(op.skip, 0);
        self.recur(op.state, |step, index, state| {
            let input = &xbc[index * op.input_width()..][..op.input_width()];
            for head in 0..op.heads {
                let [size, decay] = [&steps, &decays].map(|factors| f64::from(factors[index * op.heads + head]));
                let out = step_of(op, head, input, [size, decay, f64::from(skips[head])], state);
                let at = (index * op.heads + head) * op.head_dim;
                step.buffers[op.out.0 as usize][at..at + op.head_dim].copy_from_slice(&out);
            }
        });
    }

    pub(super) fn discretise(&mut self, [steps, decay]: [BufferId; 2], rate: WeightId, bias: WeightId) {
        let [rate, bias] = [rate, bias].map(|id| self.weight_row(id, 0));
        for (at, x) in self.copy(steps).into_iter().enumerate() {
            let (rate, bias) = (f64::from(rate[at % rate.len()]), f64::from(bias[at % bias.len()]));
            let input = f64::from(x) + bias;
            let step = if input > 30.0 { input } else { (1.0 + input.exp()).ln() };
            self.buffers[steps.0 as usize][at] = step as f32;
            self.buffers[decay.0 as usize][at] = (rate * step).exp() as f32;
        }
    }
}

/// One token of one head. Returns its output.
fn step_of(op: &StateSpace, head: usize, input: &[f32], factors: [f64; 3], state: &mut [f32]) -> Vec<f32> {
    let [step, decay, skip] = factors;
    let [b, c] = op.matrices(head).map(|place| &input[place]);
    let mut out = Vec::new();
    for column in 0..op.head_dim {
        let (block, columns) = (column / BLOCK, op.columns(column / BLOCK));
        let first = op.place(head, block).start + column - columns.start;
        let x = f64::from(input[head * op.head_dim + column]);
        let mut sum = skip * x;
        for (row, (b, c)) in b.iter().zip(c).enumerate() {
            let state = &mut state[first + row * columns.len()];
            *state = (decay * f64::from(*state) + f64::from(*b) * step * x) as f32;
            sum += f64::from(*c) * f64::from(*state);
        }
        out.push(sum as f32);
    }
    out
}
