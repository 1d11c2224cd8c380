//! The tower of Pixtral (arXiv 2410.07073) and of Mistral Small 3.1: pictures of any proportions, a rotation by row and column, RMSNorm,
//! and MLPs with gates. Groups of patches are merged, if the file has a matrix for it, and an MLP projects them.
//!
//! The embedding of a token is behind the rows of each line of groups but the last, so that the text model sees the proportions.

use cairn_image::Filter;
use cairn_tensor::{BufferId, Op, Projection, Rope, RopeStyle, Rows};

use super::transformer::{Activation, PATCH_BIAS, Parts, Transformer};
use super::{PicturePrompt, PictureSize, TowerHparams, TowerKind, VisionTower, matrix_rows};
use crate::build::Builder;
use crate::compat::ROPE_BY_HALVES;
use crate::error::LoadError;
use crate::hparams::{Keys, NormKind};

/// Base of the rotation by row and column, if a file has no key.
const ROPE_BASE: f32 = 10_000.0;
/// Larger than in any tower.
const MAX_GROUP_SIZE: u32 = 4;
/// Fewest and most groups of a picture. The models accept more.
const ROWS: [usize; 2] = [1, 1024];
/// The text behind a picture.
const PROMPT: PicturePrompt = PicturePrompt { texts: ["", "[IMG_END]"], is_causal: true, has_places: false };
/// Embedding of the token behind a line.
const BREAK: &str = "v.token_embd.img_break";
/// The matrix that merges the patches of a group.
const MERGER: &str = "mm.patch_merger.weight";
pub(super) struct Pixtral;

impl VisionTower for Pixtral {
    fn projectors(&self) -> &'static [&'static str] {
        &["pixtral"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let group_size = keys.count("vision.spatial_merge_size", Some(1), MAX_GROUP_SIZE)?;
        let kind = TowerKind { group_size, filter: Filter::Cubic, prompt: PROMPT };
        let mut hparams = TowerHparams::of_scaled(&keys, kind, ROWS)?;
        limit_sides(&keys, &mut hparams)?;
        hparams.break_row = Some(b.values(BREAK, hparams.output_length));
        let rope = Some(rotation(b, &keys, &hparams)?);
        let (norm, activation) = (NormKind::Rms, Activation::read(&keys)?);
        let blocks =
            Transformer::new(b, &hparams, Parts { norm, activation, is_gated: true, rope, ..Parts::default() });
        blocks.project_patches(b, Some(PATCH_BIAS));
        blocks.norm(b, "v.pre_ln", blocks.x);
        (0..hparams.layers).try_for_each(|layer| blocks.push(b, layer))?;
        let merged = merge(b, &hparams, blocks.x);
        let inner_width = matrix_rows(b, "mm.1.weight");
        let inner = b.plan.buffer(Rows::Logits, inner_width);
        let projections = vec![b.projection("mm.1", hparams.embedding_length, inner)];
        b.push(Op::MatMul { x: merged, projections });
        b.push(Op::Gelu { x: inner });
        let out = b.plan.buffer(Rows::Logits, hparams.output_length);
        let projections = vec![b.projection("mm.2", inner_width, out)];
        b.push(Op::MatMul { x: inner, projections });
        b.plan.logits = Some(out);
        Ok(hparams)
    }
}

/// Limits the longer side of pictures to that of the file.
fn limit_sides(keys: &Keys<'_>, hparams: &mut TowerHparams) -> Result<(), LoadError> {
    const KEY: &str = "vision.image_size";
    let pixels = hparams.group_pixels();
    let groups = keys.count(KEY, None, u32::MAX)? / pixels;
    match &mut hparams.size {
        PictureSize::Scaled { longest, .. } if groups > 0 => *longest = groups.min(*longest),
        _ => return Err(keys.invalid(KEY, format!("it is less than a group of {pixels} pixels"))),
    }
    Ok(())
}

/// Adds the rotation: the first half of the pairs turns by the row, the second by the column. Both halves share one series of frequencies,
/// of which the first has the even ones.
fn rotation(b: &mut Builder<'_>, keys: &Keys<'_>, hparams: &TowerHparams) -> Result<usize, LoadError> {
    let base = f64::from(keys.positive("vision.rope.freq_base")?.unwrap_or(ROPE_BASE));
    let even = hparams.half_frequencies(base)?;
    let step = base.powf(-2.0 / hparams.head_dim() as f64);
    let odd: Vec<f32> = even.iter().map(|&frequency| (f64::from(frequency) * step) as f32).collect();
    let components = [vec![0; even.len()], vec![1; odd.len()]].concat();
    let style = match keys.bool(ROPE_BY_HALVES)? {
        Some(true) => RopeStyle::Half,
        None | Some(false) => RopeStyle::Interleaved,
    };
    Ok(b.plan.rope(Rope { components, ..Rope::new(style, [even, odd].concat()) }))
}

/// Adds the merger of groups, and returns a row for each.
fn merge(b: &mut Builder<'_>, hparams: &TowerHparams, x: BufferId) -> BufferId {
    let &TowerHparams { embedding_length: width, epsilon: eps, .. } = hparams;
    let group = hparams.group_patches();
    let merged = b.plan.buffer(Rows::Logits, width);
    if group == 1 && !b.has_tensor(MERGER) {
        b.push(Op::Gather { x, out: merged });
        return merged;
    }
    let weight = b.vector("mm.input_norm.weight", width);
    b.push(Op::RmsNorm { x, weight, eps, group: width, out: x });
    let joined = b.plan.buffer(Rows::Logits, group * width);
    b.push(Op::Join { x, count: group, out: joined });
    // The file has the elements of a group one after the other, each of all patches. Joined rows have one patch after the other.
    let by_patch = |tensors: &[Vec<f32>]| {
        let row = |row: &[f32]| (0..group * width).map(|at| row[at % width * group + at / width]).collect::<Vec<f32>>();
        tensors[0].chunks(group * width).flat_map(row).collect()
    };
    let weight = b.derived(&[(MERGER, &[group * width, width])], [width, group * width], by_patch);
    b.push(Op::MatMul { x: joined, projections: vec![Projection { weight, bias: None, out: merged }] });
    merged
}
