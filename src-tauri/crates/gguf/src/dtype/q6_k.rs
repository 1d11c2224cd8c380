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

use super::{largest, scale};

const BLOCK: usize = 256;
const BYTES: usize = 210;
const HALF: usize = BLOCK / 2;
/// Elements that share a scale.
const SUB: usize = 16;
/// Quants are -32 to 31 before their offset is added.
const LOWEST: f32 = -32.0;
/// Below this magnitude a sub-block counts as all zero, as in ggml (`GROUP_MAX_EPS`).
const ZERO: f32 = 1e-15;

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

/// Searches each sub-block's scale for the least weighted error, quantises the sixteen scales to 8 bits, then rounds
/// every element on the grid that results; ggml's reference encoder without an importance matrix does the same.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        encode_block(x, out);
    }
}

fn encode_block(x: &[f32; BLOCK], out: &mut Vec<u8>) {
    let subs = x.as_chunks::<SUB>().0;
    let mut wanted = [0.0f32; BLOCK / SUB];
    let mut q = [0u8; BLOCK];
    for ((wanted, q), sub) in wanted.iter_mut().zip(q.as_chunks_mut::<SUB>().0).zip(subs) {
        (*wanted, *q) = best_scale(sub);
    }
    let max = largest(&wanted);
    if max.abs() < ZERO {
        out.extend([0; BYTES]);
        return;
    }

    // The scale of the largest magnitude becomes -128, the end of int8 that reaches further.
    let inverse = -128.0 / max;
    let d = f16::from_f32(1.0 / inverse);
    let scales = wanted.map(|scale| (inverse * scale).round_ties_even().min(127.0) as i8);

    for ((q, sub), &scale) in q.as_chunks_mut::<SUB>().0.iter_mut().zip(subs).zip(&scales) {
        let step = d.to_f32() * f32::from(scale);
        // A step of zero decodes to zero whatever the quants, so the ones found above may stay.
        if step != 0.0 {
            *q = quantise(sub, |x| x / step);
        }
    }
    pack(&q, out);
    out.extend(scales.map(|scale| scale as u8));
    out.extend(d.to_le_bytes());
}

/// The nearest level of the grid, -32 to 31; ties go to the even one.
fn level(x: f32) -> f32 {
    x.round_ties_even().clamp(LOWEST, -LOWEST - 1.0)
}

/// The quants, 0 to 63, of elements that `to_grid` brings to the grid.
fn quantise(x: &[f32; SUB], to_grid: impl Fn(f32) -> f32) -> [u8; SUB] {
    x.map(|x| (level(to_grid(x)) - LOWEST) as u8)
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

/// The scale that leaves the least error weighted by `x * x`, of the nineteen grids that put the element of the largest
/// magnitude at 32 +- 0.9 steps below zero, and the quants of that grid. For fixed quants the best scale is
/// `sum(w x q) / sum(w q q)`.
fn best_scale(x: &[f32; SUB]) -> (f32, [u8; SUB]) {
    let max = largest(x);
    if max.abs() < ZERO {
        return (0.0, [0; SUB]);
    }
    let sums = |inverse: f32| {
        x.iter().fold((0.0f32, 0.0f32), |(xq, qq), &x| {
            let q = level(inverse * x);
            let weight = x * x;
            (xq + weight * x * q, qq + weight * q * q)
        })
    };
    let mut inverse = LOWEST / max;
    let (xq, qq) = sums(inverse);
    let mut scale = if qq == 0.0 { 0.0 } else { xq / qq };
    let mut best = scale * xq;
    for tenths in (-9i8..=9).filter(|&tenths| tenths != 0) {
        let candidate = -(-LOWEST + 0.1 * f32::from(tenths)) / max;
        let (xq, qq) = sums(candidate);
        if qq > 0.0 && xq * xq > best * qq {
            (inverse, scale) = (candidate, xq / qq);
            best = scale * xq;
        }
    }
    (scale, quantise(x, |x| inverse * x))
}
