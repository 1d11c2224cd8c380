//! IQ1_M: 256 values as 32 vectors of a grid of 2048, each moved by an eighth, with a 3-bit scale for each 16 values.
//!
//! ```text
//! byte  0                  32               48            56
//!       +------------------+----------------+-------------+
//!       | 32 indices       | 32 nibbles     | 4 x u16     |     x = d * (2 s + 1) * (grid[index][i] +- 1/8)
//!       +------------------+----------------+-------------+       = (d / 8) * (2 s + 1) * (8 * grid[index][i] +- 1)
//! nibble  bits 0..3 the high bits of the index, bit 3 set where an eighth is taken off; the low one first
//! u16     bits 3 j.. the scale s of 16 elements, j = 0..4; bits 12.. a quarter of the bits of d, an f16, the lowest first
//! ```

use super::grids::odd;
use super::integers::Integers;
use super::iq1_s;
use super::scales::scale;

const BYTES: usize = 56;

/// Gathers the block's scale, looks the vectors up and moves them.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let words = block[48..].as_chunks().0.iter().map(|&word| u16::from_le_bytes(word));
    let d = words.clone().rev().fold(0, |d, word| d << 4 | word >> 12);
    let mut out = Integers::new(scale(d.to_le_bytes()) / 8.0);
    for (scales, word) in out.scales.as_chunks_mut().0.iter_mut().zip(words) {
        *scales = [0, 3, 6, 9].map(|shift| odd((word >> shift & 7).into()));
    }
    let nibbles = block[32..48].iter().flat_map(|&byte| [byte & 15, byte >> 4]);
    for ((quants, &low), nibble) in out.quants.as_chunks_mut().0.iter_mut().zip(&block[..32]).zip(nibbles) {
        *quants = iq1_s::moved(u16::from(low) | u16::from(nibble & 7) << 8, nibble >> 3 == 1);
    }
    out
}
