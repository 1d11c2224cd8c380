//! Blocks of quantised weights as unsigned bytes in registers. The layouts are drawn in `cairn_gguf::dtype`.
//!
//! Byte products multiply unsigned by signed, so weights keep their offset here and the product takes it off again by
//! the sums that a column stores: `sum((w + offset) * a) - offset * sum(a)`.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_and_si128, _mm_cvtsi32_si128, _mm_set1_epi8, _mm_set1_epi64x, _mm_srli_epi16,
    _mm_unpacklo_epi8, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
    _mm256_or_si256, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi64x,
    _mm256_shuffle_epi8, _mm256_slli_epi16, _mm256_srl_epi16, _mm256_xor_si256,
};

use cairn_gguf::DType;
use cairn_gguf::dtype::codebook::{E2M1_TWICE, IQ4, half_e8m0};

use super::memory::{at, load128, load256};
use crate::portable::arith::widen;

/// A quantised type of weights, known when a kernel is compiled.
pub(super) trait Kind {
    /// The type.
    const DTYPE: DType;
    /// What was added to make the quants unsigned.
    const OFFSET: i32;
    /// The bytes of a block.
    type Block: AsRef<[u8]> + 'static;
    /// Elements in a block.
    const BLOCK: usize = Self::DTYPE.block();
    /// Bytes of a block, here because a look-up in the types' table is done anew wherever a kernel asks.
    const BYTES: usize = Self::DTYPE.block_bytes();
    /// Whether blocks have minima: one that is added (Q4_1, Q5_1), or one per sub-block that is taken off (Q4_K, Q5_K).
    const MINIMA: bool = matches!(Self::DTYPE, DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K);
    /// Whether unsigned quants take all eight bits: then the sum of two products with activations may not fit 16 bits.
    const WIDE: bool = Self::OFFSET == 128;
    /// Elements of a block of 256 that share an integer scale.
    const SUB: usize = if matches!(Self::DTYPE, DType::Q6_K) { 16 } else { 32 };
    /// Where nibbles start: in all types that have but nibbles and perhaps fifth bits before them, they end a block.
    const NIBBLES: usize = Self::DTYPE.block_bytes() - Self::BLOCK / 2;
    /// What nibbles stand for in types where they are indices.
    const GRID: [i8; 16] = if matches!(Self::DTYPE, DType::MXFP4) { E2M1_TWICE } else { IQ4 };
    /// The first `blocks` blocks of a row. With one `blocks` for all rows, a loop over blocks needs no further checks.
    fn blocks(row: &[u8], blocks: usize) -> &[Self::Block];
}

macro_rules! kinds {
    ($($name:ident = $dtype:ident + $offset:literal)*) => { $(
        pub(super) struct $name;
        impl Kind for $name {
            const DTYPE: DType = DType::$dtype;
            const OFFSET: i32 = $offset;
            type Block = [u8; DType::$dtype.block_bytes()];
            #[inline(always)]
            fn blocks(row: &[u8], blocks: usize) -> &[Self::Block] {
                &row.as_chunks().0[..blocks]
            }
        }
    )* };
}
kinds! {
    Q80 = Q8_0 + 128  Q40 = Q4_0 + 8  Q50 = Q5_0 + 16  Q41 = Q4_1 + 0  Q51 = Q5_1 + 0  Iq4Nl = IQ4_NL + 128
    Iq4Xs = IQ4_XS + 128  Mxfp4 = MXFP4 + 12  Q4K = Q4_K + 0  Q5K = Q5_K + 0  Q6K = Q6_K + 32
}

/// The elements `32 * sub..32 * (sub + 1)` of a block, unsigned.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn unsigned<T: Kind>(block: &[u8], sub: usize) -> __m256i {
    match T::DTYPE {
        DType::Q8_0 => _mm256_xor_si256(signed::<T>(block, sub), _mm256_set1_epi8(-128)),
        DType::Q4_0 | DType::Q4_1 => nibbles::<T>(block, sub),
        DType::Q5_0 | DType::Q5_1 => {
            let bits = u32::from_le_bytes(*at(block, T::NIBBLES - 4));
            _mm256_add_epi8(nibbles::<T>(block, sub), sixteens(bits))
        }
        DType::IQ4_NL | DType::IQ4_XS | DType::MXFP4 => {
            look_up(const { &raised(T::GRID, T::OFFSET) }, nibbles::<T>(block, sub))
        }
        DType::Q4_K => half_nibbles::<T>(block, sub),
        DType::Q5_K => {
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

/// The elements `32 * sub..32 * (sub + 1)` of a block of a [`Kind::WIDE`] type, signed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn signed<T: Kind>(block: &[u8], sub: usize) -> __m256i {
    if matches!(T::DTYPE, DType::Q8_0) {
        load256(at(block, 2))
    } else {
        look_up(const { &raised(T::GRID, 0) }, nibbles::<T>(block, sub))
    }
}

/// `grid` with `offset` added, as bytes.
pub(super) const fn raised(grid: [i8; 16], offset: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = (grid[i] as i32 + offset) as u8;
        i += 1;
    }
    bytes
}

