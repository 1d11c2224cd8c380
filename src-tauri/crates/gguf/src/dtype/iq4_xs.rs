//! IQ4_XS: 256 values of 4 bits in eight sub-blocks of 32 on the non-linear grid [`IQ4`], each with a signed 6-bit scale.
//!
//! ```text
//! byte  0   2    4    8                         136
//!       +---+----+----+-------------------------+     d: f16, h: u16, l: 4 bytes
//!       | d | h  | l  | 8 x 16 bytes of nibbles |     x = (d * (scale - 32)) * IQ4[nibble]
//!       +---+----+----+-------------------------+
//! ```
//!
//! The scale of sub-block `j` is nibble `j % 2` of `l[j / 2]` below bits `2j` and `2j + 1` of `h`. Its first sixteen
//! elements are the low nibbles of its bytes, the others the high ones.

use super::codebook::{IQ4, pair};
use super::importance::{block_weights, mean_square};
use super::iq4_nl::nibbles;
use super::iq4_search::{best_scales, indices, inverse};
use super::lanes::{Lanes, SubBlocks, join, nearest, part};
use super::scales::{largest, scale};
use super::unpacked::UnpackedRow;
use half::f16;

const BLOCK: usize = 256;
const BYTES: usize = 136;

/// Looks up each sub-block's nibbles and applies its scale.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let high_bits = u16::from_le_bytes([block[2], block[3]]);
        let low_bits = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        let subs = block[8..].as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<32>().0);
        for (j, (bytes, out)) in subs.enumerate() {
            let sub_scale = (low_bits >> (4 * j) & 15) as i8 | ((high_bits >> (2 * j) & 3) << 4) as i8;
            let d = d * f32::from(sub_scale - 32);
            let (low, high) = out.split_at_mut(16);
            for ((&b, low), high) in bytes.iter().zip(low).zip(high) {
                [*low, *high] = pair(&IQ4, b).map(|value| d * value);
            }
        }
    }
}

/// Appends the scales and the grid's values.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let rest = row.push_scale(block);
    let (high_bits, rest) = rest.split_first_chunk().expect("two bytes of high bits follow the scale");
    let (low_bits, quants) = rest.split_first_chunk().expect("four bytes of low bits follow");
    let (high_bits, low_bits) = (u16::from_le_bytes(*high_bits), u32::from_le_bytes(*low_bits));
    for (j, bytes) in quants.as_chunks::<16>().0.iter().enumerate() {
        let sub_scale = (low_bits >> (4 * j) & 15) as i32 | i32::from(high_bits >> (2 * j) & 3) << 4;
        row.sub_scales.extend([sub_scale - 32; 2]);
        row.push_indices(bytes, &IQ4);
    }
}

/// Searches each sub-block's scale for the least error, weighted by the elements' squares.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let x = part(x);
        pack(&x, &x.map(|x| x * x), out);
    }
}

/// Like [`encode`], with errors weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        pack(&part(x), &part(&block_weights(x, importance, 2.0 * mean_square(x))), out);
    }
}

/// Makes 6-bit integers of the sub-blocks' best scales and looks the nearest grid points up. The scale of the scales that is
/// stored is rounded, the one that divides is not.
fn pack(x: &SubBlocks<8, 32>, weights: &SubBlocks<8, 32>, out: &mut Vec<u8>) {
    let wanted = best_scales(x, weights);
    // The scale of the largest magnitude becomes -32, where the range reaches further.
    let d = -largest(&wanted.0) / 32.0;
    let inverted = if d == 0.0 { 0.0 } else { 1.0 / d };
    let scales = wanted.map(|wanted| nearest(inverted * wanted).clamp(-32.0, 31.0));
    let inverse = inverse(Lanes::all(d) * scales);
    let q = join(&x.map(|x| indices(inverse * x)));
    let scales = scales.0.map(|scale| (scale + 32.0) as u8);
    let high_bits = scales.iter().rev().fold(0u16, |bits, scale| bits << 2 | u16::from(scale >> 4));
    let low_bits = scales.iter().rev().fold(0u32, |bits, scale| bits << 4 | u32::from(scale & 15));
    out.extend(f16::from_f32(d).to_le_bytes());
    out.extend(high_bits.to_le_bytes());
    out.extend(low_bits.to_le_bytes());
    out.extend(q.as_chunks::<32>().0.iter().flat_map(nibbles));
}
