//! The tower of LLaVA (arXiv 2310.03744) and its relatives: the vision transformer of CLIP (arXiv 2103.00020) without its last
//! layers, and an MLP. Pictures are squares: see [`super::tiles`]. LLaVA 1.6 has a break row behind each line of an enlarged picture.
//!
//! The class row precedes the patches, as in CLIP. llama.cpp appends it, which gives each patch the position of its neighbour, and then
//! omits the first patch in place of the class row. So results differ from llama.cpp's for towers with a class embedding, and for enlarged
//! pictures (see [`super::layout`]).

use cairn_image::Filter;
use cairn_tensor::{BufferId, Op, Rows};

use super::transformer::{Activation, PATCH_BIAS, Parts, Transformer};
use super::{PicturePrompt, PictureSize, TowerHparams, TowerKind, VisionTower, matrix_rows};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Keys;

/// No texts are around a picture.
const PROMPT: PicturePrompt = PicturePrompt { texts: ["", ""], is_causal: true, has_places: false };

const KIND: TowerKind = TowerKind { group_size: 1, filter: Filter::Cubic, prompt: PROMPT };
/// CLIP's mean color.
const COLOR: [u8; 3] = [122, 116, 104];
const CLASS: &str = "v.class_embd";
const POSITIONS: &str = "v.position_embd.weight";
/// The break row.
const BREAK: &str = "model.image_newline";

pub(super) struct Llava;

impl VisionTower for Llava {
    fn projectors(&self) -> &'static [&'static str] {
        &["mlp", "mlp_norm"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let mut hparams = TowerHparams::of_tiles(&keys, KIND, COLOR)?;
        hparams.has_class_row = b.has_tensor(CLASS);
        // The key of the width is that of CLIP's own projection.
        hparams.output_length = ["mm.3.weight", "mm.2.weight"]
            .into_iter()
            .find(|name| b.has_tensor(name))
            .map_or_else(|| matrix_rows(b, "mm.0.weight"), |name| matrix_rows(b, name));
        // Files with the order `flat` may contain this tensor, and their models do not use it.
        if matches!(&hparams.size, PictureSize::Tiles(tiles) if tiles.is_joined()) {
            hparams.break_row = b.optional_values(BREAK, hparams.output_length);
        }
        let layers = layers(&keys, hparams.layers)?;
        let blocks = Transformer::new(b, &hparams, Parts { activation: Activation::read(&keys)?, ..Parts::default() });
        embed_patches(b, &hparams, &blocks)?;
        if b.has_tensor("v.pre_ln.weight") {
            blocks.norm(b, "v.pre_ln", blocks.x);
        }
        (0..layers).try_for_each(|layer| blocks.push(b, layer))?;
        if b.has_tensor("v.post_ln.weight") {
            blocks.norm(b, "v.post_ln", blocks.x);
        }
        let patches = b.plan.buffer(Rows::Logits, hparams.embedding_length);
        b.push(Op::Gather { x: blocks.x, out: patches });
        b.plan.logits = Some(project(b, &hparams, patches));
        Ok(hparams)
    }
}

/// Returns the number of blocks that are computed: that before the layer in the key of features, or all but one.
fn layers(keys: &Keys<'_>, blocks: usize) -> Result<usize, LoadError> {
    const KEY: &str = "vision.feature_layer";
    match keys.list(KEY)?.as_deref() {
        None | Some([]) => Ok(blocks - 1),
        Some(&[layer]) if layer as usize <= blocks => Ok(layer as usize),
        Some([layer]) => Err(keys.invalid(KEY, format!("{layer} is not in 0 to {blocks}"))),
        Some(layers) => {
            Err(LoadError::Unsupported { what: format!("a vision tower with features of {} layers", layers.len()) })
        }
    }
}

/// Adds the projection of patches and their positions. The class embedding is in the row of the first position, where the patch is zero.
fn embed_patches(b: &mut Builder<'_>, hparams: &TowerHparams, blocks: &Transformer<'_>) -> Result<(), LoadError> {
    let &TowerHparams { embedding_length: width, has_class_row, .. } = hparams;
    let [_, positions] = hparams.sequences(hparams.stack(1));
    let bias = blocks.project_patches(b, Some(PATCH_BIAS));
    let table = match has_class_row {
        false => b.matrix(POSITIONS, positions, width),
        true if bias.is_some() => {
            let what = format!("a vision tower with a class embedding and `{PATCH_BIAS}`");
            return Err(LoadError::Unsupported { what });
        }
        true => {
            let tensors = [(POSITIONS, &[width, positions][..]), (CLASS, &[width])];
            b.derived(&tensors, [positions, width], |tensors| {
                let mut table = tensors[0].clone();
                table.iter_mut().zip(&tensors[1]).for_each(|(position, class)| *position += class);
                table
            })
        }
    };
    b.push(Op::AddEmbedding { x: blocks.x, table, component: 0 });
    Ok(())
}

/// Adds the MLP, with norms behind both matrices if the file has them, and returns its output.
fn project(b: &mut Builder<'_>, hparams: &TowerHparams, patches: BufferId) -> BufferId {
    let &TowerHparams { embedding_length: width, output_length, epsilon: eps, .. } = hparams;
    let has_norms = b.has_tensor("mm.3.weight");
    let inner_width = matrix_rows(b, "mm.0.weight");
    let inner = b.plan.buffer(Rows::Logits, inner_width);
    let projections = vec![b.projection("mm.0", width, inner)];
    b.push(Op::MatMul { x: patches, projections });
    let norm = |b: &mut Builder<'_>, name: &str, x: BufferId, width: usize| {
        let weight = b.vector(&format!("{name}.weight"), width);
        let bias = Some(b.vector(&format!("{name}.bias"), width));
        b.push(Op::LayerNorm { x, weight, bias, eps, out: x });
    };
    if has_norms {
        norm(b, "mm.1", inner, inner_width);
    }
    b.push(Op::Gelu { x: inner });
    let last = if has_norms { "mm.3" } else { "mm.2" };
    if !b.has_tensor(&format!("{last}.weight")) {
        return inner;
    }
    let out = b.plan.buffer(Rows::Logits, output_length);
    let projections = vec![b.projection(last, inner_width, out)];
    b.push(Op::MatMul { x: inner, projections });
    if has_norms {
        norm(b, "mm.4", out, output_length);
    }
    out
}
