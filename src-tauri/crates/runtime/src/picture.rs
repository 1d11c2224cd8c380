//! Pictures of prompts.
//!
//! A prompt is a list of numbers: token ids, and from [`FIRST_PICTURE`] on the numbers of pictures. A picture takes the place of as
//! many tokens as its tower has output rows, which all have its number. So prompts with pictures are counted, cut and compared like
//! others. What identifies the rows of a picture in the cache is not its number, but its pixels, the order of its rows and its tower.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use cairn_image::{InvalidPicture, Picture, PixelDigest};
use cairn_models::{Grid, PictureLayout, TowerHparams};
use cairn_tensor::Row;
use cairn_tier::Key;

use crate::pixel_memory::{MEMORY, PictureError, Pixels};
use crate::scoped_content::ScopedContent;

/// The number of the first picture of a request in its prompt. No vocabulary has so many tokens.
pub const FIRST_PICTURE: u32 = 1 << 31;

/// A picture of a request, scaled to a size of the model's tower. Its pixels stay until the answer ends: they are needed again when
/// the sequence is paused and its rows are evicted, or its prompt is shortened.
#[derive(Clone, Debug)]
pub struct PromptPicture {
    pixels: Arc<Pixels>,
    identity: PictureIdentity,
    /// Width and height before scaling.
    size: [u32; 2],
    /// Number of its rows.
    rows: usize,
    /// Whether its rows attend to earlier ones only.
    is_causal: bool,
    /// Whether positions of its rows have their place in it.
    has_places: bool,
}

impl PromptPicture {
    /// Scales a picture to a size of this tower, which is [`Lease::vision`](crate::Lease::vision).
    ///
    /// # Errors
    /// When the pictures of all requests would have more than [`PIXEL_MEMORY_BYTES`] of pixels.
    pub fn new(picture: &Picture, tower: &TowerHparams) -> Result<Self, PictureError> {
        let pixels = tower.resize(picture)?;
        let (width, height) = (pixels.width(), pixels.height());
        let size = [picture.width(), picture.height()];
        let layout = tower.layout(size[0], size[1]);
        if tower.grid(width, height) != Some(layout.grid) {
            return Err(InvalidPicture { width, height, bytes: 0 }.into());
        }
        let (is_causal, has_places) = (tower.prompt.is_causal, tower.prompt.has_places);
        let rows = tower.output_rows(&layout);
        let identity = PictureIdentity { digest: pixels.digest(), layout };
        Ok(Self { pixels: Arc::new(MEMORY.store(pixels)?), identity, size, rows, is_causal, has_places })
    }

    /// The scaled pixels.
    pub(crate) fn pixels(&self) -> &Picture {
        &self.pixels.picture
    }

    /// Bytes of the scaled pixels.
    pub fn pixel_bytes(&self) -> usize {
        self.pixels().rgb().len()
    }

    /// What identifies it among the pictures for one tower.
    pub(crate) fn identity(&self) -> PictureIdentity {
        self.identity
    }

    /// The groups that become its rows, and their order.
    pub(crate) fn layout(&self) -> &PictureLayout {
        &self.identity.layout
    }

    fn grid(&self) -> Grid {
        self.layout().grid
    }

    /// Number of rows in the prompt.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the rows can be computed in several steps.
    pub(crate) fn is_divisible(&self) -> bool {
        self.is_causal
    }

    /// Whether the picture is for this tower.
    pub(crate) fn fits(&self, tower: &TowerHparams) -> bool {
        tower.grid(self.pixels().width(), self.pixels().height()) == Some(self.grid())
            && tower.layout(self.size[0], self.size[1]) == *self.layout()
            && tower.output_rows(self.layout()) == self.rows
            && (self.is_causal, self.has_places) == (tower.prompt.is_causal, tower.prompt.has_places)
    }

    /// Number of positions from the first row to the first one behind the picture. With places, the text continues behind the longer side
    /// (arXiv 2409.12191, section 2.1).
    fn positions(&self) -> usize {
        if self.has_places { self.grid().rows.max(self.grid().columns) } else { self.rows() }
    }

