//! AVX2, FMA and F16C: every x86-64 processor since about 2013.
//!
//! Byte products are `vpmaddubsw`, which adds two products in saturating 16 bits. Nothing saturates here: quants of at
//! most six bits are unsigned (`2 * 63 * 127 < 2^15`), and wider ones (Q8_0 and the IQ4 types) multiply their magnitudes
//! (`2 * 128 * 127 < 2^15`) with activations that carry the weights' signs.
#![expect(unsafe_code, reason = "safe functions with target features are entered from code without them")]

mod decode;
mod prefill;
mod products;
mod transpose;

use std::arch::x86_64::*;

use self::transpose::transpose;
use super::memory::{self, load_f32x8, load_u16x8, load128, load256, store_f32x8, store256};
use crate::attention::{AttendSpan, Softmax};
use crate::block::{BlockType, dispatch, with_block_types};
use crate::compiled::{fused, kernels};
use crate::format::Format;
use crate::matmul::MatMul;
use crate::portable;
use crate::portable::arith::{LANES, Lanes};
use crate::variant::Variant;

/// This variant's row in the table: its name, the revision of its numerics and the features that it needs.
pub(crate) const AVX2_FMA_F16C: Variant =
    row("avx2-fma-f16c", 1, |features| features.avx2 && features.fma && features.f16c);

fn require() {
    let there = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    assert!(there, "avx2-fma-f16c was called on a processor without it");
}

kernels! { "avx2,fma,f16c", FusedArith, require, 2 x 4, quantised }

