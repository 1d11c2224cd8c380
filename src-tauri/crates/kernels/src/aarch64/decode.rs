//! One column: strips of four rows, block after block, each weight byte read once.
//!
//! Each row's integer products are complete for a block, then four rows are totalled together so that lanes are rows,
//! and one fused multiply-add serves all four.

use std::arch::aarch64::*;

use cairn_gguf::dtype::codebook::half_e8m0;

use super::dot::{Dot, dot_32, dot_minima, sums_by_32, totals};
use super::lanes::halves;
use super::memory::{load_f32x4, load_i8x16, load_pair, load_u16x4, store_f32x4};
use super::quants::weights;
use crate::block::{BlockType, at, iq4_scales, minimum_scale_bits, scale_bits, scales_and_minima};
use crate::matmul::MatMul;

/// Rows computed together.
const STRIP: usize = 4;

/// Types with blocks of 32.
#[target_feature(enable = "neon")]
pub(super) fn blocks_32<T: BlockType, D: Dot>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x32(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows = strip::<T>(m, first, column.values.len());
        let mut acc = vdupq_n_f32(0.0);
        for (block, values) in column.values.iter().enumerate() {
            let a = load_pair(values);
            let mut dots = [vdupq_n_s32(0); STRIP];
            let mut scales = [0; STRIP];
            let mut minima = [0; STRIP];
            for (r, row) in rows.into_iter().enumerate() {
                let block = row[block].as_ref();
                dots[r] = dot_32::<D>(weights::<T>(block, 0), a);
                scales[r] = scale_bits::<T>(block);
                if T::MINIMA {
                    minima[r] = minimum_scale_bits(block);
                }
            }
            let a_scale = f32::from_le_bytes(column.scales[block]);
            acc = vfmaq_f32(acc, vcvtq_f32_s32(totals(dots)), vmulq_n_f32(widened_scales::<T>(scales), a_scale));
            if T::MINIMA {
                let sum = i32::from_le_bytes(column.sums[block]) as f32;
                acc = vfmaq_n_f32(acc, vmulq_n_f32(halves(load_u16x4(&minima)), a_scale), sum);
            }
        }
        write(m, first, acc);
    }
}

/// Multiplies a matrix of a type with 256-element blocks by one column.
#[target_feature(enable = "neon")]
pub(super) fn blocks_256<T: BlockType, D: Dot>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x256(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows = strip::<T>(m, first, column.values.len());
        let mut acc = vdupq_n_f32(0.0);
        for (block, values) in column.values.iter().enumerate() {
            let sums = sums_by_32(&column.sums[block]);
            let mut dots = [vdupq_n_s32(0); STRIP];
            let mut minima = [vdupq_n_s32(0); STRIP];
            let mut scales = [0; STRIP];
            let mut minimum_scales = [0; STRIP];
            for (r, row) in rows.into_iter().enumerate() {
                let bytes = row[block].as_ref();
                scales[r] = scale_bits::<T>(bytes);
                if T::MINIMA {
                    let (sub_scales, sub_minima) = scales_and_minima(bytes);
                    dots[r] = scaled_by_32::<T, D>(bytes, values, widened(sub_scales));
                    minima[r] = dot_minima(widened(sub_minima), sums);
                    minimum_scales[r] = minimum_scale_bits(bytes);
                } else if T::SUB == 32 {
                    dots[r] = scaled_by_32::<T, D>(bytes, values, vmovl_s8(vcreate_s8(iq4_scales(bytes))));
                } else {
                    dots[r] = scaled_by_16::<T, D>(bytes, values);
                }
            }
            let a_scale = f32::from_le_bytes(column.scales[block]);
            let scale = vmulq_n_f32(widened_scales::<T>(scales), a_scale);
            acc = vfmaq_f32(acc, vcvtq_f32_s32(totals(dots)), scale);
            if T::MINIMA {
                let scale = vmulq_n_f32(halves(load_u16x4(&minimum_scales)), a_scale);
                acc = vfmsq_f32(acc, vcvtq_f32_s32(totals(minima)), scale);
            }
        }
        write(m, first, acc);
    }
}

