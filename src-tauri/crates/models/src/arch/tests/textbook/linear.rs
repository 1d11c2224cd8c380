//! Linear attention by the gated delta rule as in its paper (arXiv 2412.06464): one state matrix for each head, in f64.

use super::{Block, Rows, dot, norm};

/// The output of a layer's linear attention at every position.
pub(super) fn mix(block: &Block<'_>, rows: &Rows) -> Rows {
    let count = |key: &str| block.model.number(&format!("ssm.{key}")).expect("it is set") as usize;
    let [key_heads, heads, key_dim] = ["group_count", "time_step_rank", "state_size"].map(count);
    let inner = count("inner_size");
    let value_dim = inner / heads;
    let keys_width = key_heads * key_dim;
    let projected: Rows = rows.iter().map(|x| block.project(x, "attn_qkv", 0..2 * keys_width + inner)).collect();
    let taps = block.model.values(&block.name("ssm_conv1d.weight"));
    let kernel = taps.len() / (2 * keys_width + inner);
    let convolved = |at: usize, element: usize| {
        // The last tap is that of the row itself.
        let taps = taps[element * kernel..(element + 1) * kernel].iter().rev().zip((0..=at).rev());
        silu(taps.map(|(&tap, at)| f64::from(tap) * projected[at][element]).sum())
    };
    let rates = block.model.values(&block.name("ssm_a"));
    let biases = block.model.values(&block.name("ssm_dt.bias"));
    let is_next = block.model.architecture == "qwen3next";
    let mut states = vec![vec![vec![0.0; value_dim]; key_dim]; heads];
    let step = |(at, x): (usize, &Vec<f64>)| {
        let (betas, alphas) = factors(block, x, [key_heads, heads], is_next);
        let gates = block.project(x, "attn_gate", 0..inner);
        let mut mixed = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let key_head = if is_next { head * key_heads / heads } else { head % key_heads };
            let unit = |first: usize| {
                let x: Vec<f64> = (0..key_dim).map(|i| convolved(at, first + key_head * key_dim + i)).collect();
                let length = (dot(&x, &x) + f64::from(1e-5f32)).sqrt();
                x.into_iter().map(|x| x / length).collect::<Vec<f64>>()
            };
            let (q, k) = (unit(0), unit(keys_width));
            let decay = (f64::from(rates[head]) * (1.0 + (alphas[head] + f64::from(biases[head])).exp()).ln()).exp();
            state.iter_mut().flatten().for_each(|x| *x *= decay);
            let mut out = vec![0.0; value_dim];
            for (column, out) in out.iter_mut().enumerate() {
                let value = convolved(at, 2 * keys_width + head * value_dim + column);
                let predicted: f64 = state.iter().zip(&k).map(|(row, k)| row[column] * k).sum();
                let error = (value - predicted) / (1.0 + (-betas[head]).exp());
                state.iter_mut().zip(&k).for_each(|(row, k)| row[column] += k * error);
                *out = state.iter().zip(&q).map(|(row, q)| row[column] * q).sum::<f64>() / (key_dim as f64).sqrt();
            }
            let normed = norm(&out, block.model.values(&block.name("ssm_norm.weight")));
            let gates = &gates[head * value_dim..(head + 1) * value_dim];
            mixed.extend(normed.into_iter().zip(gates).map(|(x, &gate)| x * silu(gate)));
        }
        block.project(&mixed, "ssm_out", 0..x.len())
    };
    rows.iter().enumerate().map(step).collect()
}

/// The inputs of the factors on errors and of those on states, by head.
fn factors(block: &Block<'_>, x: &[f64], [key_heads, heads]: [usize; 2], is_next: bool) -> (Vec<f64>, Vec<f64>) {
    if !is_next {
        return (block.project(x, "ssm_beta", 0..heads), block.project(x, "ssm_alpha", 0..heads));
    }
    // Those of the heads that share a key are together.
    let pairs = block.project(x, "ssm_ba", 0..2 * heads);
    let groups = pairs.chunks(2 * heads / key_heads);
    let half = |from: usize| move |group: &[f64]| group[from * group.len() / 2..][..group.len() / 2].to_vec();
    (groups.clone().flat_map(half(0)).collect(), groups.flat_map(half(1)).collect())
}

pub(super) fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}
