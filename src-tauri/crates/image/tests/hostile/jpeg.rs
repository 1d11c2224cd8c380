//! JPEG files (ITU-T T.81, annex B). A file is a list of segments: marker, length, parameters.

use super::Case;

/// A segment.
fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    [&[0xff, marker][..], &(data.len() as u16 + 2).to_be_bytes(), data].concat()
}

/// A frame header. Components are the sampling factors of each color. The marker 0xc0 is baseline, 0xc2 progressive.
fn frame(marker: u8, width: u16, height: u16, sampling: &[u8]) -> Vec<u8> {
    let components = (1..=255).zip(sampling).flat_map(|(id, factors)| [id, *factors, 0]);
    let head = [&[8][..], &height.to_be_bytes(), &width.to_be_bytes(), &[sampling.len() as u8]].concat();
    segment(marker, &head.into_iter().chain(components).collect::<Vec<u8>>())
}

/// Tables: quantisation with ones, and Huffman tables with one code each for the value 0: no difference, and the end of a block.
fn tables() -> Vec<u8> {
    let huffman = |class_and_id: u8| {
        let mut counts = [0; 16];
        counts[0] = 1;
        segment(0xc4, &[&[class_and_id][..], &counts, &[0]].concat())
    };
    [segment(0xdb, &[&[0][..], &[1; 64]].concat()), huffman(0), huffman(0x10)].concat()
}

/// A scan of all components, with zeros as its data.
fn scan(components: u8, spectral: [u8; 3], data: usize) -> Vec<u8> {
    let selectors = (1..=components).flat_map(|id| [id, 0]);
    let head: Vec<u8> = std::iter::once(components).chain(selectors).chain(spectral).collect();
    [segment(0xda, &head), vec![0; data]].concat()
}

fn file(segments: &[Vec<u8>]) -> Vec<u8> {
    [&[0xff, 0xd8][..], &segments.concat(), &[0xff, 0xd9]].concat()
}

/// Each block of a component has two bits: the code of no difference, and the code of the end.
fn whole(width: u16, height: u16) -> Vec<u8> {
    let blocks = usize::from(width).div_ceil(8) * usize::from(height).div_ceil(8) * 3;
    file(&[tables(), frame(0xc0, width, height, &[0x11; 3]), scan(3, [0, 63, 0], blocks / 4 + 16)])
}

