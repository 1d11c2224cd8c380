//! Hyperparameters of a vision tower, and the rows of a picture.

use cairn_tensor::{Batch, Input, Limits, PAGE_TOKENS, PageId, Row};

use crate::error::LoadError;
use crate::hparams::{Keys, MAX_WIDTH};

/// Larger than in any tower. Prevents overflow of products.
const MAX_IMAGE_SIZE: u32 = 1 << 13;
const MAX_LAYERS: u32 = 1 << 10;
/// Most patches of a picture: the table of positions and the activations have a row for each.
const MAX_PATCHES: usize = 1 << 14;

/// Hyperparameters of a vision tower for pictures that are squares of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerHparams {
    /// Pixels of a side of a picture.
    pub image_size: usize,
    /// Pixels of a side of a patch.
    pub patch_size: usize,
    /// Patches of a side of a group. The mean of a group is one output row.
    pub group_size: usize,
    /// Width of the residual stream.
    pub embedding_length: usize,
    /// Width inside the MLP.
    pub feed_forward_length: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// Epsilon of its norms.
    pub epsilon: f32,
    /// Mean of each color, subtracted from pixels between 0 and 1.
    pub mean: [f32; 3],
    /// Deviation of each color, by which the difference is divided.
    pub deviation: [f32; 3],
    /// Width of an output row: that of the text model.
    pub output_length: usize,
    /// Texts before and after the rows of a picture in a prompt.
    pub prompt_texts: [&'static str; 2],
    /// Whether output rows of a picture attend to each other without causality in the text model.
    pub is_causal: bool,
}

impl TowerHparams {
    /// Reads the keys of a tower with groups of `group_size` by `group_size` patches. In a prompt, a picture is between these texts.
    pub(super) fn read(keys: &Keys<'_>, group_size: usize, prompt_texts: [&'static str; 2]) -> Result<Self, LoadError> {
        let image_size = keys.count("vision.image_size", None, MAX_IMAGE_SIZE)?;
        let patch_size = keys.count("vision.patch_size", None, MAX_IMAGE_SIZE)?;
        let side = image_size / patch_size;
        if !image_size.is_multiple_of(patch_size) || !side.is_multiple_of(group_size) || side * side > MAX_PATCHES {
            let why = format!(
                "patches of {patch_size} pixels in groups of {group_size} do not divide a side of {image_size}, or are more \
                 than {MAX_PATCHES}"
            );
            return Err(keys.invalid("vision.patch_size", why));
        }
        let embedding_length = keys.count("vision.embedding_length", None, MAX_WIDTH)?;
        let heads = keys.count("vision.attention.head_count", None, MAX_WIDTH)?;
        if !embedding_length.is_multiple_of(heads) {
            let why = format!("{heads} heads do not divide a width of {embedding_length}");
            return Err(keys.invalid("vision.attention.head_count", why));
        }
        let key = "vision.attention.layer_norm_epsilon";
        let epsilon = keys.f32(key)?.ok_or_else(|| cairn_gguf::Error::MissingKey { key: keys.name(key) })?;
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(keys.invalid(key, format!("{epsilon} is not a number from zero up")));
        }
        let deviation = colors(keys, "vision.image_std")?;
        if deviation.contains(&0.0) {
            return Err(keys.invalid("vision.image_std", "a color has the deviation 0"));
        }
        Ok(Self {
            image_size,
            patch_size,
            group_size,
            embedding_length,
            feed_forward_length: keys.count("vision.feed_forward_length", None, MAX_WIDTH)?,
            layers: keys.count("vision.block_count", None, MAX_LAYERS)?,
            heads,
            epsilon,
            mean: colors(keys, "vision.image_mean")?,
            deviation,
            output_length: keys.count("vision.projection_dim", None, MAX_WIDTH)?,
            prompt_texts,
            is_causal: false,
        })
    }

    /// Elements of a head.
    pub(super) fn head_dim(&self) -> usize {
        self.embedding_length / self.heads
    }

    /// Elements of a patch: three colors of each pixel.
    pub(super) fn patch_elements(&self) -> usize {
        3 * self.patch_size * self.patch_size
    }

    /// Number of patches of a picture: rows of the batch.
    pub fn patches(&self) -> usize {
        (self.image_size / self.patch_size).pow(2)
    }

    /// Number of output rows of a picture: tokens of the text model that it takes the place of.
    pub fn output_rows(&self) -> usize {
        self.patches() / self.group_size.pow(2)
    }

    /// Limits of the batch of one picture.
    pub fn limits(&self) -> Limits {
        Limits { rows: self.patches(), logit_rows: self.output_rows() }
    }

    /// Number of pages for the patches of one picture.
    pub fn pages(&self) -> usize {
        self.patches().div_ceil(PAGE_TOKENS)
    }

    /// Returns the batch of one picture without its pixels: see [`TowerHparams::unfold`]. Each patch attends to all others.
    pub fn batch(&self) -> Batch {
        let (patches, group) = (self.patches() as u32, self.group_size.pow(2) as u32);
        let row = |(slot, patch): (u32, usize)| Row {
            seq: 0,
            input: Input::Embedding(slot),
            slot,
            pos: [patch as u32, 0, 0, 0],
            until: patches,
            want_logits: slot % group == group - 1,
        };
        let rows = (0..).zip(self.patches_by_group()).map(row).collect();
        let table = (0..self.pages() as u32).map(PageId).collect();
        Batch { rows, tables: vec![table], ..Batch::default() }
    }

    /// The patches of a picture, numbered from left to right and from top to bottom, in the order of the batch: those of a group
    /// are adjacent.
    pub(super) fn patches_by_group(&self) -> impl Iterator<Item = usize> {
        let (side, group) = (self.image_size / self.patch_size, self.group_size);
        let groups = side / group;
        (0..groups * groups).flat_map(move |at| {
            let (top, left) = (at / groups * group, at % groups * group);
            (0..group * group).map(move |patch| (top + patch / group) * side + left + patch % group)
        })
    }
}

/// Reads a number for each color.
fn colors(keys: &Keys<'_>, key: &str) -> Result<[f32; 3], LoadError> {
    let name = keys.name(key);
    let values = keys.f32s(key)?.ok_or(cairn_gguf::Error::MissingKey { key: name })?;
    match <[f32; 3]>::try_from(values) {
        Ok(values) if values.iter().all(|value| value.is_finite()) => Ok(values),
        _ => Err(keys.invalid(key, format!("{} numbers are not one finite number for each of 3 colors", values.len()))),
    }
}
