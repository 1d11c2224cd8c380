//! The batch of a picture in a tower.

use std::ops::Range;

use cairn_tensor::{Batch, Input, Limits, PAGE_TOKENS, PageId, Row};

use super::{Grid, PictureSize, TowerHparams};

impl TowerHparams {
    /// The groups of squares in a column.
    pub(super) fn stack(&self, squares: usize) -> Grid {
        let side = self.square_side().expect("the tower computes squares");
        Grid { rows: squares * side, columns: side }
    }

    /// Groups of a side of a square that is computed alone.
    pub(super) fn square_side(&self) -> Option<usize> {
        match &self.size {
            PictureSize::Tiles(tiles) => Some(tiles.side() / self.group_pixels()),
            PictureSize::Square(_) | PictureSize::Scaled { .. } => None,
        }
    }

    /// Number of sequences of the batch of a picture, and of rows of each: a picture, or each of its squares.
    pub(super) fn sequences(&self, grid: Grid) -> [usize; 2] {
        let groups = self.square_side().map_or(grid.groups(), |side| side * side);
        let rows = groups * self.group_patches() + usize::from(self.has_class_row);
        [grid.groups() / groups, rows]
    }

    /// The grid of the largest picture.
    fn most_grid(&self) -> Grid {
        match &self.size {
            PictureSize::Tiles(tiles) => self.stack(tiles.most()),
            PictureSize::Square(_) | PictureSize::Scaled { .. } => Grid { rows: 1, columns: self.most_groups() },
        }
    }

    /// Limits of the batch of one picture.
    pub fn limits(&self) -> Limits {
        let [sequences, rows] = self.sequences(self.most_grid());
        Limits { rows: sequences * rows, logit_rows: self.most_groups() }
    }

    /// Number of pages for the patches of one picture.
    pub fn pages(&self) -> usize {
        let [sequences, rows] = self.sequences(self.most_grid());
        sequences * rows.div_ceil(PAGE_TOKENS)
    }

    /// Returns the batch of one picture without its pixels: see [`TowerHparams::unfold`]. Each patch attends to all others, or to those
    /// of its window or square.
    pub fn batch(&self, grid: Grid) -> Batch {
        let [sequences, rows] = self.sequences(grid);
        let (class_rows, group) = (usize::from(self.has_class_row), self.group_patches());
        let pages = rows.div_ceil(PAGE_TOKENS);
        let table = |seq: usize| (seq * pages..(seq + 1) * pages).map(|page| PageId(page as u32)).collect();
        let mut batch = Batch { tables: (0..sequences).map(table).collect(), ..Batch::default() };
        let mut positions = self.positions(grid).into_iter();
        for (seq, slot) in (0..sequences).flat_map(|seq| (0..rows).map(move |slot| (seq, slot))) {
            let patch = slot.checked_sub(class_rows);
            let pos = patch.map(|_| positions.next().expect("every patch has a position"));
            batch.rows.push(Row {
                seq: seq as u32,
                input: Input::Embedding(batch.rows.len() as u32),
                slot: slot as u32,
                pos: pos.unwrap_or_default(),
                until: rows as u32,
                want_logits: patch.is_some_and(|patch| patch % group == group - 1),
            });
        }
        batch
    }

    /// Positions of the patches, in the order of the batch. In a square, a position is the number of the patch, behind that of the class
    /// row. Otherwise it begins with row and column. With windows, the slots of the window follow, and else the size of the picture.
    fn positions(&self, grid: Grid) -> Vec<[u32; 4]> {
        let [height, width] = [grid.rows, grid.columns].map(|groups| groups * self.group_size);
        let windows = self.windows(grid);
        let mut windows = windows.iter().flat_map(|window| window.clone().map(|_| [window.start, window.end]));
        let position = |(y, x): (usize, usize)| {
            let position = match &self.size {
                PictureSize::Square(_) => [y * width + x, 0, 0, 0],
                PictureSize::Tiles(_) => [usize::from(self.has_class_row) + y % width * width + x, 0, 0, 0],
                PictureSize::Scaled { .. } => {
                    let [first, second] = windows.next().unwrap_or([height, width]);
                    [y, x, first, second]
                }
            };
            position.map(|component| component as u32)
        };
        self.places_by_group(grid).map(position).collect()
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