pub(super) fn cases() -> Vec<Case> {
    let (baseline, progressive) = (0xc0, 0xc2);
    let first = scan(3, [0, 0, 0], 64);
    let small = || [tables(), frame(baseline, 8, 8, &[0x11; 3]), scan(3, [0, 63, 0], 64)];
    let profile = |part: u8| segment(0xe2, &[b"ICC_PROFILE\0", &[part, 255][..], &[0; 60_000]].concat());
    vec![
        Case::refused_early(
            "65,535 x 65,535 pixels",
            file(&[tables(), frame(baseline, 65_535, 65_535, &[0x11; 3]), scan(3, [0, 63, 0], 64)]),
            "the image has 65535 x 65535 pixels",
        ),
        // The decoder rounds the sides of a gray picture with scaled samples up to whole blocks within 16 bits.
        Case::refused_early(
            "gray samples of 5 x 65,529 pixels",
            file(&[tables(), frame(baseline, 5, 65_529, &[0x22]), scan(1, [0, 63, 0], 64)]),
            "the image has 5 x 65529 pixels",
        ),
        Case::decoded(
            "gray samples of 5 x 65,528 pixels",
            file(&[tables(), frame(baseline, 5, 65_528, &[0x22]), scan(1, [0, 63, 0], 64)]),
        ),
        Case::refused(
            "colors with more samples than the brightness",
            file(&[tables(), frame(baseline, 122, 3, &[0x11, 0x23, 0x11]), scan(1, [0, 63, 0], 64)]),
            "JPEG image cannot be decoded: its decoder failed",
        ),
        Case::decoded("50 million pixels", whole(7071, 7071)),
        Case::refused_early("no frame", file(&[tables(), scan(3, [0, 63, 0], 64)]), "JPEG image cannot be decoded"),
        Case::refused_early("no scan", file(&[tables(), frame(baseline, 7071, 7071, &[0x11; 3])]), "JPEG image"),
        Case::decoded(
            "50 million progressive pixels, of which few exist",
            file(&[tables(), frame(progressive, 7071, 7071, &[0x11; 3]), first.clone()]),
        ),
        Case::decoded(
            "50 million progressive pixels in 32 scans",
            file(&[tables(), frame(progressive, 7071, 7071, &[0x11; 3]), first.repeat(32)]),
        ),
        Case::refused_early(
            "33 scans",
            file(&[tables(), frame(progressive, 7071, 7071, &[0x11; 3]), first.repeat(33)]),
            "it has 33 scans, and at most 32 are decoded",
        ),
        Case::refused_early(
            "33 scans behind a restart marker with an end",
            file(&[
                segment(0xd0, &[0xff, 0xd9]),
                tables(),
                frame(progressive, 7071, 7071, &[0x11; 3]),
                first.repeat(33),
            ]),
            "it has 33 scans, and at most 32 are decoded",
        ),
        Case::refused_early(
            "33 scans behind a segment in a segment",
            file(&[
                segment(0xd0, &[0xff, 0xe1, 0xff, 0xff]),
                tables(),
                frame(progressive, 7071, 7071, &[0x11; 3]),
                first.repeat(33),
            ]),
            "it has 33 scans, and at most 32 are decoded",
        ),
        Case::refused_early(
            "33 scans, the first with a marker that has no length",
            file(&[
                tables(),
                frame(progressive, 7071, 7071, &[0x11; 3]),
                first.clone(),
                vec![0xff, 1, 0xff, 0xff],
                first.repeat(32),
            ]),
            "it has 33 scans, and at most 32 are decoded",
        ),
        Case::decoded(
            "50 million pixels of 4 inks",
            file(&[tables(), frame(baseline, 7071, 7071, &[0x11; 4]), scan(4, [0, 63, 0], 900_000)]),
        ),
        Case::decoded(
            "sampling factors of 4 for one color",
            file(&[tables(), frame(baseline, 7071, 7071, &[0x44, 0x11, 0x11]), scan(3, [0, 63, 0], 64)]),
        ),
        Case::refused_early(
            "255 colors",
            file(&[tables(), frame(baseline, 8, 8, &[0x11; 255]), scan(3, [0, 63, 0], 64)]),
            "JPEG image cannot be decoded",
        ),
        Case::refused_early(
            "no colors",
            file(&[tables(), frame(baseline, 8, 8, &[]), scan(0, [0, 63, 0], 64)]),
            "JPEG image cannot be decoded",
        ),
        Case::refused_early(
            "no rows",
            file(&[tables(), frame(baseline, 8, 0, &[0x11; 3]), scan(3, [0, 63, 0], 64)]),
            "JPEG image cannot be decoded",
        ),
        Case::refused_early(
            "two frames, the second one large",
            file(&[
                tables(),
                frame(baseline, 8, 8, &[0x11; 3]),
                frame(baseline, 65_535, 65_535, &[0x11; 3]),
                scan(3, [0, 63, 0], 64),
            ]),
            "JPEG image cannot be decoded",
        ),
        Case::small("a second frame behind the first scan", {
            file(&[small().concat(), frame(baseline, 65_535, 65_535, &[0x11; 3]), scan(3, [0, 63, 0], 64)])
        }),
        Case::refused(
            "scan without tables",
            file(&[frame(baseline, 8, 8, &[0x11; 3]), scan(3, [0, 63, 0], 64)]),
            "JPEG image cannot be decoded",
        ),
        Case::small("color profile in 255 parts", file(&[(1..=255).flat_map(profile).collect(), small().concat()])),
        Case::small(
            "500 segments of metadata",
            file(&[
                segment(0xe1, &[&b"Exif\0\0II*\0\x08\0\0\0"[..], &[255; 60_000]].concat()).repeat(500),
                small().concat(),
            ]),
        ),
    ]
}
