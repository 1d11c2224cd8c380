//! The tower of Qwen 3 VL (arXiv 2511.21631) and Qwen 3.5: a SigLIP 2 encoder (arXiv 2502.14786) for pictures of any proportions, with learned
//! positions that are scaled to the picture, and a rotation by row and column. Groups of four patches are joined and projected. In Qwen 3
//! VL, rows of some inner layers are projected, too, and the text model adds them behind its first layers.
//!
//! The tower of Qwen 2.5 VL (arXiv 2502.13923) has no learned positions. Patches of most of its layers attend to those of their window
//! only. Its norms are RMSNorm, and its MLPs have gates.

use cairn_gguf::{Array, Value};
use cairn_image::Filter;
use cairn_tensor::{BufferId, HeadPart, Op, Projection, Rows, State, StateKind, WeightId};

use super::transformer::{Activation, Parts, Regions, Transformer};
use super::{PicturePrompt, TowerHparams, TowerKind, VisionTower};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Keys, NormKind};

/// Patches of a side of a group.
const GROUP_SIZE: usize = 2;
/// Base of the rotation by row and column.
const ROPE_BASE: f64 = 10_000.0;
/// A still picture is two equal frames. In llama.cpp's layout, each has a projection of its own.
const FRAMES: [&str; 2] = ["v.patch_embd.weight", "v.patch_embd.weight.1"];

/// Texts around a picture, as in the chat template of the model (<https://huggingface.co/Qwen/Qwen3-VL-8B-Instruct>).
const PROMPT: PicturePrompt =
    PicturePrompt { texts: ["<|vision_start|>", "<|vision_end|>"], is_causal: true, has_places: true };

const KIND: TowerKind = TowerKind { group_size: GROUP_SIZE, filter: Filter::Cubic, prompt: PROMPT };
/// Fewest and most output rows of a picture.
const ROWS: [usize; 2] = [4, 1024];

/// Pixels of a side of a window of Qwen 2.5 VL.
const WINDOW_PIXELS: usize = 112;
/// Layers from one with attention to all patches to the next, if a file has no key.
const FULL_INTERVAL: u32 = 8;

pub(super) struct Qwen25;

impl VisionTower for Qwen25 {
    fn projectors(&self) -> &'static [&'static str] {
        &["qwen2.5vl_merger"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let mut hparams = scaled(&keys)?;
        hparams.window_size = Some((WINDOW_PIXELS / (hparams.patch_size * GROUP_SIZE)).max(1));
        let full_interval = keys.count("vision.n_wa_pattern", Some(FULL_INTERVAL), u32::MAX)?;
        let rope = Some(hparams.half_rotation(b, ROPE_BASE, [0, 1])?);
        let (heads, head_dim) = (hparams.heads, hparams.head_dim());
        let states = [(); 2].map(|()| b.plan.state(State::new(StateKind::Region, heads, head_dim)));
        let parts = Parts {
            norm: NormKind::Rms,
            activation: Activation::Silu,
            is_gated: true,
            rope,
            regions: Some(Regions { states, full_interval }),
            ..Parts::default()
        };
        let blocks = Transformer::new(b, &hparams, parts);
        let merger = Merger::new(b, &hparams, hparams.output_length);
        embed_patches(b, &hparams, blocks.x, None);
        (0..hparams.layers).try_for_each(|layer| blocks.push(b, layer))?;
        blocks.norm(b, "v.post_ln", blocks.x);
        merger.push_last(b, blocks.x);
        b.plan.logits = Some(merger.merged);
        Ok(hparams)
    }
}

/// Reads the keys that both kinds of towers have.
fn scaled(keys: &Keys<'_>) -> Result<TowerHparams, LoadError> {
    let group = keys.u32("vision.spatial_merge_size")?.unwrap_or(GROUP_SIZE as u32);
    if group as usize != GROUP_SIZE {
        return Err(LoadError::Unsupported {
            what: format!("a vision tower with groups of {group} x {group} patches"),
        });
    }
    TowerHparams::of_scaled(keys, KIND, ROWS)
}

pub(super) struct Qwen3;

impl VisionTower for Qwen3 {
    fn projectors(&self) -> &'static [&'static str] {
        &["qwen3vl_merger"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let mut hparams = scaled(&keys)?;
        let deepstack = deepstack(&keys, hparams.layers)?;
        let merged = hparams.output_length;
        hparams.output_length = (1 + deepstack.len()) * merged;
        if b.has_tensor(FRAMES[0]) && !b.has_tensor(FRAMES[1]) {
            hparams.frames = FRAMES.len();
        }

        let rope = Some(hparams.half_rotation(b, ROPE_BASE, [0, 1])?);
        let blocks = Transformer::new(b, &hparams, Parts { rope, ..Parts::default() });
        let merger = Merger::new(b, &hparams, merged);
        let out = b.plan.buffer(Rows::Logits, hparams.output_length);
        let bias = b.vector("v.patch_embd.bias", hparams.embedding_length);
        embed_patches(b, &hparams, blocks.x, Some(bias));
        add_positions(b, &hparams, blocks.x);
        for layer in 0..hparams.layers {
            blocks.push(b, layer)?;
            if let Some(at) = deepstack.iter().position(|&deep| deep == layer) {
                merger.push_deep(b, blocks.x, layer);
                merger.copy(b, 1 + at, out);
            }
        }
        blocks.norm(b, "v.post_ln", blocks.x);
        merger.push_last(b, blocks.x);
        merger.copy(b, 0, out);
        b.plan.logits = Some(out);
        Ok(hparams)
    }
}

