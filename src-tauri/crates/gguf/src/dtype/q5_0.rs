//! Q5_0: 32 values of 5 bits with one scale; the fifth bits are stored separately.
//!
//! ```text
//! byte  0   2       6                 22
//!       +---+-------+------------------+     d: f16, h: u32, bit i of h belongs to element i
//!       | d |   h   | b0 b1 ...    b15 |     x[i]      = ((b[i] & 15 | h[i] << 4) - 16) * d          i = 0..16
//!       +---+-------+------------------+     x[i + 16] = ((b[i] >> 4 | h[i + 16] << 4) - 16) * d
//! ```

use half::f16;

use super::importance::{eight_blocks, mean_square};
use super::lanes::join;
use super::scales::{largest, scale};
use super::symmetric_search::best_scales;
use super::unpacked::UnpackedRow;

const BLOCK: usize = 32;
const BYTES: usize = 22;

/// Joins each nibble with its fifth bit.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let h = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        let fifth = |i: usize| ((h >> i & 1) << 4) as u8;
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for (i, ((&b, low), high)) in block[6..].iter().zip(low).zip(high).enumerate() {
            *low = d * f32::from((b & 15 | fifth(i)) as i8 - 16);
            *high = d * f32::from((b >> 4 | fifth(i + 16)) as i8 - 16);
        }
    }
}

/// Appends the scale and the values of five bits, each less 16.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let quants = row.push_scale(block);
    row.push_five_bits(quants, 16);
}

/// Maps the element of the largest magnitude to -16, whatever its sign, because the grid reaches further down than up.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let d = largest(x) / -16.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        let q = x.map(|x| ((x * inverse + 16.5) as u8).min(31));
        out.extend(f16::from_f32(d).to_le_bytes());
        pack(&q, out);
    }
}

/// Searches each block's scale for the least error, weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    let spread = mean_square(x);
    for blocks in eight_blocks(x, importance, move |_| spread) {
        let (scales, quants) = best_scales(&blocks.x, &blocks.weights, 16.0);
        for (scale, q) in scales.0.iter().zip(join(&quants).as_chunks().0).take(blocks.count) {
            out.extend(f16::from_f32(*scale).to_le_bytes());
            pack(q, out);
        }
    }
}

/// Appends the fifth bits of 32 quants, then the other four.
pub(super) fn pack(q: &[u8; BLOCK], out: &mut Vec<u8>) {
    let h = q.iter().rev().fold(0u32, |h, q| h << 1 | u32::from(q >> 4));
    let (low, high) = q.split_at(BLOCK / 2);
    out.extend(h.to_le_bytes());
    out.extend(low.iter().zip(high).map(|(low, high)| low & 15 | high << 4));
}
