//! Q6_K: 256 values of 6 bits in sixteen sub-blocks of 16, each with a signed 8-bit scale.
//!
//! ```text
//! byte  0                 128          192      208  210
//!       +-----------------+------------+--------+----+     d: f16, scales: 16 x i8
//!       | low 4 bits      | high 2     | scales | d  |     x = (d * scale) * (q - 32)
//!       +-----------------+------------+--------+----+
//! ```
//!
//! Each half of a block (128 elements) has 64 bytes of low bits, 32 bytes of high bits and 8 scales. Its element
//! `32 g + l` (`g` = 0..4, `l` = 0..32) takes nibble `g / 2` of low byte `32 (g % 2) + l`, bits `2g` and `2g + 1` of
//! high byte `l`, and scale `2g + l / 16`.

use half::f16;

use super::lanes::{Lanes, SubBlocks, join, nearest, part};
use super::scales::{SMALLEST, largest, scale};
use super::symmetric_search::best_scales;
use super::unpacked::UnpackedRow;

const BLOCK: usize = 256;
const BYTES: usize = 210;
const HALF: usize = BLOCK / 2;
/// Elements that share a scale.
const SUB: usize = 16;
/// Quants are -32 to 31 before their offset is added.
const LOWEST: f32 = -32.0;
const HIGHEST: f32 = 31.0;

/// Joins low and high bits, then applies the sub-blocks' scales.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[208], block[209]]);
        let lows = block[..128].as_chunks::<64>().0;
        let highs = block[128..192].as_chunks::<32>().0;
        let scales = block[192..208].as_chunks::<8>().0;
        for (((low, high), scales), out) in lows.iter().zip(highs).zip(scales).zip(out.as_chunks_mut::<HALF>().0) {
            for (g, (out, scales)) in out.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks::<2>().0).enumerate()
            {
                let low = low.iter().cycle().skip(32 * (g % 2));
                let scales = scales.iter().flat_map(|&s| std::iter::repeat_n(d * f32::from(s as i8), SUB));
                for (((&low, &high), scale), out) in low.zip(high).zip(scales).zip(out) {
                    let q = low >> (4 * (g / 2)) & 15 | (high >> (2 * g) & 3) << 4;
                    *out = scale * f32::from(q as i8 - 32);
                }
            }
        }
    }
}

/// Appends the scales and the joined bits, each less 32.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let block = block.first_chunk::<BYTES>().expect("a whole block");
    row.scales.push(scale([block[208], block[209]]));
    row.sub_scales.extend(block[192..208].iter().map(|&scale| i32::from(scale as i8)));
    let lows = block[..128].as_chunks::<64>().0;
    for (low, high) in lows.iter().zip(block[128..192].as_chunks::<32>().0) {
        for g in 0..4 {
            let low = low.iter().cycle().skip(32 * (g % 2));
            let joined = low.zip(high).map(|(low, high)| low >> (4 * (g / 2)) & 15 | (high >> (2 * g) & 3) << 4);
            row.quants.extend(joined.map(|q| q as i8 - 32));
        }
    }
}

/// Searches each sub-block's scale for the least weighted error, quantises the sixteen scales to 8 bits, then rounds
/// every element on the grid that results; ggml's reference encoder does the same.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let x = part(x);
        encode_block(&x, &x.map(|x| x * x), out);
    }
}

/// Like [`encode`], with errors weighted by importance, whatever the elements' magnitudes.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        encode_block(&part(x), &part(importance), out);
    }
}

fn encode_block(x: &SubBlocks<16, 16>, weights: &SubBlocks<16, 16>, out: &mut Vec<u8>) {
    let (wanted, mut quants) = best_scales(x, weights, -LOWEST);
    let max = largest(&wanted.0);
    if max.abs() < SMALLEST {
        out.extend([0; BYTES]);
        return;
    }

    // The scale of the largest magnitude becomes -128, the end of int8 that reaches further.
    let inverse = -128.0 / max;
    let d = f16::from_f32(1.0 / inverse);
    let scales = wanted.0.map(|scale| nearest(inverse * scale).clamp(-128.0, 127.0) as i8);

    let step = Lanes(scales.map(|scale| d.to_f32() * f32::from(scale)));
    // A step of zero decodes to zero whatever the quants, so the ones found above may stay.
    let empty = step.equal(Lanes::all(0.0));
    for (q, &x) in quants.iter_mut().zip(x) {
        *q = q.or(empty, (x / step).level(LOWEST, HIGHEST) - Lanes::all(LOWEST));
    }
    pack(&join(&quants), out);
    out.extend(scales.map(|scale| scale as u8));
    out.extend(d.to_le_bytes());
}

/// Appends low bits of both halves, then high bits of both halves.
fn pack(q: &[u8; BLOCK], out: &mut Vec<u8>) {
    let halves = q.as_chunks::<HALF>().0;
    for half in halves {
        let (first, second) = half.split_at(64);
        out.extend(first.iter().zip(second).map(|(first, second)| first & 15 | (second & 15) << 4));
    }
    for half in halves {
        let mut high = [0u8; 32];
        for (g, group) in half.as_chunks::<32>().0.iter().enumerate() {
            for (high, q) in high.iter_mut().zip(group) {
                *high |= (q >> 4) << (2 * g);
            }
        }
        out.extend(high);
    }
}
