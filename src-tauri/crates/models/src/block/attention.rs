//! Grouped-query attention (Ainslie et al., arXiv 2305.13245) with rotary positions.

use cairn_tensor::{BufferId, Op, State, StateKind};

use super::Stream;
use crate::build::Builder;
use crate::hparams::Hparams;

/// The parameters and buffers of a model's attention blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    /// Index into [`cairn_tensor::Plan::ropes`].
    rope: usize,
    /// Whether each head of queries and keys is normalised before it is rotated (Qwen 3).
    head_norm: bool,
    q: BufferId,   // [rows, heads * head_dim]
    k: BufferId,   // [rows, kv_heads * head_dim]
    v: BufferId,   // [rows, kv_heads * head_dim]
    out: BufferId, // [rows, heads * head_dim]
}

impl Attention {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams, rope: usize, head_norm: bool) -> Self {
        let (wide, narrow) = (hparams.heads * hparams.head_dim, hparams.kv_heads * hparams.head_dim);
        let (q, k, v, out) = (b.buffer(wide), b.buffer(narrow), b.buffer(narrow), b.buffer(wide));
        Self { rope, head_norm, q, k, v, out }
    }
}

/// `residual += attention(norm(residual))`, and the layer's keys and values go to its state.
pub(crate) fn attention(b: &mut Builder<'_>, hparams: &Hparams, stream: Stream, at: &Attention, layer: usize) {
    let &Hparams { embedding_length, heads, kv_heads, head_dim, rms_epsilon: eps, .. } = hparams;
    let &Attention { rope, head_norm, q, k, v, out } = at;
    let name = |part: &str| format!("blk.{layer}.{part}");

    stream.norm(b, &name("attn_norm.weight"), hparams);
    let parts = [("attn_q", q), ("attn_k", k), ("attn_v", v)];
    let projections = parts.map(|(part, out)| b.projection(&name(part), embedding_length, out)).to_vec();
    b.push(Op::MatMul { x: stream.branch, projections });
    for (part, x) in [("attn_q_norm.weight", q), ("attn_k_norm.weight", k)] {
        if head_norm {
            let weight = b.vector(&name(part), head_dim);
            b.push(Op::RmsNorm { x, weight, eps, group: head_dim, out: x });
        }
        b.push(Op::Rope { x, head_dim, rope });
    }

    let state = b.plan.state(State { kind: StateKind::Full, kv_heads, head_dim });
    b.push(Op::StoreKv { state, k, v });
    let scale = 1.0 / (head_dim as f32).sqrt();
    b.push(Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out });
    let projections = vec![b.projection(&name("attn_output"), heads * head_dim, stream.branch)];
    b.push(Op::MatMul { x: out, projections });
    stream.add(b);
}
