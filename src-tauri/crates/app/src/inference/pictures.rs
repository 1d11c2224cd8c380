//! Pictures of a conversation: decoded once, and in the prompt at the place of their message.
//!
//! The engine needs a prompt of tokens and pictures, but templates render texts. So each picture has a mark in the text of its
//! message, and the rendered text is divided at the marks before it is encoded. Marks have a random number, so that no text is taken
//! for a picture.

use cairn_image::DecodeError;
use cairn_prompt::{Image, Message};
use cairn_runtime::{Lease, PromptPicture, TowerHparams};

use super::error::Error;
use super::prompt_work::Waiting;

/// Maximum number of pictures of a request. Each is decoded before the context is checked.
const MAX_PICTURES: usize = 256;
/// Maximum number of pixels of all pictures of a request: eight of the largest, or 33 photos of 12 million. A small file can have
/// many pixels, and other requests wait while they are decoded.
const MAX_REQUEST_PIXELS: u64 = 8 * cairn_image::MAX_PIXELS;

/// Maximum bytes of the scaled pixels of a request: half of the memory for those of all requests, which stay until the answer ends.
const MAX_REQUEST_SCALED_BYTES: usize = cairn_runtime::PIXEL_MEMORY_BYTES / 2;

/// The pictures of a conversation.
#[derive(Debug, Clone)]
pub(super) struct Pictures {
    tower: TowerHparams,
    /// Begins and ends each mark.
    mark: String,
    pictures: Vec<PromptPicture>,
    /// Pixels that may still be decoded.
    left_pixels: u64,
    /// Bytes of scaled pixels that may still be added.
    left_scaled_bytes: usize,
}

/// A part of a rendered text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    /// Index of a picture.
    Picture(usize),
}

impl Pictures {
    /// Decodes the images of messages, and puts marks in their place: in front of the message's text, as Ollama does. Returns `None`
    /// if there are none.
    ///
    /// # Errors
    /// When the model cannot see, or an image cannot be decoded. Contains `name` as the model's.
    pub(super) fn place(
        lease: &Lease,
        name: &str,
        messages: &mut [Message],
        waiting: &Waiting,
    ) -> Result<Option<Self>, Error> {
        let images = messages.iter().map(|message| message.images.len()).sum::<usize>();
        if images == 0 {
            return Ok(None);
        }
        let missing = || Error::VisionMissing { model: name.to_owned() };
        let tower = match lease.vision() {
            Ok(tower) => tower.ok_or_else(missing)?,
            Err(reason) => {
                return Err(Error::VisionUnusable { model: name.to_owned(), reason: reason.to_string() });
            }
        };
        if images > MAX_PICTURES {
            return Err(Error::TooManyImages { count: images, max: MAX_PICTURES });
        }
        let mut pictures = Self::new(tower.clone(), new_mark());
        for message in messages {
            let images = std::mem::take(&mut message.images);
            let add = |image| waiting.check().and_then(|()| pictures.add(image));
            let marks: Result<String, Error> = images.iter().map(add).collect();
            message.content.insert_str(0, &marks?);
        }
        Ok(Some(pictures))
    }

    fn new(tower: TowerHparams, mark: String) -> Self {
        Self {
            tower,
            mark,
            pictures: Vec::new(),
            left_pixels: MAX_REQUEST_PIXELS,
            left_scaled_bytes: MAX_REQUEST_SCALED_BYTES,
        }
    }

    /// Adds a picture and returns its mark.
    fn add(&mut self, image: &Image) -> Result<String, Error> {
        let number = self.pictures.len() + 1;
        let refused = |source: DecodeError| match source {
            DecodeError::TooManyPixels { width, height }
                if u64::from(width) * u64::from(height) <= cairn_image::MAX_PIXELS =>
            {
                Error::TooManyPixels { max: MAX_REQUEST_PIXELS }
            }
            source => Error::Image { number, source },
        };
        let picture = cairn_image::decode_within(&image.bytes, self.left_pixels).map_err(refused)?;
        self.left_pixels -= u64::from(picture.width()) * u64::from(picture.height());
        let scaled = PromptPicture::new(&picture, &self.tower)?;
        let left = self.left_scaled_bytes.checked_sub(scaled.pixel_bytes());
        self.left_scaled_bytes = left.ok_or(Error::TooManyPixelBytes { max: MAX_REQUEST_SCALED_BYTES })?;
        self.pictures.push(scaled);
        Ok(format!("{0}{1}{0}", self.mark, number - 1))
    }

