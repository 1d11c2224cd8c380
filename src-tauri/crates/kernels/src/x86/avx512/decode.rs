//! One column: strips of sixteen rows, block after block, each weight byte read once.
//!
//! Each row's integer products are complete for a block, then sixteen rows are reduced together so that lanes are rows,
//! and one fused multiply-add serves all sixteen. The strip after this one is prefetched in memory order:
//! a strip is one contiguous range, which sixteen streams through it would not look like to the processor.

use std::arch::x86_64::*;

use super::super::memory::{load_u16x16, load_u64x4, load128, load256, load512, prefetch, store_f32x16};
use super::super::quants::sub_scales_128;
use super::super::strip::strip;
use super::transpose::{join, transpose_quarters};
use crate::block::{BlockType, Layout, at, minimum_scale_bits, raised, scale_bits, scales_and_minima};
use crate::matmul::MatMul;

/// Rows computed together.
const STRIP: usize = 16;

/// Types with blocks of 32.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn blocks_32<T: BlockType>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x32(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows = strip::<T, STRIP>(m, first, column.values.len());
        let next = (first + STRIP) * T::DTYPE.row_bytes(m.k);
        let mut acc = _mm512_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            prefetch(m.weights, next + STRIP * T::BYTES * block, STRIP * T::BYTES);
            let a = [_mm512_broadcast_i32x4(load128(at(values, 0))), _mm512_broadcast_i32x4(load128(at(values, 16)))];
            let mut scales = [0; STRIP];
            let mut minima = [0; STRIP];
            let mut dots = [_mm512_setzero_si512(); STRIP / 4];
            for (r, dot) in dots.iter_mut().enumerate() {
                // Row r + 4 * quarter, so that a reduction of quarters gives the rows in order.
                let blocks = [
                    rows[r][block].as_ref(),
                    rows[r + 4][block].as_ref(),
                    rows[r + 8][block].as_ref(),
                    rows[r + 12][block].as_ref(),
                ];
                let [low, high] = four_rows::<T>(blocks);
                *dot = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(*dot, low, a[0]), high, a[1]);
                for (quarter, block) in blocks.into_iter().enumerate() {
                    scales[r + 4 * quarter] = scale_bits::<T>(block);
                    if T::MINIMA {
                        minima[r + 4 * quarter] = minimum_scale_bits(block);
                    }
                }
            }
            let sum = i32::from_le_bytes(column.sums[block]);
            let dot = _mm512_sub_epi32(add_quarters(dots), _mm512_set1_epi32(T::OFFSET * sum));
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm512_mul_ps(widened::<T>(scales), a_scale);
            acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, acc);
            if T::MINIMA {
                let scale = _mm512_mul_ps(halves(minima), a_scale);
                acc = _mm512_fmadd_ps(_mm512_set1_ps(sum as f32), scale, acc);
            }
        }
        write(m, first, acc);
    }
}

/// Types with blocks of 256.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn blocks_256<T: BlockType>(m: &mut MatMul<'_>) {
    let column = m.columns.q8x256(0);
    for first in (0..m.rows).step_by(STRIP) {
        let rows = strip::<T, STRIP>(m, first, column.values.len());
        let next = (first + STRIP) * T::DTYPE.row_bytes(m.k);
        let mut acc = _mm512_setzero_ps();
        for (block, values) in column.values.iter().enumerate() {
            let mut a = [_mm512_setzero_si512(); 4];
            for (i, a) in a.iter_mut().enumerate() {
                *a = activations::<T>(values, i);
            }
            let sums = load256(&column.sums[block]);
            let mut scales = [0; STRIP];
            let mut minimum_scales = [0; STRIP];
            // Minima of row r + 4 * quarter, so that a reduction of quarters gives the rows in order.
            let mut minima = [[0; 4]; 4];
            let mut quads = [_mm512_setzero_si512(); 4];
            for (q, quad) in quads.iter_mut().enumerate() {
                prefetch(m.weights, next + T::BYTES * (STRIP * block + 4 * q), 4 * T::BYTES);
                let mut dots = [_mm512_setzero_si512(); 4];
                for (r, dot) in dots.iter_mut().enumerate() {
                    let bytes = rows[4 * q + r][block].as_ref();
                    scales[4 * q + r] = scale_bits::<T>(bytes);
                    if T::MINIMA {
                        let (row_scales, row_minima) = scales_and_minima(bytes);
                        minima[r][q] = row_minima;
                        minimum_scales[4 * q + r] = minimum_scale_bits(bytes);
                        *dot = with_scales::<T>(bytes, row_scales, &a);
                    } else {
                        *dot = with_signed_scales::<T>(bytes, sums, &a);
                    }
                }
                *quad = add_quarters(dots);
            }
            let a_scale = broadcast(column.scales[block]);
            let scale = _mm512_mul_ps(widened::<T>(scales), a_scale);
            acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(fold_quarters(quads)), scale, acc);
            if T::MINIMA {
                // Two sums over 16 elements make one over the 32 of a sub-block.
                let sums = _mm_hadd_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                let sums = _mm512_broadcast_i32x4(sums);
                let mut products = [_mm512_setzero_si512(); 4];
                for (product, minima) in products.iter_mut().zip(&minima) {
                    *product = _mm512_madd_epi16(_mm512_cvtepu8_epi16(load_u64x4(minima)), sums);
                }
                let scale = _mm512_mul_ps(halves(minimum_scales), a_scale);
                acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(add_quarters(products)), scale, acc);
            }
        }
        write(m, first, acc);
    }
}

