//! Float arithmetic of all variants for ARM: fused multiply-add, and conversions of binary16.
#![expect(unsafe_code, reason = "safe functions with target features are entered from code without them")]

use std::arch::aarch64::*;

use super::memory::{load_f32x4, load_u16x4, load_u16x4_bytes, store_f32x4, store_u16x4};
use crate::compiled::fused;
use crate::portable::arith::{LANES, Lanes};

/// Four floats, a quarter of [`Lanes`].
type Quarter = [f32; 4];

/// Used only in functions that [`crate::compiled`] compiles with `neon`.
pub(super) struct FusedArith;
fused! {}

#[inline]
#[target_feature(enable = "neon")]
fn fma_lanes(a: &Lanes, b: &Lanes, c: &mut Lanes) {
    for ((a, b), c) in quarters(a).iter().zip(quarters(b)).zip(c.as_chunks_mut().0) {
        *c = store_f32x4(vfmaq_f32(load_f32x4(c), load_f32x4(a), load_f32x4(b)));
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn fma_splat(a: f32, b: &Lanes, c: &mut Lanes) {
    for (b, c) in quarters(b).iter().zip(c.as_chunks_mut().0) {
        *c = store_f32x4(vfmaq_n_f32(load_f32x4(c), load_f32x4(b), a));
    }
}

#[inline(always)]
fn quarters(x: &Lanes) -> &[Quarter] {
    x.as_chunks().0
}

/// Four binary16 as floats.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn halves(x: uint16x4_t) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(x))
}

#[inline]
#[target_feature(enable = "neon")]
fn read_f16(bytes: &[u8; 2 * LANES]) -> Lanes {
    let mut out = [0.0; LANES];
    for (out, bytes) in out.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
        *out = store_f32x4(halves(load_u16x4_bytes(bytes)));
    }
    out
}

#[inline]
#[target_feature(enable = "neon")]
fn read_bf16(bytes: &[u8; 2 * LANES]) -> Lanes {
    let mut out = [0.0; LANES];
    for (out, bytes) in out.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
        *out = store_f32x4(vreinterpretq_f32_u32(vshll_n_u16::<16>(load_u16x4_bytes(bytes))));
    }
    out
}

#[inline]
#[target_feature(enable = "neon")]
fn widen(half: &[u16; LANES]) -> Lanes {
    let mut out = [0.0; LANES];
    for (out, half) in out.as_chunks_mut().0.iter_mut().zip(half.as_chunks().0) {
        *out = store_f32x4(halves(load_u16x4(half)));
    }
    out
}

#[inline]
#[target_feature(enable = "neon")]
fn narrow(x: &Lanes) -> [u16; LANES] {
    let mut out = [0; LANES];
    for (out, x) in out.as_chunks_mut().0.iter_mut().zip(quarters(x)) {
        *out = store_u16x4(vreinterpret_u16_f16(vcvt_f16_f32(load_f32x4(x))));
    }
    out
}

/// Four by four halfwords at a time.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_f16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
    let mut out = [[0.0; LANES]; LANES];
    for (group, rows) in rows.as_chunks::<4>().0.iter().enumerate() {
        for (part, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut loaded = [vdup_n_u16(0); 4];
            for (loaded, row) in loaded.iter_mut().zip(rows) {
                *loaded = load_u16x4_bytes(&row.as_chunks().0[part]);
            }
            for (out, column) in out.iter_mut().zip(transpose_4(loaded)) {
                out.as_chunks_mut().0[group] = store_f32x4(halves(column));
            }
        }
    }
    out
}

/// Four rows of four halfwords, transposed.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_4([a, b, c, d]: [uint16x4_t; 4]) -> [uint16x4_t; 4] {
    let (ab, ab_odd) = (vreinterpret_u32_u16(vtrn1_u16(a, b)), vreinterpret_u32_u16(vtrn2_u16(a, b)));
    let (cd, cd_odd) = (vreinterpret_u32_u16(vtrn1_u16(c, d)), vreinterpret_u32_u16(vtrn2_u16(c, d)));
    [
        vreinterpret_u16_u32(vtrn1_u32(ab, cd)),
        vreinterpret_u16_u32(vtrn1_u32(ab_odd, cd_odd)),
        vreinterpret_u16_u32(vtrn2_u32(ab, cd)),
        vreinterpret_u16_u32(vtrn2_u32(ab_odd, cd_odd)),
    ]
}
