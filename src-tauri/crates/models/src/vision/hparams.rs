//! Hyperparameters of a vision tower, and the rows of a picture.

use std::ops::Range;

use cairn_tensor::{Batch, Input, Limits, PAGE_TOKENS, PageId, Row};

use crate::error::LoadError;
use crate::hparams::{Keys, MAX_WIDTH};

/// Larger than in any tower. Prevents overflow of products.
const MAX_IMAGE_SIZE: u32 = 1 << 13;
const MAX_LAYERS: u32 = 1 << 10;
/// Most patches of a picture: the table of positions and the activations have a row for each.
const MAX_PATCHES: usize = 1 << 14;
/// Fewest and most output rows of a picture that keeps its proportions. A larger picture is scaled down.
const SCALED_ROWS: [usize; 2] = [4, 1024];

/// Hyperparameters of a vision tower.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerHparams {
    /// Sizes of the pictures that it computes.
    pub size: PictureSize,
    /// Pixels of a side of a patch.
    pub patch_size: usize,
    /// Patches of a side of a group. A group becomes one output row.
    pub group_size: usize,
    /// Groups of a side of a window, if patches of some layers attend to their window only. The batch has one window after the other.
    pub window_size: Option<usize>,
    /// Times that the pixels of each color are in the row of a patch: one for each frame of a film, which are equal in a picture.
    pub frames: usize,
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
    /// Width of an output row: that of the text model's embedding rows.
    pub output_length: usize,
    /// What the text model does with the rows of a picture.
    pub prompt: PicturePrompt,
}

/// The rows of a picture in the prompt of a text model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PicturePrompt {
    /// Texts before and after the rows.
    pub texts: [&'static str; 2],
    /// Whether the rows attend to earlier ones only, as those of text do.
    pub is_causal: bool,
    /// Whether the position of a row has its place in the picture as components (M-RoPE, arXiv 2409.12191).
    pub has_places: bool,
}

/// Sizes of pictures that a tower computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureSize {
    /// Squares with this number of pixels in a side.
    Square(usize),
    /// Pictures that keep their proportions, of so many whole groups of patches.
    Scaled {
        /// Fewest groups.
        least: usize,
        /// Most groups.
        most: usize,
    },
}

/// The groups of patches of a picture. Each becomes one output row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Number of rows of groups.
    pub rows: usize,
    /// Number of columns of groups.
    pub columns: usize,
}

impl Grid {
    /// Number of groups.
    pub fn groups(self) -> usize {
        self.rows * self.columns
    }
}

impl TowerHparams {
    /// Reads the keys of a tower for squares of one size, with groups of `group_size` by `group_size` patches.
    pub(super) fn of_squares(keys: &Keys<'_>, group_size: usize, prompt: PicturePrompt) -> Result<Self, LoadError> {
        let image_size = keys.count("vision.image_size", None, MAX_IMAGE_SIZE)?;
        let hparams = Self::read(keys, PictureSize::Square(image_size), group_size, prompt)?;
        let patch_size = hparams.patch_size;
        let side = image_size / patch_size;
        if !image_size.is_multiple_of(patch_size) || !side.is_multiple_of(group_size) || side * side > MAX_PATCHES {
            let why = format!(
                "patches of {patch_size} pixels in groups of {group_size} do not divide a side of {image_size}, or are more \
                 than {MAX_PATCHES}"
            );
            return Err(keys.invalid("vision.patch_size", why));
        }
        Ok(hparams)
    }

    /// Reads the keys of a tower for pictures that keep their proportions.
    pub(super) fn of_scaled(keys: &Keys<'_>, group_size: usize, prompt: PicturePrompt) -> Result<Self, LoadError> {
        let [least, most] = SCALED_ROWS;
        Self::read(keys, PictureSize::Scaled { least, most }, group_size, prompt)
    }

