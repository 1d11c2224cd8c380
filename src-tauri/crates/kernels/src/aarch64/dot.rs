//! Sums of products: the instruction that variants differ in, and what they share.

use std::arch::aarch64::*;

use super::memory;

/// Products of signed bytes.
pub(super) trait Dot {
    /// Adds sixteen products to four sums. Which sum takes which products is up to the variant: only their total counts.
    fn dot(sums: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t;
}

/// Partial sums of 32 products.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn dot_32<D: Dot>(w: [int8x16_t; 2], a: [int8x16_t; 2]) -> int32x4_t {
    D::dot(D::dot(vdupq_n_s32(0), w[0], a[0]), w[1], a[1])
}

/// Partial sums of eight products of `i16`: a block's minima with the sums of its activations.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn dot_minima(minima: int16x8_t, sums: int16x8_t) -> int32x4_t {
    vmlal_high_s16(vmull_s16(vget_low_s16(minima), vget_low_s16(sums)), minima, sums)
}

/// Two sums over 16 elements make one over the 32 of a sub-block.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn sums_by_32(sums: &[u8; 32]) -> int16x8_t {
    let [low, high] = memory::load_pair(sums);
    vpaddq_s16(vreinterpretq_s16_s8(low), vreinterpretq_s16_s8(high))
}

/// The total of each row's partial sums, lanes being rows.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn totals([a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
    vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))
}
