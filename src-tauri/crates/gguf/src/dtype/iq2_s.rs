//! IQ2_S: 256 values as 32 vectors of a grid of 1024, with eight bits of signs each and a 4-bit scale for every two.
//!
//! ```text
//! byte  0   2             34            66              74            82
//!       +---+-------------+-------------+---------------+-------------+     d: f16
//!       | d | indices     | signs       | high bits     | scales      |     x = (d / 8) * (2 s + 1) * (+- grid[index][i])
//!       +---+-------------+-------------+---------------+-------------+
//! high bits: two for each index above its eight, the lowest first
//! scales: a nibble for each 16 elements, the low one first
//! ```

use super::grids::{IQ2_S, entry, odd, signed};
use super::integers::Integers;
use super::scales::scale;

const BYTES: usize = 82;

/// Unpacks a block. Looks up a grid vector for each 10-bit index and applies its signs.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]) / 8.0);
    let highs = block[66..74].iter().flat_map(|&byte| [0, 2, 4, 6].map(|shift| u16::from(byte >> shift & 3)));
    let indices = block[2..34].iter().zip(highs).map(|(&low, high)| u16::from(low) | high << 8);
    for ((quants, index), &signs) in out.quants.as_chunks_mut().0.iter_mut().zip(indices).zip(&block[34..66]) {
        *quants = signed(entry(&IQ2_S, index), signs);
    }
    for (scales, &byte) in out.scales.as_chunks_mut().0.iter_mut().zip(&block[74..]) {
        *scales = [odd((byte & 15).into()), odd((byte >> 4).into())];
    }
    out
}