/// The lower and upper halves of a block of each of four rows, unsigned, one row to a quarter.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw")]
fn four_rows<T: BlockType>(blocks: [&[u8]; 4]) -> [__m512i; 2] {
    if matches!(T::LAYOUT, Layout::Bytes) {
        let sign = _mm512_set1_epi8(-128);
        return [_mm512_xor_si512(gather(blocks, 2), sign), _mm512_xor_si512(gather(blocks, 18), sign)];
    }
    let bytes = gather(blocks, T::NIBBLES);
    let mask = _mm512_set1_epi8(15);
    let low = _mm512_and_si512(bytes, mask);
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask);
    match T::LAYOUT {
        Layout::Nibbles => [low, high],
        Layout::FiveBits => {
            let (low_bits, high_bits) = fifths::<T>(blocks);
            let bit = _mm512_set1_epi8(16);
            [_mm512_mask_add_epi8(low, low_bits, low, bit), _mm512_mask_add_epi8(high, high_bits, high, bit)]
        }
        _ => {
            let grid = _mm512_broadcast_i32x4(load128(const { &raised(T::GRID, T::OFFSET) }));
            [_mm512_shuffle_epi8(grid, low), _mm512_shuffle_epi8(grid, high)]
        }
    }
}

/// Sixteen bytes of each of four blocks.
#[inline]
#[target_feature(enable = "avx2,avx512f")]
fn gather(blocks: [&[u8]; 4], start: usize) -> __m512i {
    let low = _mm256_set_m128i(load128(at(blocks[1], start)), load128(at(blocks[0], start)));
    join(low, _mm256_set_m128i(load128(at(blocks[3], start)), load128(at(blocks[2], start))))
}

/// The fifth bits of four blocks' lower and upper halves.
#[inline(always)]
fn fifths<T: BlockType>(blocks: [&[u8]; 4]) -> (u64, u64) {
    let half = |block: usize, half: usize| u64::from(u16::from_le_bytes(*at(blocks[block], T::NIBBLES - 4 + 2 * half)));
    let join = |i: usize| half(0, i) | half(1, i) << 16 | half(2, i) << 32 | half(3, i) << 48;
    (join(0), join(1))
}

/// The two sub-blocks that register `i` of a block's quants holds: the nibbles of 64 consecutive bytes.
const fn subs<T: BlockType>(i: usize) -> (usize, usize) {
    if T::MINIMA { (i / 2 * 4 + i % 2, i / 2 * 4 + i % 2 + 2) } else { (2 * i, 2 * i + 1) }
}

/// Loads the activations that register `i` of a block's quants is multiplied with.
#[inline]
#[target_feature(enable = "avx2,avx512f")]
fn activations<T: BlockType>(values: &[u8; 256], i: usize) -> __m512i {
    if matches!(T::LAYOUT, Layout::Indices) {
        // The low (even `i`) or high nibbles of four sub-blocks, one in each quarter.
        let first = 128 * (i / 2) + 16 * (i % 2);
        let low = _mm256_set_m128i(load128(at(values, first + 32)), load128(at(values, first)));
        let high = _mm256_set_m128i(load128(at(values, first + 96)), load128(at(values, first + 64)));
        join(low, high)
    } else {
        let (low, high) = subs::<T>(i);
        join(load256(at(values, 32 * low)), load256(at(values, 32 * high)))
    }
}

