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

use half::f16;

use super::corners;
use super::grid_search::{GridSearch, Reselection, SubBlock, four_bit_scales};
use super::grids::{IQ2_S, entry, odd, signed};
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
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

/// The scale of the scales is made smaller than it would have to be, which leaves less error on the whole.
const REDUCED: f32 = 0.9875;

static SEARCH: GridSearch<8> =
    GridSearch { corners: &corners::IQ2_S, top: 2, tries: 9, step: 0.1, smallest: 1e-8, again: Reselection::OffGrid };

/// Searches each sub-block's scale and vectors of the grid for the least error, weighted by importance, then makes 4-bit
/// integers of the scales.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, 2.0 * mean_square(x));
        let subs: [SubBlock; BLOCK / 16] = SEARCH.sub_blocks::<16, _>(x, &weights, false);
        let (d, scales) = four_bit_scales(&subs).unwrap_or_default();
        let pairs = || {
            subs.iter().map(|sub| {
                let [first, second, ..] = sub.indices;
                [first, second]
            })
        };
        out.extend(f16::from_f32(d * REDUCED).to_le_bytes());
        out.extend(pairs().flatten().map(|index| index as u8));
        out.extend(subs.iter().flat_map(|sub| sub.signs.into_iter().take(2)));
        let highs = pairs().map(|[first, second]| (first >> 8 | (second >> 8) << 2) as u8);
        let highs = highs.collect::<Vec<u8>>();
        out.extend(highs.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4));
        out.extend(scales.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4));
    }
}
