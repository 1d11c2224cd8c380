//! The tower of Gemma 3 (arXiv 2503.19786, section 2.1): SigLIP (Zhai et al., arXiv 2303.15343) with learned positions and attention
//! of all patches to each other, then the means of groups of patches, a norm and a projection.
//!
//! The text model multiplies the embeddings of tokens by the square root of their width, but not the rows of a picture. Its plan
//! does so with all rows, so the last op here divides by the same factor.

use cairn_tensor::{Op, Projection, Rows, State, StateKind};

use super::{TowerHparams, VisionTower};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Keys;

/// Patches of a side of a group: 64 x 64 patches become 16 x 16 rows.
const GROUP_SIZE: usize = 4;

/// Texts around a picture, as in the processor of the model
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/gemma3/processing_gemma3.py>).
const PROMPT_TEXTS: [&str; 2] = ["\n\n<start_of_image>", "<end_of_image>\n\n"];

pub(super) struct Gemma3;

impl VisionTower for Gemma3 {
    fn projector(&self) -> &'static str {
        "gemma3"
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let hparams = TowerHparams::read(&Keys::new(b.metadata())?, GROUP_SIZE, PROMPT_TEXTS)?;
        let TowerHparams { embedding_length: width, epsilon: eps, output_length, .. } = hparams;
        let x = siglip(b, &hparams);
        let means = b.plan.buffer(Rows::Logits, width);
        b.push(Op::Mean { x, out: means });
        let weight = b.vector("mm.soft_emb_norm.weight", width);
        b.push(Op::RmsNorm { x: means, weight, eps, group: width, out: means });
        let out = b.plan.buffer(Rows::Logits, output_length);
        let weight = b.transposed("mm.input_projection.weight", output_length, width);
        b.push(Op::MatMul { x: means, projections: vec![Projection { weight, bias: None, out }] });
        b.push(Op::Scale { x: out, factor: 1.0 / (output_length as f32).sqrt() });
        b.plan.logits = Some(out);
        Ok(hparams)
    }
}

/// Adds the encoder and returns the normalised residual stream behind it. Adjacent layers keep their keys and values in two states,
/// so that the rows can be computed in tiles.
fn siglip(b: &mut Builder<'_>, hparams: &TowerHparams) -> cairn_tensor::BufferId {
    let &TowerHparams { embedding_length: width, feed_forward_length: inner_width, heads, epsilon: eps, .. } = hparams;
    let (patch, head_dim) = (hparams.patch_elements(), hparams.head_dim());
    let input = b.buffer(patch);
    let [x, branch, q, k, v, attended] = [width; 6].map(|width| b.buffer(width));
    let inner = b.buffer(inner_width);
    let states = [(); 2].map(|()| b.plan.state(State::new(StateKind::Full, heads, head_dim)));
    b.push(Op::Input { out: input });
    let dims = [hparams.patch_size, hparams.patch_size, 3, width];
    let weight = b.reshaped("v.patch_embd.weight", &dims, width, patch);
    let bias = b.optional_vector("v.patch_embd.bias", width);
    b.push(Op::MatMul { x: input, projections: vec![Projection { weight, bias, out: x }] });
    let table = b.matrix("v.position_embd.weight", hparams.patches(), width);
    b.push(Op::AddEmbedding { x, table, component: 0 });
    let norm = |b: &mut Builder<'_>, prefix: &str, out| {
        let weight = b.vector(&format!("{prefix}.weight"), width);
        let bias = Some(b.vector(&format!("{prefix}.bias"), width));
        b.push(Op::LayerNorm { x, weight, bias, eps, out });
    };
    for layer in 0..hparams.layers {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        norm(b, &name("ln1"), branch);
        let parts = [("attn_q", q), ("attn_k", k), ("attn_v", v)];
        let projections = parts.map(|(part, out)| b.projection(&name(part), width, out)).to_vec();
        b.push(Op::MatMul { x: branch, projections });
        let state = states[layer % states.len()];
        b.push(Op::StoreKv { state, k, v });
        let scale = 1.0 / (head_dim as f32).sqrt();
        b.push(Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out: attended });
        let projections = vec![b.projection(&name("attn_out"), width, branch)];
        b.push(Op::MatMul { x: attended, projections });
        b.push(Op::Add { x, y: branch });
        norm(b, &name("ln2"), branch);
        let [up, down] = mlp_names(b, &name("ffn_up"), &name("ffn_down"), width);
        let projections = vec![b.projection(&up, width, inner)];
        b.push(Op::MatMul { x: branch, projections });
        b.push(Op::Gelu { x: inner });
        let projections = vec![b.projection(&down, inner_width, branch)];
        b.push(Op::MatMul { x: inner, projections });
        b.push(Op::Add { x, y: branch });
    }
    norm(b, "v.post_ln", x);
    x
}

/// Names of the first and the second matrix of an MLP. Older converters exchanged them: then the first one maps to the narrow stream.
fn mlp_names(b: &Builder<'_>, up: &str, down: &str, width: usize) -> [String; 2] {
    let is_exchanged =
        b.rows_of(&format!("{up}.weight")) == Some(width) && b.rows_of(&format!("{down}.weight")) != Some(width);
    if is_exchanged { [down.to_owned(), up.to_owned()] } else { [up.to_owned(), down.to_owned()] }
}