/// Unpacks register `i` of a block's quants to unsigned bytes, in the order of [`activations`].
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw")]
fn wide<T: BlockType>(block: &[u8], i: usize) -> __m512i {
    match T::LAYOUT {
        Layout::PairedNibbles => nibbles(block, T::NIBBLES, i),
        Layout::Indices => {
            let grid = load128(const { &raised(T::GRID, T::OFFSET) });
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(grid), nibbles(block, T::NIBBLES, i))
        }
        Layout::PairedFiveBits => {
            let (low, high) = subs::<T>(i);
            let bits = _mm512_broadcast_i64x4(load256(at(block, 16)));
            let bit = join(_mm256_set1_epi8(1 << low), _mm256_set1_epi8(1 << high));
            let low = nibbles(block, T::NIBBLES, i);
            _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(bits, bit), low, _mm512_set1_epi8(16))
        }
        _ => {
            let high = _mm512_broadcast_i64x4(load256(at(block, 128 + 32 * (i / 2))));
            let shift = 4 * (i as i16 % 2);
            let high = _mm512_srlv_epi16(high, join(_mm256_set1_epi16(shift), _mm256_set1_epi16(shift + 2)));
            let high = _mm512_slli_epi16::<4>(_mm512_and_si512(high, _mm512_set1_epi8(3)));
            _mm512_or_si512(nibbles(block, 0, i), high)
        }
    }
}

/// Low (even `i`) or high nibbles of the 64 bytes that registers `i` and `i ^ 1` share.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibbles(block: &[u8], start: usize, i: usize) -> __m512i {
    let bytes = load512(at(block, start + 64 * (i / 2)));
    let bytes = if i.is_multiple_of(2) { bytes } else { _mm512_srli_epi16::<4>(bytes) };
    _mm512_and_si512(bytes, _mm512_set1_epi8(15))
}

/// Partial sums of a block's products, scaled by unsigned sub-scales.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
fn with_scales<T: BlockType>(block: &[u8], scales: u64, a: &[__m512i; 4]) -> __m512i {
    let scales = _mm512_broadcast_i32x4(_mm_cvtepu8_epi16(_mm_set1_epi64x(scales as i64)));
    let mut dot = _mm512_setzero_si512();
    for (i, &a) in a.iter().enumerate() {
        let (low, high) = subs::<T>(i);
        let (low, high) = (0x0100 + 0x0202 * low as i16, 0x0100 + 0x0202 * high as i16);
        let scale = _mm512_shuffle_epi8(scales, join(_mm256_set1_epi16(low), _mm256_set1_epi16(high)));
        dot = _mm512_dpwssd_epi32(dot, _mm512_maddubs_epi16(wide::<T>(block, i), a), scale);
    }
    dot
}

/// Partial sums of a block's products, scaled by signed sub-scales, the offset taken off.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
fn with_signed_scales<T: BlockType>(block: &[u8], sums: __m256i, a: &[__m512i; 4]) -> __m512i {
    let bytes = sub_scales_128::<T>(block);
    let scales = _mm256_cvtepi8_epi16(bytes);
    let offsets = _mm256_mullo_epi32(_mm256_madd_epi16(scales, sums), _mm256_set1_epi32(T::OFFSET));
    let scales = _mm512_castsi256_si512(scales);
    let mut dot = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_zextsi256_si512(offsets));
    if T::WIDE {
        // Four sub-blocks share a register, one in each quarter, and their sums are scaled in 32 bits.
        let scales = _mm512_cvtepi8_epi32(bytes);
        for half in 0..2 {
            let first = _mm512_dpbusd_epi32(_mm512_setzero_si512(), wide::<T>(block, 2 * half), a[2 * half]);
            let both = _mm512_dpbusd_epi32(first, wide::<T>(block, 2 * half + 1), a[2 * half + 1]);
            let pick = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
            let pick = _mm512_add_epi32(pick, _mm512_set1_epi32(8 * half as i32));
            dot = _mm512_add_epi32(dot, _mm512_mullo_epi32(both, _mm512_permutexvar_epi32(pick, scales)));
        }
        return dot;
    }
    for (i, &a) in a.iter().enumerate() {
        let first = 4 * i as i16;
        let low = _mm256_set_m128i(_mm_set1_epi16(first + 1), _mm_set1_epi16(first));
        let high = _mm256_set_m128i(_mm_set1_epi16(first + 3), _mm_set1_epi16(first + 2));
        let scale = join(low, high);
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
    fold(fold(x[0], x[1]), fold(x[2], x[3]))
}

/// Adds up adjacent quarters of two registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(a: __m512i, b: __m512i) -> __m512i {
    let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
    _mm512_add_epi32(even, _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b))
}

/// Sixteen blocks' scales as floats.
#[inline]
#[target_feature(enable = "avx512f")]
fn widened<T: BlockType>(x: [u16; STRIP]) -> __m512 {
    if !T::EXPONENT_SCALE {
        return halves(x);
    }
    // Powers of two, half of what the exponents say: the exponent one lower, or for 0 and 1 a bit of the mantissa.
    let e = _mm512_cvtepu16_epi32(load_u16x16(&x));
    let one = _mm512_set1_epi32(1);
    let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), _mm512_min_epi32(e, one));
    let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, one));
    _mm512_castsi512_ps(_mm512_max_epi32(normal, subnormal))
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
