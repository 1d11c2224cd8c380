//! Multi-head latent attention as in the paper (arXiv 2405.04434, section 2.1): keys and values of all heads are computed.

use super::{Block, Rotation, Rows, dot, growth, multiply, norm, rotate};
use crate::tiny::HEADS;

/// Growth of queries and keys with YaRN: files have a tenth of the paper's multiplier.
fn yarn_growth(block: &Block<'_>) -> f64 {
    let number = |key: &str| block.model.number(key);
    match (number("rope.scaling.factor"), number("rope.scaling.yarn_log_multiplier")) {
        (Some(factor), Some(multiplier)) => 1.0 + multiplier * factor.ln(),
        _ => 1.0,
    }
}

/// Returns the values of all heads, one after the other, for each row.
pub(super) fn attend(block: &Block<'_>, rows: &Rows, rotation: &Rotation) -> Rows {
    let dims = |part: &str| block.model.tensors.get(&block.name(part)).map(|(dims, _)| dims.clone());
    let rows_of = |part: &str| dims(part).expect("the model is whole")[1] as usize;
    let has = |part: &str| dims(part).is_some();
    let norm_of = |x: &[f64], part: &str| norm(x, block.model.values(&block.name(&format!("{part}.weight"))));
    let key = |name: &str| block.model.number(name).map(|number| number as usize);

    let latent = key("attention.kv_lora_rank").expect("it is set");
    let rotated = rows_of("attn_kv_a_mqa.weight") - latent;
    let [key_width, value_width] = ["key", "value"].map(|part| {
        let absorbed = key(&format!("attention.{part}_length_mla"));
        absorbed.or_else(|| key(&format!("attention.{part}_length"))).expect("it is set")
    });
    let plain = key_width - rotated;
    let turn = |x: &[f64], at: usize| rotate(x, at, rotation, true);

    let query = |at: usize, x: &Vec<f64>| -> Rows {
        let all = if has("attn_q.weight") {
            block.project(x, "attn_q", 0..HEADS * key_width)
        } else {
            let short = block.project(x, "attn_q_a", 0..rows_of("attn_q_a.weight"));
            block.project(&norm_of(&short, "attn_q_a_norm"), "attn_q_b", 0..HEADS * key_width)
        };
        all.chunks(key_width).map(|head| [head[..plain].to_vec(), turn(&head[plain..], at)].concat()).collect()
    };
    let both = |at: usize, x: &Vec<f64>| -> Vec<[Vec<f64>; 2]> {
        let all = block.project(x, "attn_kv_a_mqa", 0..latent + rotated);
        let (c, position) = (norm_of(&all[..latent], "attn_kv_a_norm"), turn(&all[latent..], at));
        let head = |head: usize| {
            let (k, v) = if has("attn_kv_b.weight") {
                let start = head * (plain + value_width);
                let all = block.project(&c, "attn_kv_b", start..start + plain + value_width);
                (all[..plain].to_vec(), all[plain..].to_vec())
            } else {
                // The matrix is transposed.
                let matrix = &block.model.values(&block.name("attn_k_b.weight"))[head * latent * plain..];
                let element = |p: usize| c.iter().enumerate().map(|(l, c)| c * f64::from(matrix[l * plain + p])).sum();
                let matrix = block.model.values(&block.name("attn_v_b.weight"));
                ((0..plain).map(element).collect(), multiply(matrix, &c, head * value_width..(head + 1) * value_width))
            };
            [[k, position.clone()].concat(), v]
        };
        (0..HEADS).map(head).collect()
    };
    let qs: Vec<Rows> = rows.iter().enumerate().map(|(at, x)| query(at, x)).collect();
    let kvs: Vec<Vec<[Vec<f64>; 2]>> = rows.iter().enumerate().map(|(at, x)| both(at, x)).collect();
    let scale = yarn_growth(block).powi(2) / (key_width as f64).sqrt();
    let mix = |at: usize, head: usize| -> Vec<f64> {
        let scale = scale * growth(block.model, at);
        let weights: Vec<f64> = kvs[..=at].iter().map(|kv| (dot(&qs[at][head], &kv[head][0]) * scale).exp()).collect();
        let total: f64 = weights.iter().sum();
        let element = |i: usize| weights.iter().zip(&kvs).map(|(w, kv)| w / total * kv[head][1][i]).sum();
        (0..value_width).map(element).collect()
    };
    (0..rows.len()).map(|at| (0..HEADS).flat_map(|head| mix(at, head)).collect()).collect()
}
