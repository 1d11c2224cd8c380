//! One column: strips of eight rows, block after block, each weight byte read once.
//!
//! Each row's integer products are complete for a block, then eight rows are reduced together so that lanes are rows,
//! and one fused multiply-add serves all eight.

use std::arch::x86_64::*;

use super::super::memory::{load_u16x8, load256, prefetch, store_f32x8};
use super::super::quants::sub_scales_128;
use super::super::strip::strip;
use super::products::{offset, pairs, products, weights};
use crate::block::{BlockType, at, minimum_scale_bits, scale_bits, scales_and_minima};
use crate::matmul::MatMul;

/// Rows computed together.
const STRIP: usize = 8;

/// Types with blocks of 32.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn blocks_32<T: BlockType>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x32(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows = strip::<T, STRIP>(m, first, column.values.len());
        let next = (first + STRIP) * T::DTYPE.row_bytes(m.k);
        let mut acc = _mm256_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            prefetch(m.weights, next + STRIP * T::BYTES * block, STRIP * T::BYTES);
            let a = load256(values);
            let mut dots = [_mm256_setzero_si256(); STRIP];
            let mut scales = [0; STRIP];
            let mut minima = [0; STRIP];
            for (r, row) in rows.into_iter().enumerate() {
                let block = row[block].as_ref();
                dots[r] = pairs(products::<T>(weights::<T>(block, 0), a));
                scales[r] = scale_bits::<T>(block);
                if T::MINIMA {
                    minima[r] = minimum_scale_bits(block);
                }
            }
            let sum = i32::from_le_bytes(column.sums[block]);
            let dot = _mm256_sub_epi32(reduce(dots), _mm256_set1_epi32(offset::<T>() * sum));
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm256_mul_ps(widened::<T>(scales), a_scale);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc);
            if T::MINIMA {
                let scale = _mm256_mul_ps(halves(minima), a_scale);
                acc = _mm256_fmadd_ps(_mm256_set1_ps(sum as f32), scale, acc);
            }
        }
        write(m, first, acc);
    }
}

/// Types with blocks of 256.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn blocks_256<T: BlockType>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x256(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows = strip::<T, STRIP>(m, first, column.values.len());
        let next = (first + STRIP) * T::DTYPE.row_bytes(m.k);
        let mut acc = _mm256_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            let sums = load256(&column.sums[block]);
            let mut dots = [_mm256_setzero_si256(); STRIP];
            let mut minima = [_mm_setzero_si128(); STRIP];
            let mut scales = [0; STRIP];
            let mut minimum_scales = [0; STRIP];
            for (r, row) in rows.into_iter().enumerate() {
                prefetch(m.weights, next + T::BYTES * (STRIP * block + r), T::BYTES);
                let bytes = row[block].as_ref();
                scales[r] = scale_bits::<T>(bytes);
                if T::MINIMA {
                    (dots[r], minima[r]) = with_minima::<T>(bytes, values, sums);
                    minimum_scales[r] = minimum_scale_bits(bytes);
                } else {
                    dots[r] = without_minima::<T>(bytes, values, sums);
                }
            }
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm256_mul_ps(widened::<T>(scales), a_scale);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(reduce(dots)), scale, acc);
            if T::MINIMA {
                let scale = _mm256_mul_ps(halves(minimum_scales), a_scale);
                acc = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(reduce_128(minima)), scale, acc);
            }
        }
        write(m, first, acc);
    }
}

/// Partial sums of a block's scaled products, and of its minima times the activations' sums.
#[inline]
#[target_feature(enable = "avx2")]
fn with_minima<T: BlockType>(block: &[u8], values: &[u8; 256], sums: __m256i) -> (__m256i, __m128i) {
    let (scales, minima) = scales_and_minima(block);
    let scales = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_set1_epi64x(scales as i64)));
    let mut dot = _mm256_setzero_si256();
    for sub in 0..8 {
        let a = load256(at(values, 32 * sub));
        let words = products::<T>(weights::<T>(block, sub), a);
        let scale = _mm256_shuffle_epi8(scales, _mm256_set1_epi16(0x0100 + 0x0202 * sub as i16));
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(words, scale));
    }
    // Two sums over 16 elements make one over the 32 of a sub-block.
    let sums = _mm_hadd_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let minima = _mm_cvtepu8_epi16(_mm_set1_epi64x(minima as i64));
    (dot, _mm_madd_epi16(minima, sums))
}

/// Partial sums of a block's scaled products, the offset taken off.
#[inline]
#[target_feature(enable = "avx2")]
fn without_minima<T: BlockType>(block: &[u8], values: &[u8; 256], sums: __m256i) -> __m256i {
    let scales = _mm256_cvtepi8_epi16(sub_scales_128::<T>(block));
    let halves = [_mm256_permute2x128_si256::<0x00>(scales, scales), _mm256_permute2x128_si256::<0x11>(scales, scales)];
    let offsets = _mm256_madd_epi16(scales, sums);
    let mut dot = _mm256_setzero_si256();
    for sub in 0..8 {
        let a = load256(at(values, 32 * sub));
        let words = products::<T>(weights::<T>(block, sub), a);
        // Scale 2 * sub for the lower sixteen elements, the next one for the upper.
        let first = 0x0100 + 0x0404 * (sub % 4) as i16;
        let pick = _mm256_set_m128i(_mm_set1_epi16(first + 0x0202), _mm_set1_epi16(first));
        let scale = _mm256_shuffle_epi8(halves[sub / 4], pick);
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(words, scale));
    }
    _mm256_sub_epi32(dot, _mm256_mullo_epi32(offsets, _mm256_set1_epi32(offset::<T>())))
}

/// The sum of each row's eight lanes, lanes being rows.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce(rows: [__m256i; STRIP]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = rows;
    let low = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let high = _mm256_hadd_epi32(_mm256_hadd_epi32(e, f), _mm256_hadd_epi32(g, h));
    _mm256_add_epi32(_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high))
}

/// The sum of each row's four lanes, lanes being rows.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce_128(rows: [__m128i; STRIP]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = rows;
    let low = _mm256_hadd_epi32(_mm256_set_m128i(e, a), _mm256_set_m128i(f, b));
    _mm256_hadd_epi32(low, _mm256_hadd_epi32(_mm256_set_m128i(g, c), _mm256_set_m128i(h, d)))
}

/// Eight blocks' scales as floats.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widened<T: BlockType>(x: [u16; STRIP]) -> __m256 {
    if !T::EXPONENT_SCALE {
        return halves(x);
    }
    // Powers of two, half of what the exponents say: the exponent one lower, or for 0 and 1 a bit of the mantissa.
    let e = _mm256_cvtepu16_epi32(load_u16x8(&x));
    let one = _mm256_set1_epi32(1);
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), _mm256_min_epi32(e, one));
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, one));
    _mm256_castsi256_ps(_mm256_max_epi32(normal, subnormal))
}

/// Eight binary16 as floats.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves(x: [u16; STRIP]) -> __m256 {
    _mm256_cvtph_ps(load_u16x8(&x))
}

/// One float in all lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn broadcast(x: [u8; 4]) -> __m256 {
    _mm256_set1_ps(f32::from_le_bytes(x))
}

/// Stores the strip's results but those past the last row.
#[inline]
#[target_feature(enable = "avx2")]
fn write(m: &mut MatMul<'_>, first: usize, acc: __m256) {
    let count = STRIP.min(m.rows - first);
    m.out[first..first + count].copy_from_slice(&store_f32x8(acc)[..count]);
}
