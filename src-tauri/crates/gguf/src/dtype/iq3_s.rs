//! IQ3_S: 256 values as 64 vectors of a grid of 512, with eight bits of signs for every two and a 4-bit scale for every
//! eight.
//!
//! ```text
//! byte  0   2             66          74          106      110
//!       +---+-------------+-----------+-----------+--------+     d: f16
//!       | d | 64 indices  | high bits | signs     | scales |     x = d * (2 s + 1) * (+- grid[index][i])
//!       +---+-------------+-----------+-----------+--------+
//! high bits: the ninth bit of each index, the lowest first
//! scales: a nibble for each 32 elements, the low one first
//! ```

use super::grids::{IQ3_S, entry, odd, signed};
use super::integers::Integers;
use super::scale;

const BYTES: usize = 110;

/// Joins the indices, looks the vectors up and applies their signs.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]));
    let ninths = block[66..74].iter().flat_map(|&byte| (0..8).map(move |bit| u16::from(byte >> bit & 1)));
    let indices = block[2..66].iter().zip(ninths).map(|(&low, ninth)| u16::from(low) | ninth << 8);
    let signs = block[74..106].iter().flat_map(|&signs| [signs, signs >> 4]);
    for ((quants, index), signs) in out.quants.as_chunks_mut().0.iter_mut().zip(indices).zip(signs) {
        *quants = signed(entry(&IQ3_S, index), signs);
    }
    for (scales, &byte) in out.scales.as_chunks_mut().0.iter_mut().zip(&block[106..]) {
        let (low, high) = (odd((byte & 15).into()), odd((byte >> 4).into()));
        *scales = [low, low, high, high];
    }
    out
}
