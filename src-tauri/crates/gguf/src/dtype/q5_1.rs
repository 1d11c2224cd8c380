//! Q5_1: 32 values of 5 bits with one scale and one minimum; the fifth bits are stored separately.
//!
//! ```text
//! byte  0   2   4       8                 24
//!       +---+---+-------+------------------+     d, m: f16, h: u32, bit i of h belongs to element i
//!       | d | m |   h   | b0 b1 ...    b15 |     x[i]      = (b[i] & 15 | h[i] << 4) * d + m          i = 0..16
//!       +---+---+-------+------------------+     x[i + 16] = (b[i] >> 4 | h[i + 16] << 4) * d + m
//! ```

use half::f16;

use super::importance::{eight_blocks, mean_square};
use super::lanes::join;
use super::minimum_search::Search;
use super::q5_0;
use super::scales::{grid_above_minimum, scale};
use super::unpacked::UnpackedRow;

const BLOCK: usize = 32;
const BYTES: usize = 24;

/// Decodes blocks. Each 5-bit quant is a nibble and a bit of the word `h`.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let m = scale([block[2], block[3]]);
        let h = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        let fifth = |i: usize| ((h >> i & 1) << 4) as u8;
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for (i, ((&b, low), high)) in block[8..].iter().zip(low).zip(high).enumerate() {
            *low = d * f32::from(b & 15 | fifth(i)) + m;
            *high = d * f32::from(b >> 4 | fifth(i + 16)) + m;
        }
    }
}

/// Appends the scale, the minimum and the values of five bits.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let rest = row.push_scale(block);
    let quants = row.push_minimum_scale(rest);
    row.push_five_bits(quants, 0);
}

/// Spreads the grid from the least element to the greatest.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let (head, q) = grid_above_minimum(x, 31);
        out.extend(head);
        q5_0::pack(&q, out);
    }
}

/// Searches each block's scale and minimum for the least error, weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    let spread = mean_square(x);
    for blocks in eight_blocks(x, importance, move |_| spread) {
        let (scales, minima, quants) = Search::weighted(31.0, 0.0).best(&blocks.x, &blocks.weights);
        let heads = scales.0.iter().zip(minima.0);
        for ((scale, minimum), q) in heads.zip(join(&quants).as_chunks::<BLOCK>().0).take(blocks.count) {
            out.extend(f16::from_f32(*scale).to_le_bytes());
            // A minimum of zero is stored without a sign.
            out.extend(f16::from_f32(0.0 - minimum).to_le_bytes());
            q5_0::pack(q, out);
        }
    }
}
