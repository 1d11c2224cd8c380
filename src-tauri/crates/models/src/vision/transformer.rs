//! The transformer of a vision tower: blocks with attention of all patches to each other or to those of their region, norms in front of
//! both parts, and an MLP (Dosovitskiy et al., arXiv 2010.11929), which may have a gate. Gemma 4 has more norms: see [`NormBuffers`].

use cairn_tensor::{BufferId, Glu, HeadPart, Op, Projection, State, StateId, StateKind, WeightId};

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
    /// Whether MLPs have gates.
    pub(super) is_gated: bool,
    /// Rotation of queries and keys, if there is one.
    pub(super) rope: Option<usize>,
    /// Regions that blocks attend to, if there are any.
    pub(super) regions: Option<Regions>,
    /// Norms of heads and of the outputs of parts, if there are any.
    pub(super) norms: Option<NormBuffers>,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            norm: NormKind::Layer,
            activation: Activation::Gelu,
            is_gated: false,
            rope: None,
            regions: None,
            norms: None,
        }
    }
}

/// The activation of MLPs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Gelu,
    /// `x / (1 + exp(-1.702 x))` (Hendrycks & Gimpel, arXiv 1606.08415).
    QuickGelu,
    Silu,
}

/// Memory of blocks with norms of heads and of the outputs of both parts (Gemma 4). Scores are not scaled, a block may have a factor on its
/// output, and the inputs and outputs of products may have limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormBuffers {
    /// Queries and keys with the elements of each head in another order: the first, third, second and fourth quarter.
    pub(super) turned: [BufferId; 2],
    /// An input of a product with limits that other products of it do not have.
    pub(super) limited: BufferId,
}

/// Smallest and largest value of an input or an output of a product.
type ValueRange = [f32; 2];

impl Activation {
    /// Reads the activation of MLPs. Without a key it is that of CLIP.
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

/// Bias of the projection of patches.
pub(super) const PATCH_BIAS: &str = "v.patch_embd.bias";
/// Steepness of [`Activation::QuickGelu`].
const QUICK: f32 = 1.702;

impl<'a> Transformer<'a> {
    pub(super) fn new(b: &mut Builder<'_>, hparams: &'a TowerHparams, parts: Parts) -> Self {
        let &TowerHparams { embedding_length: width, feed_forward_length, heads, .. } = hparams;
        let gate = parts.is_gated.then(|| b.buffer(feed_forward_length));
        let [x, branch, q, k, v, attended] = [width; 6].map(|width| b.buffer(width));
        let inner = b.buffer(feed_forward_length);
        let states = [(); 2].map(|()| b.plan.state(State::new(StateKind::Full, heads, hparams.head_dim())));
        Self { hparams, x, branch, qkv: [q, k, v], attended, inner, gate, states, parts }
    }