/// What indices below 16 stand for.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(grid: &[u8; 16], indices: __m256i) -> __m256i {
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(grid)), indices)
}

/// Of sixteen bytes, low nibbles in the lower half, high ones in the upper.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles<T: Kind>(block: &[u8], sub: usize) -> __m256i {
    let bytes = load128(at(block, T::NIBBLES + 16 * sub));
    let mask = _mm_set1_epi8(15);
    _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16::<4>(bytes), mask), _mm_and_si128(bytes, mask))
}

/// Low (even `sub`) or high nibbles of the 32 bytes that two sub-blocks share.
#[inline]
#[target_feature(enable = "avx2")]
fn half_nibbles<T: Kind>(block: &[u8], sub: usize) -> __m256i {
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

/// The eight scales and eight minima of Q4_K and Q5_K, a byte each.
#[inline(always)]
pub(super) fn scales_and_minima(block: &[u8]) -> (u64, u64) {
    let word = |i: usize| u32::from_le_bytes(*at(block, 4 + 4 * i));
    let (a, b, c) = (word(0), word(1), word(2));
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let upper = |low: u32, high: u32| low & 0x0f0f_0f0f | (high >> 2) & 0x3030_3030;
    (join(a & 0x3f3f_3f3f, upper(c, a)), join(b & 0x3f3f_3f3f, upper(c >> 4, b)))
}

/// The signed scales of Q6_K and IQ4_XS, one for each 16 elements.
#[inline(always)]
pub(super) fn sub_scales<T: Kind>(block: &[u8]) -> [i8; 16] {
    if matches!(T::DTYPE, DType::Q6_K) {
        at::<16>(block, 192).map(|scale| scale as i8)
    } else {
        let scales = iq4_scales(block).to_le_bytes();
        std::array::from_fn(|group| scales[group / 2] as i8)
    }
}

/// The same in a register.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sub_scales_128<T: Kind>(block: &[u8]) -> __m128i {
    if matches!(T::DTYPE, DType::Q6_K) {
        load128(at(block, 192))
    } else {
        let scales = _mm_set1_epi64x(iq4_scales(block) as i64);
        _mm_unpacklo_epi8(scales, scales)
    }
}

/// The eight scales of IQ4_XS, a signed byte each.
#[inline(always)]
fn iq4_scales(block: &[u8]) -> u64 {
    let mut high = u64::from(u16::from_le_bytes(*at(block, 2)));
    let mut low = u64::from(u32::from_le_bytes(*at(block, 4)));
    // Two and four bits move to a byte each: halves part, then their halves, then theirs.
    high = (high | high << 24) & 0x0000_00ff_0000_00ff;
    high = (high | high << 12) & 0x000f_000f_000f_000f;
    high = (high | high << 6) & 0x0303_0303_0303_0303;
    low = (low | low << 16) & 0x0000_ffff_0000_ffff;
    low = (low | low << 8) & 0x00ff_00ff_00ff_00ff;
    low = (low | low << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 32 is taken off each byte under a bit that keeps it from borrowing of the next one.
    let bytes = (high << 4 | low | 0x8080_8080_8080_8080) - 0x2020_2020_2020_2020;
    bytes ^ 0x8080_8080_8080_8080
}

/// The bits of a block's scale: a binary16, or MXFP4's exponent.
#[inline(always)]
pub(super) fn scale_bits<T: Kind>(block: &[u8]) -> u16 {
    match T::DTYPE {
        DType::MXFP4 => block[0].into(),
        DType::Q6_K => u16::from_le_bytes(*at(block, 208)),
        _ => u16::from_le_bytes(*at(block, 0)),
    }
}

/// A block's scale.
#[inline(always)]
pub(super) fn scale<T: Kind>(block: &[u8]) -> f32 {
    let bits = scale_bits::<T>(block);
    if matches!(T::DTYPE, DType::MXFP4) { half_e8m0(bits as u8) } else { widen(bits) }
}

/// The bits of a block's minimum or scale of minima.
#[inline(always)]
pub(super) fn minimum_scale_bits(block: &[u8]) -> u16 {
    u16::from_le_bytes(*at(block, 2))
}
