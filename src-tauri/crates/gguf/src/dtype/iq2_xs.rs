//! IQ2_XS: 256 values as 32 vectors of a grid of 512, with seven bits of signs each and a 4-bit scale for every two.
//!
//! ```text
//! byte  0   2                          66            74
//!       +---+--------------------------+-------------+     d: f16
//!       | d | 32 x u16                 | scales      |     x = (d / 8) * (2 s + 1) * (+- grid[index][i])
//!       +---+--------------------------+-------------+
//! u16   bits 0..9 index, 9..16 signs          scales: a nibble for each 16 elements, the low one first
//! ```

use half::f16;

use super::corners;
use super::grid_search::{GridSearch, Reselection, SubBlock, four_bit_scales};
use super::grids::{IQ2_XS, eight_signs, entry, odd, signed};
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
use super::scales::{SMALLEST, scale};

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

static SEARCH: GridSearch<8> = GridSearch {
    corners: &corners::IQ2_XS,
    top: 2,
    tries: 9,
    step: 0.1,
    smallest: SMALLEST,
    again: Reselection::OffGrid,
};

/// Searches each sub-block's scale and vectors of the grid for the least error, weighted by importance, then makes 4-bit
/// integers of the scales.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, mean_square(x));
        let subs: [SubBlock; BLOCK / 16] = SEARCH.sub_blocks::<16, _>(x, &weights, true);
        let Some((d, scales)) = four_bit_scales(&subs) else {
            out.extend([0; BYTES]);
            continue;
        };
        out.extend(f16::from_f32(d).to_le_bytes());
        for (index, signs) in subs.iter().flat_map(|sub| sub.indices.into_iter().zip(sub.signs).take(2)) {
            out.extend((index | u16::from(signs) << 9).to_le_bytes());
        }
        out.extend(scales.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4));
    }
}
