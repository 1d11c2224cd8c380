//! Blocks of quantised weights as unsigned bytes in registers. The layouts are drawn in `cairn_gguf::dtype`.
//!
//! Byte products multiply unsigned by signed, so weights keep their offset here and the product subtracts it with
//! the sums that a column stores: `sum((w + offset) * a) - offset * sum(a)`.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_and_si128, _mm_cvtsi32_si128, _mm_set1_epi8, _mm_set1_epi64x, _mm_srli_epi16,
    _mm_unpacklo_epi8, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
    _mm256_or_si256, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi64x,
    _mm256_shuffle_epi8, _mm256_slli_epi16, _mm256_srl_epi16, _mm256_xor_si256,
};

use super::memory::{load128, load256};
use crate::block::{BlockType, Layout, at, iq4_scales, raised};

/// The elements `32 * sub..32 * (sub + 1)` of a block, unsigned.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn unsigned<T: BlockType>(block: &[u8], sub: usize) -> __m256i {
    match T::LAYOUT {
        Layout::Bytes => _mm256_xor_si256(signed::<T>(block, sub), _mm256_set1_epi8(-128)),
        Layout::Nibbles => nibbles::<T>(block, sub),
        Layout::FiveBits => {
            let bits = u32::from_le_bytes(*at(block, T::NIBBLES - 4));
            _mm256_add_epi8(nibbles::<T>(block, sub), sixteens(bits))
        }
        Layout::Indices => look_up(const { &raised(T::GRID, T::OFFSET) }, nibbles::<T>(block, sub)),
        Layout::PairedNibbles => half_nibbles::<T>(block, sub),
        Layout::PairedFiveBits => {
            let bit = _mm256_set1_epi8(1 << sub);
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(load256(at(block, 16)), bit), bit);
            _mm256_or_si256(half_nibbles::<T>(block, sub), _mm256_and_si256(set, _mm256_set1_epi8(16)))
        }
        _ => {
            let (half, group) = (sub / 4, sub % 4);
            let low = load256(at(block, 64 * half + 32 * (group % 2)));
            let low = _mm256_srl_epi16(low, _mm_cvtsi32_si128(4 * (group as i32 / 2)));
            let high = load256(at(block, 128 + 32 * half));
            let high = _mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * group as i32));
            let high = _mm256_slli_epi16::<4>(_mm256_and_si256(high, _mm256_set1_epi8(3)));
            _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), high)
        }
    }
}

/// The elements `32 * sub..32 * (sub + 1)` of a block of a [`BlockType::WIDE`] type, signed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn signed<T: BlockType>(block: &[u8], sub: usize) -> __m256i {
    if matches!(T::LAYOUT, Layout::Bytes) {
        load256(at(block, 2))
    } else {
        look_up(const { &raised(T::GRID, 0) }, nibbles::<T>(block, sub))
    }
}

/// Looks up indices below 16.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(grid: &[u8; 16], indices: __m256i) -> __m256i {
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(grid)), indices)
}

/// Of sixteen bytes, low nibbles in the lower half, high ones in the upper.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles<T: BlockType>(block: &[u8], sub: usize) -> __m256i {
    let bytes = load128(at(block, T::NIBBLES + 16 * sub));
    let mask = _mm_set1_epi8(15);
    _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16::<4>(bytes), mask), _mm_and_si128(bytes, mask))
}

/// Low (even `sub`) or high nibbles of the 32 bytes that two sub-blocks share.
#[inline]
#[target_feature(enable = "avx2")]
fn half_nibbles<T: BlockType>(block: &[u8], sub: usize) -> __m256i {
    let bytes = load256(at(block, T::NIBBLES + 32 * (sub / 2)));
    let bytes = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(4 * (sub as i32 % 2)));
    _mm256_and_si256(bytes, _mm256_set1_epi8(15))
}

/// Byte `i` is 16 where bit `i` is set.
#[inline]
#[target_feature(enable = "avx2")]
fn sixteens(bits: u32) -> __m256i {
    let spread = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), spread);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(16))
}

/// The signed scales of Q6_K and IQ4_XS, one for each 16 elements.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sub_scales_128<T: BlockType>(block: &[u8]) -> __m128i {
    if matches!(T::LAYOUT, Layout::SixBits) {
        load128(at(block, 192))
    } else {
        let scales = _mm_set1_epi64x(iq4_scales(block) as i64);
        _mm_unpacklo_epi8(scales, scales)
    }
}