    /// Adds the projection of patches to the residual stream. Returns its bias, if the file has one of this name.
    pub(super) fn project_patches(&self, b: &mut Builder<'_>, bias: Option<&str>) -> Option<WeightId> {
        let &TowerHparams { embedding_length: width, patch_size: side, .. } = self.hparams;
        let patch = self.hparams.patch_elements();
        let input = b.buffer(patch);
        b.push(Op::Input { out: input });
        let weight = b.reshaped("v.patch_embd.weight", &[side, side, 3, width], width, patch);
        let bias = bias.and_then(|name| b.optional_vector(name, width));
        b.push(Op::MatMul { x: input, projections: vec![Projection { weight, bias, out: self.x }] });
        bias
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
    pub(super) fn push(&self, b: &mut Builder<'_>, layer: usize) -> Result<(), LoadError> {
        let &Self { x, branch, parts, .. } = self;
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        self.norm(b, &name("ln1"), branch);
        self.attend(b, layer)?;
        self.norm_output(b, &name("attn_post_norm.weight"));
        b.push(Op::Add { x, y: branch });
        self.norm(b, &name("ln2"), branch);
        self.mlp(b, layer)?;
        self.norm_output(b, &name("ffn_post_norm.weight"));
        b.push(Op::Add { x, y: branch });
        let factor = parts.norms.and_then(|_| b.optional_values(&name("out_scale.weight"), 1));
        match factor.map(|values| values[0]) {
            None => Ok(()),
            Some(factor) if factor.is_finite() => {
                b.push(Op::Scale { x, factor });
                Ok(())
            }
            Some(factor) => {
                let why = format!("the factor {factor} is not finite");
                Err(LoadError::Value { tensor: name("out_scale.weight"), why })
            }
        }
    }

    /// Adds the norm of a part's output.
    fn norm_output(&self, b: &mut Builder<'_>, name: &str) {
        let &TowerHparams { embedding_length: width, epsilon: eps, .. } = self.hparams;
        if self.parts.norms.is_some() {
            let weight = b.vector(name, width);
            b.push(Op::RmsNorm { x: self.branch, weight, eps, group: width, out: self.branch });
        }
    }

    /// Replaces the branch by its attention.
    fn attend(&self, b: &mut Builder<'_>, layer: usize) -> Result<(), LoadError> {
        let &Self { hparams, branch, qkv: [mut q, mut k, v], attended, states, parts, .. } = self;
        let &TowerHparams { embedding_length: width, heads, .. } = hparams;
        let head_dim = hparams.head_dim();
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        if b.has_tensor(&name("attn_qkv.weight")) {
            let parts = [(0, q), (width, k), (2 * width, v)];
            let projections =
                parts.map(|(first, out)| b.projection_rows(&name("attn_qkv"), 3 * width, first, width, out));
            b.push(Op::MatMul { x: branch, projections: projections.to_vec() });
        } else {
            let products = [("attn_q", q), ("attn_k", k), ("attn_v", v)];
            self.multiply(b, branch, products.map(|(part, out)| (name(part), out)).to_vec())?;
        }
        if let Some(NormBuffers { turned, .. }) = parts.norms {
            self.norm_heads(b, layer);
            self.turn(b, [q, k], turned);
            [q, k] = turned;
        }
        if let Some(rope) = parts.rope {
            b.push(Op::Rope { x: q, head_dim, rope });
            b.push(Op::Rope { x: k, head_dim, rope });
        }
        let regions = parts.regions.filter(|regions| !(layer + 1).is_multiple_of(regions.full_interval));
        let state = regions.map_or(states, |regions| regions.states)[layer % states.len()];
        b.push(Op::StoreKv { state, k, v });
        let scale = if parts.norms.is_some() { 1.0 } else { 1.0 / (head_dim as f32).sqrt() };
        b.push(Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out: attended });
        self.multiply(b, attended, vec![(name("attn_out"), branch)])
    }

    /// Adds the norms of heads: those of values have no weights.
    fn norm_heads(&self, b: &mut Builder<'_>, layer: usize) {
        let (group, eps, [q, k, v]) = (self.hparams.head_dim(), self.hparams.epsilon, self.qkv);
        let weights =
            ["attn_q_norm", "attn_k_norm"].map(|part| b.vector(&format!("v.blk.{layer}.{part}.weight"), group));
        let weights = [weights[0], weights[1], b.ones(group)];
        for (x, weight) in [q, k, v].into_iter().zip(weights) {
            b.push(Op::RmsNorm { x, weight, eps, group, out: x });
        }
    }

    /// Copies queries and keys with the elements of each head in another order.
    fn turn(&self, b: &mut Builder<'_>, from: [BufferId; 2], to: [BufferId; 2]) {
        let (heads, width) = (self.hparams.heads, self.hparams.head_dim() / 4);
        for (from, to) in from.into_iter().zip(to) {
            for (place, quarter) in [0, 2, 1, 3].into_iter().enumerate() {
                let part = |buffer, nth: usize| HeadPart { buffer, heads, first: nth * width };
                b.push(Op::CopyHeads { from: part(from, quarter), to: part(to, place), width });
            }
        }
    }

    /// Replaces the branch by the output of its MLP.
    fn mlp(&self, b: &mut Builder<'_>, layer: usize) -> Result<(), LoadError> {
        let &Self { hparams, branch, inner, gate, .. } = self;
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        let [up, down] = mlp_names(b, &name("ffn_up"), &name("ffn_down"), hparams.embedding_length);
        let mut products = vec![(up, inner)];
        products.extend(gate.map(|gate| (name("ffn_gate"), gate)));
        self.multiply(b, branch, products)?;
        self.activate(b);
        self.multiply(b, gate.unwrap_or(inner), vec![(down, branch)])
    }

