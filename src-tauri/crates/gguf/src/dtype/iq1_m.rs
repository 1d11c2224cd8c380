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

use half::f16;

use super::grids::odd;
use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
use super::iq1_s;
use super::scales::scale;
use super::ternary_search::{Eight, MOVED, ascending, best_split};

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

/// Elements that share a scale.
const SUB: usize = 16;
/// Below this magnitude a sub-block counts as all zero.
const SMALLEST: f32 = 1e-7;
/// The scale of the scales is made larger than it would have to be, which leaves less error on the whole.
const ENLARGED: f32 = 1.1125;

/// A sub-block on the grid.
#[derive(Clone, Copy, Default)]
struct SubBlock {
    scale: f32,
    indices: [u16; 2],
    /// Whether each vector is moved down.
    down: [bool; 2],
}

/// Searches each sub-block's scale, directions and vectors of the grid for the least error, weighted by importance, makes
/// 3-bit integers of the scales, then searches the scale of those.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, 2.0 * mean_square(x));
        let pairs = || x.as_chunks::<SUB>().0.iter().zip(weights.as_chunks::<SUB>().0);
        let mut subs = [SubBlock::default(); BLOCK / SUB];
        for (sub, (x, weights)) in subs.iter_mut().zip(pairs()) {
            *sub = sub_block(x, weights).unwrap_or_default();
        }
        let max = subs.iter().fold(0.0f32, |max, sub| if sub.scale > max { sub.scale } else { max });
        let unrefined = max / 15.0;
        let scales = subs.map(|sub| iq1_s::three_bits(sub.scale, unrefined));
        let mut sums = (0.0, 0.0);
        for ((sub, scale), (x, weights)) in subs.iter().zip(scales).zip(pairs()) {
            let factor = f32::from(2 * scale + 1);
            for (eight, index) in eights(x, weights, sub.down).zip(sub.indices) {
                sums = eight.add(sums, index, factor);
            }
        }
        let d = if max > 0.0 && sums.1 > 0.0 { sums.0 / sums.1 } else { unrefined };
        let d = f16::from_f32(d * ENLARGED).to_bits();
        out.extend(subs.iter().flat_map(|sub| sub.indices.map(|index| index as u8)));
        out.extend(subs.iter().map(|sub| {
            let nibble = |index: u16, down: bool| (index >> 8) as u8 | u8::from(down && max > 0.0) << 3;
            let ([first, second], [first_down, second_down]) = (sub.indices, sub.down);
            nibble(first, first_down) | nibble(second, second_down) << 4
        }));
        for (part, scales) in scales.as_chunks::<4>().0.iter().enumerate() {
            let word = scales.iter().rev().fold(d >> (4 * part) & 15, |word, scale| word << 3 | scale);
            out.extend(word.to_le_bytes());
        }
    }
}

/// The two groups of eight of a sub-block.
fn eights<'a>(x: &'a [f32; SUB], weights: &'a [f32; SUB], down: [bool; 2]) -> impl Iterator<Item = Eight<'a>> {
    let [up_values, down_values] = &MOVED;
    let values = down.map(|down| if down { down_values } else { up_values });
    let pairs = x.as_chunks().0.iter().zip(weights.as_chunks().0);
    pairs.zip(values).map(|((x, weights), values)| Eight { x, weights, values })
}

/// Returns `None` for a sub-block without magnitude or weight.
#[expect(clippy::indexing_slicing, reason = "borders and halves are within the arrays, by the loops' bounds")]
fn sub_block(x: &[f32; SUB], weights: &[f32; SUB]) -> Option<SubBlock> {
    let largest = x.iter().fold(0.0f32, |max, x| if x.abs() > max { x.abs() } else { max });
    if largest < SMALLEST {
        return None;
    }
    let order = ascending(x);
    // Prefix sums of each half, because each can be moved in another direction.
    let (mut sum_x, mut sum_w) = ([[0.0f32; SUB + 1]; 2], [[0.0f32; SUB + 1]; 2]);
    for (place, &at) in order.iter().enumerate() {
        for half in 0..2 {
            let inside = at / (SUB / 2) == half;
            sum_x[half][place + 1] = sum_x[half][place] + if inside { weights[at] * x[at] } else { 0.0 };
            sum_w[half][place + 1] = sum_w[half][place] + if inside { weights[at] } else { 0.0 };
        }
    }
    // Neighbouring levels are one apart, so the sum over three groups becomes one of three terms.
    let half_sums = |half: usize, direction: usize, first: usize, second: usize| {
        let [low, middle, high] = MOVED[direction];
        let (x, w) = (&sum_x[half], &sum_w[half]);
        let xq = x[SUB] * high - (x[first] + x[second]);
        let qq = w[SUB] * high * high
            + w[first] * (low * low - middle * middle)
            + w[second] * (middle * middle - high * high);
        (xq, qq)
    };
    let split = best_split(&order, largest, 4, |first, second, directions| {
        let (first_xq, first_qq) = half_sums(0, directions / 2, first, second);
        let (second_xq, second_qq) = half_sums(1, directions % 2, first, second);
        (first_xq + second_xq, first_qq + second_qq)
    })?;
    let down = [split.direction / 2 == 1, split.direction % 2 == 1];
    let mut indices = [0; 2];
    let mut all_on_grid = true;
    for ((index, eight), levels) in indices.iter_mut().zip(eights(x, weights, down)).zip(split.levels.as_chunks().0) {
        let (found, on_grid) = eight.vector(levels, split.scale);
        *index = found;
        all_on_grid &= on_grid;
    }
    let mut scale = split.scale;
    if !all_on_grid {
        let groups = eights(x, weights, down).zip(indices);
        let (xq, qq) = groups.fold((0.0, 0.0), |sums, (eight, index)| eight.add(sums, index, 1.0));
        if xq > 0.0 && qq > 0.0 {
            scale = xq / qq;
        }
    }
    Some(SubBlock { scale, indices, down })
}
