//! IQ2_XXS: 256 values in groups of 32, each four vectors of a grid of 256, with 28 bits of signs and a 4-bit scale.
//!
//! ```text
//! byte  0   2                                66
//!       +---+------------+------------+------+     d: f16
//!       | d | group 0    | group 1    | ...  |     x = (d / 8) * (2 s + 1) * (+- grid[index][i])
//!       +---+------------+------------+------+
//! group 0..4 four indices | 4..8 a u32: bits 7 j.. the signs of vector j, bits 28.. s
//! ```

use super::grids::{IQ2_XXS, eight_signs, entry, odd, signed};
use super::integers::Integers;
use super::scales::scale;

const BYTES: usize = 66;

/// Looks the vectors up and applies their signs.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]) / 8.0);
    let groups = out.quants.as_chunks_mut::<32>().0.iter_mut().zip(out.scales.as_chunks_mut::<2>().0);
    for (&[i0, i1, i2, i3, ref signs @ ..], (quants, scales)) in block[2..].as_chunks::<8>().0.iter().zip(groups) {
        let signs = u32::from_le_bytes(*signs);
        *scales = [odd(signs >> 28); 2];
        for (j, (quants, index)) in quants.as_chunks_mut().0.iter_mut().zip([i0, i1, i2, i3]).enumerate() {
            *quants = signed(entry(&IQ2_XXS, index.into()), eight_signs(signs >> (7 * j)));
        }
    }
    out
}
