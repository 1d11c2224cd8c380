//! Limits of image files and of their pixels.

/// Maximum size of a file: that of an uncompressed photo of 10 million pixels.
pub const MAX_FILE_BYTES: usize = 32 << 20;
/// Maximum number of pixels: photos of phones have up to 50 million.
pub const MAX_PIXELS: u64 = 50_000_000;
/// Maximum length of a side: the largest that JPEG can have, in whole blocks of 8 pixels. The decoder rounds a side up to whole
/// blocks within 16 bits, where a longer one overflows.
pub const MAX_SIDE: u32 = 65_528;
/// Maximum memory of the decoded pixels: four bytes for each of [`MAX_PIXELS`].
pub const MAX_DECODED_BYTES: u64 = 4 * MAX_PIXELS;
/// Maximum memory for what precedes the pixels, such as texts and a color profile: as much as a file has.
pub(crate) const MAX_HEADER_BYTES: u64 = MAX_FILE_BYTES as u64;
/// Maximum number of scans of a JPEG file. Encoders write about ten.
pub(crate) const MAX_SCANS: usize = 32;
