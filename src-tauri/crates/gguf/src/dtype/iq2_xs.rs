//! IQ2_XS: 256 values as 32 vectors of a grid of 512, with seven bits of signs each and a 4-bit scale for every two.
//!
//! ```text
//! byte  0   2                          66            74
//!       +---+--------------------------+-------------+     d: f16
//!       | d | 32 x u16                 | scales      |     x = (d / 8) * (2 s + 1) * (+- grid[index][i])
//!       +---+--------------------------+-------------+
//! u16   bits 0..9 index, 9..16 signs          scales: a nibble for each 16 elements, the low one first
//! ```

use super::grids::{IQ2_XS, eight_signs, entry, odd, signed};
use super::integers::Integers;
use super::scales::scale;

const BYTES: usize = 74;

/// Looks the vectors up and applies their signs.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]) / 8.0);
    let words = block[2..66].as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word));
    for (quants, word) in out.quants.as_chunks_mut().0.iter_mut().zip(words) {
        *quants = signed(entry(&IQ2_XS, word & 511), eight_signs((word >> 9).into()));
    }
    for (scales, &byte) in out.scales.as_chunks_mut().0.iter_mut().zip(&block[66..]) {
        *scales = [odd((byte & 15).into()), odd((byte >> 4).into())];
    }
    out
}
