//! IQ3_XXS: 256 values as 64 vectors of a grid of 256, with 28 bits of signs and a 4-bit scale for each 32 values.
//!
//! ```text
//! byte  0   2                66                    98
//!       +---+----------------+---------------------+     d: f16
//!       | d | 64 indices     | 8 x u32             |     x = (d / 4) * (2 s + 1) * (+- grid[index][i])
//!       +---+----------------+---------------------+
//! u32   bits 7 j.. the signs of vectors 2 j and 2 j + 1, bits 28.. s
//! ```

use super::grids::{IQ3_XXS, eight_signs, entry, odd, signed};
use super::integers::Integers;
use super::scales::scale;

const BYTES: usize = 98;

/// Looks the vectors up and applies their signs.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]) / 4.0);
    let words = block[66..].as_chunks().0.iter().map(|&word| u32::from_le_bytes(word));
    for (scales, word) in out.scales.as_chunks_mut().0.iter_mut().zip(words.clone()) {
        *scales = [odd(word >> 28); 2];
    }
    let signs = words.flat_map(|word| [0, 7, 14, 21].map(|shift| eight_signs(word >> shift)));
    let signs = signs.flat_map(|signs| [signs, signs >> 4]);
    for ((quants, &index), signs) in out.quants.as_chunks_mut().0.iter_mut().zip(&block[2..66]).zip(signs) {
        *quants = signed(entry(&IQ3_XXS, index.into()), signs);
    }
    out
}