/// Returns the layers of the tower with rows that the text model adds behind its own layers.
fn deepstack(keys: &Keys<'_>, layers: usize) -> Result<Vec<usize>, LoadError> {
    const KEY: &str = "vision.is_deepstack_layers";
    match keys.get(KEY) {
        None => Ok(Vec::new()),
        Some(Value::Array(Array::Bool(marks))) if marks.len() == layers => {
            Ok(marks.iter().enumerate().filter(|(_, is_deep)| **is_deep).map(|(layer, _)| layer).collect())
        }
        Some(_) => Err(keys.invalid(KEY, format!("it is not a list of {layers} booleans"))),
    }
}

/// Adds the projection of patches.
fn embed_patches(b: &mut Builder<'_>, hparams: &TowerHparams, x: BufferId, bias: Option<WeightId>) {
    let &TowerHparams { embedding_length: width, patch_size: side, frames, .. } = hparams;
    let patch = hparams.patch_elements();
    let input = b.buffer(patch);
    b.push(Op::Input { out: input });
    if frames > 1 {
        // Ollama's layout: the pixels of a color in both frames are adjacent.
        let weight = b.reshaped(FRAMES[0], &[side, side, frames, 3 * width], width, patch);
        b.push(Op::MatMul { x: input, projections: vec![Projection { weight, bias, out: x }] });
    } else {
        let second = b.buffer(width);
        let weights = FRAMES.map(|name| b.reshaped(name, &[side, side, 3, width], width, patch));
        let outs = [(weights[0], bias, x), (weights[1], None, second)];
        let projections = outs.map(|(weight, bias, out)| Projection { weight, bias, out }).to_vec();
        b.push(Op::MatMul { x: input, projections });
        b.push(Op::Add { x, y: second });
    }
}

/// Adds the learned positions.
fn add_positions(b: &mut Builder<'_>, hparams: &TowerHparams, x: BufferId) {
    let positions = b.rows_of("v.position_embd.weight").unwrap_or(1);
    let table = b.matrix("v.position_embd.weight", positions, hparams.embedding_length);
    b.push(Op::AddGridEmbedding { x, table, side: positions.isqrt() });
}

/// Joins groups of patches and projects them by an MLP with GELU.
struct Merger {
    group: usize,
    epsilon: f32,
    joined: BufferId,
    inner: BufferId,
    merged: BufferId,
}

impl Merger {
    fn new(b: &mut Builder<'_>, hparams: &TowerHparams, merged: usize) -> Self {
        let width = hparams.group_patches() * hparams.embedding_length;
        let [joined, inner, merged] = [width, width, merged].map(|width| b.plan.buffer(Rows::Logits, width));
        Self { group: hparams.group_patches(), epsilon: hparams.epsilon, joined, inner, merged }
    }

    /// Projects the rows behind an inner layer. The norm is over whole groups.
    fn push_deep(&self, b: &mut Builder<'_>, x: BufferId, layer: usize) {
        let name = |part: &str| format!("v.deepstack.{layer}.{part}");
        let width = b.plan.buffers[self.joined.0 as usize].width;
        b.push(Op::Join { x, count: self.group, out: self.joined });
        let weight = b.vector(&name("norm.weight"), width);
        let bias = Some(b.vector(&name("norm.bias"), width));
        b.push(Op::LayerNorm { x: self.joined, weight, bias, eps: self.epsilon, out: self.joined });
        self.mlp(b, &name("fc1"), &name("fc2"), width);
    }

    /// Projects the rows behind the last layer, which are normalised.
    fn push_last(&self, b: &mut Builder<'_>, x: BufferId) {
        let width = b.plan.buffers[self.joined.0 as usize].width;
        b.push(Op::Join { x, count: self.group, out: self.joined });
        self.mlp(b, "mm.0", "mm.2", width);
    }

    fn mlp(&self, b: &mut Builder<'_>, first: &str, second: &str, width: usize) {
        let projections = vec![b.projection(first, width, self.inner)];
        b.push(Op::MatMul { x: self.joined, projections });
        b.push(Op::Gelu { x: self.inner });
        let projections = vec![b.projection(second, width, self.merged)];
        b.push(Op::MatMul { x: self.inner, projections });
    }

    /// Copies the last projection to a part of the output rows.
    fn copy(&self, b: &mut Builder<'_>, part: usize, out: BufferId) {
        let width = b.plan.buffers[self.merged.0 as usize].width;
        let from = HeadPart { buffer: self.merged, heads: 1, first: 0 };
        b.push(Op::CopyHeads { from, to: HeadPart { buffer: out, heads: 1, first: part * width }, width });
    }
}
