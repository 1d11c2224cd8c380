//! Pictures of prompts.
//!
//! A prompt is a list of numbers: token ids, and from [`FIRST_PICTURE`] on the numbers of pictures. A picture takes the place of as
//! many tokens as its tower has output rows, which all have its number. So prompts with pictures are counted, cut and compared like
//! others. What identifies the rows of a picture in the cache is not its number, but its pixels and its tower.

use std::ops::Range;
use std::sync::Arc;

use cairn_image::{Picture, PixelDigest};
use cairn_tier::Key;

/// The number of the first picture of a request in its prompt. No vocabulary has so many tokens.
pub const FIRST_PICTURE: u32 = 1 << 31;

/// A picture of a request, scaled to the size of the model's tower.
#[derive(Clone, Debug)]
pub struct PromptPicture {
    pub(crate) pixels: Arc<Picture>,
    pub(crate) digest: PixelDigest,
}

impl PromptPicture {
    /// Creates a picture of these pixels. Their size must be that of [`Lease::vision`](crate::Lease::vision).
    pub fn new(pixels: Picture) -> Self {
        Self { digest: pixels.digest(), pixels: Arc::new(pixels) }
    }

    /// The number in the prompt of the picture at this index of [`Request::pictures`](crate::Request::pictures).
    pub fn number(index: usize) -> u32 {
        FIRST_PICTURE + index as u32
    }
}

/// Returns the index of the picture with this number in a prompt; none for a token.
pub(crate) fn picture_index(number: u32) -> Option<usize> {
    number.checked_sub(FIRST_PICTURE).map(|index| index as usize)
}

/// Removes pictures of which a cut of the prompt has left less than all `rows`, because a part of a picture cannot be computed.
pub fn remove_cut_pictures(prompt: &mut Vec<u32>, rows: usize) {
    if prompt.iter().all(|&number| number < FIRST_PICTURE) {
        return;
    }
    let whole = prompt.chunk_by(|a, b| a == b).filter(|run| run[0] < FIRST_PICTURE || run.len() == rows);
    *prompt = whole.flatten().copied().collect();
}

/// The rows of one picture in a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PictureSpan {
    /// Slots.
    pub(crate) slots: Range<usize>,
    /// Index in the request.
    pub(crate) index: usize,
}

/// Output rows of a picture, `[rows, width]`.
pub(crate) type PictureRows = Arc<[f32]>;

/// A picture in a sequence, and its output rows while they are needed.
pub(crate) struct SequencePicture {
    pub(crate) span: PictureSpan,
    pub(crate) rows: Option<PictureRows>,
}

/// Finds the pictures in a prompt.
pub(crate) fn spans(prompt: &[u32]) -> Vec<PictureSpan> {
    let mut end = 0;
    let runs = prompt.chunk_by(|a, b| a == b).map(|run| {
        let slots = end..end + run.len();
        end = slots.end;
        (slots, run[0])
    });
    runs.filter_map(|(slots, number)| Some(PictureSpan { slots, index: picture_index(number)? })).collect()
}

/// What identifies the rows of a tower: its weights and its computation.
#[derive(Clone, Debug)]
pub(crate) struct TowerIdentity(pub(crate) Vec<u8>);

/// Appends the cache keys of a prompt, or of tokens behind one. Pictures must be whole, and have an entry in `pictures`.
pub(crate) fn extend_keys(
    keys: &mut Vec<Key>,
    prompt: &[u32],
    pictures: &[PromptPicture],
    tower: Option<&TowerIdentity>,
) {
    for run in prompt.chunk_by(|a, b| a == b) {
        let picture = picture_index(run[0]).and_then(|index| Some((pictures.get(index)?, tower?)));
        match picture {
            None => keys.extend(run.iter().copied().map(Key::token)),
            Some((picture, tower)) => {
                let content = [tower.0.as_slice(), picture.digest.as_bytes()];
                keys.extend((0..run.len()).map(|part| Key::part_of(&content, part as u32)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(value: u8) -> PromptPicture {
        PromptPicture::new(Picture::new(1, 1, vec![value; 3]).expect("one pixel"))
    }

    #[test]
    fn pictures_are_found_by_their_numbers() {
        let [a, b] = [0, 1].map(PromptPicture::number);
        let found = spans(&[1, 2, a, a, a, 3, b, b, 4]);
        let expected = [(2..5, 0), (6..8, 1)].map(|(slots, index)| PictureSpan { slots, index });
        assert_eq!(found, expected, "slots and indices");
        assert_eq!(spans(&[1, 2, 3]), [], "no picture");
    }

    #[test]
    fn cut_pictures_are_removed() {
        let [a, b] = [0, 1].map(PromptPicture::number);
        let mut prompt = vec![1, a, a, 2, b, b, b, 3];
        remove_cut_pictures(&mut prompt, 3);
        assert_eq!(prompt, [1, 2, b, b, b, 3], "whole pictures stay");
        let mut text = vec![1, 2, 2, 2];
        remove_cut_pictures(&mut text, 3);
        assert_eq!(text, [1, 2, 2, 2], "tokens stay");
    }

    #[test]
    fn keys_identify_pixels_and_tower_and_not_the_number() {
        let keys = |prompt: &[u32], pictures: &[PromptPicture], tower: &[u8]| {
            let mut keys = Vec::new();
            extend_keys(&mut keys, prompt, pictures, Some(&TowerIdentity(tower.to_vec())));
            keys
        };
        let [first, second] = [0, 1].map(PromptPicture::number);
        let one = keys(&[7, first, first], &[picture(1)], b"tower");
        assert_eq!(one[0], Key::token(7), "a token");
        assert_ne!(one[1], one[2], "the rows of a picture differ");
        assert_eq!(one, keys(&[7, second, second], &[picture(2), picture(1)], b"tower"), "the number does not matter");
        assert_ne!(one, keys(&[7, first, first], &[picture(2)], b"tower"), "other pixels");
        assert_ne!(one, keys(&[7, first, first], &[picture(1)], b"other"), "another tower");
    }
}
