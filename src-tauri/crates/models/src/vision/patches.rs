//! Unfolds a picture into patches (Dosovitskiy et al., arXiv 2010.11929).

use cairn_image::{InvalidPicture, Picture};

use super::{Grid, PictureSize, TowerHparams};

impl TowerHparams {
    /// Scales a picture to a size of the tower.
    ///
    /// # Errors
    /// Never for a tower that was loaded: its sizes are not zero.
    pub fn resize(&self, picture: &Picture) -> Result<Picture, InvalidPicture> {
        if let PictureSize::Tiles(tiles) = &self.size {
            return tiles.cut(picture, self.filter);
        }
        let Grid { rows, columns } = self.grid_for(picture.width() as usize, picture.height() as usize);
        let pixels = self.patch_size * self.group_size;
        picture.resize((columns * pixels) as u32, (rows * pixels) as u32, self.filter)
    }

    /// Returns the normalised pixels of a picture of the tower's size as the embeddings of its batch: a row for each patch, with
    /// all pixels of one color after the other. The class row of a square is zero.
    ///
    /// # Panics
    /// When the picture has another size.
    pub fn unfold(&self, picture: &Picture) -> Vec<f32> {
        let grid = self.grid(picture.width(), picture.height()).expect("the picture has a size of the tower");
        let (rgb, width, pixels) = (picture.rgb(), picture.width() as usize, self.patch_size * self.patch_size);
        let [sequences, sequence_rows] = self.sequences(grid);
        let mut rows = Vec::with_capacity(sequences * sequence_rows * self.patch_elements());
        let sequence = sequence_rows * self.patch_elements();
        for (row, column) in self.places_by_group(grid) {
            if self.has_class_row && rows.len().is_multiple_of(sequence) {
                rows.resize(rows.len() + self.patch_elements(), 0.0);
            }
            let (top, left) = (row * self.patch_size, column * self.patch_size);
            for (color, (mean, deviation)) in self.mean.iter().zip(self.deviation).enumerate() {
                rows.extend((0..self.frames * pixels).map(|pixel| {
                    let pixel = pixel % pixels;
                    let (y, x) = (top + pixel / self.patch_size, left + pixel % self.patch_size);
                    let value = f32::from(rgb[(y * width + x) * 3 + color]) / 255.0;
                    (value - mean) / deviation
                }));
            }
        }
        rows
    }
}
