//! The memory of the pixels of all requests, which has a limit.
//!
//! Requests wait for a model and for their turn with their pictures already decoded, and hundreds of requests may wait.

use cairn_image::{InvalidPicture, Picture};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum bytes of the scaled pixels of all requests: about 220 pictures of 900 x 900 pixels.
pub const PIXEL_MEMORY_BYTES: usize = 512 << 20;

/// Bytes of one permit.
const PERMIT_BYTES: usize = 1 << 10;

/// The memory of this process.
pub(crate) static MEMORY: PixelMemory = PixelMemory::new(PIXEL_MEMORY_BYTES);

/// Why a picture cannot be part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// The picture cannot be scaled. This is never so for a tower that was loaded: its sizes are not zero.
    #[error(transparent)]
    Invalid(#[from] InvalidPicture),
    /// Other requests use the memory for pixels.
    #[error(
        "the server is busy: images of other requests use most of the {} MiB for pixels; try again later",
        PIXEL_MEMORY_BYTES >> 20
    )]
    MemoryFull,
}

/// A limit of the bytes of pixels.
pub(crate) struct PixelMemory(Semaphore);

/// Pixels and their part of the memory, which is free again when they are dropped.
#[derive(Debug)]
pub(crate) struct Pixels {
    pub(crate) picture: Picture,
    _permit: SemaphorePermit<'static>,
}

impl PixelMemory {
    pub(crate) const fn new(bytes: usize) -> Self {
        Self(Semaphore::const_new(bytes / PERMIT_BYTES))
    }

    /// Takes the memory for a picture.
    pub(crate) fn store(&'static self, picture: Picture) -> Result<Pixels, PictureError> {
        let permits = u32::try_from(picture.rgb().len().div_ceil(PERMIT_BYTES)).ok();
        let permit = permits.and_then(|permits| self.0.try_acquire_many(permits).ok());
        Ok(Pixels { picture, _permit: permit.ok_or(PictureError::MemoryFull)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_refused_while_the_memory_is_full() {
        static SMALL: PixelMemory = PixelMemory::new(16 << 10);
        let store =
            |side: u32| SMALL.store(Picture::new(side, side, vec![0; (side * side * 3) as usize]).expect("pixels"));
        let first = store(60).expect("10,800 bytes of 16,384");
        let error = store(60).expect_err("11 of the last 5 KiB");
        assert_eq!(error, PictureError::MemoryFull, "the sum counts");
        assert!(error.to_string().contains("512 MiB for pixels"), "{error}");
        let small = store(40).expect("4,800 bytes");
        assert!(store(1).is_err(), "each picture has at least one permit");
        drop(first);
        store(60).expect("the memory is free again");
        drop(small);
        assert_eq!(store(80).expect_err("19,200 bytes"), PictureError::MemoryFull, "more than the whole memory");
    }
}
