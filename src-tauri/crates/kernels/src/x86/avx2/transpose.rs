//! Transposition of dwords in registers.

use std::arch::x86_64::*;

/// Four by four dwords in each half of four registers, transposed.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_lanes([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Eight rows of eight dwords, transposed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    // Column c of the first four rows in the low half, column c + 4 in the high half; then the same of the others.
    let low = transpose_lanes([rows[0], rows[1], rows[2], rows[3]]);
    let high = transpose_lanes([rows[4], rows[5], rows[6], rows[7]]);
    [
        _mm256_permute2x128_si256::<0x20>(low[0], high[0]),
        _mm256_permute2x128_si256::<0x20>(low[1], high[1]),
        _mm256_permute2x128_si256::<0x20>(low[2], high[2]),
        _mm256_permute2x128_si256::<0x20>(low[3], high[3]),
        _mm256_permute2x128_si256::<0x31>(low[0], high[0]),
        _mm256_permute2x128_si256::<0x31>(low[1], high[1]),
        _mm256_permute2x128_si256::<0x31>(low[2], high[2]),
        _mm256_permute2x128_si256::<0x31>(low[3], high[3]),
    ]
}
