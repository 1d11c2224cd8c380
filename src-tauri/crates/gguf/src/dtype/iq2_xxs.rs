//! IQ2_XXS: 256 values in groups of 32, each four vectors of a grid of 256, with 28 bits of signs and a 4-bit scale.
//!
//! ```text
//! byte  0   2                                66
//!       +---+------------+------------+------+     d: f16
//!       | d | group 0    | group 1    | ...  |     x = (d / 8) * (2 s + 1) * (+- grid[index][i])
//!       +---+------------+------------+------+
//! group 0..4 four indices | 4..8 a u32: bits 7 j.. the signs of vector j, bits 28.. s
//! ```

use half::f16;

use super::corners;
use super::grid_search::{GridSearch, Reselection, SubBlock, four_bit_scales};
use super::grids::{IQ2_XXS, eight_signs, entry, odd, signed};
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
use super::iq3_xxs::signs_and_scale;
use super::scales::{SMALLEST, scale};

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

static SEARCH: GridSearch<8> =
    GridSearch { corners: &corners::IQ2_XXS, top: 2, tries: 6, step: 0.1, smallest: SMALLEST, again: Reselection::All };

/// Searches each group's scale and vectors of the grid for the least error, weighted by importance, then makes 4-bit integers
/// of the scales.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, mean_square(x));
        let subs: [SubBlock; BLOCK / 32] = SEARCH.sub_blocks::<32, _>(x, &weights, true);
        let Some((d, scales)) = four_bit_scales(&subs) else {
            out.extend([0; BYTES]);
            continue;
        };
        out.extend(f16::from_f32(d).to_le_bytes());
        for (sub, scale) in subs.iter().zip(scales) {
            out.extend(sub.indices.iter().take(4).map(|&index| index as u8));
            out.extend(signs_and_scale(sub.signs, scale).to_le_bytes());
        }
    }
}
