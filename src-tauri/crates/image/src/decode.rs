//! Decodes image files of strangers.
//!
//! The size in the header is checked before the pixels are decoded, and the decoder may allocate only up to a limit. Pixels that
//! are transparent show white, as in a viewer. The orientation in the file is applied, so that the model sees what its user sees.

mod webp;

use std::io::Cursor;
use std::panic::catch_unwind;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use crate::error::DecodeError;
use crate::limits::{MAX_DECODED_BYTES, MAX_FILE_BYTES, MAX_HEADER_BYTES, MAX_PIXELS, MAX_SCANS, MAX_SIDE};
use crate::picture::Picture;

/// Supported formats and their names.
const FORMATS: &[(ImageFormat, &str)] =
    &[(ImageFormat::Jpeg, "JPEG"), (ImageFormat::Png, "PNG"), (ImageFormat::WebP, "WebP"), (ImageFormat::Gif, "GIF")];

/// Decodes an image file. Of an animation, the first frame.
///
/// # Errors
/// When the file is too large, has no supported format, or its contents are not valid.
pub fn decode(file: &[u8]) -> Result<Picture, DecodeError> {
    decode_within(file, MAX_PIXELS)
}

/// Decodes an image file of at most `max_pixels`, and at most [`MAX_PIXELS`].
///
/// # Errors
/// As [`decode`].
pub fn decode_within(file: &[u8], max_pixels: u64) -> Result<Picture, DecodeError> {
    if file.len() > MAX_FILE_BYTES {
        return Err(DecodeError::FileTooLarge { bytes: file.len() });
    }
    let found = image::guess_format(file).ok();
    let supported = FORMATS.iter().find(|(format, _)| Some(*format) == found);
    let &(kind, format) = supported.ok_or(DecodeError::UnknownFormat)?;
    // Decoders of other projects panic on some invalid files.
    let decoded = catch_unwind(|| decode_as(kind, format, file, max_pixels));
    decoded.unwrap_or_else(|_| Err(DecodeError::Invalid { format, why: "its decoder failed".to_owned() }))
}

/// Decodes a file of a format, which has this name.
fn decode_as(kind: ImageFormat, format: &'static str, file: &[u8], max_pixels: u64) -> Result<Picture, DecodeError> {
    let invalid = |error: ImageError| DecodeError::Invalid { format, why: error.to_string() };
    let mut reader = ImageReader::with_format(Cursor::new(file), kind);
    // A color profile may decompress to a thousand times its size.
    reader.limits(limits(MAX_HEADER_BYTES));
    let mut decoder = reader.into_decoder().map_err(invalid)?;
    let chunks = (kind == ImageFormat::WebP).then(|| webp::Chunks::read(file));
    let frame = chunks.as_ref().map(|chunks| chunks.largest);
    for (width, height) in std::iter::once(decoder.dimensions()).chain(frame) {
        if u64::from(width) * u64::from(height) > max_pixels.min(MAX_PIXELS) || width.max(height) > MAX_SIDE {
            return Err(DecodeError::TooManyPixels { width, height });
        }
    }
    let scans = if kind == ImageFormat::Jpeg { jpeg_scans(file) } else { 1 };
    if scans > MAX_SCANS {
        let why = format!("it has {scans} scans, and at most {MAX_SCANS} are decoded");
        return Err(DecodeError::Invalid { format, why });
    }
    let bytes = decoder.total_bytes();
    if bytes > MAX_DECODED_BYTES {
        return Err(DecodeError::TooMuchMemory { bytes });
    }
    decoder.set_limits(limits(2 * MAX_DECODED_BYTES)).map_err(invalid)?;
    // A broken entry about the orientation does not make the pixels worthless. The decoder would allocate as much as a chunk claims.
    let orientation = match chunks.is_none_or(|chunks| chunks.are_whole) {
        true => decoder.orientation().unwrap_or(Orientation::NoTransforms),
        false => Orientation::NoTransforms,
    };
    let mut pixels = DynamicImage::from_decoder(decoder).map_err(invalid)?;
    pixels.apply_orientation(orientation);
    let (width, height) = (pixels.width(), pixels.height());
    let rgb = if pixels.color().has_alpha() { over_white(&pixels.into_rgba8()) } else { pixels.into_rgb8().into_raw() };
    Picture::new(width, height, rgb).map_err(|_| DecodeError::Invalid { format, why: "it has no pixels".to_owned() })
}

/// The bytes behind a segment, which begins with its length. The length includes its own two bytes.
fn behind(segment: &[u8]) -> &[u8] {
    let length = segment.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
    segment.get(length..).unwrap_or_default()
}

/// Counts the scans of a JPEG file up to its end (ITU-T T.81, annex B). A scan of a few bytes can refine all pixels.
///
/// Decoders differ in what they skip behind markers that do not belong there. So behind the first one, all bytes count that can begin a
/// scan.
fn jpeg_scans(file: &[u8]) -> usize {
    const SCAN: u8 = 0xda;
    const END: u8 = 0xd9;
    let mut rest = file.get(2..).unwrap_or_default();
    let all_scans = |part: &[u8]| part.windows(2).filter(|pair| *pair == [0xff, SCAN]).count();
    // A segment of metadata may contain another picture.
    while let [0xff, 0xc0..=0xcf | 0xdb..=0xfe, segment @ ..] = rest {
        rest = behind(segment);
    }
    if !rest.starts_with(&[0xff, SCAN]) {
        return all_scans(file);
    }
    let mut scans = 0;
    // Zeros and restart markers are part of the data of a scan.
    let is_marker = |pair: &[u8]| matches!(pair, [0xff, 1..=0xcf | 0xd8..=0xfe]);
    while let Some(at) = rest.windows(2).position(is_marker)
        && let Some((&marker, segment)) = rest.get(at + 1..).and_then(<[u8]>::split_first)
    {
        match marker {
            END => break,
            SCAN => scans += 1,
            0xc4 | 0xdb..=0xdd | 0xe0..=0xef | 0xfe => {}
            _ => return scans + all_scans(segment),
        }
        rest = behind(segment);
    }
    scans
}

/// Limits of the decoders, with this number of bytes for their own working memory.
fn limits(bytes: u64) -> Limits {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(bytes);
    limits
}

/// Draws pixels on white.
fn over_white(pixels: &image::RgbaImage) -> Vec<u8> {
    let mut rgb = Vec::with_capacity(pixels.as_raw().len() / 4 * 3);
    for &image::Rgba([red, green, blue, alpha]) in pixels.pixels() {
        let alpha = u32::from(alpha);
        let blend = |color: u8| ((u32::from(color) * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        rgb.extend([red, green, blue].map(blend));
    }
    rgb
}

#[cfg(test)]
mod tests;
