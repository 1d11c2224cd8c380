//! The tower of Gemma 4 (<https://ai.google.dev/gemma/docs/core/model_card_4>): pictures of any proportions with learned positions of
//! columns and of rows, a rotation by both, and norms around each part of a block. The means of groups of patches are projected.
//!
//! A head's first half turns by the column, and its second half by the row. Each half has pairs of its own. [`NormBuffers::turned`]
//! has the elements in an order with pairs over the whole head.
//!
//! The text model multiplies the embeddings of tokens by the square root of their width, but not the rows of a picture. Its plan
//! does so with all rows, so the last op here divides by the same factor.

use cairn_image::Filter;
use cairn_tensor::{BufferId, Op, Rows};

use super::transformer::{Activation, NormBuffers, Parts, Transformer};
use super::{PicturePrompt, PictureSize, TowerHparams, TowerKind, VisionTower};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Keys, NormKind};

/// Patches of a side of a group, if a file has no key.
const GROUP_SIZE: u32 = 3;
/// Larger than in any tower.
const MAX_GROUP_SIZE: u32 = 7;
/// Base of the rotation by row and column.
const ROPE_BASE: f64 = 100.0;
/// Fewest and most output rows of a picture. The models accept up to 1,120 rows; 280 is the default of their processor. It enlarges every
/// picture to so many rows. As in llama.cpp, a picture between both limits keeps its size, which costs less time.
const ROWS: [usize; 2] = [70, 280];
/// Key of our converter: whether the rows of a picture attend to earlier ones only. The model's config has the fact
/// (`use_bidirectional_attention`), and other converters drop it.
const CAUSAL: &str = "vision.causal_rows";
/// Widths of the text models E2B and E4B. In files without [`CAUSAL`], the rows of these models attend to earlier ones only, and those of
/// others to each other. llama.cpp has the same rule.
const CAUSAL_WIDTHS: [usize; 2] = [1536, 2560];
/// Texts around a picture, as in the chat template of the model.
const TEXTS: [&str; 2] = ["<|image>", "<image|>"];
const POSITIONS: &str = "v.position_embd.weight";

pub(super) struct Gemma4;

impl VisionTower for Gemma4 {
    fn projectors(&self) -> &'static [&'static str] {
        &["gemma4v"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let group_size = keys.count("vision.projector.scale_factor", Some(GROUP_SIZE), MAX_GROUP_SIZE)?;
        let prompt = PicturePrompt { texts: TEXTS, is_causal: false, has_places: false };
        let mut hparams =
            TowerHparams::of_scaled(&keys, TowerKind { group_size, filter: Filter::Cubic, prompt }, ROWS)?;
        let is_causal = || CAUSAL_WIDTHS.contains(&hparams.output_length);
        hparams.prompt.is_causal = keys.bool(CAUSAL)?.unwrap_or_else(is_causal);
        // Pixels are between -1 and 1 behind the mean and the deviation of the file.
        for (mean, deviation) in hparams.mean.iter_mut().zip(&mut hparams.deviation) {
            *deviation /= 2.0;
            *mean += *deviation;
        }
        let positions = b.rows_of(POSITIONS).unwrap_or(1);
        limit_sides(&mut hparams, positions)?;
        let width = hparams.embedding_length;
        // The first half of the pairs turns by the column.
        let rope = Some(hparams.half_rotation(b, ROPE_BASE, [1, 0])?);
        let turned = [(); 2].map(|()| b.buffer(width));
        let norms = Some(NormBuffers { turned, limited: b.buffer(width) });
        let (norm, activation) = (NormKind::Rms, Activation::read(&keys)?);
        let parts = Parts { norm, activation, is_gated: true, rope, norms, ..Parts::default() };
        let blocks = Transformer::new(b, &hparams, parts);
        blocks.project_patches(b, None);
        for (nth, component) in [1, 0].into_iter().enumerate() {
            let table = b.nth_matrix(POSITIONS, [nth, 2], positions, width);
            b.push(Op::AddEmbedding { x: blocks.x, table, component });
        }
        (0..hparams.layers).try_for_each(|layer| blocks.push(b, layer))?;
        let means = pool(b, &hparams, blocks.x);
        let out = b.plan.buffer(Rows::Logits, hparams.output_length);
        blocks.multiply(b, means, vec![("mm.input_projection".to_owned(), out)])?;
        b.push(Op::Scale { x: out, factor: 1.0 / (hparams.output_length as f32).sqrt() });
        b.plan.logits = Some(out);
        Ok(hparams)
    }
}

/// Limits the sides of pictures to the learned positions.
fn limit_sides(hparams: &mut TowerHparams, positions: usize) -> Result<(), LoadError> {
    let groups = positions / hparams.group_size;
    match &mut hparams.size {
        PictureSize::Scaled { longest, .. } if groups > 0 => *longest = groups.min(*longest),
        _ => {
            return Err(LoadError::Unsupported {
                what: format!("a vision tower with {positions} positions of patches"),
            });
        }
    }
    Ok(())
}

/// Adds the means of groups, which are normalised.
fn pool(b: &mut Builder<'_>, hparams: &TowerHparams, x: BufferId) -> BufferId {
    let &TowerHparams { embedding_length: width, epsilon: eps, .. } = hparams;
    let means = b.plan.buffer(Rows::Logits, width);
    b.push(Op::Mean { x, out: means });
    b.push(Op::Scale { x: means, factor: (width as f32).sqrt() });
    let [bias, scale] = ["v.std_bias", "v.std_scale"];
    if b.has_tensor(bias) || b.has_tensor(scale) {
        let negated = |tensors: &[Vec<f32>]| tensors[0].iter().map(|value| -value).collect();
        let weight = b.derived(&[(bias, &[width])], [1, width], negated);
        b.push(Op::AddWeight { x: means, weight });
        let weight = b.vector(scale, width);
        b.push(Op::MulWeight { x: means, weight });
    }
    let weight = b.ones(width);
    b.push(Op::RmsNorm { x: means, weight, eps, group: width, out: means });
    means
}
