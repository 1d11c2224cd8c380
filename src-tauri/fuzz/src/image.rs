//! A file of a picture, as clients send it.
//!
//! Guarantees: no panic, and pixels of the size that they claim, within the limits, or an error.

use cairn_image::{Filter, MAX_PIXELS, decode};

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    match decode(input) {
        Ok(picture) => {
            let pixels = u64::from(picture.width()) * u64::from(picture.height());
            assert!((1..=MAX_PIXELS).contains(&pixels), "{picture:?} is within the limits");
            assert_eq!(picture.rgb().len() as u64, 3 * pixels, "{picture:?} has all its pixels");
            // Scaling reads all pixels.
            let small = picture.resize(9, 7, Filter::Cubic).expect("no side is zero");
            assert_eq!((small.width(), small.height()), (9, 7), "the requested size");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "the error has a reason"),
    }
}
