//! One column: strips of sixteen rows, block after block, each weight byte read once.
//!
//! Each row's integer products are complete for a block, then sixteen rows are reduced together so that lanes are rows,
//! and one fused multiply-add serves all sixteen. The strip after this one is prefetched in the order it lies in memory:
//! a strip is one contiguous range, which sixteen streams through it would not look like to the processor.

use std::arch::x86_64::*;

use cairn_gguf::DType;

use super::super::memory::{at, load_u16x16, load_u64x4, load128, load256, load512, prefetch, store_f32x16};
use super::super::quants::{Kind, minimum_scale, scale, scales_and_minima, sub_scales, unsigned};
use super::{join, transpose_quarters};
use crate::matmul::MatMul;

/// Rows computed together.
const STRIP: usize = 16;

/// Types with blocks of 32.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn blocks_32<T: Kind>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x32(0);
    let row_bytes = T::DTYPE.row_bytes(m.k);
    for first in (0..m.rows).step_by(STRIP) {
        let rows: [&[u8]; STRIP] = std::array::from_fn(|r| m.row((first + r).min(m.rows - 1)));
        let next = (first + STRIP) * row_bytes;
        let mut acc = _mm512_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            prefetch(m.weights, next + STRIP * T::BYTES * block, STRIP * T::BYTES);
            let a = _mm512_broadcast_i64x4(load256(values));
            let blocks = rows.map(|row| &row[block * T::BYTES..][..T::BYTES]);
            // Rows r and r + 4 in one register, as `reduce_halves` wants them.
            let dots = [0, 1, 2, 3, 8, 9, 10, 11].map(|r| {
                let w = join(unsigned::<T>(blocks[r], 0), unsigned::<T>(blocks[r + 4], 0));
                _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, a)
            });
            let sum = i32::from_le_bytes(column.sums[block]);
            let dot = _mm512_sub_epi32(reduce_halves(dots), _mm512_set1_epi32(T::OFFSET * sum));
            let scale = _mm512_mul_ps(halves(blocks.map(scale::<T>)), broadcast(column.scales[block]));
            acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, acc);
        }
        write(m, first, acc);
    }
}

/// The K-quants.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn blocks_256<T: Kind>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x256(0);
    let row_bytes = T::DTYPE.row_bytes(m.k);
    for first in (0..m.rows).step_by(STRIP) {
        let rows: [&[u8]; STRIP] = std::array::from_fn(|r| m.row((first + r).min(m.rows - 1)));
        let next = (first + STRIP) * row_bytes;
        let mut acc = _mm512_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            let a = [0, 1, 2, 3].map(|i| {
                let (low, high) = subs::<T>(i);
                join(load256(at(values, 32 * low)), load256(at(values, 32 * high)))
            });
            let sums = load256(&column.sums[block]);
            let blocks = rows.map(|row| &row[block * T::BYTES..][..T::BYTES]);
            // Minima of row r + 4 * quarter, so that a reduction of quarters gives the rows in order.
            let mut minima = [[0; 4]; 4];
            let mut quads = [_mm512_setzero_si512(); 4];
            for (q, quad) in quads.iter_mut().enumerate() {
                prefetch(m.weights, next + STRIP * T::BYTES * block + 4 * T::BYTES * q, 4 * T::BYTES);
                *quad = add_quarters([0, 1, 2, 3].map(|r| {
                    let bytes = blocks[4 * q + r];
                    if T::MINIMA {
                        let (scales, row_minima) = scales_and_minima(bytes);
                        minima[r][q] = row_minima;
                        with_scales::<T>(bytes, scales, &a)
                    } else {
                        with_signed_scales::<T>(bytes, sums, &a)
                    }
                }));
            }
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm512_mul_ps(halves(blocks.map(scale::<T>)), a_scale);
            acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(fold_quarters(quads)), scale, acc);
            if T::MINIMA {
                // Two sums over 16 elements make one over the 32 of a sub-block.
                let sums = _mm_hadd_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                let sums = _mm512_broadcast_i32x4(sums);
                let products = minima.map(|rows| _mm512_madd_epi16(_mm512_cvtepu8_epi16(load_u64x4(&rows)), sums));
                let scale = _mm512_mul_ps(halves(blocks.map(minimum_scale)), a_scale);
                acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(add_quarters(products)), scale, acc);
            }
        }
        write(m, first, acc);
    }
}

/// The two sub-blocks that register `i` of a block's quants holds: the nibbles of 64 consecutive bytes.
const fn subs<T: Kind>(i: usize) -> (usize, usize) {
    if T::MINIMA { (i / 2 * 4 + i % 2, i / 2 * 4 + i % 2 + 2) } else { (2 * i, 2 * i + 1) }
}