    fn read(keys: &Keys<'_>, size: PictureSize, group_size: usize, prompt: PicturePrompt) -> Result<Self, LoadError> {
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
            size,
            patch_size: keys.count("vision.patch_size", None, MAX_IMAGE_SIZE)?,
            group_size,
            window_size: None,
            frames: 1,
            embedding_length,
            feed_forward_length: keys.count("vision.feed_forward_length", None, MAX_WIDTH)?,
            layers: keys.count("vision.block_count", None, MAX_LAYERS)?,
            heads,
            epsilon,
            mean: colors(keys, "vision.image_mean")?,
            deviation,
            output_length: keys.count("vision.projection_dim", None, MAX_WIDTH)?,
            prompt,
        })
    }

    /// Elements of a head.
    pub(super) fn head_dim(&self) -> usize {
        self.embedding_length / self.heads
    }

    /// Elements of the row of a patch: three colors of each pixel, in each frame.
    pub(super) fn patch_elements(&self) -> usize {
        3 * self.frames * self.patch_size * self.patch_size
    }

    /// Patches of a group.
    pub fn group_patches(&self) -> usize {
        self.group_size * self.group_size
    }

    /// Pixels of a side of a group.
    fn group_pixels(&self) -> usize {
        self.patch_size * self.group_size
    }

    /// Most output rows of a picture.
    pub fn most_output_rows(&self) -> usize {
        match self.size {
            PictureSize::Square(side) => (side / self.group_pixels()).pow(2),
            PictureSize::Scaled { most, .. } => most,
        }
    }

    /// Returns the groups of a picture that has a size of this tower.
    pub fn grid(&self, width: u32, height: u32) -> Option<Grid> {
        let [width, height] = [width, height].map(|pixels| pixels as usize);
        let (pixels, grid) = (self.group_pixels(), self.grid_for(width, height));
        ([width, height] == [grid.columns * pixels, grid.rows * pixels]).then_some(grid)
    }

    /// Returns the groups of a picture of this size after it is scaled to a size of this tower.
    pub(super) fn grid_for(&self, width: usize, height: usize) -> Grid {
        let pixels = self.group_pixels();
        let (least, most) = match self.size {
            PictureSize::Square(side) => return Grid { rows: side / pixels, columns: side / pixels },
            PictureSize::Scaled { least, most } => (least, most),
        };
        let [columns, rows] = [width, height].map(|side| side as f64 / pixels as f64);
        let whole = |rows: f64, columns: f64| Grid { rows: (rows as usize).max(1), columns: (columns as usize).max(1) };
        let grid = whole(rows.round(), columns.round());
        let factor = |groups: usize| (groups as f64 / (rows * columns)).sqrt();
        let grid = if grid.groups() > most {
            whole((rows * factor(most)).floor(), (columns * factor(most)).floor())
        } else if grid.groups() < least {
            whole((rows * factor(least)).ceil(), (columns * factor(least)).ceil())
        } else {
            grid
        };
        // A strip has at least one row or column, and would be longer than all groups.
        match grid.rows {
            1 => Grid { columns: grid.columns.min(most), ..grid },
            rows => Grid { rows: rows.min(most / grid.columns.min(most)), columns: grid.columns.min(most) },
        }
    }

    /// Limits of the batch of one picture.
    pub fn limits(&self) -> Limits {
        let rows = self.most_output_rows();
        Limits { rows: rows * self.group_patches(), logit_rows: rows }
    }

    /// Number of pages for the patches of one picture.
    pub fn pages(&self) -> usize {
        self.limits().rows.div_ceil(PAGE_TOKENS)
    }

    /// Returns the batch of one picture without its pixels: see [`TowerHparams::unfold`]. Each patch attends to all others, or to those
    /// of its window.
    pub fn batch(&self, grid: Grid) -> Batch {
        let group = self.group_patches();
        let patches = (grid.groups() * group) as u32;
        let [rows, columns] = [grid.rows, grid.columns].map(|groups| (groups * self.group_size) as u32);
        let windows = self.windows(grid);
        let mut row_windows = windows.iter().flat_map(|window| window.clone().map(move |_| window.clone()));
        let row = |(slot, (y, x)): (u32, (usize, usize))| {
            let (y, x) = (y as u32, x as u32);
            let pos = match (&self.size, self.window_size) {
                (PictureSize::Square(_), _) => [y * columns + x, 0, 0, 0],
                (PictureSize::Scaled { .. }, None) => [y, x, rows, columns],
                (PictureSize::Scaled { .. }, Some(_)) => {
                    let window = row_windows.next().expect("every patch is in a window");
                    [y, x, window.start as u32, window.end as u32]
                }
            };
            let want_logits = slot as usize % group == group - 1;
            Row { seq: 0, input: Input::Embedding(slot), slot, pos, until: patches, want_logits }
        };
        let rows = (0..).zip(self.places_by_group(grid)).map(row).collect();
        let table = (0..patches.div_ceil(PAGE_TOKENS as u32)).map(PageId).collect();
        Batch { rows, tables: vec![table], ..Batch::default() }
    }

    /// The groups of a picture, numbered from left to right and from top to bottom, in the order of the batch and of its output rows.
    pub fn group_order(&self, grid: Grid) -> Vec<usize> {
        let Some(side) = self.window_size else { return (0..grid.groups()).collect() };
        let mut order = Vec::with_capacity(grid.groups());
        for top in (0..grid.rows).step_by(side) {
            for left in (0..grid.columns).step_by(side) {
                let columns = left..grid.columns.min(left + side);
                let rows = top..grid.rows.min(top + side);
                order.extend(rows.flat_map(|row| columns.clone().map(move |column| row * grid.columns + column)));
            }
        }
        order
    }

    /// Returns output rows of the batch in the order of the groups in the picture.
    pub fn in_order(&self, rows: Vec<f32>, grid: Grid) -> Vec<f32> {
        if self.window_size.is_none() {
            return rows;
        }
        let width = self.output_length;
        let mut ordered = vec![0.0; rows.len()];
        for (row, group) in rows.chunks(width).zip(self.group_order(grid)) {
            ordered[group * width..][..width].copy_from_slice(row);
        }
        ordered
    }

    /// The slots of the patches of each window.
    fn windows(&self, grid: Grid) -> Vec<Range<usize>> {
        let Some(side) = self.window_size else { return Vec::new() };
        let mut windows = Vec::new();
        let mut end = 0;
        for top in (0..grid.rows).step_by(side) {
            for left in (0..grid.columns).step_by(side) {
                let start = end;
                end += side.min(grid.rows - top) * side.min(grid.columns - left) * self.group_patches();
                windows.push(start..end);
            }
        }
        windows
    }

    /// Row and column of each patch of a picture, in the order of the batch: those of a group are adjacent.
    pub(super) fn places_by_group(&self, grid: Grid) -> impl Iterator<Item = (usize, usize)> {
        let group = self.group_size;
        self.group_order(grid).into_iter().flat_map(move |at| {
            let (top, left) = (at / grid.columns * group, at % grid.columns * group);
            (0..group * group).map(move |patch| (top + patch / group, left + patch % group))
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
