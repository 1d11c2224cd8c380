//! Pixels in RGB, their digest, and scaling.

use fast_image_resize::images::{ImageRef, TypedImage};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use sha2::{Digest, Sha256};

use crate::error::InvalidPicture;

/// Pixels of 3 bytes: red, green, blue.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    /// `[height, width, 3]`
    rgb: Vec<u8>,
}

/// Weights of the pixels that a scaled pixel is computed from, by their distance from its center. A pixel of a smaller picture is
/// computed from all pixels that it covers, as Pillow's `resize` does, which the processors of models use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Weights that fall linearly ("bilinear").
    Linear,
    /// Cubic weights with the slope -1/2 at the next pixel ("bicubic": Keys, IEEE Transactions on Acoustics, Speech and Signal
    /// Processing 29, 1981).
    Cubic,
}

impl From<Filter> for FilterType {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Linear => Self::Bilinear,
            Filter::Cubic => Self::CatmullRom,
        }
    }
}

/// SHA-256 of the size and the pixels of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PixelDigest([u8; 32]);

impl PixelDigest {
    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for PixelDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PixelDigest({})", hex::encode(self.0))
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture({} x {})", self.width, self.height)
    }
}

impl Picture {
    /// Creates a picture from rows of pixels.
    ///
    /// # Errors
    /// When a side is zero, or the number of bytes differs from that of the pixels.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, InvalidPicture> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels == 0 || pixels.checked_mul(3) != Some(rgb.len() as u64) {
            return Err(InvalidPicture { width, height, bytes: rgb.len() });
        }
        Ok(Self { width, height, rgb })
    }

    /// Pixels in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Number of rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The pixels, row by row.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Returns the digest of size and pixels. Equal pixels have equal digests, whatever file they were decoded from.
    pub fn digest(&self) -> PixelDigest {
        let mut hasher = Sha256::new();
        hasher.update(b"cairn rgb8");
        hasher.update(self.width.to_le_bytes());
        hasher.update(self.height.to_le_bytes());
        hasher.update(&self.rgb);
        PixelDigest(hasher.finalize().into())
    }

    /// Scales the picture to this size, whatever its aspect ratio.
    ///
    /// # Errors
    /// When a side is zero.
    pub fn resize(&self, width: u32, height: u32, filter: Filter) -> Result<Self, InvalidPicture> {
        if width == 0 || height == 0 {
            return Err(InvalidPicture { width, height, bytes: 0 });
        }
        // Rows before columns, as in Pillow: the order matters for cubic weights, because each pass is limited to the range of bytes.
        self.pass(width, self.height, filter)?.pass(width, height, filter)
    }

    /// Scales one of the sides.
    fn pass(&self, width: u32, height: u32, filter: Filter) -> Result<Self, InvalidPicture> {
        if (width, height) == (self.width, self.height) {
            return Ok(self.clone());
        }
        let empty = InvalidPicture { width, height, bytes: 0 };
        let bytes = ImageRef::new(self.width, self.height, &self.rgb, PixelType::U8x3).map_err(|_| empty)?;
        let from = bytes.typed_image::<U8x3>().ok_or(empty)?;
        let mut to = TypedImage::<U8x3>::new(width, height);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter.into()));
        Resizer::new().resize_typed(&from, &mut to, &options).map_err(|_| empty)?;
        let rgb = to.pixels().iter().flat_map(|pixel| pixel.0).collect();
        Self::new(width, height, rgb)
    }

    /// Scales the picture with its aspect ratio until it fits into this size, and centers it on pixels of one color.
    ///
    /// # Errors
    /// When a side is zero.
    pub fn fit(&self, width: u32, height: u32, filter: Filter, color: [u8; 3]) -> Result<Self, InvalidPicture> {
        if (width, height) == (self.width, self.height) {
            return Ok(self.clone());
        }
        // In f32 and upwards, as in llama.cpp: one pixel more or less moves the whole picture.
        let scale = (width as f32 / self.width as f32).min(height as f32 / self.height as f32);
        let side = |from: u32, most: u32| ((from as f32 * scale).ceil() as u32).min(most);
        let inner = self.resize(side(self.width, width), side(self.height, height), filter)?;
        let [left, top] = [(width - inner.width) / 2, (height - inner.height) / 2].map(|pixels| pixels as usize);
        let [row_bytes, inner_bytes] = [width, inner.width].map(|pixels| pixels as usize * 3);
        let mut rgb = color.repeat(width as usize * height as usize);
        for (row, pixels) in rgb.chunks_exact_mut(row_bytes).skip(top).zip(inner.rgb.chunks_exact(inner_bytes)) {
            row.iter_mut().skip(left * 3).zip(pixels).for_each(|(to, from)| *to = *from);
        }
        Self::new(width, height, rgb)
    }
}

#[cfg(test)]
mod tests;
