//! Q3_K: 256 values of 3 bits in sixteen sub-blocks of 16, each with a 6-bit scale.
//!
//! ```text
//! byte  0            32                   96       108 110
//!       +------------+--------------------+--------+---+     d: f16
//!       | third bits | two low bits each  | scales | d |     x = (d * (scale - 32)) * (q - 4)
//!       +------------+--------------------+--------+---+
//!
//! scales    bits 0-3                 bits 4-5
//! byte l    of j = l, j = 8 + l                                         l = 0..8
//! byte 8+l                           of j = l, 4 + l, 8 + l, 12 + l     l = 0..4
//! ```
//!
//! Bit `g` of byte `l` of the third bits belongs to element `32 g + l`.

use half::f16;

use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers};
use super::lanes::{Lanes, SubBlocks, join, nearest, part};
use super::scales::{SMALLEST, largest, scale};
use super::symmetric_search::best_scales;
use super::two_bits;

const BYTES: usize = 110;

/// Joins the bits of scales and quants and takes their offsets off.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let (thirds, rest) = block.split_first_chunk::<32>().expect("a block is longer than its third bits");
    let (lows, rest) = rest.split_first_chunk().expect("64 bytes of low bits follow");
    let (packed, d) = rest.split_first_chunk::<12>().expect("twelve bytes of scales follow");

    let mut out = Integers::new(scale(*d.first_chunk().expect("two bytes of the scale follow")));
    out.quants = two_bits::unpack(lows);
    for (g, quants) in out.quants.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (q, third) in quants.iter_mut().zip(thirds) {
            *q += ((third >> g & 1) << 2) as i8 - 4;
        }
    }
    let (lows, highs) = packed.split_at(8);
    let lows = lows.iter().map(|byte| byte & 15).chain(lows.iter().map(|byte| byte >> 4));
    let highs = (0..4).flat_map(|pair| highs.iter().map(move |byte| byte >> (2 * pair) & 3));
    for (out, (low, high)) in out.scales.iter_mut().zip(lows.zip(highs)) {
        *out = (low | high << 4) as i8 - 32;
    }
    out
}

/// Quants are -4 to 3 before their offset is added.
const LOWEST: f32 = -4.0;
const HIGHEST: f32 = 3.0;
/// Number of passes of the search over the elements of a sub-block.
const ROUNDS: usize = 5;

/// Searches each sub-block's scale for the least weighted error, makes 6-bit integers of the scales, and rounds each element
/// to the grid that results.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let x = part::<16, 16>(x);
        let (wanted, quants) = refined_scales(&x);
        // The scale of the largest magnitude becomes -32, where the range reaches further.
        let max = largest(&wanted.0);
        let inverse = if max == 0.0 { 0.0 } else { -32.0 / max };
        let d = f16::from_f32(if max == 0.0 { 0.0 } else { 1.0 / inverse });
        let scales = if max == 0.0 {
            // Scale bits of zero, which mean -32, as ggml writes them.
            [0; 16]
        } else {
            wanted.0.map(|wanted| (nearest(inverse * wanted).clamp(-32.0, 31.0) + 32.0) as u8)
        };
        pack(&x, d, scales, quants, out);
    }
}

/// Like [`encode`], with errors weighted by importance. The integers of the scales are searched too, with the sums of their
/// sub-blocks' weights.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = part::<16, 16>(&block_weights(x, importance, 2.0 * mean_square(x)));
        let x = part::<16, 16>(x);
        let (wanted, quants) = best_scales(&x, &weights, -LOWEST);
        let sums = weights.iter().fold(Lanes::all(0.0), |sum, &w| sum + w);
        let (Lanes([d]), scales) =
            best_scales(&wanted.0.map(|wanted| Lanes([wanted])), &sums.0.map(|sum| Lanes([sum])), 32.0);
        pack(&x, f16::from_f32(d), scales.map(|Lanes([scale])| scale as u8), quants, out);
    }
}

/// Rounds each element to the grid of the integer scales and appends the block.
fn pack(x: &SubBlocks<16, 16>, d: f16, scales: [u8; 16], mut quants: SubBlocks<16, 16>, out: &mut Vec<u8>) {
    let step = Lanes(scales.map(|scale| d.to_f32() * (f32::from(scale) - 32.0)));
    // A step of zero decodes to zero whatever the quants, so the ones found above may stay.
    let empty = step.equal(Lanes::all(0.0));
    for (q, &x) in quants.iter_mut().zip(x) {
        *q = q.or(empty, (x / step).level(LOWEST, HIGHEST) - Lanes::all(LOWEST));
    }
    let quants = join(&quants);

    let mut thirds = [0u8; 32];
    for (g, q) in quants.as_chunks::<32>().0.iter().enumerate() {
        for (third, q) in thirds.iter_mut().zip(q) {
            *third |= (q >> 2) << g;
        }
    }
    out.extend(thirds);
    out.extend(two_bits::pack(&quants.map(|q| q & 3)));
    out.extend(pack_scales(scales));
    out.extend(d.to_le_bytes());
}

/// The twelve bytes of sixteen scales, each 0 to 63.
fn pack_scales(scales: [u8; 16]) -> impl Iterator<Item = u8> {
    let low = move |l: usize| scales.into_iter().skip(l).step_by(8).rev().fold(0, |byte, scale| byte << 4 | scale & 15);
    let high =
        move |l: usize| scales.into_iter().skip(l).step_by(4).rev().fold(0, |byte, scale| byte << 2 | scale >> 4);
    (0..8).map(low).chain((0..4).map(high))
}

/// Each sub-block's best scale, and its quants with their offset.
///
/// For fixed quants the best scale is `sum(w x q) / sum(w q q)`, with the weights `w = x * x`. From the grid that the element of
/// the largest magnitude spans, one element after the other goes to the level that is best for the others' scale, if
/// that leaves a smaller error, until nothing changes.
fn refined_scales(x: &SubBlocks<16, 16>) -> (Lanes<16>, SubBlocks<16, 16>) {
    let zero = Lanes::all(0.0);
    let max = x.iter().fold(zero, |max, &x| max.largest(x));
    let empty = Lanes::all(SMALLEST).above(max.map(f32::abs));
    let inverse = Lanes::all(LOWEST) / max;
    let mut quants = x.map(|x| (inverse * x).level(LOWEST, HIGHEST));
    let (mut sum_xq, mut sum_qq) = (zero, zero);
    for (&x, &q) in x.iter().zip(&quants) {
        let w = x * x;
        (sum_xq, sum_qq) = (sum_xq + w * x * q, sum_qq + w * q * q);
    }
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (q, &x) in quants.iter_mut().zip(x) {
            let w = x * x;
            let (others_xq, others_qq) = (sum_xq - w * x * *q, sum_qq - w * *q * *q);
            let level = (x * others_qq / others_xq).level(LOWEST, HIGHEST);
            let (xq, qq) = (others_xq + w * x * level, others_qq + w * level * level);
            let moved = others_xq.above(zero).and(level.equal(*q).not()).and(qq.above(zero));
            let better = moved.and((xq * xq * sum_qq).above(sum_xq * sum_xq * qq));
            if better.any() {
                changed = true;
                *q = level.or(better, *q);
                (sum_xq, sum_qq) = (xq.or(better, sum_xq), qq.or(better, sum_qq));
            }
        }
        if !changed {
            break;
        }
    }
    let scale = (sum_xq / sum_qq).or(sum_qq.above(zero), zero);
    (zero.or(empty, scale), quants.map(|q| zero.or(empty, q - Lanes::all(LOWEST))))
}
