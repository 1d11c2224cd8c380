//! A forward pass as papers write it, over whole sequences in f64, with no plan, no pages and no shared code: it says whether
//! the families wire their steps rightly.

use crate::tiny::{FEED_FORWARD, HEAD_DIM, HEADS, KV_HEADS, LAYERS, Tiny, VOCAB, WIDTH};

type Rows = Vec<Vec<f64>>;

/// Logits of every position. `divisors` divide the rotation of each pair.
pub(super) fn logits(model: &Tiny, tokens: &[u32], divisors: &[f64; HEAD_DIM / 2]) -> Rows {
    let qwen = model.architecture == "qwen3";
    let embedding = model.values("token_embd.weight");
    let row = |&token: &u32| embedding[token as usize * WIDTH..][..WIDTH].iter().map(|&x| f64::from(x)).collect();
    let mut xs: Rows = tokens.iter().map(row).collect();
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let project = |x: &Vec<f64>, part: &str, rows: usize| {
            let mut out = multiply(model.values(&name(&format!("{part}.weight"))), x, rows);
            if let Some((_, bias)) = model.tensors.get(&name(&format!("{part}.bias"))) {
                out.iter_mut().zip(bias).for_each(|(out, &bias)| *out += f64::from(bias));
            }
            out
        };
        let normed: Rows = xs.iter().map(|x| norm(x, model.values(&name("attn_norm.weight")))).collect();
        let heads = |x: &Vec<f64>, part: &str, count: usize, position: usize| -> Rows {
            let all = project(x, part, count * HEAD_DIM);
            let rotated = all.chunks(HEAD_DIM).map(|head| match qwen {
                true => {
                    let head = norm(head, model.values(&name(&format!("{part}_norm.weight"))));
                    rotate(&head, position, divisors, |i| (i, i + HEAD_DIM / 2))
                }
                false => rotate(head, position, divisors, |i| (2 * i, 2 * i + 1)),
            });
            rotated.collect()
        };
        let each = || normed.iter().enumerate();
        let qs: Vec<Rows> = each().map(|(at, x)| heads(x, "attn_q", HEADS, at)).collect();
        let ks: Vec<Rows> = each().map(|(at, x)| heads(x, "attn_k", KV_HEADS, at)).collect();
        let vs: Rows = each().map(|(_, x)| project(x, "attn_v", KV_HEADS * HEAD_DIM)).collect();
        for (at, x) in xs.iter_mut().enumerate() {
            let mut mixed = vec![0.0; HEADS * HEAD_DIM];
            for head in 0..HEADS {
                let group = head * KV_HEADS / HEADS;
                let score = |k: &Rows| dot(&qs[at][head], &k[group]) / (HEAD_DIM as f64).sqrt();
                let weights: Vec<f64> = ks[..=at].iter().map(|k| score(k).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (weight, v) in weights.iter().zip(&vs) {
                    for i in 0..HEAD_DIM {
                        mixed[head * HEAD_DIM + i] += weight / total * v[group * HEAD_DIM + i];
                    }
                }
            }
            add(x, &project(&mixed, "attn_output", WIDTH));
            let normed = norm(x, model.values(&name("ffn_norm.weight")));
            let gate = project(&normed, "ffn_gate", FEED_FORWARD);
            let up = project(&normed, "ffn_up", FEED_FORWARD);
            let inner: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
            add(x, &project(&inner, "ffn_down", WIDTH));
        }
    }
    let output = model.tensors.get("output.weight").map_or(embedding, |(_, values)| values);
    xs.iter().map(|x| multiply(output, &norm(x, model.values("output_norm.weight")), VOCAB)).collect()
}

fn multiply(matrix: &[f32], x: &[f64], rows: usize) -> Vec<f64> {
    assert_eq!(matrix.len(), rows * x.len(), "the matrix fits");
    matrix.chunks(x.len()).map(|row| row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum()).collect()
}

fn norm(x: &[f64], weight: &[f32]) -> Vec<f64> {
    let mean = dot(x, x) / x.len() as f64;
    x.iter().zip(weight).map(|(x, &w)| x / (mean + f64::from(1e-5f32)).sqrt() * f64::from(w)).collect()
}

fn rotate(
    head: &[f64],
    position: usize,
    divisors: &[f64; HEAD_DIM / 2],
    pair: impl Fn(usize) -> (usize, usize),
) -> Vec<f64> {
    let mut out = head.to_vec();
    for (i, divisor) in divisors.iter().enumerate() {
        let (a, b) = pair(i);
        let angle = position as f64 / 10_000f64.powf(2.0 * i as f64 / HEAD_DIM as f64) / divisor;
        out[a] = head[a] * angle.cos() - head[b] * angle.sin();
        out[b] = head[a] * angle.sin() + head[b] * angle.cos();
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