    /// Divides a text at the marks.
    pub(super) fn parts<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        for (at, part) in text.split(self.mark.as_str()).enumerate() {
            match part.parse() {
                Ok(index) if at % 2 == 1 && index < self.pictures.len() => parts.push(Part::Picture(index)),
                _ => parts.push(Part::Text(part)),
            }
        }
        parts
    }

    /// Returns a text for readers: with Ollama's tags in place of the marks.
    pub(super) fn readable(&self, text: &str) -> String {
        let part = |part: Part<'_>| match part {
            Part::Text(text) => text.to_owned(),
            Part::Picture(index) => format!("[img-{index}]"),
        };
        self.parts(text).into_iter().map(part).collect()
    }

    /// Encodes a text with marks. `encode` encodes a text; its second argument is true for the beginning of the prompt.
    pub(super) fn encode(&self, text: &str, starts: bool, encode: impl Fn(&str, bool) -> Vec<u32>) -> Vec<u32> {
        let [before, after] = self.tower.prompt.texts;
        let (mut tokens, mut pending, mut is_first) = (Vec::new(), String::new(), starts);
        for part in self.parts(text) {
            match part {
                Part::Text(text) => pending.push_str(text),
                Part::Picture(index) => {
                    pending.push_str(before);
                    tokens.extend(encode(&pending, std::mem::take(&mut is_first)));
                    tokens.extend(std::iter::repeat_n(PromptPicture::number(index), self.pictures[index].rows()));
                    after.clone_into(&mut pending);
                }
            }
        }
        if is_first || !pending.is_empty() {
            tokens.extend(encode(&pending, is_first));
        }
        tokens
    }

    /// The pictures, in the order of their numbers.
    pub(super) fn list(&self) -> &[PromptPicture] {
        &self.pictures
    }
}

/// Returns a mark that no other text has: neither messages nor the texts around them, which a template adds.
fn new_mark() -> String {
    let mut number = [0; 16];
    // Without random numbers, only a text with this mark would be taken for a picture.
    let _ = getrandom::fill(&mut number);
    format!("\u{fffc}{}\u{fffc}", u128::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use cairn_image::{Filter, Picture};
    use cairn_runtime::{PicturePrompt, PictureSize};

    use super::*;

    fn pictures(count: usize) -> Pictures {
        let tower = TowerHparams {
            size: PictureSize::Square(2),
            filter: Filter::Linear,
            patch_size: 1,
            group_size: 1,
            window_size: None,
            frames: 1,
            has_class_row: false,
            embedding_length: 1,
            feed_forward_length: 1,
            layers: 1,
            heads: 1,
            epsilon: 0.0,
            mean: [0.0; 3],
            deviation: [1.0; 3],
            output_length: 1,
            break_row: None,
            prompt: PicturePrompt { texts: ["<", ">"], is_causal: false, has_places: false },
        };
        let pixels = Picture::new(2, 2, vec![0; 12]).expect("four pixels");
        let picture = || PromptPicture::new(&pixels, &tower).expect("the tower's size is not zero");
        let pictures = (0..count).map(|_| picture()).collect();
        Pictures { pictures, ..Pictures::new(tower, "#".to_owned()) }
    }

    /// Tokens are the characters; the beginning of the prompt has a token in front.
    fn encode(text: &str, starts: bool) -> Vec<u32> {
        starts.then_some(1).into_iter().chain(text.chars().map(u32::from)).collect()
    }

    #[test]
    fn pictures_are_encoded_between_their_texts() {
        let tokens = pictures(2).encode("a#0#b#1#", true, encode);
        let text = |text: &str| encode(text, false);
        let rows = |index| vec![PromptPicture::number(index); 4];
        let expected = [vec![1], text("a<"), rows(0), text(">b<"), rows(1), text(">")].concat();
        assert_eq!(tokens, expected, "text and pictures in order");
        assert_eq!(pictures(0).encode("", true, encode), [1], "an empty prompt begins, too");
        assert_eq!(pictures(1).encode("a", false, encode), text("a"), "a text that continues");
    }

    /// A GIF of one pixel.
    const PIXEL: &[u8] =
        b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;";

    #[test]
    fn scaled_pixels_of_a_request_are_limited() {
        // The tower's pictures have four pixels.
        let mut pictures = Pictures { left_scaled_bytes: 30, ..pictures(0) };
        let image = Image { bytes: PIXEL.to_vec() };
        for number in 0..2 {
            assert_eq!(pictures.add(&image).expect("it is within the limit"), format!("#{number}#"));
        }
        let error = pictures.add(&image).expect_err("6 bytes are left").to_string();
        assert!(error.contains("more than 268435456 bytes of pixels") && error.contains("send fewer"), "{error}");
    }

    #[test]
    fn pixels_of_a_request_are_limited() {
        let mut pictures = Pictures { left_pixels: 2, ..pictures(0) };
        let image = Image { bytes: PIXEL.to_vec() };
        for number in 0..2 {
            assert_eq!(pictures.add(&image).expect("it is within the limit"), format!("#{number}#"));
        }
        let error = pictures.add(&image).expect_err("no pixel is left").to_string();
        assert!(error.contains("more than 400000000 pixels together"), "{error}");
        let huge = Image { bytes: [&PIXEL[..6], &[0xff; 4], &PIXEL[10..]].concat() };
        let error = pictures.add(&huge).expect_err("the picture alone is too large").to_string();
        assert!(error.contains("image 3 of the request: the image has 65535 x 65535 pixels"), "{error}");
    }

    #[test]
    fn marks_of_unknown_pictures_are_no_pictures() {
        assert_eq!(pictures(1).readable("x#0#y"), "x[img-0]y", "Ollama's tag");
        for text in ["x#1#y", "x#a#y"] {
            assert!(!pictures(1).parts(text).contains(&Part::Picture(1)), "{text}");
        }
    }
}
