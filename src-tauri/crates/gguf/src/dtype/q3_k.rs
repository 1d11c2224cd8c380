//! Q3_K: 256 values of 3 bits in sixteen sub-blocks of 16, each with a 6-bit scale.
//!
//! ```text
//! byte  0            32                   96       108 110
//!       +------------+--------------------+--------+---+     d: f16
//!       | third bits | two low bits each  | scales | d |     x = (d * (scale - 32)) * (q - 4)
//!       +------------+--------------------+--------+---+
//!
//! scales    bits 0-3                 bits 4-5
//! byte l    of j = l, j = 8 + l                                         l = 0..8
//! byte 8+l                           of j = l, 4 + l, 8 + l, 12 + l     l = 0..4
//! ```
//!
//! Bit `g` of byte `l` of the third bits belongs to element `32 g + l`.

use super::integers::Integers;
use super::{scale, two_bits};

const BYTES: usize = 110;

/// Joins the bits of scales and quants and takes their offsets off.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let (thirds, rest) = block.split_first_chunk::<32>().expect("a block is longer than its third bits");
    let (lows, rest) = rest.split_first_chunk().expect("64 bytes of low bits follow");
    let (packed, d) = rest.split_first_chunk::<12>().expect("twelve bytes of scales follow");

    let mut out = Integers::new(scale(*d.first_chunk().expect("two bytes of the scale follow")));
    out.quants = two_bits::unpack(lows);
    for (g, quants) in out.quants.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (q, third) in quants.iter_mut().zip(thirds) {
            *q += ((third >> g & 1) << 2) as i8 - 4;
        }
    }
    let (lows, highs) = packed.split_at(8);
    let lows = lows.iter().map(|byte| byte & 15).chain(lows.iter().map(|byte| byte >> 4));
    let highs = (0..4).flat_map(|pair| highs.iter().map(move |byte| byte >> (2 * pair) & 3));
    for (out, (low, high)) in out.scales.iter_mut().zip(lows.zip(highs)) {
        *out = (low | high << 4) as i8 - 32;
    }
    out
}
