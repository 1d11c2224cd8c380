//! Grouped-query attention (Ainslie et al., arXiv 2305.13245) with rotary positions.
//!
//! Families differ in: norms of queries and keys (Henry et al., arXiv 2010.04245) and layers without rotation (Yang et
//! al., arXiv 2501.18795), factor and cap of the scores, their growth with the position, sinks, layers with a sliding
//! window or chunks, gates of the output (Qiu et al., arXiv 2505.06708), and whether queries, keys and values are one
//! tensor.

use cairn_tensor::{BufferId, Growth, HeadPart, Op, Projection, Rope, State, StateId, StateKind};

use super::Stream;
use super::rope::growth_rope;
use super::sliding_window::SlidingWindows;
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

/// The parameters and buffers of a model's attention blocks.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// Index into [`cairn_tensor::Plan::ropes`]; `None` for a model without rotation.
    rope: Option<usize>,
    /// The rotation of queries if it differs from that of keys.
    query_rope: Option<usize>,
    /// The growth of queries in layers without rotation, as a rotation by no angle.
    unrotated_growth: Option<usize>,
    /// The last of each of these many layers has no rotation.
    unrotated_period: Option<usize>,
    /// Layers with a sliding window, and their rotation.
    windows: Option<(SlidingWindows, usize)>,
    norm: QueryKeyNorm,
    scale: f32,
    softcap: Option<f32>,
    /// Whether each query head has a sink.
    sinks: bool,
    /// Whether the default is one tensor `attn_qkv` instead of three.
    fused: bool,
    /// Queries with a gate behind each head's, `[rows, heads * 2 * head_dim]`, and the gates, `[rows, heads * head_dim]`.
    gates: Option<[BufferId; 2]>,
    q: BufferId,   // [rows, heads * head_dim]
    k: BufferId,   // [rows, kv_heads * head_dim]
    v: BufferId,   // [rows, kv_heads * head_dim]
    out: BufferId, // [rows, heads * head_dim]
}

/// Elements of queries and keys that are normalised together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKeyNorm {
    /// No normalisation.
    None,
    /// Each head separately, before rotation.
    Head,
    /// Each head separately, after rotation.
    RotatedHead,
    /// Each head separately, after rotation and without a weight, in layers with a rotation.
    PlainRotatedHead,
    /// All heads of a row together, before rotation.
    Row,
}

