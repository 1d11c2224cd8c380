//! Q4_0: 32 values of 4 bits with one scale.
//!
//! ```text
//! byte  0   2                 18
//!       +---+------------------+     d: f16
//!       | d | b0 b1 ...    b15 |     x[i]      = ((b[i] & 15) - 8) * d      i = 0..16
//!       +---+------------------+     x[i + 16] = ((b[i] >> 4) - 8) * d
//! ```

use half::f16;

use super::importance::{eight_blocks, mean_square};
use super::lanes::join;
use super::scales::{largest, scale};
use super::symmetric_search::best_scales;
use super::unpacked::UnpackedRow;

const BLOCK: usize = 32;
const BYTES: usize = 18;

/// Low nibbles give the first half of a block, high nibbles the second.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for ((&b, low), high) in block[2..].iter().zip(low).zip(high) {
            *low = d * f32::from((b & 15) as i8 - 8);
            *high = d * f32::from((b >> 4) as i8 - 8);
        }
    }
}

/// Appends the scale and the nibbles, each less 8.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let quants = row.push_scale(block);
    row.push_nibbles(quants, |nibble| nibble as i8 - 8);
}

/// Maps the element of the largest magnitude to -8, whatever its sign, because the grid reaches further down than up.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let d = largest(x) / -8.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        let quantise = |x: &f32| ((x * inverse + 8.5) as u8).min(15);
        let (low, high) = x.split_at(BLOCK / 2);
        out.extend(f16::from_f32(d).to_le_bytes());
        out.extend(low.iter().zip(high).map(|(low, high)| quantise(low) | quantise(high) << 4));
    }
}

/// Searches each block's scale for the least error, weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    let spread = mean_square(x);
    for blocks in eight_blocks(x, importance, move |_| spread) {
        let (scales, quants) = best_scales(&blocks.x, &blocks.weights, 8.0);
        for (scale, q) in scales.0.iter().zip(join(&quants).as_chunks::<BLOCK>().0).take(blocks.count) {
            let (low, high) = q.split_at(BLOCK / 2);
            out.extend(f16::from_f32(*scale).to_le_bytes());
            out.extend(low.iter().zip(high).map(|(low, high)| low | high << 4));
        }
    }
}
