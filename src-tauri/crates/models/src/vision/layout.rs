//! The output rows of a picture in the order of the prompt.
//!
//! Most towers have the lines of groups from top to bottom. LLaVA 1.6 has the whole picture first, and then the enlarged one: its lines
//! go through all squares beside each other, without the border around the picture ("spatial_unpad" in the authors' code:
//! <https://github.com/haotian-liu/LLaVA>). A tower can have a break row, which is an embedding behind lines.

use super::tiles::SquareGrid;
use super::{Grid, PictureSize, TowerHparams};

/// The groups of a picture that a tower computes, and the order of their rows. It depends on the size of the picture before scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureLayout {
    /// The groups that the tower computes.
    pub grid: Grid,
    /// The enlarged picture, if the lines of its squares are joined.
    enlarged: Option<SquareGrid>,
}

impl PictureLayout {
    /// The bytes that determine the layout of a grid.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { grid, enlarged } = self;
        let parts = enlarged.map(|enlarged| [enlarged.squares, enlarged.border].concat()).unwrap_or_default();
        [grid.rows, grid.columns].into_iter().chain(parts).flat_map(|number| (number as u64).to_le_bytes()).collect()
    }
}

/// All groups, line by line.
impl From<Grid> for PictureLayout {
    fn from(grid: Grid) -> Self {
        Self { grid, enlarged: None }
    }
}

impl TowerHparams {
    /// Returns the layout of a picture of this size, before it is scaled to a size of this tower.
    pub fn layout(&self, width: u32, height: u32) -> PictureLayout {
        let [width, height] = [width, height].map(|pixels| pixels as usize);
        let enlarged = match &self.size {
            PictureSize::Tiles(tiles) => tiles.joined(width, height, self.group_pixels()),
            PictureSize::Square(_) | PictureSize::Scaled { .. } => None,
        };
        PictureLayout { grid: self.grid_for(width, height), enlarged }
    }

    /// Number of output rows of a picture.
    pub fn output_rows(&self, layout: &PictureLayout) -> usize {
        self.order(layout).len()
    }

    /// Most output rows of a picture.
    pub fn most_output_rows(&self) -> usize {
        let breaks = usize::from(self.break_row.is_some());
        match &self.size {
            PictureSize::Square(_) => self.most_groups(),
            PictureSize::Scaled { longest, .. } => self.most_groups() + breaks * (longest - 1),
            PictureSize::Tiles(tiles) => {
                let side = tiles.side() / self.group_pixels();
                // A picture without a border has most rows.
                let rows = |lines: usize, squares: usize| squares * side * side + breaks * lines;
                tiles
                    .sizes()
                    .map(|[columns, lines]| rows(lines * side, 1 + columns * lines))
                    .fold(rows(1, 1), usize::max)
            }
        }
    }

    /// Returns the output rows of a picture in the order of the prompt, from those of its batch.
    pub fn in_order(&self, rows: &[f32], layout: &PictureLayout) -> Vec<f32> {
        let (width, break_row) = (self.output_length, self.break_row.as_deref().unwrap_or_default());
        let values = |row: Option<usize>| row.map_or(break_row, |row| &rows[row * width..][..width]);
        self.order(layout).into_iter().map(values).collect::<Vec<_>>().concat()
    }

    /// The output rows of a picture in the order of the prompt: numbers of those of the batch, and `None` for a break row.
    fn order(&self, layout: &PictureLayout) -> Vec<Option<usize>> {
        let grid = layout.grid;
        let line_end = self.break_row.is_some().then_some(None);
        let Some(side) = self.square_side() else {
            let mut order = vec![None; grid.groups()];
            self.group_order(grid).into_iter().enumerate().for_each(|(row, group)| order[group] = Some(row));
            return match line_end {
                Some(line_end) => order.chunks(grid.columns).collect::<Vec<_>>().join(&line_end),
                None => order,
            };
        };
        let Some(SquareGrid { squares: [columns, lines], border: [left, top] }) = layout.enlarged else {
            return (0..grid.groups()).map(Some).chain(line_end).collect();
        };
        let square = side * side;
        let mut order: Vec<_> = (0..square).map(Some).collect();
        for y in top..lines * side - top {
            let row = |x: usize| (1 + y / side * columns + x / side) * square + y % side * side + x % side;
            order.extend((left..columns * side - left).map(|x| Some(row(x))).chain(line_end));
        }
        order
    }
}
