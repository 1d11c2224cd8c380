//! IQ1_S: 256 values as 32 vectors of a grid of 2048, moved by an eighth, with a 3-bit scale for each 32 values.
//!
//! ```text
//! byte  0   2                  34                 50
//!       +---+------------------+------------------+     d: f16
//!       | d | 32 indices       | 8 x u16          |     x = d * (2 s + 1) * (grid[index][i] +- 1/8)
//!       +---+------------------+------------------+       = (d / 8) * (2 s + 1) * (8 * grid[index][i] +- 1)
//! u16   bits 3 j.. the high bits of index j, bits 12..15 s, bit 15 set where an eighth is taken off
//! ```

use super::grids::{IQ1, entry, odd};
use super::integers::Integers;
use super::scales::scale;

const BYTES: usize = 50;

/// Looks the vectors up and moves them.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]) / 8.0);
    let words = block[34..].as_chunks().0.iter().map(|&word| u16::from_le_bytes(word));
    let groups = out.quants.as_chunks_mut::<32>().0.iter_mut().zip(out.scales.as_chunks_mut::<2>().0);
    for ((word, lows), (quants, scales)) in words.zip(block[2..34].as_chunks::<4>().0).zip(groups) {
        *scales = [odd((word >> 12 & 7).into()); 2];
        for (j, (quants, &low)) in quants.as_chunks_mut().0.iter_mut().zip(lows).enumerate() {
            *quants = moved(u16::from(low) | (word >> (3 * j) & 7) << 8, word >> 15 == 1);
        }
    }
    out
}

/// Returns the grid vector `index`, multiplied by 8, minus 1 if `down` and plus 1 otherwise.
pub(super) fn moved(index: u16, down: bool) -> [i8; 8] {
    entry(&IQ1, index).map(|level| 8 * level + if down { -1 } else { 1 })
}