    /// Adds the activation of an MLP.
    fn activate(&self, b: &mut Builder<'_>) {
        let &Self { inner: up, gate, parts, .. } = self;
        let x = gate.unwrap_or(up);
        let is_quick = parts.activation == Activation::QuickGelu;
        if is_quick {
            b.push(Op::Scale { x, factor: QUICK });
        }
        match (parts.activation, gate) {
            (Activation::Gelu, None) => b.push(Op::Gelu { x }),
            (Activation::Gelu, Some(gate)) => b.push(Op::Glu { activation: Glu::Gelu, gate, up, out: gate }),
            (Activation::QuickGelu | Activation::Silu, None) => b.push(Op::Silu { x }),
            (Activation::QuickGelu | Activation::Silu, Some(gate)) => {
                b.push(Op::Glu { activation: Glu::Silu, gate, up, out: gate });
            }
        }
        if is_quick {
            b.push(Op::Scale { x, factor: 1.0 / QUICK });
        }
    }

    /// Adds products of a buffer, each by its prefix and its output. Products with limits may change the buffer.
    pub(super) fn multiply(
        &self,
        b: &mut Builder<'_>,
        x: BufferId,
        products: Vec<(String, BufferId)>,
    ) -> Result<(), LoadError> {
        let cols = b.plan.buffers[x.0 as usize].width;
        let mut limited: Vec<(Projection, [Option<ValueRange>; 2])> = Vec::with_capacity(products.len());
        for (prefix, out) in products {
            let limits = match self.parts.norms {
                None => [None; 2],
                Some(_) => [limits(b, &prefix, "input")?, limits(b, &prefix, "output")?],
            };
            limited.push((b.projection(&prefix, cols, out), limits));
        }
        let count = limited.len();
        for group in limited.chunk_by(|(_, first), (_, second)| first[0] == second[0]) {
            let input = match (group[0].1[0], self.parts.norms) {
                (Some([least, most]), Some(buffers)) => {
                    let input = if group.len() == count { x } else { buffers.limited };
                    if input != x {
                        let [from, to] = [x, input].map(|buffer| HeadPart { buffer, heads: 1, first: 0 });
                        b.push(Op::CopyHeads { from, to, width: cols });
                    }
                    b.push(Op::Clamp { x: input, least, most });
                    input
                }
                _ => x,
            };
            let projections = group.iter().map(|(projection, _)| projection.clone()).collect();
            b.push(Op::MatMul { x: input, projections });
            for (Projection { out, .. }, [_, limits]) in group {
                if let &Some([least, most]) = limits {
                    b.push(Op::Clamp { x: *out, least, most });
                }
            }
        }
        Ok(())
    }
}

/// Reads the limits of an input or an output of a product; none if the file has none.
fn limits(b: &mut Builder<'_>, prefix: &str, part: &str) -> Result<Option<ValueRange>, LoadError> {
    let name = |end: &str| format!("{prefix}.{part}_{end}");
    let mut end = |end: &str, default: f32| b.optional_values(&name(end), 1).map_or(default, |values| values[0]);
    let [least, most] = [end("min", f32::NEG_INFINITY), end("max", f32::INFINITY)];
    if least <= most {
        return Ok(Some([least, most]).filter(|limits| limits.iter().any(|limit| limit.is_finite())));
    }
    Err(LoadError::Value { tensor: name("min"), why: format!("the range from {least} to {most} is empty") })
}

/// Names of the first and the second matrix of an MLP. Older converters exchanged them: then the first one maps to the narrow stream.
fn mlp_names(b: &Builder<'_>, up: &str, down: &str, width: usize) -> [String; 2] {
    let is_exchanged =
        b.rows_of(&format!("{up}.weight")) == Some(width) && b.rows_of(&format!("{down}.weight")) != Some(width);
    if is_exchanged { [down.to_owned(), up.to_owned()] } else { [up.to_owned(), down.to_owned()] }
}
