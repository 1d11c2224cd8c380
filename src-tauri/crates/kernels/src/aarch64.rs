//! The variants for 64-bit ARM.
//!
//! Byte products are signed here, so weights are unpacked to signed bytes, offsets taken off, and all variants share the
//! unpacking, the paths for one column ([`decode`]) and for several ([`prefill`]) and the float arithmetic ([`lanes`]).
//! What a variant adds is its [`Dot`]: the instruction that multiplies sixteen weights with sixteen activations.

mod decode;
mod dotprod;
mod lanes;
mod memory;
mod neon;
mod panel;
mod prefill;
mod quants;

use std::arch::aarch64::*;

use cairn_gguf::DType;

pub(crate) use dotprod::DOTPROD;
pub(crate) use neon::NEON;
pub(crate) use panel::Panel;

use crate::block::{Iq4Nl, Iq4Xs, Kind, Mxfp4, Q4K, Q5K, Q6K, Q40, Q41, Q50, Q51, Q80};
use crate::matmul::MatMul;

/// Products of signed bytes.
trait Dot {
    /// Adds sixteen products to four sums. Which sum takes which products is up to the variant: only their total counts.
    fn dot(sums: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t;
}

/// Products of quantised weights. Types without vector kernels take the scalar path, which gives the same bits.
#[inline]
#[target_feature(enable = "neon")]
fn quantised<D: Dot>(mut m: MatMul<'_>) {
    match m.dtype {
        DType::Q8_0 => typed::<Q80, D>(&mut m),
        DType::Q4_0 => typed::<Q40, D>(&mut m),
        DType::Q5_0 => typed::<Q50, D>(&mut m),
        DType::Q4_1 => typed::<Q41, D>(&mut m),
        DType::Q5_1 => typed::<Q51, D>(&mut m),
        DType::IQ4_NL => typed::<Iq4Nl, D>(&mut m),
        DType::IQ4_XS => typed::<Iq4Xs, D>(&mut m),
        DType::MXFP4 => typed::<Mxfp4, D>(&mut m),
        DType::Q4_K => typed::<Q4K, D>(&mut m),
        DType::Q5_K => typed::<Q5K, D>(&mut m),
        DType::Q6_K => typed::<Q6K, D>(&mut m),
        _ => crate::scalar::quantised(m),
    }
}

#[target_feature(enable = "neon")]
fn typed<T: Kind, D: Dot>(m: &mut MatMul<'_>) {
    match (m.columns.count, T::BLOCK) {
        (1, 32) => decode::blocks_32::<T, D>(m),
        (1, _) => decode::blocks_256::<T, D>(m),
        _ => prefill::matmul::<T, D>(m),
    }
}

/// Partial sums of 32 products.
#[inline]
#[target_feature(enable = "neon")]
fn dot_32<D: Dot>(w: [int8x16_t; 2], a: [int8x16_t; 2]) -> int32x4_t {
    D::dot(D::dot(vdupq_n_s32(0), w[0], a[0]), w[1], a[1])
}

/// Partial sums of eight products of `i16`: a block's minima with the sums of its activations.
#[inline]
#[target_feature(enable = "neon")]
fn dot_minima(minima: int16x8_t, sums: int16x8_t) -> int32x4_t {
    vmlal_high_s16(vmull_s16(vget_low_s16(minima), vget_low_s16(sums)), minima, sums)
}

/// Two sums over 16 elements make one over the 32 of a sub-block.
#[inline]
#[target_feature(enable = "neon")]
fn sums_by_32(sums: &[u8; 32]) -> int16x8_t {
    let [low, high] = memory::load_pair(sums);
    vpaddq_s16(vreinterpretq_s16_s8(low), vreinterpretq_s16_s8(high))
}

/// The total of each row's partial sums, lanes being rows.
#[inline]
#[target_feature(enable = "neon")]
fn totals([a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
    vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))
}
