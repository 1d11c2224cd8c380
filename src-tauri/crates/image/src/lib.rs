//! Pictures of requests: from the bytes of a file to RGB pixels of the size that a model needs.
//!
//! [`decode`] reads JPEG, PNG, WebP and the first frame of GIF, within limits that are checked before memory is allocated.
//! [`Picture::resize`] scales the pixels. [`Picture::digest`] identifies them, so that rows which a model has computed for a
//! picture are found again, whatever file the picture came from.
//!
//! **Invariant:** no input panics, and no input allocates more than [`MAX_DECODED_BYTES`] and a copy of it in RGB, or twice as much
//! for the coefficients of a progressive JPEG.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod decode;
mod error;
mod limits;
mod picture;

pub use decode::{decode, decode_within};
pub use error::{DecodeError, InvalidPicture};
pub use limits::{MAX_DECODED_BYTES, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE};
pub use picture::{Filter, Picture, PixelDigest};
