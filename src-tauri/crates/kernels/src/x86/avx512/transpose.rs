//! Transposition of dwords in registers.

use std::arch::x86_64::*;

/// Two halves of a register.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn join(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Four by four dwords in each quarter of four registers, transposed.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose_quarters(x: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpacklo_epi32(x[2], x[3]));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[2], x[3]));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Sixteen rows of eight dwords, transposed: register `c` holds dword `c` of all rows.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose(rows: [__m256i; 16]) -> [__m512i; 8] {
    // With rows r and r + 4 in one register, its quarters are dwords 0-3 and 4-7 of the one, then of the other; the
    // columns of four rows come out in quarters 0 and 2 (dwords 0-3), 1 and 3 (dwords 4-7).
    let low = transpose_quarters([
        join(rows[0], rows[4]),
        join(rows[1], rows[5]),
        join(rows[2], rows[6]),
        join(rows[3], rows[7]),
    ]);
    let high = transpose_quarters([
        join(rows[8], rows[12]),
        join(rows[9], rows[13]),
        join(rows[10], rows[14]),
        join(rows[11], rows[15]),
    ]);
    [
        _mm512_shuffle_i32x4::<0b10_00_10_00>(low[0], high[0]),
        _mm512_shuffle_i32x4::<0b10_00_10_00>(low[1], high[1]),
        _mm512_shuffle_i32x4::<0b10_00_10_00>(low[2], high[2]),
        _mm512_shuffle_i32x4::<0b10_00_10_00>(low[3], high[3]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(low[0], high[0]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(low[1], high[1]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(low[2], high[2]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(low[3], high[3]),
    ]
}
