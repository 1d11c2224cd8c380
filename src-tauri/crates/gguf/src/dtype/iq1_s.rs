//! IQ1_S: 256 values as 32 vectors of a grid of 2048, moved by an eighth, with a 3-bit scale for each 32 values.
//!
//! ```text
//! byte  0   2                  34                 50
//!       +---+------------------+------------------+     d: f16
//!       | d | 32 indices       | 8 x u16          |     x = d * (2 s + 1) * (grid[index][i] +- 1/8)
//!       +---+------------------+------------------+       = (d / 8) * (2 s + 1) * (8 * grid[index][i] +- 1)
//! u16   bits 3 j.. the high bits of index j, bits 12..15 s, bit 15 set where an eighth is taken off
//! ```

use half::f16;

use super::grids::{IQ1, entry, odd};
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
use super::lanes::nearest;
use super::scales::scale;
use super::ternary_search::{Eight, MOVED, ascending, best_split};

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

/// Elements that share a scale.
const SUB: usize = 32;
/// Below this magnitude a sub-block counts as all zero.
const SMALLEST: f32 = 1e-12;
/// The scale of the scales is made larger than it would have to be, which leaves less error on the whole.
const ENLARGED: f32 = 1.125;

/// A sub-block on the grid.
#[derive(Clone, Copy, Default)]
struct SubBlock {
    scale: f32,
    indices: [u16; SUB / 8],
    down: bool,
}

/// Searches each sub-block's scale, direction and vectors of the grid for the least error, weighted by importance, then makes
/// 3-bit integers of the scales.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, 2.0 * mean_square(x));
        let mut subs = [SubBlock::default(); BLOCK / SUB];
        for (sub, (x, weights)) in subs.iter_mut().zip(x.as_chunks().0.iter().zip(weights.as_chunks().0)) {
            *sub = sub_block(x, weights).unwrap_or_default();
        }
        let max = subs.iter().fold(0.0f32, |max, sub| if sub.scale > max { sub.scale } else { max });
        let d = max / 15.0;
        out.extend(f16::from_f32(d * ENLARGED).to_le_bytes());
        out.extend(subs.iter().flat_map(|sub| sub.indices.map(|index| index as u8)));
        for sub in subs {
            let highs = sub.indices.iter().rev().fold(0, |bits, index| bits << 3 | index >> 8);
            let scale = three_bits(sub.scale, d) | u16::from(sub.down && max > 0.0) << 3;
            out.extend((highs | scale << 12).to_le_bytes());
        }
    }
}

/// The integer of a scale in units of `d`: 0 to 7, which stand for 1, 3, ... 15.
pub(super) fn three_bits(scale: f32, d: f32) -> u16 {
    if d == 0.0 {
        return 0;
    }
    nearest(0.5 * ((1.0 / d) * scale - 1.0)).clamp(0.0, 7.0) as u16
}

/// Returns `None` for a sub-block without magnitude or weight.
#[expect(clippy::indexing_slicing, reason = "borders and directions are within the arrays, by the loops' bounds")]
fn sub_block(x: &[f32; SUB], weights: &[f32; SUB]) -> Option<SubBlock> {
    let largest = x.iter().fold(0.0f32, |max, x| if x.abs() > max { x.abs() } else { max });
    if largest < SMALLEST {
        return None;
    }
    let order = ascending(x);
    let (mut sum_x, mut sum_w) = ([0.0f32; SUB + 1], [0.0f32; SUB + 1]);
    for (place, &at) in order.iter().enumerate() {
        sum_x[place + 1] = sum_x[place] + weights[at] * x[at];
        sum_w[place + 1] = sum_w[place] + weights[at];
    }
    let split = best_split(&order, largest, 2, |first, second, direction| {
        let [low, middle, high] = MOVED[direction];
        let xq = sum_x[first] * low + (sum_x[second] - sum_x[first]) * middle + (sum_x[SUB] - sum_x[second]) * high;
        let qq = sum_w[first] * low * low
            + (sum_w[second] - sum_w[first]) * middle * middle
            + (sum_w[SUB] - sum_w[second]) * high * high;
        (xq, qq)
    })?;
    let values = &MOVED[split.direction];
    let eights = || {
        let pairs = x.as_chunks().0.iter().zip(weights.as_chunks().0);
        pairs.map(move |(x, weights)| Eight { x, weights, values })
    };
    let mut indices = [0; SUB / 8];
    let mut all_on_grid = true;
    for ((index, eight), levels) in indices.iter_mut().zip(eights()).zip(split.levels.as_chunks().0) {
        let (found, on_grid) = eight.vector(levels, split.scale);
        *index = found;
        all_on_grid &= on_grid;
    }
    let mut scale = split.scale;
    if !all_on_grid {
        let (xq, qq) = eights().zip(indices).fold((0.0, 0.0), |sums, (eight, index)| eight.add(sums, index, 1.0));
        if xq > 0.0 && qq > 0.0 {
            scale = xq / qq;
        }
    }
    Some(SubBlock { scale, indices, down: split.direction == 1 })
}
