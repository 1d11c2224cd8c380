//! One column: strips of eight rows, block after block, each weight byte read once.
//!
//! Each row's integer products are complete for a block, then eight rows are reduced together so that lanes are rows,
//! and one fused multiply-add serves all eight.

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _mm_cvtepu8_epi16, _mm_hadd_epi16, _mm_madd_epi16, _mm_set_epi16, _mm_set1_epi64x,
    _mm256_add_epi32, _mm256_broadcastsi128_si256, _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_cvtepi32_ps,
    _mm256_cvtph_ps, _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_fnmadd_ps, _mm256_hadd_epi32, _mm256_madd_epi16,
    _mm256_mul_ps, _mm256_permute2x128_si256, _mm256_set_m128i, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_sub_epi32,
};

use super::super::memory::{at, load128, load256, store_f32x8};
use super::super::quants::{Kind, minimum_scale, scale, scales_and_minima, sub_scales};
use super::{offset, pairs, products, weights};
use crate::matmul::MatMul;

/// Rows computed together.
const STRIP: usize = 8;

/// Types with blocks of 32.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn blocks_32<T: Kind>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x32(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows: [&[u8]; STRIP] = std::array::from_fn(|r| m.row((first + r).min(m.rows - 1)));
        let mut acc = _mm256_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            let a = load256(values);
            let blocks = rows.map(|row| &row[block * T::BYTES..][..T::BYTES]);
            let mut dots = [_mm256_setzero_si256(); STRIP];
            for (dot, bytes) in dots.iter_mut().zip(blocks) {
                *dot = pairs(products::<T>(weights::<T>(bytes, 0), a));
            }
            let sum = i32::from_le_bytes(column.sums[block]);
            let dot = _mm256_sub_epi32(reduce(dots), _mm256_set1_epi32(offset::<T>() * sum));
            let scale = _mm256_mul_ps(halves(blocks.map(scale::<T>)), broadcast(column.scales[block]));
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc);
        }
        write(m, first, acc);
    }
}

/// The K-quants.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn blocks_256<T: Kind>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x256(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows: [&[u8]; STRIP] = std::array::from_fn(|r| m.row((first + r).min(m.rows - 1)));
        let mut acc = _mm256_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            let sums = load256(&column.sums[block]);
            let blocks = rows.map(|row| &row[block * T::BYTES..][..T::BYTES]);
            let mut dots = [_mm256_setzero_si256(); STRIP];
            let mut minima = [zero128(); STRIP];
            for ((dot, minimum), bytes) in dots.iter_mut().zip(&mut minima).zip(blocks) {
                if T::MINIMA {
                    (*dot, *minimum) = with_minima::<T>(bytes, values, sums);
                } else {
                    *dot = without_minima::<T>(bytes, values, sums);
                }
            }
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm256_mul_ps(halves(blocks.map(scale::<T>)), a_scale);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(reduce(dots)), scale, acc);
            if T::MINIMA {
                let scale = _mm256_mul_ps(halves(blocks.map(minimum_scale)), a_scale);
                acc = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(reduce_128(minima)), scale, acc);
            }
        }
        write(m, first, acc);
    }
}

/// Partial sums of a block's scaled products, and of its minima times the activations' sums.
#[inline]
#[target_feature(enable = "avx2")]
fn with_minima<T: Kind>(block: &[u8], values: &[u8; 256], sums: __m256i) -> (__m256i, __m128i) {
    let (scales, minima) = scales_and_minima(block);
    let scales = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_set1_epi64x(scales as i64)));
    let mut dot = _mm256_setzero_si256();
    for sub in 0..8 {
        let a = load256(at(values, 32 * sub));
        let words = products::<T>(weights::<T>(block, sub), a);
        let scale = _mm256_shuffle_epi8(scales, _mm256_set1_epi16((2 * sub | (2 * sub + 1) << 8) as i16));
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
fn without_minima<T: Kind>(block: &[u8], values: &[u8; 256], sums: __m256i) -> __m256i {
    let scales = _mm256_cvtepi8_epi16(load128(sub_scales(block)));
    let halves = [_mm256_permute2x128_si256::<0x00>(scales, scales), _mm256_permute2x128_si256::<0x11>(scales, scales)];
    let offsets = _mm256_madd_epi16(scales, sums);
    let mut dot = _mm256_setzero_si256();
    for sub in 0..8 {
        let a = load256(at(values, 32 * sub));
        let words = products::<T>(weights::<T>(block, sub), a);
        // Scale 2 * sub for the lower sixteen elements, the next one for the upper.
        let pick = |scale: usize| _mm256_castsi256_si128(_mm256_set1_epi16((2 * scale | (2 * scale + 1) << 8) as i16));
        let first = 2 * (sub % 4);
        let scale = _mm256_shuffle_epi8(halves[sub / 4], _mm256_set_m128i(pick(first + 1), pick(first)));
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(words, scale));
    }
    // The offset is 32.
    _mm256_sub_epi32(dot, _mm256_slli_epi32::<5>(offsets))
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero128() -> __m128i {
    _mm256_castsi256_si128(_mm256_setzero_si256())
}

/// The sum of each row's eight lanes, lanes being rows.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce(rows: [__m256i; STRIP]) -> __m256i {
    let four = |a, b, c, d| _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let low = four(rows[0], rows[1], rows[2], rows[3]);
    let high = four(rows[4], rows[5], rows[6], rows[7]);
    _mm256_add_epi32(_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high))
}

/// The sum of each row's four lanes, lanes being rows.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce_128(rows: [__m128i; STRIP]) -> __m256i {
    let both = |r: usize| _mm256_set_m128i(rows[r + 4], rows[r]);
    _mm256_hadd_epi32(_mm256_hadd_epi32(both(0), both(1)), _mm256_hadd_epi32(both(2), both(3)))
}

/// Eight binary16 as floats.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves(x: [u16; STRIP]) -> __m256 {
    let [a, b, c, d, e, f, g, h] = x.map(|x| x as i16);
    _mm256_cvtph_ps(_mm_set_epi16(h, g, f, e, d, c, b, a))
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
