//! Reasons why a picture cannot be used.

use crate::limits::{MAX_DECODED_BYTES, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE};

/// Why a file cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The file has too many bytes.
    #[error("the image file has {bytes} bytes, and at most {MAX_FILE_BYTES} are read; send a smaller image")]
    FileTooLarge {
        /// Size of the file.
        bytes: usize,
    },
    /// The first bytes belong to no supported format.
    #[error("the image is in no supported format; send JPEG, PNG, WebP or GIF")]
    UnknownFormat,
    /// The picture has too many pixels, or a side is too long.
    #[error(
        "the image has {width} x {height} pixels, and at most {MAX_PIXELS} with sides of {MAX_SIDE} are decoded; \
         scale the image down"
    )]
    TooManyPixels {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The pixels need too much memory in the format of the file.
    #[error(
        "the decoded image needs {bytes} bytes, and at most {MAX_DECODED_BYTES} are used; \
         send an image with 8 bits for each color"
    )]
    TooMuchMemory {
        /// Bytes that the pixels need.
        bytes: u64,
    },
    /// The contents are not valid, or use an unsupported feature of the format.
    #[error("the {format} image cannot be decoded: {why}")]
    Invalid {
        /// Name of the format.
        format: &'static str,
        /// The decoder's reason.
        why: String,
    },
}

/// Pixels that are no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are not {width} x {height} pixels of 3 bytes")]
pub struct InvalidPicture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes given.
    pub bytes: usize,
}
