//! Products of 32 weights with 32 activations.

use std::arch::x86_64::*;

use super::super::quants;
use crate::block::BlockType;

/// 32 weights as this variant multiplies them: signed where they are [`BlockType::WIDE`], unsigned in all other types.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn weights<T: BlockType>(block: &[u8], sub: usize) -> __m256i {
    if T::WIDE { quants::signed::<T>(block, sub) } else { quants::unsigned::<T>(block, sub) }
}

/// Subtracted from a dot product of [`weights`] for each unit of the activations' sum.
pub(super) const fn offset<T: BlockType>() -> i32 {
    if T::WIDE { 0 } else { T::OFFSET }
}

/// Products of 32 weights with 32 activations, added in pairs to sixteen `i16`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn products<T: BlockType>(w: __m256i, a: __m256i) -> __m256i {
    if T::WIDE { _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)) } else { _mm256_maddubs_epi16(w, a) }
}

/// The sums of adjacent `i16`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn pairs(x: __m256i) -> __m256i {
    _mm256_madd_epi16(x, _mm256_set1_epi16(1))
}
