//! State space models as in the paper of Mamba 2 (arXiv 2405.21060): one state matrix for each head, in f64.

use super::linear::silu;
use super::{Block, Rows, norm};

/// The output of a layer's state space model at every position.
pub(super) fn mix(block: &Block<'_>, rows: &Rows) -> Rows {
    let count = |key: &str| block.model.number(&format!("ssm.{key}")).expect("it is set") as usize;
    let [groups, heads, size, inner] = ["group_count", "time_step_rank", "state_size", "inner_size"].map(count);
    let (head_dim, width) = (inner / heads, inner + 2 * groups * size);
    let projected: Rows = rows.iter().map(|x| block.project(x, "ssm_in", 0..inner + width + heads)).collect();
    let taps = block.model.values(&block.name("ssm_conv1d.weight"));
    let kernel = taps.len() / width;
    let biases = block.model.tensors.get(&block.name("ssm_conv1d.bias"));
    let convolved = |at: usize, element: usize| {
        // The last tap is that of the row itself.
        let taps = taps[element * kernel..(element + 1) * kernel].iter().rev().zip((0..=at).rev());
        let sum: f64 = taps.map(|(&tap, at)| f64::from(tap) * projected[at][inner + element]).sum();
        silu(sum + biases.map_or(0.0, |(_, biases)| f64::from(biases[element])))
    };
    let [rates, skips] = ["ssm_a", "ssm_d"].map(|part| block.model.values(&block.name(part)));
    let step_biases = block.model.values(&block.name("ssm_dt.bias"));
    let weights = block.model.values(&block.name("ssm_norm.weight"));
    let mut states = vec![vec![vec![0.0; size]; head_dim]; heads];
    let mut step = |at: usize| {
        let mut mixed = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let group = head * groups / heads;
            let matrix = |first: usize| -> Vec<f64> {
                (0..size).map(|i| convolved(at, inner + first + group * size + i)).collect()
            };
            let (input, output) = (matrix(0), matrix(groups * size));
            let step = (1.0 + (projected[at][inner + width + head] + f64::from(step_biases[head])).exp()).ln();
            let decay = (f64::from(rates[head]) * step).exp();
            for (column, state) in state.iter_mut().enumerate() {
                let x = convolved(at, head * head_dim + column);
                state.iter_mut().zip(&input).for_each(|(s, b)| *s = *s * decay + step * b * x);
                let sum: f64 = state.iter().zip(&output).map(|(s, c)| s * c).sum();
                let gate = projected[at][head * head_dim + column];
                mixed.push((sum + f64::from(skips[head]) * x) * silu(gate));
            }
        }
        let group = inner / groups;
        let normed = mixed.chunks(group).zip(weights.chunks(group)).flat_map(|(x, weight)| norm(x, weight));
        block.project(&normed.collect::<Vec<f64>>(), "ssm_out", 0..rows[at].len())
    };
    (0..rows.len()).map(&mut step).collect()
}
