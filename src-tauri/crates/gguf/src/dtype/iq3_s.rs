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

use half::f16;

use super::corners;
use super::grid_search::{GridSearch, Reselection, SubBlock, four_bit_scales};
use super::grids::{IQ3_S, entry, odd, signed};
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
use super::scales::scale;

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

/// Elements that share a scale.
const SUB: usize = 32;
/// The scale of the scales is made larger than it would have to be, which leaves less error on the whole.
const ENLARGED: f32 = 1.033;

static SEARCH: GridSearch<4> = GridSearch {
    corners: &corners::IQ3_S,
    top: 7,
    tries: 9,
    step: 0.2,
    smallest: f32::from_bits(1),
    again: Reselection::AllIfOffGrid,
};

/// Searches each sub-block's scale and vectors of the grid for the least error, weighted by the elements' squares, then makes
/// 4-bit integers of the scales; ggml does the same.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        pack(x, &x.map(|x| x * x), out);
    }
}

/// Like [`encode`], with errors weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        pack(x, &block_weights(x, importance, 2.0 * mean_square(x)), out);
    }
}

fn pack(x: &[f32; BLOCK], weights: &[f32; BLOCK], out: &mut Vec<u8>) {
    let subs: [SubBlock; BLOCK / SUB] = SEARCH.sub_blocks::<SUB, _>(x, weights, false);
    let (d, scales) = four_bit_scales(&subs).unwrap_or_default();
    let indices = || subs.iter().flat_map(|sub| sub.indices);
    out.extend(f16::from_f32(d * ENLARGED).to_le_bytes());
    out.extend(indices().map(|index| index as u8));
    out.extend(subs.iter().map(|sub| sub.indices.iter().rev().fold(0, |bits, index| bits << 1 | (index >> 8) as u8)));
    out.extend(subs.iter().flat_map(|sub| sub.signs));
    out.extend(scales.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4));
}
