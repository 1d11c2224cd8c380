//! PNG files (PNG specification, third edition). A file is a signature and chunks: length, kind, data, CRC.

use super::Case;

/// Appends a chunk.
fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(kind);
    file.extend(data);
    let sum = crc(&file[start..]);
    file.extend(sum.to_be_bytes());
}

/// The checksum of a chunk (annex D).
fn crc(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256)
        .map(|byte: u32| (0..8).fold(byte, |sum, _| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 }))
        .collect();
    !bytes.iter().fold(u32::MAX, |sum, &byte| table[((sum ^ u32::from(byte)) & 0xff) as usize] ^ (sum >> 8))
}

/// A zlib stream of zeros: some 5 bits of the file for each 100 bytes (RFC 1950, RFC 1951).
fn zeros(bytes: usize) -> Vec<u8> {
    let mut stream = vec![0x78, 0x9c];
    let (mut pending, mut bits) = (0_u64, 0);
    let mut write = |stream: &mut Vec<u8>, value: u64, count: u32| {
        pending |= value << bits;
        bits += count;
        while bits >= 8 {
            stream.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    };
    // The last block, with fixed codes: the literal 0, and then runs of 258 bytes at the distance 1.
    write(&mut stream, 0b011, 3);
    let literals = 1 + (bytes - 1) % 258;
    (0..literals).for_each(|_| write(&mut stream, 0b0000_1100, 8));
    (0..bytes / 258 - usize::from(literals == 258)).for_each(|_| write(&mut stream, 0b1010_0011, 13));
    write(&mut stream, 0, 7 + 7);
    let sum = ((bytes % 65_521) as u32) << 16 | 1;
    stream.extend(sum.to_be_bytes());
    stream
}

/// A file with these chunks between header and end.
fn png(width: u32, height: u32, [depth, color, interlace]: [u8; 3], chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, color, 0, 0, interlace]].concat();
    chunk(&mut file, b"IHDR", &header);
    chunks.iter().for_each(|(kind, data)| chunk(&mut file, kind, data));
    chunk(&mut file, b"IEND", b"");
    file
}

const GRAY: [u8; 3] = [8, 0, 0];
const RGB: [u8; 3] = [8, 2, 0];
const PALETTE: [u8; 3] = [8, 3, 0];

/// Bytes that some streams decompress to.
const BOMB_BYTES: usize = 1 << 30;

pub(super) fn cases() -> Vec<Case> {
    let (pixel, bomb) = (zeros(2), zeros(BOMB_BYTES));
    let many = |kind: &[u8; 4], data: &[u8], count: usize| {
        let mut file = png(1, 1, GRAY, &[]);
        let end = file.split_off(file.len() - 12);
        let mut one = Vec::new();
        chunk(&mut one, kind, data);
        file.extend(one.repeat(count));
        chunk(&mut file, b"IDAT", &pixel);
        [file, end].concat()
    };
    let frames = |width: u32| {
        let numbers = [0, width, width, 0, 0].map(u32::to_be_bytes).concat();
        let control = [&numbers[..], &[0, 1, 0, 1, 0, 0]].concat();
        png(1, 1, GRAY, &[(b"acTL", &[0, 0, 255, 255, 0, 0, 0, 0]), (b"fcTL", &control), (b"IDAT", &pixel)])
    };
    vec![
        Case::refused_early(
            "sides of 4 billion pixels",
            png(u32::MAX, u32::MAX, RGB, &[(b"IDAT", &pixel)]),
            "PNG image",
        ),
        Case::refused_early(
            "65,535 x 65,535 pixels",
            png(65_535, 65_535, RGB, &[(b"IDAT", &pixel)]),
            "the image has 65535 x 65535 pixels",
        ),
        Case::refused_early("a side of 65,536", png(65_536, 1, RGB, &[(b"IDAT", &pixel)]), "65536 x 1 pixels"),
        Case::refused_early("no pixels in a row", png(0, 9, RGB, &[(b"IDAT", &pixel)]), "PNG image cannot be decoded"),
        Case::refused_early(
            "16 bits for each of 4 colors",
            png(7000, 7000, [16, 6, 0], &[(b"IDAT", &pixel)]),
            "the decoded image needs 392000000 bytes",
        ),
        // Its pixels are there once.
        Case {
            most_bytes: 200 << 20,
            ..Case::decoded(
                "50 million pixels in 900 KB",
                png(7071, 7071, RGB, &[(b"IDAT", &zeros(7071 * (7071 * 3 + 1)))]),
            )
        },
        Case::decoded(
            "50 million pixels with transparency",
            png(7071, 7071, [8, 6, 0], &[(b"IDAT", &zeros(7071 * (7071 * 4 + 1)))]),
        ),
        Case::refused("header of 50 million pixels only", png(7071, 7071, RGB, &[]), "PNG image cannot be decoded"),
        Case::refused(
            "50 million interlaced pixels, of which one exists",
            png(7071, 7071, [8, 2, 1], &[(b"IDAT", &pixel)]),
            "PNG image cannot be decoded",
        ),
        Case::small("1 GiB of pixels in a picture of one", png(1, 1, GRAY, &[(b"IDAT", &bomb)])),
        Case::small("text of 1 GiB", png(1, 1, GRAY, &[(b"zTXt", &[b"k\0\0", &bomb[..]].concat()), (b"IDAT", &pixel)])),
        Case::small(
            "color profile of 1 GiB",
            png(1, 1, GRAY, &[(b"iCCP", &[b"k\0\0", &bomb[..]].concat()), (b"IDAT", &pixel)]),
        ),
        Case::small("a million texts", many(b"tEXt", b"k\0v", 1_000_000)),
        Case::small("two million empty chunks", many(b"abCd", b"", 2_000_000)),
        Case::refused_early("palette without entries", png(1, 1, PALETTE, &[(b"IDAT", &pixel)]), "PNG image"),
        Case::refused("no data", png(1, 1, GRAY, &[]), "PNG image cannot be decoded"),
        Case::refused_early("frame that is larger than the picture", frames(60_000), "PNG image cannot be decoded"),
        Case::small("4 billion frames, of which one exists", frames(1)),
    ]
}
