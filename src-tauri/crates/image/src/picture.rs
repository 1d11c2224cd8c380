//! Pixels in RGB, and their digest.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
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

    /// Scales the picture to this size, whatever its aspect ratio. Each pixel is a weighted mean of all pixels that it covers,
    /// with weights that fall linearly: "bilinear" of the processors that models are trained with (Pillow's `resize`).
    ///
    /// # Errors
    /// When a side is zero.
    pub fn resize(&self, width: u32, height: u32) -> Result<Self, InvalidPicture> {
        let empty = InvalidPicture { width, height, bytes: 0 };
        if width == 0 || height == 0 {
            return Err(empty);
        }
        if (width, height) == (self.width, self.height) {
            return Ok(self.clone());
        }
        let pixels: &[[u8; 3]] = self.rgb.as_chunks().0;
        let pixels: Vec<U8x3> = pixels.iter().map(|pixel| U8x3::new(*pixel)).collect();
        let from = TypedImageRef::new(self.width, self.height, &pixels).map_err(|_| empty)?;
        let mut to = TypedImage::<U8x3>::new(width, height);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        Resizer::new().resize_typed(&from, &mut to, &options).map_err(|_| empty)?;
        let rgb = to.pixels().iter().flat_map(|pixel| pixel.0).collect();
        Self::new(width, height, rgb)
    }
}

#[cfg(test)]
mod tests;
