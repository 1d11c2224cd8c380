//! Q4_1: 32 values of 4 bits with one scale and one minimum.
//!
//! ```text
//! byte  0   2   4                 20
//!       +---+---+------------------+     d, m: f16
//!       | d | m | b0 b1 ...    b15 |     x[i]      = (b[i] & 15) * d + m      i = 0..16
//!       +---+---+------------------+     x[i + 16] = (b[i] >> 4) * d + m
//! ```

use half::f16;

use super::importance::{eight_blocks, mean_square};
use super::lanes::join;
use super::minimum_search::Search;
use super::scales::{grid_above_minimum, scale};
use super::unpacked::UnpackedRow;

const BLOCK: usize = 32;
const BYTES: usize = 20;

/// Low nibbles give the first half of a block, high nibbles the second.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let m = scale([block[2], block[3]]);
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for ((&b, low), high) in block[4..].iter().zip(low).zip(high) {
            *low = d * f32::from(b & 15) + m;
            *high = d * f32::from(b >> 4) + m;
        }
    }
}

/// Appends the scale, the minimum and the nibbles.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let rest = row.push_scale(block);
    let quants = row.push_minimum_scale(rest);
    row.push_nibbles(quants, |nibble| nibble as i8);
}

/// Spreads the grid from the least element to the greatest.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let (head, q) = grid_above_minimum(x, 15);
        let (low, high) = q.split_at(BLOCK / 2);
        out.extend(head);
        out.extend(low.iter().zip(high).map(|(low, high)| low | high << 4));
    }
}

/// Searches each block's scale and minimum for the least error, weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    let spread = mean_square(x);
    for blocks in eight_blocks(x, importance, move |_| spread) {
        let (scales, minima, quants) = Search::weighted(15.0, 0.0).best(&blocks.x, &blocks.weights);
        let heads = scales.0.iter().zip(minima.0);
        for ((scale, minimum), q) in heads.zip(join(&quants).as_chunks::<BLOCK>().0).take(blocks.count) {
            out.extend(f16::from_f32(*scale).to_le_bytes());
            // A minimum of zero is stored without a sign.
            out.extend(f16::from_f32(0.0 - minimum).to_le_bytes());
            let (low, high) = q.split_at(BLOCK / 2);
            out.extend(low.iter().zip(high).map(|(low, high)| low | high << 4));
        }
    }
}
