//! IQ4_NL: 32 values of 4 bits with one scale, on the non-linear grid [`IQ4`].
//!
//! ```text
//! byte  0   2                 18
//!       +---+------------------+     d: f16
//!       | d | b0 b1 ...    b15 |     x[i]      = IQ4[b[i] & 15] * d      i = 0..16
//!       +---+------------------+     x[i + 16] = IQ4[b[i] >> 4] * d
//! ```

use super::codebook::{IQ4, pair};
use super::importance::{eight_blocks, mean_square};
use super::integers;
use super::iq4_search::{best_scales, indices, inverse};
use super::lanes::{SubBlocks, join, part};
use super::scales::scale;
use super::unpacked::UnpackedRow;
use half::f16;

const BLOCK: usize = 32;
const BYTES: usize = 18;

/// Decodes blocks: each nibble is an index into the grid. Low nibbles are the first half of a block, high nibbles the
/// second.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for ((&b, low), high) in block[2..].iter().zip(low).zip(high) {
            [*low, *high] = pair(&IQ4, b).map(|value| d * value);
        }
    }
}

/// Appends the scale and the grid's values.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let quants = row.push_scale(block);
    row.push_indices(quants, &IQ4);
}

/// Searches each block's scale for the least weighted error, of eight blocks at once, with zeros for those beyond the end.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.chunks(integers::BLOCK) {
        let mut blocks = [0.0; integers::BLOCK];
        for (block, &x) in blocks.iter_mut().zip(x) {
            *block = x;
        }
        let blocks = part::<8, BLOCK>(&blocks);
        pack(&blocks, &blocks.map(|x| x * x), x.len() / BLOCK, out);
    }
}

/// Like [`encode`], with errors weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for blocks in eight_blocks(x, importance, |x| 2.0 * mean_square(x)) {
        pack(&blocks.x, &blocks.weights, blocks.count, out);
    }
}

/// Appends the first `count` of eight blocks.
fn pack(x: &SubBlocks<8, BLOCK>, weights: &SubBlocks<8, BLOCK>, count: usize, out: &mut Vec<u8>) {
    let scales = best_scales(x, weights);
    let inverse = inverse(scales);
    let q = join(&x.map(|x| indices(inverse * x)));
    for (scale, q) in scales.0.iter().zip(q.as_chunks::<BLOCK>().0).take(count) {
        out.extend(f16::from_f32(*scale).to_le_bytes());
        out.extend(nibbles(q));
    }
}

/// Packs the 4-bit indices of 32 elements into 16 bytes.
pub(super) fn nibbles(q: &[u8; BLOCK]) -> impl Iterator<Item = u8> {
    let (low, high) = q.split_at(BLOCK / 2);
    low.iter().zip(high).map(|(low, high)| low | high << 4)
}