impl Attention {
    /// Creates attention with this rotation in every layer.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams, rope: impl Into<Option<usize>>) -> Self {
        let (wide, narrow) = (hparams.heads * hparams.head_dim, hparams.kv_heads * hparams.head_dim);
        let (q, k, v, out) = (b.buffer(wide), b.buffer(narrow), b.buffer(narrow), b.buffer(wide));
        let scale = 1.0 / (hparams.head_dim as f32).sqrt();
        let (norm, softcap) = (QueryKeyNorm::None, None);
        Self {
            rope: rope.into(),
            query_rope: None,
            unrotated_growth: None,
            unrotated_period: None,
            windows: None,
            norm,
            scale,
            softcap,
            sinks: false,
            fused: false,
            gates: None,
            q,
            k,
            v,
            out,
        }
    }

    pub(crate) fn norm(self, norm: QueryKeyNorm) -> Self {
        Self { norm, ..self }
    }

    /// Uses one tensor for queries, keys and values, unless the model has three.
    pub(crate) fn fused(self) -> Self {
        Self { fused: true, ..self }
    }

    /// Multiplies the output by the sigmoids of gates. The rows of each head's gate follow those of its query.
    pub(crate) fn gated(self, b: &mut Builder<'_>) -> Self {
        let width = b.plan.buffers[self.q.0 as usize].width;
        Self { gates: Some([2 * width, width].map(|width| b.buffer(width))), ..self }
    }

    /// Sets the factor of scores. The default is 1 / sqrt(head_dim).
    pub(crate) fn scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// Caps scores: `cap * tanh(score / cap)`.
    pub(crate) fn softcap(self, softcap: Option<f32>) -> Self {
        Self { softcap, ..self }
    }

    /// Adds a sink for each query head: an extra score in the softmax (Xiao et al., arXiv 2309.17453).
    pub(crate) fn sinks(self) -> Self {
        Self { sinks: true, ..self }
    }

    /// Removes the rotation from the last of each `period` layers.
    pub(crate) fn unrotated_period(self, period: usize) -> Self {
        Self { unrotated_period: Some(period), ..self }
    }

    /// Lets queries, and so scores, grow with the position.
    pub(crate) fn growth(self, b: &mut Builder<'_>, growth: Option<Growth>) -> Self {
        let Some(rope) = self.rope.filter(|_| growth.is_some()) else { return self };
        let rope = Rope { growth, ..b.plan.ropes[rope].clone() };
        Self { query_rope: Some(b.plan.rope(rope)), ..self }
    }

    /// The same in layers without rotation only.
    pub(crate) fn unrotated_growth(
        self,
        b: &mut Builder<'_>,
        hparams: &Hparams,
        growth: Option<Growth>,
    ) -> Result<Self, LoadError> {
        Ok(Self { unrotated_growth: growth_rope(b, growth, hparams.head_dim)?, ..self })
    }

    /// Sets the layers with a sliding window or chunks, and their rotation.
    pub(crate) fn windows(self, windows: Option<SlidingWindows>, rope: usize) -> Self {
        Self { windows: windows.map(|windows| (windows, rope)), ..self }
    }

    /// Adds `residual += attention(x)`, where the stream provides `x`. The layer's state stores its keys and values.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Hparams { heads, kv_heads, head_dim, epsilon: eps, .. } = hparams;
        let &Self { norm, scale, softcap, q, k, v, out, .. } = self;
        let is_causal = hparams.embedding.is_none_or(|output| output.is_causal);
        let rotated = self.unrotated_period.is_none_or(|period| layer % period != period - 1);
        let (kind, rope) = match &self.windows {
            Some((windows, rope)) if windows.applies(layer) => {
                // In both directions, half of the window is on each side of the row.
                let kind = if is_causal { windows.state() } else { StateKind::Around(windows.tokens / 2) };
                (kind, Some(*rope))
            }
            _ => (StateKind::Full, self.rope.filter(|_| rotated)),
        };
        let is_rotated = rope.is_some();
        let query_rope = rope.and(self.query_rope).or(rope).or(self.unrotated_growth);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, Part::ATTENTION, layer);
        let projections = self.projections(b, hparams, layer);
        b.push(Op::MatMul { x, projections });
        if let Some([both, gate]) = self.gates {
            let part = |buffer, first| HeadPart { buffer, heads, first };
            for (first, out) in [(0, q), (head_dim, gate)] {
                b.push(Op::CopyHeads { from: part(both, first), to: part(out, 0), width: head_dim });
            }
        }
        for (part, x, heads, rope) in
            [("attn_q_norm.weight", q, heads, query_rope), ("attn_k_norm.weight", k, kv_heads, rope)]
        {
            let group = match norm {
                QueryKeyNorm::None => None,
                QueryKeyNorm::Head | QueryKeyNorm::RotatedHead => Some(head_dim),
                QueryKeyNorm::PlainRotatedHead => is_rotated.then_some(head_dim),
                QueryKeyNorm::Row => Some(heads * head_dim),
            };
            let normalise = group.map(|group| {
                let has_weight = norm != QueryKeyNorm::PlainRotatedHead;
                let weight = if has_weight { b.vector(&name(part), group) } else { b.ones(group) };
                Op::RmsNorm { x, weight, eps, group, out: x }
            });
            let rotate = rope.map(|rope| Op::Rope { x, head_dim, rope });
            let rotates_first = matches!(norm, QueryKeyNorm::RotatedHead | QueryKeyNorm::PlainRotatedHead);
            let ops = if rotates_first { [rotate, normalise] } else { [normalise, rotate] };
            ops.into_iter().flatten().for_each(|op| b.push(op));
        }
        let state = declare(b, hparams, State::new(kind, kv_heads, head_dim));
        b.push(Op::StoreKv { state, k, v });
        let sinks = self.sinks.then(|| b.vector(&name("attn_sinks.weight"), heads));
        b.push(Op::Attention { state, q, heads, scale, softcap, sinks, out });
        if let Some([_, gate]) = self.gates {
            b.push(Op::Sigmoid { x: gate });
            b.push(Op::Mul { x: out, y: gate });
        }
        let projections = vec![b.projection(&name("attn_output"), heads * head_dim, stream.branch)];
        b.push(Op::MatMul { x: out, projections });
        stream.leave(b, Part::ATTENTION, layer);
    }

    /// Returns the projections into `q`, `k` and `v`: three tensors, or rows of one. Queries include gates.
    fn projections(&self, b: &mut Builder<'_>, hparams: &Hparams, layer: usize) -> Vec<Projection> {
        let width = hparams.embedding_length;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let q = self.gates.map_or(self.q, |[both, _]| both);
        let parts = [("attn_q", q), ("attn_k", self.k), ("attn_v", self.v)];
        let fused = b.has_tensor(&name("attn_qkv.weight")) || (self.fused && !b.has_tensor(&name("attn_q.weight")));
        if !fused {
            return parts.map(|(part, out)| b.projection(&name(part), width, out)).to_vec();
        }
        let [wide, narrow] = [q, self.k].map(|id| b.plan.buffers[id.0 as usize].width);
        let firsts = [0, wide, wide + narrow];
        let rows = |(first, (_, out))| b.projection_rows(&name("attn_qkv"), wide + 2 * narrow, first, width, out);
        firsts.into_iter().zip(parts).map(rows).collect()
    }
}

/// Declares the state of a layer. An embedding model computes a text in one batch, so that each layer can replace the keys
/// and values of the layer before it: layers of equal shape share a state.
fn declare(b: &mut Builder<'_>, hparams: &Hparams, state: State) -> StateId {
    let shared = b.plan.states.iter().position(|other| hparams.embedding.is_some() && *other == state);
    shared.map_or_else(|| b.plan.state(state), |index| StateId(index as u32))
}