/// The quants of [`subs`], unsigned.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw")]
fn wide<T: Kind>(block: &[u8], i: usize) -> __m512i {
    let nibbles = |start: usize| {
        let bytes = load512(at(block, start + 64 * (i / 2)));
        let bytes = if i.is_multiple_of(2) { bytes } else { _mm512_srli_epi16::<4>(bytes) };
        _mm512_and_si512(bytes, _mm512_set1_epi8(15))
    };
    match T::DTYPE {
        DType::Q4_K => nibbles(16),
        DType::Q5_K => {
            let (low, high) = subs::<T>(i);
            let bits = _mm512_broadcast_i64x4(load256(at(block, 16)));
            let bit = join(_mm256_set1_epi8(1 << low), _mm256_set1_epi8(1 << high));
            let low = nibbles(48);
            _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(bits, bit), low, _mm512_set1_epi8(16))
        }
        _ => {
            let high = _mm512_broadcast_i64x4(load256(at(block, 128 + 32 * (i / 2))));
            let shift = 4 * (i as i16 % 2);
            let high = _mm512_srlv_epi16(high, join(_mm256_set1_epi16(shift), _mm256_set1_epi16(shift + 2)));
            let high = _mm512_slli_epi16::<4>(_mm512_and_si512(high, _mm512_set1_epi8(3)));
            _mm512_or_si512(nibbles(0), high)
        }
    }
}

/// Partial sums of a block's products, scaled by unsigned sub-scales.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
fn with_scales<T: Kind>(block: &[u8], scales: u64, a: &[__m512i; 4]) -> __m512i {
    let scales = _mm512_broadcast_i32x4(_mm_cvtepu8_epi16(_mm_set1_epi64x(scales as i64)));
    let mut dot = _mm512_setzero_si512();
    for (i, &a) in a.iter().enumerate() {
        let (low, high) = subs::<T>(i);
        let pick = |sub: usize| _mm256_set1_epi16((2 * sub | (2 * sub + 1) << 8) as i16);
        let scale = _mm512_shuffle_epi8(scales, join(pick(low), pick(high)));
        dot = _mm512_dpwssd_epi32(dot, _mm512_maddubs_epi16(wide::<T>(block, i), a), scale);
    }
    dot
}

/// Partial sums of a block's products, scaled by signed sub-scales, the offset taken off.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
fn with_signed_scales<T: Kind>(block: &[u8], sums: __m256i, a: &[__m512i; 4]) -> __m512i {
    let scales = _mm256_cvtepi8_epi16(load128(sub_scales(block)));
    // The offset is 32.
    let offsets = _mm256_slli_epi32::<5>(_mm256_madd_epi16(scales, sums));
    let scales = _mm512_castsi256_si512(scales);
    let mut dot = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_zextsi256_si512(offsets));
    for (i, &a) in a.iter().enumerate() {
        let first = 4 * i as i16;
        let pick = |a: i16, b: i16| _mm256_set_m128i(_mm_set1_epi16(b), _mm_set1_epi16(a));
        let scale = join(pick(first, first + 1), pick(first + 2, first + 3));
        let scale = _mm512_permutexvar_epi16(scale, scales);
        dot = _mm512_dpwssd_epi32(dot, _mm512_maddubs_epi16(wide::<T>(block, i), a), scale);
    }
    dot
}

/// Adds up each quarter of four registers: dword `r` of a quarter is the sum of that quarter of register `r`.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_quarters(x: [__m512i; 4]) -> __m512i {
    let [a, b, c, d] = transpose_quarters(x);
    _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d))
}

/// Adds up the quarters of each of four registers: quarter `q` of the result is the sum of register `q`'s.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold_quarters(x: [__m512i; 4]) -> __m512i {
    let fold = |a, b| {
        let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
        _mm512_add_epi32(even, _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b))
    };
    fold(fold(x[0], x[1]), fold(x[2], x[3]))
}

/// The sums of rows 0 to 15 from halves of registers: 0 | 4, 1 | 5, 2 | 6, 3 | 7, 8 | 12, and so on.
#[inline]
#[target_feature(enable = "avx512f")]
fn reduce_halves(x: [__m512i; 8]) -> __m512i {
    let [low, high] = x.as_chunks::<4>().0 else { unreachable!("eight are two times four") };
    let (low, high) = (add_quarters(*low), add_quarters(*high));
    let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(low, high);
    _mm512_add_epi32(even, _mm512_shuffle_i32x4::<0b11_01_11_01>(low, high))
}

/// Sixteen binary16 as floats.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(x: [u16; STRIP]) -> __m512 {
    _mm512_cvtph_ps(load_u16x16(&x))
}

/// One float in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast(x: [u8; 4]) -> __m512 {
    _mm512_set1_ps(f32::from_le_bytes(x))
}

/// Stores the strip's results but those past the last row.
#[inline]
#[target_feature(enable = "avx512f")]
fn write(m: &mut MatMul<'_>, first: usize, acc: __m512) {
    let count = STRIP.min(m.rows - first);
    m.out[first..first + count].copy_from_slice(&store_f32x16(acc)[..count]);
}