    /// The position of a row of a picture that begins at `first`.
    fn position(&self, first: usize, row: usize) -> [u32; 4] {
        match self.has_places {
            false => Row::text_position((first + row) as u32),
            true => {
                let [y, x] = [row / self.grid().columns, row % self.grid().columns];
                [first, first + y, first + x, 0].map(|component| component as u32)
            }
        }
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

/// Removes pictures of which a cut of the prompt has left less than all rows, because a part of a picture cannot be computed.
pub fn remove_cut_pictures(prompt: &mut Vec<u32>, pictures: &[PromptPicture]) {
    if prompt.iter().all(|&number| number < FIRST_PICTURE) {
        return;
    }
    let rows = |number: u32| pictures.get(picture_index(number)?).map(PromptPicture::rows);
    let whole = prompt.chunk_by(|a, b| a == b).filter(|run| run[0] < FIRST_PICTURE || rows(run[0]) == Some(run.len()));
    *prompt = whole.flatten().copied().collect();
}

/// Number of different pictures in a prompt, which may have one several times.
pub fn pictures_in(prompt: &[u32]) -> usize {
    spans(prompt).iter().map(|span| span.index).collect::<HashSet<usize>>().len()
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

/// Returns the position of a slot of a prompt with these pictures, each with its slots.
pub(crate) fn position<'a>(
    slot: usize,
    pictures: impl Iterator<Item = (&'a Range<usize>, Option<&'a PromptPicture>)>,
) -> [u32; 4] {
    // Positions that pictures before the slot have less than rows.
    let mut saved = 0;
    for (slots, picture) in pictures.take_while(|(slots, _)| slots.start <= slot) {
        let Some(picture) = picture else { continue };
        if slots.contains(&slot) {
            return picture.position(slots.start - saved, slot - slots.start);
        }
        saved += slots.len() - picture.positions();
    }
    Row::text_position((slot - saved) as u32)
}

/// What identifies the rows of a tower: a digest of its weights and its computation. It is hashed again for every row, so the description of
/// the computation, some 50 KB, is hashed once only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TowerIdentity([u8; 16]);

impl TowerIdentity {
    pub(crate) fn new(facts: &[&[u8]]) -> Self {
        Self(Key::part_of(facts, 0).to_le_bytes())
    }
}

/// What identifies a picture among those for one tower. The scaled pixels alone do not: a wide and a high picture of one color give the
/// same column of squares, and other rows in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureIdentity {
    digest: PixelDigest,
    layout: PictureLayout,
}

/// Identity of a picture of a request.
pub(crate) type PictureId = ScopedContent<PictureIdentity>;

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
                let PictureIdentity { digest, layout } = picture.identity;
                let content = [&tower.0[..], digest.as_bytes(), &layout.to_bytes()];
                keys.extend((0..run.len()).map(|part| Key::part_of(&content, part as u32)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use cairn_testkit::tower::{TowerKind, TowerSpec};

    use super::*;

    fn picture(value: u8) -> PromptPicture {
        grid_picture(value, Grid { rows: 1, columns: 2 }, false)
    }

    fn grid_picture(value: u8, grid: Grid, has_places: bool) -> PromptPicture {
        let pixels = Picture::new(1, 1, vec![value; 3]).expect("one pixel");
        let identity = PictureIdentity { digest: pixels.digest(), layout: grid.into() };
        let (pixels, rows) = (Arc::new(MEMORY.store(pixels).expect("three bytes fit")), grid.groups());
        PromptPicture { pixels, identity, size: [1, 1], rows, is_causal: has_places, has_places }
    }

    #[test]
    fn positions_behind_a_picture_continue_behind_its_longer_side() {
        let [wide, high] = [[2, 3], [4, 1]].map(|[rows, columns]| grid_picture(1, Grid { rows, columns }, true));
        let slots = [2..8, 9..13];
        let at = |slot| position(slot, slots.iter().zip([Some(&wide), Some(&high)]));
        let found: Vec<[u32; 4]> = (0..15).map(at).collect();
        let text = |position| [position, position, position, 0];
        let first = [[2, 2, 2, 0], [2, 2, 3, 0], [2, 2, 4, 0], [2, 3, 2, 0], [2, 3, 3, 0], [2, 3, 4, 0]];
        let second = [[6, 6, 6, 0], [6, 7, 6, 0], [6, 8, 6, 0], [6, 9, 6, 0]];
        let expected = [&[text(0), text(1)][..], &first, &[text(5)], &second, &[text(10), text(11)]].concat();
        assert_eq!(found, expected, "time, row and column");
        let flat = grid_picture(1, Grid { rows: 2, columns: 3 }, false);
        assert_eq!(position(9, [(&(2..8), Some(&flat))].into_iter()), text(9), "rows without places count one by one");
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
        let pictures = [[1, 3], [3, 1]].map(|[rows, columns]| grid_picture(1, Grid { rows, columns }, true));
        let mut prompt = vec![1, a, a, 2, b, b, b, 3];
        remove_cut_pictures(&mut prompt, &pictures);
        assert_eq!(prompt, [1, 2, b, b, b, 3], "whole pictures stay");
        let mut text = vec![1, 2, 2, 2];
        remove_cut_pictures(&mut text, &pictures);
        assert_eq!(text, [1, 2, 2, 2], "tokens stay");
    }

    #[test]
    fn keys_identify_pixels_and_tower_and_not_the_number() {
        let keys = |prompt: &[u32], pictures: &[PromptPicture], tower: &[u8]| {
            let mut keys = Vec::new();
            extend_keys(&mut keys, prompt, pictures, Some(&TowerIdentity::new(&[tower])));
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

    #[test]
    fn pictures_with_the_same_pixels_in_another_order_are_not_the_same() {
        let kind = TowerKind::Llava {
            has_class: true,
            sizes: vec![48, 24, 24, 48, 72, 24],
            has_norms: false,
            has_newline: true,
        };
        let file = TowerSpec { kind, ..TowerSpec::tiny_llava(16) }.write();
        let head = cairn_gguf::Gguf::parse(&file).expect("a written file is read");
        let (tower, _) = cairn_models::vision::check(&head, 16).expect("the tower is whole");
        // The color of the border.
        let of = |width: u32, height: u32| {
            let pixels = [0; 3].repeat((width * height) as usize);
            let picture = Picture::new(width, height, pixels).expect("the bytes fit the size");
            PromptPicture::new(&picture, &tower).expect("the tower has a size")
        };
        let key = |picture: &PromptPicture| {
            let mut keys = Vec::new();
            extend_keys(&mut keys, &[FIRST_PICTURE], slice::from_ref(picture), Some(&TowerIdentity::new(&[b"tower"])));
            keys
        };
        let wide = of(48, 24);
        assert_eq!(wide.rows(), 36 + 6 * 13, "six lines of twelve columns");
        assert!(wide.fits(&tower), "the picture is for the tower");
        for (width, height, rows) in [(24, 48, 36 + 12 * 7), (48, 16, 36 + 4 * 13)] {
            let other = of(width, height);
            assert_eq!(other.rows(), rows, "{width} x {height}");
            assert_eq!(other.identity.digest, wide.identity.digest, "{width} x {height}: the same pixels");
            assert_ne!(other.identity, wide.identity, "{width} x {height}: another identity");
            assert_ne!(key(&other), key(&wide), "{width} x {height}: another key");
        }
        let large = of(96, 48);
        assert_eq!((large.identity, key(&large)), (wide.identity, key(&wide)), "the same picture of another size");
        assert!(!PromptPicture { size: [48, 16], ..wide.clone() }.fits(&tower), "another layout");
        let without_breaks = TowerHparams { break_row: None, ..tower.clone() };
        assert!(!wide.fits(&without_breaks), "another number of rows");
    }
}
