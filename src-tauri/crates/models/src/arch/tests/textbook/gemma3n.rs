//! Gemma 3n: several residual streams (arXiv 2301.13310, section 3.1), low-rank products beside attention and sparse gates.

use cairn_gguf::{Array, Value};

use super::{Block, Paper, Rotation, Rows, WIDTH, dot, gemma, layers, multiply, norm};
use crate::tiny::Tiny;

fn add(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x + y).collect()
}

fn scaled(x: &[f64], factor: f64) -> Vec<f64> {
    x.iter().map(|x| x * factor).collect()
}

/// Scales a vector to the length of another one.
fn like(x: &[f64], other: &[f64]) -> Vec<f64> {
    scaled(x, (dot(other, other) / dot(x, x)).sqrt())
}

/// Returns the merged streams behind all layers at every position.
pub(super) fn run(model: &Tiny, paper: &Paper, embedded: &Rows, inputs: &Rows, rotation: &Rotation) -> Rows {
    let number = |key: &str| model.number(key).expect("it is set") as usize;
    let (count, active) = (number("altup.num_inputs"), number("altup.active_idx"));
    let projections = model.values("altup_proj.weight");
    let projected = |x: &Vec<f64>, nth: usize| like(&multiply(projections, x, nth * WIDTH..(nth + 1) * WIDTH), x);
    // By position, by stream.
    let streams = |x: &Vec<f64>| -> Rows {
        std::iter::once(x.clone()).chain((0..count - 1).map(|nth| projected(x, nth))).collect()
    };
    let mut xs: Vec<Rows> = embedded.iter().map(streams).collect();
    let mut kept = gemma::SharedRows::default();
    for layer in 0..layers(model) {
        let block = Block { model, paper, layer, picture: &(0..0) };
        let normed = |x: &[f64], part: &str| norm(x, model.values(&block.name(&format!("{part}.weight"))));
        let modalities = |x: &[f64]| -> Vec<f64> {
            let routed = scaled(&normed(x, "altup_router_norm"), 1.0 / WIDTH as f64);
            block.project(&routed, "altup_router", 0..count).into_iter().map(f64::tanh).collect()
        };
        let predicted = |streams: &Rows| -> Rows {
            let factors = block.project(&modalities(&streams[active]), "altup_predict_coef", 0..count * count);
            let mixed = |i: usize| {
                let terms = (0..count).map(|j| scaled(&streams[j], factors[i * count + j]));
                terms.fold(streams[i].clone(), |sum, term| add(&sum, &term))
            };
            (0..count).map(mixed).collect()
        };
        let predictions: Vec<Rows> = xs.iter().map(predicted).collect();
        let read: Rows = predictions.iter().map(|streams| normed(&streams[active], "attn_norm")).collect();
        let attended = gemma::attend(&block, &read, rotation, &mut kept);
        for (at, streams) in xs.iter_mut().enumerate() {
            let (prediction, x) = (&predictions[at][active], &read[at]);
            let low = block.project(x, "laurel_l", 0..model.tensors[&block.name("laurel_l.weight")].0[1] as usize);
            let laurel = add(x, &normed(&block.project(&low, "laurel_r", 0..WIDTH), "laurel_post_norm"));
            let mixed = normed(&block.project(&attended[at], "attn_output", 0..WIDTH), "post_attention_norm");
            let both = scaled(&add(&add(prediction, &mixed), &laurel), 0.5f64.sqrt());
            let activated = add(&both, &normed(&sparse_mlp(&block, &normed(&both, "ffn_norm")), "post_ffw_norm"));
            let factors = block.project(&modalities(&activated), "altup_correct_coef", 0..count);
            let error = add(&activated, &scaled(prediction, -1.0));
            let corrected = |i: usize| add(&predictions[at][i], &scaled(&error, factors[i] + 1.0));
            *streams = (0..count).map(corrected).collect();
            let scales = model.values(&block.name("altup_correct_scale.weight"));
            let first: Vec<f64> = streams[active].iter().zip(scales).map(|(x, &scale)| x * f64::from(scale)).collect();
            let added = gemma::gated_input(&block, &first, &inputs[at]);
            streams[1..].iter_mut().for_each(|stream| *stream = add(stream, &added));
        }
    }
    let projections = model.values("altup_unembd_proj.weight");
    let merged = |streams: &Rows| {
        let others = (1..count)
            .map(|nth| like(&multiply(projections, &streams[nth], (nth - 1) * WIDTH..nth * WIDTH), &streams[active]));
        scaled(&others.fold(streams[0].clone(), |sum, other| add(&sum, &other)), 1.0 / count as f64)
    };
    xs.iter().map(merged).collect()
}

/// The MLP. The gates of some layers are zero up to a number of deviations above their mean.
fn sparse_mlp(block: &Block<'_>, x: &[f64]) -> Vec<f64> {
    let inner = block.model.tensors[&block.name("ffn_down.weight")].0[0] as usize;
    let [mut gate, up] = ["ffn_gate", "ffn_up"].map(|part| block.project(x, part, 0..inner));
    let deviations = match &block.model.keys["activation_sparsity_scale"] {
        Value::Array(Array::F32(deviations)) => f64::from(deviations[block.layer]),
        other => panic!("the limits are {other:?}"),
    };
    if deviations.is_finite() {
        let mean = gate.iter().sum::<f64>() / inner as f64;
        let variance = gate.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (inner - 1) as f64;
        gate.iter_mut().for_each(|x| *x = (*x - mean - deviations * variance.sqrt()).max(0.0));
    }
    block.project(&block.activate(&gate, &up), "ffn_down", 0..WIDTH)
}
