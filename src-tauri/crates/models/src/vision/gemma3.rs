//! The tower of Gemma 3 (arXiv 2503.19786, section 2.1): SigLIP (Zhai et al., arXiv 2303.15343) with learned positions and attention
//! of all patches to each other, then the means of groups of patches, a norm and a projection.
//!
//! The text model multiplies the embeddings of tokens by the square root of their width, but not the rows of a picture. Its plan
//! does so with all rows, so the last op here divides by the same factor.

use cairn_image::Filter;
use cairn_tensor::{BufferId, Op, Projection, Rows};

use super::transformer::{Parts, Transformer};
use super::{PicturePrompt, TowerHparams, TowerKind, VisionTower};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Keys;

/// Patches of a side of a group, if a file has no key: 64 x 64 patches become 16 x 16 rows.
const GROUP_SIZE: u32 = 4;
/// Larger than in any tower.
const MAX_GROUP_SIZE: u32 = 16;

/// Texts around a picture, as in the processor of the model
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/gemma3/processing_gemma3.py>).
const PROMPT: PicturePrompt =
    PicturePrompt { texts: ["\n\n<start_of_image>", "<end_of_image>\n\n"], is_causal: false, has_places: false };

pub(super) struct Gemma3;

impl VisionTower for Gemma3 {
    fn projectors(&self) -> &'static [&'static str] {
        &["gemma3"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let group_size = keys.count("vision.projector.scale_factor", Some(GROUP_SIZE), MAX_GROUP_SIZE)?;
        let kind = TowerKind { group_size, filter: Filter::Linear, prompt: PROMPT };
        let hparams = TowerHparams::of_squares(&keys, kind)?;
        let TowerHparams { embedding_length: width, epsilon: eps, output_length, .. } = hparams;
        let x = siglip(b, &hparams)?;
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

/// Adds the encoder and returns the normalised residual stream behind it.
fn siglip(b: &mut Builder<'_>, hparams: &TowerHparams) -> Result<BufferId, LoadError> {
    let &TowerHparams { embedding_length: width, patch_size, .. } = hparams;
    let patch = hparams.patch_elements();
    let input = b.buffer(patch);
    let blocks = Transformer::new(b, hparams, Parts::default());
    let x = blocks.x;
    b.push(Op::Input { out: input });
    let weight = b.reshaped("v.patch_embd.weight", &[patch_size, patch_size, 3, width], width, patch);
    let bias = b.optional_vector("v.patch_embd.bias", width);
    b.push(Op::MatMul { x: input, projections: vec![Projection { weight, bias, out: x }] });
    let table = b.matrix("v.position_embd.weight", hparams.limits().rows, width);
    b.push(Op::AddEmbedding { x, table, component: 0 });
    (0..hparams.layers).try_for_each(|layer| blocks.push(b, layer))?;
    blocks.norm(b, "v.post_ln", x);
    Ok(x)
}