#[target_feature(enable = "avx2,fma,f16c")]
fn quantised(mut m: MatMul<'_>) {
    with_block_types! { dispatch!(m.dtype, T => typed::<T>(&mut m), else crate::scalar::quantised(m)) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn typed<T: BlockType>(m: &mut MatMul<'_>) {
    match (m.columns.count, T::BLOCK) {
        (1, 32) => decode::blocks_32::<T>(m),
        (1, _) => decode::blocks_256::<T>(m),
        _ => prefill::matmul::<T>(m),
    }
}

/// FusedArith multiply-add and F16C. Used only in functions that [`kernels`] compiles with these features.
struct FusedArith;
fused! {
    fn prefetch(bytes: &[u8]);
    fn read_f32(bytes: &[u8; 4 * LANES]) -> Lanes;
    fn read_i8(bytes: &[u8; LANES], factor: f32) -> Lanes;
    fn nibbles(bytes: &[u8; LANES]) -> [u8; 2 * LANES];
    fn transpose_bf16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES];
    fn transpose_i8(rows: [&[u8; 2 * LANES]; LANES], factors: &Lanes) -> [Lanes; 2 * LANES];
}

#[inline]
#[target_feature(enable = "avx2")]
fn prefetch(bytes: &[u8]) {
    memory::prefetch(bytes, 0, bytes.len());
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn fma_lanes(a: &Lanes, b: &Lanes, c: &mut Lanes) {
    let halves = a.as_chunks().0.iter().zip(b.as_chunks().0).zip(c.as_chunks_mut().0);
    for ((a, b), c) in halves {
        *c = store_f32x8(_mm256_fmadd_ps(load_f32x8(a), load_f32x8(b), load_f32x8(c)));
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn fma_splat(a: f32, b: &Lanes, c: &mut Lanes) {
    for (b, c) in b.as_chunks().0.iter().zip(c.as_chunks_mut().0) {
        *c = store_f32x8(_mm256_fmadd_ps(_mm256_set1_ps(a), load_f32x8(b), load_f32x8(c)));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn read_f32(bytes: &[u8; 4 * LANES]) -> Lanes {
    let [low, high] = bytes.as_chunks().0 else { unreachable!("64 are two times 32") };
    both(_mm256_castsi256_ps(load256(low)), _mm256_castsi256_ps(load256(high)))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn read_f16(bytes: &[u8; 2 * LANES]) -> Lanes {
    let [low, high] = bytes.as_chunks().0 else { unreachable!("32 are two times 16") };
    both(_mm256_cvtph_ps(load128(low)), _mm256_cvtph_ps(load128(high)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn read_bf16(bytes: &[u8; 2 * LANES]) -> Lanes {
    let [low, high] = bytes.as_chunks().0 else { unreachable!("32 are two times 16") };
    let low = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load128(low)));
    let high = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load128(high)));
    both(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
}

/// Sixteen lanes of two registers.
#[inline]
#[target_feature(enable = "avx2")]
fn both(low: __m256, high: __m256) -> Lanes {
    let mut out = [0.0; LANES];
    out[..8].copy_from_slice(&store_f32x8(low));
    out[8..].copy_from_slice(&store_f32x8(high));
    out
}

#[inline]
#[target_feature(enable = "avx2")]
fn read_i8(bytes: &[u8; LANES], factor: f32) -> Lanes {
    let (bytes, factor) = (load128(bytes), _mm256_set1_ps(factor));
    let low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    let high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes)));
    both(_mm256_mul_ps(low, factor), _mm256_mul_ps(high, factor))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn nibbles(bytes: &[u8; LANES]) -> [u8; 2 * LANES] {
    let bytes = load128(bytes);
    let parts = _mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes);
    let values = _mm256_sub_epi8(_mm256_and_si256(parts, _mm256_set1_epi8(15)), _mm256_set1_epi8(8));
    let mut out = [0; 2 * LANES];
    store256(&mut out, values);
    out
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen(half: &[u16; LANES]) -> Lanes {
    let [low, high] = half.as_chunks::<8>().0 else { unreachable!("sixteen are two times eight") };
    both(_mm256_cvtph_ps(load_u16x8(low)), _mm256_cvtph_ps(load_u16x8(high)))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow(x: &Lanes) -> [u16; LANES] {
    let mut out = [0; LANES];
    for (x, out) in x.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: `x` refers to 32 readable bytes, and this load needs no alignment.
        let x = unsafe { _mm256_loadu_ps(x.as_ptr()) };
        let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
        // SAFETY: `out` refers to 16 writable bytes, and this store needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), half) };
    }
    out
}

/// Returns rows of little-endian binary16 as `f32`, transposed: `out[column][row]`. Transposes pairs of columns as
/// dwords, then splits each pair and widens its elements.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn transpose_f16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
    let mut out = [[0.0; LANES]; LANES];
    for group in 0..2 {
        for (out, dword) in out.as_chunks_mut::<2>().0.iter_mut().zip(transpose(loaded(&rows, group))) {
            let even = _mm256_and_si256(dword, _mm256_set1_epi32(0xffff));
            let odd = _mm256_srli_epi32::<16>(dword);
            let parted = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(even, odd));
            let even = store_f32x8(_mm256_cvtph_ps(_mm256_castsi256_si128(parted)));
            let odd = store_f32x8(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(parted)));
            out[0][8 * group..8 * (group + 1)].copy_from_slice(&even);
            out[1][8 * group..8 * (group + 1)].copy_from_slice(&odd);
        }
    }
    out
}

/// Transposes pairs of columns as dwords, then splits each pair: `out[column][row]`.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_bf16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
    let mut out = [[0.0; LANES]; LANES];
    let upper = _mm256_set1_epi32(-0x1_0000);
    for group in 0..2 {
        for (out, dword) in out.as_chunks_mut::<2>().0.iter_mut().zip(transpose(loaded(&rows, group))) {
            let parts = [_mm256_slli_epi32::<16>(dword), _mm256_and_si256(dword, upper)];
            for (out, part) in out.iter_mut().zip(parts) {
                out[8 * group..8 * (group + 1)].copy_from_slice(&store_f32x8(_mm256_castsi256_ps(part)));
            }
        }
    }
    out
}

/// Transposes groups of four columns as dwords, then splits each group: `out[column][row]`.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_i8(rows: [&[u8; 2 * LANES]; LANES], factors: &Lanes) -> [Lanes; 2 * LANES] {
    let mut out = [[0.0; LANES]; 2 * LANES];
    for (group, factors) in factors.as_chunks().0.iter().enumerate() {
        let factors = load_f32x8(factors);
        for (out, dword) in out.as_chunks_mut::<4>().0.iter_mut().zip(transpose(loaded(&rows, group))) {
            // Each byte in turn is shifted to the top, then down with its sign.
            let tops =
                [_mm256_slli_epi32::<24>(dword), _mm256_slli_epi32::<16>(dword), _mm256_slli_epi32::<8>(dword), dword];
            for (out, top) in out.iter_mut().zip(tops) {
                let value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(top)), factors);
                out[8 * group..8 * (group + 1)].copy_from_slice(&store_f32x8(value));
            }
        }
    }
    out
}

/// Eight of sixteen rows, the first or the second.
#[inline]
#[target_feature(enable = "avx2")]
fn loaded(rows: &[&[u8; 2 * LANES]; LANES], group: usize) -> [__m256i; 8] {
    let mut loaded = [_mm256_setzero_si256(); 8];
    for (loaded, row) in loaded.iter_mut().zip(&rows[8 * group..8 * (group + 1)]) {
        *loaded = load256(row);
    }
    loaded
}
