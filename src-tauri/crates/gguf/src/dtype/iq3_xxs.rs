//! IQ3_XXS: 256 values as 64 vectors of a grid of 256, with 28 bits of signs and a 4-bit scale for each 32 values.
//!
//! ```text
//! byte  0   2                66                    98
//!       +---+----------------+---------------------+     d: f16
//!       | d | 64 indices     | 8 x u32             |     x = (d / 4) * (2 s + 1) * (+- grid[index][i])
//!       +---+----------------+---------------------+
//! u32   bits 7 j.. the signs of vectors 2 j and 2 j + 1, bits 28.. s
//! ```

use half::f16;

use super::corners;
use super::grid_search::{GridSearch, Reselection, SubBlock, four_bit_scales};
use super::grids::{IQ3_XXS, eight_signs, entry, odd, signed};
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
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

/// The scale of the scales is made larger than it would have to be, which leaves less error on the whole.
const ENLARGED: f32 = 1.0125;

static SEARCH: GridSearch<4> = GridSearch {
    corners: &corners::IQ3_XXS,
    top: 7,
    tries: 15,
    step: 0.2,
    smallest: 1e-8,
    again: Reselection::OffGrid,
};

/// Searches each sub-block's scale and vectors of the grid for the least error, weighted by importance, then makes 4-bit
/// integers of the scales.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, 2.0 * mean_square(x));
        let subs: [SubBlock; BLOCK / 32] = SEARCH.sub_blocks::<32, _>(x, &weights, true);
        let Some((d, scales)) = four_bit_scales(&subs) else {
            out.extend([0; BYTES]);
            continue;
        };
        out.extend(f16::from_f32(d * ENLARGED).to_le_bytes());
        out.extend(subs.iter().flat_map(|sub| sub.indices.map(|index| index as u8)));
        for (sub, scale) in subs.iter().zip(scales) {
            out.extend(signs_and_scale(sub.signs, scale).to_le_bytes());
        }
    }
}

/// Joins the lowest seven of every eight signs with a scale of four bits on top.
pub(super) fn signs_and_scale(signs: [u8; 4], scale: u8) -> u32 {
    signs.iter().rev().fold(u32::from(scale), |word, signs| word << 7 | u32::from(signs & 0x7f))
}
