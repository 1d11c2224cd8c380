//! Hyperparameters of a vision tower, and the sizes of its pictures.

use cairn_image::Filter;
use cairn_tensor::{Rope, RopeStyle};

use super::tiles::Tiles;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Keys, MAX_WIDTH};

/// Larger than in any tower. Prevents overflow of products.
const MAX_IMAGE_SIZE: u32 = 1 << 13;
const MAX_LAYERS: u32 = 1 << 10;
/// Most patches of a picture: the table of positions and the activations have a row for each.
const MAX_PATCHES: usize = 1 << 14;

/// Hyperparameters of a vision tower.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerHparams {
    /// Sizes of the pictures that it computes.
    pub size: PictureSize,
    /// Filter that pictures are scaled with.
    pub filter: Filter,
    /// Pixels of a side of a patch.
    pub patch_size: usize,
    /// Patches of a side of a group. A group becomes one output row.
    pub group_size: usize,
    /// Groups of a side of a window, if patches of some layers attend to their window only. The batch has one window after the other.
    pub window_size: Option<usize>,
    /// Times that the pixels of each color are in the row of a patch: one for each frame of a film, which are equal in a picture.
    pub frames: usize,
    /// Whether a row that is no patch precedes the patches of each square: the class embedding of CLIP (arXiv 2103.00020).
    pub has_class_row: bool,
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
    /// The output row of a line break, if there is one: between the lines of a scaled picture, behind each line of an enlarged picture of
    /// joined squares, and once behind a picture of one square.
    pub break_row: Option<Vec<f32>>,
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
    /// Pictures that keep their proportions, of so many whole groups of patches. Smaller ones are scaled up, and larger ones down.
    Scaled {
        /// Fewest groups.
        least: usize,
        /// Most groups.
        most: usize,
        /// Most groups of a side.
        longest: usize,
    },
    /// Squares that are computed one by one, in a column.
    Tiles(Tiles),
}

/// What the towers of one kind have in common.
#[derive(Debug)]
pub(super) struct TowerKind {
    /// Patches of a side of a group.
    pub(super) group_size: usize,
    /// Filter that pictures are scaled with.
    pub(super) filter: Filter,
    /// What the text model does with the rows.
    pub(super) prompt: PicturePrompt,
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
    /// Reads the keys of a tower for squares of one size.
    pub(super) fn of_squares(keys: &Keys<'_>, kind: TowerKind) -> Result<Self, LoadError> {
        let image_size = keys.count("vision.image_size", None, MAX_IMAGE_SIZE)?;
        let mut hparams = Self::read(keys, PictureSize::Square(image_size), kind)?;
        hparams.output_length = output_length(keys)?;
        hparams.check_squares(keys, image_size)?;
        Ok(hparams)
    }

    /// Reads the keys of a tower for pictures that keep their proportions, with these numbers of output rows.
    pub(super) fn of_scaled(keys: &Keys<'_>, kind: TowerKind, [least, most]: [usize; 2]) -> Result<Self, LoadError> {
        let mut hparams = Self::read(keys, PictureSize::Scaled { least, most, longest: most }, kind)?;
        hparams.output_length = output_length(keys)?;
        Ok(hparams)
    }

    /// Reads the keys of a tower for squares that are computed one by one. The width of its output rows is the caller's.
    pub(super) fn of_tiles(keys: &Keys<'_>, kind: TowerKind, color: [u8; 3]) -> Result<Self, LoadError> {
        let image_size = keys.count("vision.image_size", None, MAX_IMAGE_SIZE)?;
        let tiles = Tiles::read(keys, image_size, color)?;
        let most = tiles.most();
        let hparams = Self::read(keys, PictureSize::Tiles(tiles), kind)?;
        hparams.check_squares(keys, image_size)?;
        let patches = (image_size / hparams.patch_size).pow(2) * most;
        if patches > MAX_PATCHES {
            let why = format!("{most} squares of a picture have {patches} patches, more than {MAX_PATCHES}");
            return Err(keys.invalid(Tiles::KEY, why));
        }
        Ok(hparams)
    }

    /// Checks that squares are whole groups of patches.
    fn check_squares(&self, keys: &Keys<'_>, image_size: usize) -> Result<(), LoadError> {
        let &Self { patch_size, group_size, .. } = self;
        let side = image_size / patch_size;
        if !image_size.is_multiple_of(patch_size) || !side.is_multiple_of(group_size) || side * side > MAX_PATCHES {
            let why = format!(
                "patches of {patch_size} pixels in groups of {group_size} do not divide a side of {image_size}, or are more \
                 than {MAX_PATCHES}"
            );
            return Err(keys.invalid("vision.patch_size", why));
        }
        Ok(())
    }

