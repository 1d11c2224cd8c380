//! Gemma 3n and 4: heads of two sizes, keys and values of earlier layers, and inputs of single layers.

use cairn_gguf::{Array, Value};

use super::{Block, HEADS, Rotation, Rows, WIDTH, WINDOW, dot, layers, multiply, norm, rotate};
use crate::tiny::Tiny;

/// Keys and values of the last layer of each kind that has some: by row, by head.
#[derive(Default)]
pub(super) struct SharedRows([Option<[Vec<Rows>; 2]>; 2]);

fn number(model: &Tiny, key: &str) -> Option<usize> {
    model.number(key).map(|number| number as usize)
}

/// Returns the values of all heads, one after the other, for each row.
pub(super) fn attend(block: &Block<'_>, rows: &Rows, rotation: &Rotation, kept: &mut SharedRows) -> Rows {
    let (model, layer) = (block.model, block.layer);
    let windowed = match &model.keys["attention.sliding_window_pattern"] {
        Value::Array(Array::Bool(flags)) => flags[layer],
        other => panic!("the pattern is {other:?}"),
    };
    let suffix = if windowed { "_swa" } else { "" };
    let dim = number(model, &format!("attention.key_length{suffix}")).or(number(model, "attention.key_length"));
    let dim = dim.expect("it is set");
    let kv_heads = match &model.keys["attention.head_count_kv"] {
        Value::Array(Array::U32(counts)) => counts[layer] as usize,
        Value::U32(count) => *count as usize,
        other => panic!("the counts are {other:?}"),
    };
    let local = Rotation::plain(model.number("rope.freq_base_swa").unwrap_or(10_000.0), dim);
    let rotation = if windowed { &local } else { rotation };
    let heads = |x: &[f64], part: &str, count: usize| -> Rows {
        block.project(x, part, 0..count * dim).chunks(dim).map(<[f64]>::to_vec).collect()
    };
    let turned = |part: &str, count: usize| -> Vec<Rows> {
        let weight = model.values(&block.name(&format!("{part}_norm.weight")));
        let turn = |at: usize, head: &Vec<f64>| rotate(&norm(head, weight), at, rotation, false);
        let row = |(at, x): (usize, &Vec<f64>)| heads(x, part, count).iter().map(|head| turn(at, head)).collect();
        rows.iter().enumerate().map(row).collect()
    };
    if layer < layers(model) - number(model, "attention.shared_kv_layers").unwrap_or(0) {
        let has_values = model.tensors.contains_key(&block.name("attn_v.weight"));
        let part = if has_values { "attn_v" } else { "attn_k" };
        let value = |x: &Vec<f64>| heads(x, part, kv_heads).iter().map(|head| norm(head, &vec![1.0; dim])).collect();
        kept.0[usize::from(windowed)] = Some([turned("attn_k", kv_heads), rows.iter().map(value).collect()]);
    }
    let [ks, vs] = kept.0[usize::from(windowed)].as_ref().expect("an earlier layer has keys and values");
    let mix = |(at, queries): (usize, &Rows)| {
        let first = if windowed { (at + 1).saturating_sub(WINDOW) } else { 0 };
        // Layers that see the whole context are causal.
        let end = if windowed && block.picture.contains(&at) { block.picture.end } else { at + 1 };
        let mut mixed = Vec::new();
        for (head, q) in queries.iter().enumerate() {
            let group = head * kv_heads / HEADS;
            let weights: Vec<f64> = (first..end).map(|at| dot(q, &ks[at][group]).exp()).collect();
            let total: f64 = weights.iter().sum();
            let element = |i| (first..end).zip(&weights).map(|(at, w)| w / total * vs[at][group][i]).sum::<f64>();
            mixed.extend((0..dim).map(element));
        }
        mixed
    };
    turned("attn_q", HEADS).iter().enumerate().map(mix).collect()
}

/// Returns the inputs of all layers for each token, if the model has them.
pub(super) fn layer_inputs(model: &Tiny, tokens: &[u32], embedded: &Rows) -> Option<Rows> {
    let width = number(model, "embedding_length_per_layer_input").filter(|&width| width > 0)?;
    let total = layers(model) * width;
    let input = |(&token, x): (&u32, &Vec<f64>)| -> Vec<f64> {
        let row = &model.values("per_layer_token_embd.weight")[token as usize * total..][..total];
        let projected = multiply(model.values("per_layer_model_proj.weight"), x, 0..total);
        let projected: Vec<f64> = projected.iter().map(|x| x / (WIDTH as f64).sqrt()).collect();
        let normed = projected.chunks(width).flat_map(|part| norm(part, model.values("per_layer_proj_norm.weight")));
        normed.zip(row).map(|(x, &y)| (x + f64::from(y) * (width as f64).sqrt()) / 2f64.sqrt()).collect()
    };
    Some(tokens.iter().zip(embedded).map(input).collect())
}

/// Returns what a layer makes of its input.
pub(super) fn gated_input(block: &Block<'_>, x: &[f64], inputs: &[f64]) -> Vec<f64> {
    let width = number(block.model, "embedding_length_per_layer_input").expect("it is set");
    let gate = block.project(x, "inp_gate", 0..width);
    let gated = block.activate(&gate, &inputs[block.layer * width..][..width]);
    norm(&block.project(&gated, "proj", 0..WIDTH), block.model.values(&block.name("post_norm.weight")))
}

/// Returns the sum of an MLP and experts, each with norms of its own.
pub(super) fn experts_beside_mlp(block: &Block<'_>, x: &[f64]) -> Vec<f64> {
    let normed = |x: &[f64], part: &str| norm(x, block.model.values(&block.name(part)));
    let routed = normed(x, "ffn_gate_inp.scale").iter().map(|x| x / (WIDTH as f64).sqrt()).collect::<Vec<f64>>();
    let dense = normed(&block.dense_mlp(&normed(x, "ffn_norm.weight")), "post_ffw_norm_1.weight");
    let sparse = block.experts(&routed, &normed(x, "pre_ffw_norm_2.weight"));
    let sparse = normed(&sparse, "post_ffw_norm_2.weight");
    dense.iter().zip(sparse).map(|(dense, sparse)| dense + sparse).collect()
}

/// Ends a layer of Gemma 4: adds its input and scales the stream.
pub(super) fn finish(block: &Block<'_>, x: &mut [f64], inputs: Option<&Vec<f64>>) {
    if let Some(inputs) = inputs {
        let added = gated_input(block, x, inputs);
        x.iter_mut().zip(added).for_each(|(x, y)| *x += y);
    }
    if let Some((_, scale)) = block.model.tensors.get(&block.name("layer_output_scale.weight")) {
        x.iter_mut().for_each(|x| *x *= f64::from(scale[0]));
    }
}