/// The blocks of a strip's rows, repeating the last row past the end. Closures are avoided in functions with
/// target features: they would have them too, and are then not inlined where the library calls them.
#[inline(always)]
fn strip<'a, T: BlockType>(m: &MatMul<'a>, first: usize, blocks: usize) -> [&'a [T::Block]; STRIP] {
    std::array::from_fn(|r| T::blocks(m.row((first + r).min(m.rows - 1)), blocks))
}

/// Partial sums of a block's products, scaled by 32 elements.
#[inline]
#[target_feature(enable = "neon")]
fn scaled_by_32<T: BlockType, D: Dot>(block: &[u8], values: &[u8; 256], scales: int16x8_t) -> int32x4_t {
    let mut dot = vdupq_n_s32(0);
    for (half, scales) in [vmovl_s16(vget_low_s16(scales)), vmovl_high_s16(scales)].into_iter().enumerate() {
        let mut dots = [dot; 4];
        for (i, dot) in dots.iter_mut().enumerate() {
            let sub = 4 * half + i;
            *dot = dot_32::<D>(weights::<T>(block, sub), load_pair(at(values, 32 * sub)));
        }
        dot = add_scaled(dot, dots, scales);
    }
    dot
}

/// Partial sums of a block's products, scaled by 16 elements.
#[inline]
#[target_feature(enable = "neon")]
fn scaled_by_16<T: BlockType, D: Dot>(block: &[u8], values: &[u8; 256]) -> int32x4_t {
    let scales = load_i8x16(at(block, 192));
    let (low, high) = (vmovl_s8(vget_low_s8(scales)), vmovl_high_s8(scales));
    let scales =
        [vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)];
    let zero = vdupq_n_s32(0);
    let mut dot = zero;
    for (quarter, scales) in scales.into_iter().enumerate() {
        let sub = 2 * quarter;
        let (w, a) = (weights::<T>(block, sub), load_pair(at(values, 32 * sub)));
        let (x, b) = (weights::<T>(block, sub + 1), load_pair(at(values, 32 * (sub + 1))));
        let dots =
            [D::dot(zero, w[0], a[0]), D::dot(zero, w[1], a[1]), D::dot(zero, x[0], b[0]), D::dot(zero, x[1], b[1])];
        dot = add_scaled(dot, dots, scales);
    }
    dot
}

/// The values of [`scale_bits`].
#[inline]
#[target_feature(enable = "neon")]
fn widened_scales<T: BlockType>(bits: [u16; STRIP]) -> float32x4_t {
    if T::EXPONENT_SCALE {
        let mut scales = [0.0; STRIP];
        for (scale, bits) in scales.iter_mut().zip(bits) {
            *scale = half_e8m0(bits as u8);
        }
        load_f32x4(&scales)
    } else {
        halves(load_u16x4(&bits))
    }
}

/// Eight unsigned bytes as `i16`.
#[inline]
#[target_feature(enable = "neon")]
fn widened(bytes: u64) -> int16x8_t {
    vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(bytes)))
}

/// Adds four partial sums, each times its lane of `scales`.
#[inline]
#[target_feature(enable = "neon")]
fn add_scaled(acc: int32x4_t, [a, b, c, d]: [int32x4_t; 4], scales: int32x4_t) -> int32x4_t {
    let acc = vmlaq_laneq_s32::<1>(vmlaq_laneq_s32::<0>(acc, a, scales), b, scales);
    vmlaq_laneq_s32::<3>(vmlaq_laneq_s32::<2>(acc, c, scales), d, scales)
}

/// Stores the strip's results but those past the last row.
#[inline]
#[target_feature(enable = "neon")]
fn write(m: &mut MatMul<'_>, first: usize, acc: float32x4_t) {
    let count = STRIP.min(m.rows - first);
    m.out[first..first + count].copy_from_slice(&store_f32x4(acc)[..count]);
}