    fn read(keys: &Keys<'_>, size: PictureSize, kind: TowerKind) -> Result<Self, LoadError> {
        let TowerKind { group_size, filter, prompt } = kind;
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
            filter,
            patch_size: keys.count("vision.patch_size", None, MAX_IMAGE_SIZE)?,
            group_size,
            window_size: None,
            frames: 1,
            has_class_row: false,
            embedding_length,
            feed_forward_length: keys.count("vision.feed_forward_length", None, MAX_WIDTH)?,
            layers: keys.count("vision.block_count", None, MAX_LAYERS)?,
            heads,
            epsilon,
            mean: colors(keys, "vision.image_mean")?,
            deviation,
            output_length: 0,
            break_row: None,
            prompt,
        })
    }

    /// Elements of a head.
    pub(super) fn head_dim(&self) -> usize {
        self.embedding_length / self.heads
    }

    /// Inverse frequencies of half of the pairs of a head, for a rotation by row and column.
    pub(super) fn half_frequencies(&self, base: f64) -> Result<Vec<f32>, LoadError> {
        let head_dim = self.head_dim();
        if !head_dim.is_multiple_of(4) {
            return Err(LoadError::Unsupported {
                what: format!("a rotation by row and column of heads of {head_dim}"),
            });
        }
        let frequency = |pair: usize| base.powf(-2.0 * pair as f64 / (head_dim / 2) as f64) as f32;
        Ok((0..head_dim / 4).map(frequency).collect())
    }

    /// Adds a rotation by row and column: each half of the pairs turns by one of these components of the position, from the same frequency
    /// on.
    pub(super) fn half_rotation(
        &self,
        b: &mut Builder<'_>,
        base: f64,
        [first, second]: [u8; 2],
    ) -> Result<usize, LoadError> {
        let frequencies = self.half_frequencies(base)?;
        let components = [vec![first; frequencies.len()], vec![second; frequencies.len()]].concat();
        Ok(b.plan.rope(Rope { components, ..Rope::new(RopeStyle::Half, frequencies.repeat(2)) }))
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
    pub(super) fn group_pixels(&self) -> usize {
        self.patch_size * self.group_size
    }

    /// Most groups of a picture.
    pub(super) fn most_groups(&self) -> usize {
        match self.size {
            PictureSize::Square(side) => (side / self.group_pixels()).pow(2),
            PictureSize::Scaled { most, .. } => most,
            PictureSize::Tiles(ref tiles) => tiles.most() * (tiles.side() / self.group_pixels()).pow(2),
        }
    }

    /// Returns the groups of a picture that has a size of this tower.
    pub fn grid(&self, width: u32, height: u32) -> Option<Grid> {
        let [width, height] = [width, height].map(|pixels| pixels as usize);
        let pixels = self.group_pixels();
        let grid = match &self.size {
            PictureSize::Tiles(tiles) => self.stack(tiles.squares_of(width, height)?),
            _ => self.grid_for(width, height),
        };
        ([width, height] == [grid.columns * pixels, grid.rows * pixels]).then_some(grid)
    }

    /// Returns the groups of a picture of this size after it is scaled to a size of this tower.
    pub(super) fn grid_for(&self, width: usize, height: usize) -> Grid {
        let pixels = self.group_pixels();
        let [least, most, longest] = match self.size {
            PictureSize::Square(side) => return Grid { rows: side / pixels, columns: side / pixels },
            PictureSize::Scaled { least, most, longest } => [least, most, longest],
            PictureSize::Tiles(ref tiles) => return self.stack(tiles.squares_for(width, height)),
        };
        let [columns, rows] = [width, height].map(|side| side as f64 / pixels as f64);
        let shrink = (longest as f64 / rows.max(columns)).min(1.0);
        let [columns, rows] = [columns, rows].map(|groups| groups * shrink);
        let whole = |rows: f64, columns: f64| Grid { rows: (rows as usize).max(1), columns: (columns as usize).max(1) };
        let grid = whole(rows.round(), columns.round());
        let factor = |groups: usize| (groups as f64 / (rows * columns)).sqrt();
        let grid = if grid.groups() > most {
            whole((rows * factor(most)).floor(), (columns * factor(most)).floor())
        } else if grid.groups() < least {
            // The longer side ends where it would be limited, or else the same picture would be enlarged again.
            let factor = factor(least).min(longest as f64 / rows.max(columns));
            whole((rows * factor).ceil(), (columns * factor).ceil())
        } else {
            grid
        };
        // A strip has at least one row or column, and would be longer than all groups.
        let columns = grid.columns.min(longest);
        Grid { rows: grid.rows.min(longest).min(most / columns), columns }
    }
}

/// Reads the width of an output row.
fn output_length(keys: &Keys<'_>) -> Result<usize, LoadError> {
    keys.count("vision.projection_dim", None, MAX_WIDTH)
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
