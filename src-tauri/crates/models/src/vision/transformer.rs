//! The transformer of a vision tower: blocks with attention of all patches to each other or to those of their region, norms in front of
//! both parts, and an MLP with GELU (Dosovitskiy et al., arXiv 2010.11929), or one with a gate.

use cairn_tensor::{BufferId, Glu, Op, State, StateId, StateKind};

use super::TowerHparams;
use crate::build::Builder;

/// Buffers and states of the blocks. Adjacent blocks keep their keys and values in two states, so that the rows can be computed in tiles.
pub(super) struct Transformer<'a> {
    hparams: &'a TowerHparams,
    /// The residual stream.
    pub(super) x: BufferId,
    branch: BufferId,
    qkv: [BufferId; 3],
    attended: BufferId,
    inner: BufferId,
    /// States of adjacent blocks with attention to all patches.
    states: [StateId; 2],
    parts: Parts,
}

/// What towers differ in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    /// Rotation of queries and keys, if there is one.
    pub(super) rope: Option<usize>,
    /// What a tower with RMSNorm and gated MLPs has, if it is one.
    pub(super) gated: Option<Gated>,
}

/// Memory of the gates of MLPs, and the regions that blocks attend to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gated {
    pub(super) gate: BufferId,
    /// States of adjacent blocks with attention to regions.
    pub(super) states: [StateId; 2],
    /// Each block of this number attends to all patches, the others to their region.
    pub(super) full_interval: usize,
}

impl<'a> Transformer<'a> {
    pub(super) fn new(b: &mut Builder<'_>, hparams: &'a TowerHparams, parts: Parts) -> Self {
        let &TowerHparams { embedding_length: width, feed_forward_length, heads, .. } = hparams;
        let [x, branch, q, k, v, attended] = [width; 6].map(|width| b.buffer(width));
        let inner = b.buffer(feed_forward_length);
        let states = [(); 2].map(|()| b.plan.state(State::new(StateKind::Full, heads, hparams.head_dim())));
        Self { hparams, x, branch, qkv: [q, k, v], attended, inner, states, parts }
    }

    /// Adds a norm of the residual stream.
    pub(super) fn norm(&self, b: &mut Builder<'_>, prefix: &str, out: BufferId) {
        let &TowerHparams { embedding_length: width, epsilon: eps, .. } = self.hparams;
        let weight = b.vector(&format!("{prefix}.weight"), width);
        if self.parts.gated.is_some() {
            b.push(Op::RmsNorm { x: self.x, weight, eps, group: width, out });
        } else {
            let bias = Some(b.vector(&format!("{prefix}.bias"), width));
            b.push(Op::LayerNorm { x: self.x, weight, bias, eps, out });
        }
    }

    /// Adds a block.
    pub(super) fn push(&self, b: &mut Builder<'_>, layer: usize) {
        let &Self { hparams, x, branch, qkv: [q, k, v], attended, inner, states, parts } = self;
        let &TowerHparams { embedding_length: width, feed_forward_length: inner_width, heads, .. } = hparams;
        let head_dim = hparams.head_dim();
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        self.norm(b, &name("ln1"), branch);
        let projections = match b.has_tensor(&name("attn_qkv.weight")) {
            true => {
                let parts = [(0, q), (width, k), (2 * width, v)];
                parts.map(|(first, out)| b.projection_rows(&name("attn_qkv"), 3 * width, first, width, out)).to_vec()
            }
            false => {
                let parts = [("attn_q", q), ("attn_k", k), ("attn_v", v)];
                parts.map(|(part, out)| b.projection(&name(part), width, out)).to_vec()
            }
        };
        b.push(Op::MatMul { x: branch, projections });
        if let Some(rope) = parts.rope {
            b.push(Op::Rope { x: q, head_dim, rope });
            b.push(Op::Rope { x: k, head_dim, rope });
        }
        let regions = parts.gated.filter(|gated| !(layer + 1).is_multiple_of(gated.full_interval));
        let state = regions.map_or(states, |gated| gated.states)[layer % states.len()];
        b.push(Op::StoreKv { state, k, v });
        let scale = 1.0 / (head_dim as f32).sqrt();
        b.push(Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out: attended });
        let projections = vec![b.projection(&name("attn_out"), width, branch)];
        b.push(Op::MatMul { x: attended, projections });
        b.push(Op::Add { x, y: branch });
        self.norm(b, &name("ln2"), branch);
        let [up, down] = mlp_names(b, &name("ffn_up"), &name("ffn_down"), width);
        let mut projections = vec![b.projection(&up, width, inner)];
        if let Some(Gated { gate, .. }) = parts.gated {
            projections.push(b.projection(&name("ffn_gate"), width, gate));
            b.push(Op::MatMul { x: branch, projections });
            b.push(Op::Glu { activation: Glu::Silu, gate, up: inner, out: gate });
        } else {
            b.push(Op::MatMul { x: branch, projections });
            b.push(Op::Gelu { x: inner });
        }
        let projections = vec![b.projection(&down, inner_width, branch)];
        let activated = parts.gated.map_or(inner, |gated| gated.gate);
        b.push(Op::MatMul { x: activated, projections });
        b.push(Op::Add { x, y: branch });
    }
}

/// Names of the first and the second matrix of an MLP. Older converters exchanged them: then the first one maps to the narrow stream.
fn mlp_names(b: &Builder<'_>, up: &str, down: &str, width: usize) -> [String; 2] {
    let is_exchanged =
        b.rows_of(&format!("{up}.weight")) == Some(width) && b.rows_of(&format!("{down}.weight")) != Some(width);
    if is_exchanged { [down.to_owned(), up.to_owned()] } else { [up.to_owned(), down.to_owned()] }
}
