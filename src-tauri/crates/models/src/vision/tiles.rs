//! Squares that a tower computes one by one: the picture on a square of one color (LLaVA 1.5, arXiv 2310.03744), or a whole picture and
//! the parts of an enlarged one (LLaVA 1.6: <https://llava-vl.github.io/blog/2024-01-30-llava-next/>).
//!
//! The pixels of a picture are its squares in a column, the whole picture first. In the prompt, the lines of an enlarged picture go through
//! all squares beside each other ([`SquareGrid`]), or its squares follow each other.

use std::cmp::Reverse;

use cairn_image::{Filter, InvalidPicture, Picture};
use cairn_wire::excerpt;

use crate::error::LoadError;
use crate::hparams::Keys;

/// More sizes than any tower has.
const MAX_SIZES: usize = 64;
/// More squares in a side than any tower has. Prevents overflow of products.
const MAX_SQUARES: usize = 1 << 6;
/// Color of the border of an enlarged picture, as in the authors' code and in `transformers`. The border's rows are not in the prompt, but
/// the rows beside them attend to them in the tower.
const BORDER: [u8; 3] = [0; 3];

/// The squares of pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Pixels of a side of a square.
    side: usize,
    /// Color around a picture that is one square.
    color: [u8; 3],
    /// Sizes of enlarged pictures, in squares: columns and rows. Without any, a picture is one square.
    sizes: Vec<[usize; 2]>,
    /// Whether the lines of an enlarged picture go through all squares beside each other.
    is_joined: bool,
}

/// An enlarged picture of joined squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SquareGrid {
    /// Columns and rows of squares.
    pub(super) squares: [usize; 2],
    /// Groups of the border that have no rows in the prompt: columns at the left, and as many at the right; lines at the top, and as many
    /// at the bottom.
    pub(super) border: [usize; 2],
}

impl Tiles {
    /// Key of the sizes of enlarged pictures, in pixels: width and height of each.
    pub(super) const KEY: &'static str = "vision.image_grid_pinpoints";
    /// Key of the order of rows.
    const ORDER_KEY: &'static str = "vision.mm_patch_merge_type";

    /// Reads the sizes of enlarged pictures.
    pub(super) fn read(keys: &Keys<'_>, side: usize, color: [u8; 3]) -> Result<Self, LoadError> {
        let pixels = keys.list(Self::KEY)?.unwrap_or_default();
        let (pairs, rest) = pixels.as_chunks::<2>();
        if !rest.is_empty() || pairs.len() > MAX_SIZES {
            let why = format!("{} numbers are not at most {MAX_SIZES} pairs of width and height", pixels.len());
            return Err(keys.invalid(Self::KEY, why));
        }
        let whole = |pixels: u32| {
            let squares = (pixels as usize).checked_div(side).filter(|squares| (1..=MAX_SQUARES).contains(squares));
            squares.filter(|_| (pixels as usize).is_multiple_of(side))
        };
        let size = |&[width, height]: &[u32; 2]| {
            let why = || format!("{width} x {height} pixels are not whole squares of {side}");
            whole(width).zip(whole(height)).map(<[usize; 2]>::from).ok_or_else(|| keys.invalid(Self::KEY, why()))
        };
        let sizes = pairs.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let is_joined = match keys.str(Self::ORDER_KEY)? {
            // Files with sizes are of LLaVA 1.6, which was trained with this order.
            None | Some("spatial_unpad") => true,
            Some("flat") => false,
            Some(_) if sizes.is_empty() => false,
            Some(order) => {
                let what = format!("a vision tower with the order {:?} of rows", excerpt(order));
                return Err(LoadError::Unsupported { what });
            }
        };
        Ok(Self { side, color, sizes, is_joined })
    }

    /// Whether the lines of an enlarged picture go through all squares beside each other.
    pub(super) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Sizes of enlarged pictures, in squares: columns and rows.
    pub(super) fn sizes(&self) -> impl Iterator<Item = [usize; 2]> {
        self.sizes.iter().copied()
    }

    /// Pixels of a side of a square.
    pub(super) fn side(&self) -> usize {
        self.side
    }

    /// Most squares of a picture.
    pub(super) fn most(&self) -> usize {
        1 + self.sizes.iter().map(|[columns, rows]| columns * rows).max().unwrap_or(0)
    }

    /// Number of squares for a picture of this size.
    pub(super) fn squares_for(&self, width: usize, height: usize) -> usize {
        1 + self.enlarged(width, height).map_or(0, |[columns, rows]| columns * rows)
    }

    /// Number of squares in a column of this size, if a picture can have so many.
    pub(super) fn squares_of(&self, width: usize, height: usize) -> Option<usize> {
        let squares = height / self.side;
        let is_possible = squares == 1 || self.sizes.iter().any(|[columns, rows]| 1 + columns * rows == squares);
        (width == self.side && height.is_multiple_of(self.side) && is_possible).then_some(squares)
    }

    /// Size to which a picture of this size is enlarged: that which shows most of its pixels, and of those the smallest. None for a tower
    /// without sizes.
    ///
    /// As in the models' training, a picture that fits into one square is enlarged, too. llama.cpp computes only the one square of it.
    fn enlarged(&self, width: usize, height: usize) -> Option<[usize; 2]> {
        let waste = |[columns, rows]: [usize; 2]| {
            let [most_width, most_height] = [columns, rows].map(|squares| squares * self.side);
            let scale = (most_width as f64 / width as f64).min(most_height as f64 / height as f64);
            let shown = ((width as f64 * scale) as usize * (height as f64 * scale) as usize).min(width * height);
            (Reverse(shown), most_width * most_height)
        };
        self.sizes.iter().min_by_key(|size| waste(**size)).copied()
    }

    /// Returns the squares to which a picture of this size is enlarged, if they are joined, with groups of this number of pixels in a side.
    ///
    /// The border is rounded as in the models' code. So a line of groups at an edge that the picture covers in part can be omitted.
    pub(super) fn joined(&self, width: usize, height: usize, group_pixels: usize) -> Option<SquareGrid> {
        let squares = self.enlarged(width, height).filter(|_| self.is_joined)?;
        let [columns, lines] = squares.map(|squares| squares * self.side / group_pixels);
        let border = match width * lines > height * columns {
            true => [0, (lines - height * columns / width) / 2],
            false => [(columns - width * lines / height) / 2, 0],
        };
        Some(SquareGrid { squares, border })
    }

    /// Cuts a picture into squares.
    ///
    /// # Errors
    /// Never for a tower that was loaded: its sizes are not zero.
    pub(super) fn cut(&self, picture: &Picture, filter: Filter) -> Result<Picture, InvalidPicture> {
        let side = self.side as u32;
        if self.sizes.is_empty() {
            return picture.fit(side, side, filter, self.color);
        }
        let mut pixels = picture.resize(side, side, filter)?.rgb().to_vec();
        let [columns, rows] = self.enlarged(picture.width() as usize, picture.height() as usize).unwrap_or_default();
        if columns * rows > 0 {
            let large = picture.fit(columns as u32 * side, rows as u32 * side, filter, BORDER)?;
            let row_bytes = self.side * 3;
            for square in 0..columns * rows {
                let (top, left) = (square / columns * self.side, square % columns);
                let parts = (top..top + self.side).map(|row| (row * columns + left) * row_bytes);
                parts.for_each(|start| pixels.extend(&large.rgb()[start..start + row_bytes]));
            }
        }
        Picture::new(side, (1 + columns * rows) as u32 * side, pixels)
    }
}
