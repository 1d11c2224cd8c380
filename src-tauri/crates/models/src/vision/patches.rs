//! Unfolds a picture into patches (Dosovitskiy et al., arXiv 2010.11929).

use cairn_image::{InvalidPicture, Picture};

use super::TowerHparams;

impl TowerHparams {
    /// Scales a picture to the size of the tower.
    ///
    /// # Errors
    /// Never for a tower that was loaded: its size is not zero.
    pub fn resize(&self, picture: &Picture) -> Result<Picture, InvalidPicture> {
        picture.resize(self.image_size as u32, self.image_size as u32)
    }

    /// Returns the normalised pixels of a picture of the tower's size as the embeddings of its batch: a row for each patch, with
    /// all pixels of one color after the other.
    ///
    /// # Panics
    /// When the picture has another size.
    pub fn unfold(&self, picture: &Picture) -> Vec<f32> {
        let size = [picture.width() as usize, picture.height() as usize];
        assert_eq!(size, [self.image_size; 2], "the picture has the size of the tower");
        let (rgb, side, pixels) = (picture.rgb(), self.image_size / self.patch_size, self.patch_size * self.patch_size);
        let mut rows = Vec::with_capacity(self.patches() * self.patch_elements());
        for patch in self.patches_by_group() {
            let (top, left) = (patch / side * self.patch_size, patch % side * self.patch_size);
            for (color, (mean, deviation)) in self.mean.iter().zip(self.deviation).enumerate() {
                rows.extend((0..pixels).map(|pixel| {
                    let (y, x) = (top + pixel / self.patch_size, left + pixel % self.patch_size);
                    let value = f32::from(rgb[(y * self.image_size + x) * 3 + color]) / 255.0;
                    (value - mean) / deviation
                }));
            }
        }
        rows
    }
}
