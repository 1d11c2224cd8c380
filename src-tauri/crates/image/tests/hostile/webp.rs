//! WebP files (RFC 9649). A file is a list of chunks: kind, length, data.

use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder};

use super::Case;

/// A chunk that claims to have this number of bytes.
fn claiming(kind: &[u8; 4], bytes: u32, data: &[u8]) -> Vec<u8> {
    let padding = vec![0; data.len() % 2];
    [&kind[..], &bytes.to_le_bytes(), data, &padding].concat()
}

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    claiming(kind, data.len() as u32, data)
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    let chunks = chunks.concat();
    [&b"RIFF"[..], &(chunks.len() as u32 + 4).to_le_bytes(), b"WEBP", &chunks].concat()
}

/// Header of a file with several chunks: its flags and the size of its canvas.
fn extended(flags: u8, width: u32, height: u32) -> Vec<u8> {
    let [width, height] = [width, height].map(|side| (side - 1).to_le_bytes());
    chunk(b"VP8X", &[&[flags, 0, 0, 0][..], &width[..3], &height[..3]].concat())
}

/// The header of a lossless picture of this size, without pixels.
fn lossless_header(width: u32, height: u32) -> Vec<u8> {
    let sizes = (width - 1) | (height - 1) << 14;
    chunk(b"VP8L", &[&[0x2f][..], &sizes.to_le_bytes(), &[0; 4]].concat())
}

/// The header of a lossy picture of this size, without pixels.
fn lossy_header(width: u16, height: u16) -> Vec<u8> {
    let sizes = [width.to_le_bytes(), height.to_le_bytes()].concat();
    chunk(b"VP8 ", &[&[0x10, 0, 0, 0x9d, 0x01, 0x2a][..], &sizes, &[0; 64]].concat())
}

/// The pixels of a lossless picture of one color.
fn lossless(width: u32, height: u32) -> Vec<u8> {
    let mut encoded = Vec::new();
    let pixels = vec![7; width as usize * height as usize * 3];
    let encoder = WebPEncoder::new_lossless(&mut encoded);
    encoder.write_image(&pixels, width, height, ExtendedColorType::Rgb8).expect("the picture has pixels");
    encoded.split_off(12)
}

pub(super) fn cases() -> Vec<Case> {
    const EXIF: u8 = 0x08;
    const PROFILE: u8 = 0x20;
    const ALPHA: u8 = 0x10;
    const ANIMATION: u8 = 0x02;
    let small = lossless(2, 2);
    let frame = |width: u32, picture: &[u8]| {
        let [side, zero] = [(width - 1).to_le_bytes(), [0; 4]];
        chunk(b"ANMF", &[&zero[..3], &zero[..3], &side[..3], &side[..3], &zero, picture].concat())
    };
    let animation = chunk(b"ANIM", &[0; 6]);
    vec![
        Case::refused_early(
            "canvas of 16 million x 200 pixels",
            file(&[extended(0, 1 << 24, 200), small.clone()]),
            "16777216 x 200 pixels",
        ),
        Case::refused_early(
            "canvas of 16 million x 16 million pixels",
            file(&[extended(0, 1 << 24, 1 << 24), small.clone()]),
            "WebP image cannot be decoded",
        ),
        Case::refused_early(
            "lossless picture of 16,383 x 16,383 pixels",
            file(&[lossless_header(16_383, 16_383)]),
            "the image has 16383 x 16383 pixels",
        ),
        Case::refused_early(
            "lossy picture of 16,383 x 16,383 pixels",
            file(&[lossy_header(16_383, 16_383)]),
            "the image has 16383 x 16383 pixels",
        ),
        Case::decoded("50 million lossless pixels in a small file", file(&[lossless(7071, 7071)])),
        Case::refused(
            "header of 50 million lossless pixels only",
            file(&[lossless_header(7071, 7071)]),
            "WebP image cannot be decoded",
        ),
        Case::refused(
            "header of 50 million lossy pixels only",
            file(&[lossy_header(7071, 7071)]),
            "WebP image cannot be decoded",
        ),
        Case::refused(
            "lossless picture that is larger than its canvas",
            file(&[extended(0, 2, 2), lossless_header(16_383, 16_383)]),
            "WebP image cannot be decoded",
        ),
        Case::refused_early(
            "lossy picture that is larger than its canvas",
            file(&[extended(0, 2, 2), lossy_header(16_383, 16_383)]),
            "the image has 16383 x 16383 pixels",
        ),
        Case::refused_early(
            "lossy picture of an animation that is larger than its canvas",
            file(&[extended(ANIMATION, 2, 2), animation.clone(), frame(2, &lossy_header(16_383, 16_383))]),
            "the image has 16383 x 16383 pixels",
        ),
        Case::refused(
            "picture of an animation that is larger than its canvas",
            file(&[extended(ANIMATION, 2, 2), animation.clone(), frame(16_383, &lossless_header(16_383, 16_383))]),
            "WebP image cannot be decoded",
        ),
        Case::small(
            "a hundred thousand pictures of an animation",
            file(&[extended(ANIMATION, 2, 2), animation.clone(), frame(2, &small).repeat(100_000)]),
        ),
        Case::refused_early(
            "animation without pictures",
            file(&[extended(ANIMATION, 2, 2), animation]),
            "WebP image cannot be decoded",
        ),
        Case::small(
            "metadata that claims 1 GiB",
            file(&[extended(EXIF, 2, 2), small.clone(), claiming(b"EXIF", 1 << 30, b"II*\0")]),
        ),
        Case::small(
            "color profile that claims 1 GiB",
            file(&[extended(PROFILE, 2, 2), small.clone(), claiming(b"ICCP", 1 << 30, b"x")]),
        ),
        Case::refused_early(
            "picture that claims 1 GiB",
            file(&[claiming(b"VP8L", 1 << 30, &[0x2f, 1, 0x40, 0, 0, 0])]),
            "WebP image cannot be decoded",
        ),
        Case::refused(
            "transparency without data",
            file(&[extended(ALPHA, 16, 16), chunk(b"ALPH", &[1]), lossy_header(16, 16)]),
            "WebP image cannot be decoded",
        ),
        Case::refused_early("nothing behind the header", file(&[]), "WebP image cannot be decoded"),
    ]
}
