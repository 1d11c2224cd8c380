//! Linear attention by the gated delta rule (Yang et al., arXiv 2412.06464), as in Qwen 3 Next and 3.5: a short
//! convolution over queries, keys and values, states that decay, and a norm of each head's output that is multiplied by
//! a gate.
//!
//! Files from old converters have one tensor `ssm_in` for queries, keys, values and gates of Qwen 3 Next, by heads of
//! keys.
//!
//! Sizes are `ssm.*` keys: `group_count` heads of queries and keys with `state_size` elements, and `time_step_rank`
//! heads of values with `inner_size` elements together.

use cairn_tensor::{BufferId, DeltaRule, Glu, HeadPart, KeySharing, Op, Projection};

use super::Stream;
use super::ssm_sizes::SsmSizes;
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Parameters and buffers of a model's layers with linear attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaNet {
    /// Groups are the heads of keys.
    sizes: SsmSizes,
    sharing: KeySharing,
    qkv: BufferId,           // [rows, queries, keys, values]
    mixed: BufferId,         // The same after the convolution.
    gate: BufferId,          // [rows, values]
    beta: BufferId,          // [rows, heads]
    decay: BufferId,         // [rows, heads]
    pairs: Option<BufferId>, // [rows, 2 * heads]: factors in one tensor.
    out: BufferId,           // [rows, values]
}

impl DeltaNet {
    /// Reads the sizes.
    pub(crate) fn new(b: &mut Builder<'_>, sharing: KeySharing) -> Result<Self, LoadError> {
        let sizes = SsmSizes::read(&Keys::new(b.metadata())?)?;
        let (inner, heads) = (sizes.inner(), sizes.heads);
        let width = 2 * sizes.groups * sizes.state_size + inner;
        let [qkv, mixed, gate, beta, decay, out] =
            [width, width, inner, heads, heads, inner].map(|width| b.buffer(width));
        Ok(Self { sizes, sharing, qkv, mixed, gate, beta, decay, pairs: None, out })
    }

    /// Reads the factors of errors and states from one tensor, `ssm_ba`, which has both for each head of keys.
    pub(crate) fn paired(self, b: &mut Builder<'_>) -> Self {
        Self { pairs: Some(b.buffer(2 * self.sizes.heads)), ..self }
    }

    /// Adds `residual += linear attention(x)`, where the stream provides `x`. The layer has two states: the rows before the next one
    /// for the convolution, and those of the heads.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { sizes, sharing, qkv, mixed, gate, beta, decay, out, .. } = self;
        let SsmSizes { kernel, groups: key_heads, heads, state_size: key_dim, head_dim: value_dim } = sizes;
        let (embedding, eps) = (hparams.embedding_length, hparams.epsilon);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, Part::ATTENTION, layer);
        let mut projections = match b.has_tensor(&name("ssm_in.weight")) {
            true => self.by_key_heads(b, embedding, &name("ssm_in.weight")),
            false => [("attn_qkv", qkv), ("attn_gate", gate)]
                .map(|(part, out)| b.projection(&name(part), embedding, out))
                .to_vec(),
        };
        let factors = match self.pairs {
            Some(pairs) => vec![("ssm_ba", pairs)],
            None => vec![("ssm_beta", beta), ("ssm_alpha", decay)],
        };
        projections.extend(factors.into_iter().map(|(part, out)| b.projection(&name(part), embedding, out)));
        b.push(Op::MatMul { x, projections });
        if let Some(pairs) = self.pairs {
            let width = heads / key_heads;
            let part = |buffer, first| HeadPart { buffer, heads: key_heads, first };
            for (first, out) in [(0, beta), (width, decay)] {
                b.push(Op::CopyHeads { from: part(pairs, first), to: part(out, 0), width });
            }
        }
        let width = b.plan.buffers[qkv.0 as usize].width;
        let weight = b.matrix(&name("ssm_conv1d.weight"), width, kernel);
        let state = b.plan.recurrent((kernel - 1) * width);
        b.push(Op::Conv { state, x: qkv, weight, bias: None, out: mixed });
        b.push(Op::Silu { x: mixed });
        let [rate, bias] = ["ssm_a", "ssm_dt.bias"].map(|part| b.vector(&name(part), heads));
        b.push(Op::Decay { x: decay, rate, bias });
        b.push(Op::Sigmoid { x: beta });
        let state = b.plan.recurrent(heads * key_dim * value_dim);
        b.push(Op::DeltaRule(DeltaRule {
            state,
            qkv: mixed,
            decay,
            beta,
            key_heads,
            heads,
            key_dim,
            value_dim,
            sharing,
            eps,
            out,
        }));
        let weight = b.vector(&name("ssm_norm.weight"), value_dim);
        b.push(Op::RmsNorm { x: out, weight, eps, group: value_dim, out });
        b.push(Op::Glu { activation: Glu::Silu, gate, up: out, out: gate });
        let projections = vec![b.projection(&name("ssm_out"), heads * value_dim, stream.branch)];
        b.push(Op::MatMul { x: gate, projections });
        stream.leave(b, Part::ATTENTION, layer);
    }

    /// The projections into `qkv` and `gate` from a matrix with the rows of each head of keys together: those of its
    /// query, of its key, of the values of the heads that share it, and of their gates.
    fn by_key_heads(&self, b: &mut Builder<'_>, embedding: usize, name: &str) -> Vec<Projection> {
        let SsmSizes { groups, heads, state_size: key_dim, head_dim, .. } = self.sizes;
        let value_dim = heads / groups * head_dim;
        let total = 2 * (key_dim + value_dim);
        // Of each part, the rows of all heads.
        let part =
            |first: usize, len: usize| (0..groups).map(move |group| group * total + first..group * total + first + len);
        let qkv = part(0, key_dim).chain(part(key_dim, key_dim)).chain(part(2 * key_dim, value_dim));
        let parts =
            [(qkv.collect(), self.qkv), (part(2 * key_dim + value_dim, value_dim).collect::<Vec<_>>(), self.gate)];
        let project =
            |(rows, out)| Projection { weight: b.chosen_rows(name, groups * total, rows, embedding), bias: None, out };
        parts.map(project).to_vec()
    }
}
