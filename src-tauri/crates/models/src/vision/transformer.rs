//! The transformer of a vision tower: blocks with attention of all patches to each other or to those of their region, norms in front of
//! both parts, and an MLP (Dosovitskiy et al., arXiv 2010.11929), which may have a gate.

use cairn_tensor::{BufferId, Glu, Op, State, StateId, StateKind};

use super::TowerHparams;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Keys, NormKind};

/// Buffers and states of the blocks. Adjacent blocks keep their keys and values in two states, so that the rows can be computed in tiles.
pub(super) struct Transformer<'a> {
    hparams: &'a TowerHparams,
    /// The residual stream.
    pub(super) x: BufferId,
    branch: BufferId,
    qkv: [BufferId; 3],
    attended: BufferId,
    inner: BufferId,
    /// Gates of an MLP that has them.
    gate: Option<BufferId>,
    /// States of adjacent blocks with attention to all patches.
    states: [StateId; 2],
    parts: Parts,
}

/// What towers differ in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) norm: NormKind,
    pub(super) activation: Activation,
    /// Rotation of queries and keys, if there is one.
    pub(super) rope: Option<usize>,
    /// Regions that blocks attend to, if there are any.
    pub(super) regions: Option<Regions>,
}

impl Default for Parts {
    fn default() -> Self {
        Self { norm: NormKind::Layer, activation: Activation::Gelu, rope: None, regions: None }
    }
}

/// The activation of MLPs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Gelu,
    /// `x / (1 + exp(-1.702 x))` (Hendrycks & Gimpel, arXiv 1606.08415).
    QuickGelu,
    Silu,
    Gated(Glu),
}

impl Activation {
    /// Reads the activation of MLPs without gates. Without a key it is that of CLIP.
    pub(super) fn read(keys: &Keys<'_>) -> Result<Self, LoadError> {
        match ["use_gelu", "use_silu"].map(|key| keys.bool(key)) {
            [Ok(Some(true)), Ok(Some(true))] => Err(keys.invalid("use_silu", "there is another activation, too")),
            [Ok(Some(true)), Ok(_)] => Ok(Self::Gelu),
            [Ok(_), Ok(Some(true))] => Ok(Self::Silu),
            [Ok(_), Ok(_)] => Ok(Self::QuickGelu),
            [Err(error), _] | [_, Err(error)] => Err(error.into()),
        }
    }
}

/// Attention to regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    /// States of adjacent blocks with attention to regions.
    pub(super) states: [StateId; 2],
    /// Each block of this number attends to all patches, the others to their region.
    pub(super) full_interval: usize,
}

/// Steepness of [`Activation::QuickGelu`].
const QUICK: f32 = 1.702;

impl<'a> Transformer<'a> {
    pub(super) fn new(b: &mut Builder<'_>, hparams: &'a TowerHparams, parts: Parts) -> Self {
        let &TowerHparams { embedding_length: width, feed_forward_length, heads, .. } = hparams;
        let gate = matches!(parts.activation, Activation::Gated(_)).then(|| b.buffer(feed_forward_length));
        let [x, branch, q, k, v, attended] = [width; 6].map(|width| b.buffer(width));
        let inner = b.buffer(feed_forward_length);
        let states = [(); 2].map(|()| b.plan.state(State::new(StateKind::Full, heads, hparams.head_dim())));
        Self { hparams, x, branch, qkv: [q, k, v], attended, inner, gate, states, parts }
    }

    /// Adds a norm of the residual stream.
    pub(super) fn norm(&self, b: &mut Builder<'_>, prefix: &str, out: BufferId) {
        let &TowerHparams { embedding_length: width, epsilon: eps, .. } = self.hparams;
        let weight = b.vector(&format!("{prefix}.weight"), width);
        match self.parts.norm {
            NormKind::Rms => b.push(Op::RmsNorm { x: self.x, weight, eps, group: width, out }),
            NormKind::Layer => {
                let bias = Some(b.vector(&format!("{prefix}.bias"), width));
                b.push(Op::LayerNorm { x: self.x, weight, bias, eps, out });
            }
        }
    }

    /// Adds a block.
    pub(super) fn push(&self, b: &mut Builder<'_>, layer: usize) {
        let &Self { x, branch, .. } = self;
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        self.norm(b, &name("ln1"), branch);
        self.attend(b, layer);
        b.push(Op::Add { x, y: branch });
        self.norm(b, &name("ln2"), branch);
        self.mlp(b, layer);
        b.push(Op::Add { x, y: branch });
    }

    /// Replaces the branch by its attention.
    fn attend(&self, b: &mut Builder<'_>, layer: usize) {
        let &Self { hparams, branch, qkv: [q, k, v], attended, states, parts, .. } = self;
        let &TowerHparams { embedding_length: width, heads, .. } = hparams;
        let head_dim = hparams.head_dim();
        let name = |part: &str| format!("v.blk.{layer}.{part}");
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
        let regions = parts.regions.filter(|regions| !(layer + 1).is_multiple_of(regions.full_interval));
        let state = regions.map_or(states, |regions| regions.states)[layer % states.len()];
        b.push(Op::StoreKv { state, k, v });
        let scale = 1.0 / (head_dim as f32).sqrt();
        b.push(Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out: attended });
        let projections = vec![b.projection(&name("attn_out"), width, branch)];
        b.push(Op::MatMul { x: attended, projections });
    }

    /// Replaces the branch by the output of its MLP.
    fn mlp(&self, b: &mut Builder<'_>, layer: usize) {
        let &Self { hparams, branch, inner, gate, .. } = self;
        let &TowerHparams { embedding_length: width, feed_forward_length: inner_width, .. } = hparams;
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        let [up, down] = mlp_names(b, &name("ffn_up"), &name("ffn_down"), width);
        let mut projections = vec![b.projection(&up, width, inner)];
        projections.extend(gate.map(|gate| b.projection(&name("ffn_gate"), width, gate)));
        b.push(Op::MatMul { x: branch, projections });
        let activated = gate.unwrap_or(inner);
        self.activate(b, activated);
        let projections = vec![b.projection(&down, inner_width, branch)];
        b.push(Op::MatMul { x: activated, projections });
    }

    /// Adds the activation of an MLP.
    fn activate(&self, b: &mut Builder<'_>, x: BufferId) {
        match self.parts.activation {
            Activation::Gelu => b.push(Op::Gelu { x }),
            Activation::Silu => b.push(Op::Silu { x }),
            Activation::QuickGelu => {
                b.push(Op::Scale { x, factor: QUICK });
                b.push(Op::Silu { x });
                b.push(Op::Scale { x, factor: 1.0 / QUICK });
            }
            Activation::Gated(activation) => b.push(Op::Glu { activation, gate: x, up: self.inner, out: x }),
        }
    }
}

/// Names of the first and the second matrix of an MLP. Older converters exchanged them: then the first one maps to the narrow stream.
fn mlp_names(b: &Builder<'_>, up: &str, down: &str, width: usize) -> [String; 2] {
    let is_exchanged =
        b.rows_of(&format!("{up}.weight")) == Some(width) && b.rows_of(&format!("{down}.weight")) != Some(width);
    if is_exchanged { [down.to_owned(), up.to_owned()] } else { [up.to_owned(), down.to_owned()] }
}
