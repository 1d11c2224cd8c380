//! GIF files (GIF89a specification). A file is a screen, and frames on it.

use super::Case;

/// The head of a file: the size of its screen, and a palette of two colors.
fn screen(width: u16, height: u16) -> Vec<u8> {
    [&b"GIF89a"[..], &width.to_le_bytes(), &height.to_le_bytes(), &[0x80, 0, 0, 0, 0, 0, 255, 255, 255]].concat()
}

/// A frame of this size at this place, with LZW codes of this size.
fn frame([left, top, width, height]: [u16; 4], code_size: u8, data: &[u8]) -> Vec<u8> {
    let head = [left, top, width, height].map(u16::to_le_bytes).concat();
    let blocks = data.chunks(255).flat_map(|block| [&[block.len() as u8], block].concat());
    let blocks: Vec<u8> = blocks.collect();
    [&[0x2c][..], &head, &[0, code_size], &blocks, &[0]].concat()
}

/// LZW data of at least so many zeros: each code is the next new one, which is one zero longer than the code before it.
fn zeros(pixels: usize) -> Vec<u8> {
    let (clear, first_new, most) = (4_u64, 6_u64, 4096);
    let (mut bytes, mut pending, mut bits) = (Vec::new(), 0_u64, 0);
    let mut write = |code: u64, width: u32| {
        pending |= code << bits;
        bits += width;
        while bits >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    };
    let mut written = 0;
    while written < pixels {
        // The table of the decoder has as many codes as were written since the last clear code.
        let width = |next: u64| (64 - next.leading_zeros()).clamp(3, 12);
        write(clear, 3);
        write(0, 3);
        let mut next = first_new;
        let mut length = 1;
        written += length;
        while next < most - 1 && written < pixels {
            write(next, width(next));
            next += 1;
            length += 1;
            written += length;
        }
        // The next clear code has the width of the codes before it.
        if written < pixels {
            write(clear, width(next));
        }
    }
    write(5, 12);
    write(0, 12);
    bytes
}

pub(super) fn cases() -> Vec<Case> {
    let end = vec![0x3b];
    let file = |parts: &[Vec<u8>]| [parts.concat(), end.clone()].concat();
    // One pixel: clear code, 0, end code.
    let pixel = [0x44, 0x01];
    let one = frame([0, 0, 1, 1], 2, &pixel);
    let comments = [&[0x21, 0xfe][..], &[&[255; 256][..]; 100_000].concat(), &[0]].concat();
    vec![
        Case::refused_early(
            "screen of 65,535 x 65,535 pixels",
            file(&[screen(65_535, 65_535), one.clone()]),
            "the image has 65535 x 65535 pixels",
        ),
        Case::refused_early("screen without pixels", file(&[screen(0, 0), one.clone()]), "it has no pixels"),
        Case::refused_early(
            "frame of 65,535 x 65,535 pixels on a screen of one",
            file(&[screen(1, 1), frame([0, 0, 65_535, 65_535], 2, &pixel)]),
            "GIF image cannot be decoded",
        ),
        Case::refused(
            "frame of 7,000 x 7,000 pixels on a screen of one",
            file(&[screen(1, 1), frame([0, 0, 7000, 7000], 2, &pixel)]),
            "GIF image cannot be decoded",
        ),
        Case::small("frame beside the screen", file(&[screen(1, 1), frame([65_535, 65_535, 1, 1], 2, &pixel)])),
        Case::decoded("50 million pixels with one pixel of data", file(&[screen(7071, 7071), one.clone()])),
        Case::decoded(
            "50 million pixels in a small file",
            file(&[screen(7071, 7071), frame([0, 0, 7071, 7071], 2, &zeros(7071 * 7071))]),
        ),
        Case::small("a million frames", file(&[screen(1, 1), one.repeat(1_000_000)])),
        Case::small("25 MB of comments", file(&[screen(1, 1), comments, one.clone()])),
        Case::refused_early("no frame", file(&[screen(1, 1)]), "GIF image cannot be decoded"),
        Case::refused_early("codes of 255 bits", file(&[screen(1, 1), frame([0, 0, 1, 1], 255, &pixel)]), "GIF image"),
        Case::refused_early("no end of the data", screen(1, 1), "GIF image cannot be decoded"),
    ]
}
