//! AVX-512 with VNNI: Intel servers since Cascade Lake, AMD since Zen 4.
//!
//! `vpdpbusd` adds four products of unsigned and signed bytes to 32 bits without saturating in between, so weights of
//! every type are multiplied as unsigned, and their offset is taken off by the activations' sums.
#![expect(unsafe_code, reason = "safe functions with target features are entered from code without them")]

mod attention;
mod decode;
mod prefill;
mod transpose;

use std::arch::x86_64::*;

use self::attention::{few_queries, scores_f16, values_f16};
use self::transpose::transpose;
use super::avx2::nibbles;
use super::memory::{self, load_f32x16, load_u16x16, load128, load256, load512, store_f32x16};
use crate::attention::{AttendSpan, SPAN_POSITIONS, Softmax};
use crate::block::{BlockType, dispatch, with_block_types};
use crate::compiled::{fused, kernels};
use crate::format::Format;
use crate::matmul::MatMul;
use crate::portable;
use crate::portable::arith::{LANES, Lanes};
use crate::variant::Variant;

/// This variant's row in the table: its name, the revision of its numerics and the features that it needs.
pub(crate) const AVX512_VNNI: Variant = row("avx512-vnni", 1, |features| {
    let avx2 = features.avx2 && features.fma && features.f16c;
    avx2 && features.avx512f && features.avx512bw && features.avx512vl && features.avx512vnni
});

fn require() {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    assert!(avx2 && avx512, "avx512-vnni was called on a processor without it");
}

kernels! { "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni", FusedArith, require, 4 x 4, quantised }

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn quantised(mut m: MatMul<'_>) {
    with_block_types! { dispatch!(m.dtype, T => typed::<T>(&mut m), else crate::scalar::quantised(m)) }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn typed<T: BlockType>(m: &mut MatMul<'_>) {
    match (m.columns.count, T::BLOCK) {
        (1, 32) => decode::blocks_32::<T>(m),
        (1, _) => decode::blocks_256::<T>(m),
        _ => prefill::matmul::<T>(m),
    }
}

/// FusedArith multiply-add and conversions of sixteen lanes. Used only in functions that [`kernels`] compiles with AVX-512.
struct FusedArith;
fused! {
    fn prefetch(bytes: &[u8]);
    fn few_queries() -> usize;
    fn scores_f16(keys: &[u8], q: &[f32], scores: &mut [[f32; SPAN_POSITIONS]], page: usize, next: &[u8]);
    fn values_f16(rows: &[u8], weights: &[&[f32]], acc: &mut [f32]);
    fn read_f32(bytes: &[u8; 4 * LANES]) -> Lanes;
    fn read_i8(bytes: &[u8; LANES], factor: f32) -> Lanes;
    fn nibbles(bytes: &[u8; LANES]) -> [u8; 2 * LANES];
    fn transpose_bf16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES];
    fn transpose_i8(rows: [&[u8; 2 * LANES]; LANES], factors: &Lanes) -> [Lanes; 2 * LANES];
}

#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch(bytes: &[u8]) {
    memory::prefetch(bytes, 0, bytes.len());
}

#[inline]
#[target_feature(enable = "avx512f")]
fn fma_lanes(a: &Lanes, b: &Lanes, c: &mut Lanes) {
    *c = store_f32x16(_mm512_fmadd_ps(load_f32x16(a), load_f32x16(b), load_f32x16(c)));
}

#[inline]
#[target_feature(enable = "avx512f")]
fn fma_splat(a: f32, b: &Lanes, c: &mut Lanes) {
    *c = store_f32x16(_mm512_fmadd_ps(_mm512_set1_ps(a), load_f32x16(b), load_f32x16(c)));
}

#[inline]
#[target_feature(enable = "avx512f")]
fn read_f32(bytes: &[u8; 4 * LANES]) -> Lanes {
    store_f32x16(_mm512_castsi512_ps(load512(bytes)))
}

#[inline]
#[target_feature(enable = "avx2,avx512f")]
fn read_f16(bytes: &[u8; 2 * LANES]) -> Lanes {
    store_f32x16(_mm512_cvtph_ps(load256(bytes)))
}

#[inline]
#[target_feature(enable = "avx2,avx512f")]
fn read_bf16(bytes: &[u8; 2 * LANES]) -> Lanes {
    store_f32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load256(bytes)))))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn read_i8(bytes: &[u8; LANES], factor: f32) -> Lanes {
    let value = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(bytes)));
    store_f32x16(_mm512_mul_ps(value, _mm512_set1_ps(factor)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen(half: &[u16; LANES]) -> Lanes {
    store_f32x16(_mm512_cvtph_ps(load_u16x16(half)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn narrow(x: &Lanes) -> [u16; LANES] {
    let mut out = [0; LANES];
    // SAFETY: `x` refers to 64 readable bytes, and this load needs no alignment.
    let x = unsafe { _mm512_loadu_ps(x.as_ptr()) };
    let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    // SAFETY: `out` is 32 writable bytes, and this store needs no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), half) };
    out
}

/// Returns rows of little-endian binary16 as `f32`, transposed: `out[column][row]`. Transposes pairs of columns as
/// dwords, then splits each pair and widens its elements.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_f16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
    let mut out = [[0.0; LANES]; LANES];
    for (out, dword) in out.as_chunks_mut::<2>().0.iter_mut().zip(transpose(loaded(rows))) {
        out[0] = store_f32x16(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(dword)));
        out[1] = store_f32x16(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(dword))));
    }
    out
}

/// Transposes pairs of columns as dwords, then splits each pair: `out[column][row]`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_bf16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
    let mut out = [[0.0; LANES]; LANES];
    let upper = _mm512_set1_epi32(-0x1_0000);
    for (out, dword) in out.as_chunks_mut::<2>().0.iter_mut().zip(transpose(loaded(rows))) {
        out[0] = store_f32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(dword)));
        out[1] = store_f32x16(_mm512_castsi512_ps(_mm512_and_si512(dword, upper)));
    }
    out
}

/// Transposes groups of four columns as dwords, then splits each group: `out[column][row]`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_i8(rows: [&[u8; 2 * LANES]; LANES], factors: &Lanes) -> [Lanes; 2 * LANES] {
    let factors = load_f32x16(factors);
    let mut out = [[0.0; LANES]; 2 * LANES];
    for (out, dword) in out.as_chunks_mut::<4>().0.iter_mut().zip(transpose(loaded(rows))) {
        // Each byte in turn is shifted to the top, then down with its sign.
        let tops =
            [_mm512_slli_epi32::<24>(dword), _mm512_slli_epi32::<16>(dword), _mm512_slli_epi32::<8>(dword), dword];
        for (out, top) in out.iter_mut().zip(tops) {
            let value = _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(top));
            *out = store_f32x16(_mm512_mul_ps(value, factors));
        }
    }
    out
}

#[inline]
#[target_feature(enable = "avx2")]
fn loaded(rows: [&[u8; 2 * LANES]; LANES]) -> [__m256i; LANES] {
    let mut loaded = [load256(rows[0]); LANES];
    for (loaded, row) in loaded.iter_mut().zip(rows) {
        *loaded = load256(row);
    }
    loaded
}
