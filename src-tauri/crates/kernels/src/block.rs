//! Blocks of quantised weights as kernels know them: the type when a kernel is compiled, and the numbers in a block that
//! are not its elements. The layouts are drawn in `cairn_gguf::dtype`.

use cairn_gguf::DType;
use cairn_gguf::dtype::codebook::{E2M1_TWICE, IQ4, half_e8m0};

use crate::portable::arith::widen;

/// A quantised type of weights, known when a kernel is compiled.
pub(crate) trait Kind {
    /// The type.
    const DTYPE: DType;
    /// What was added to make the quants unsigned.
    const OFFSET: i32;
    /// The bytes of a block.
    type Block: AsRef<[u8]> + 'static;
    /// Elements in a block.
    const BLOCK: usize = Self::DTYPE.block();
    /// Bytes of a block, here because a look-up in the types' table is done anew wherever a kernel asks.
    #[cfg(target_arch = "x86_64")]
    const BYTES: usize = Self::DTYPE.block_bytes();
    /// Whether blocks have minima: one that is added (Q4_1, Q5_1), or one per sub-block that is taken off (Q4_K, Q5_K).
    const MINIMA: bool = matches!(Self::DTYPE, DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K);
    /// Whether unsigned quants take all eight bits: then the sum of two products with activations may not fit 16 bits.
    #[cfg(target_arch = "x86_64")]
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
        pub(crate) struct $name;
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

/// `N` bytes at `offset`.
#[inline(always)]
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> &[u8; N] {
    bytes[offset..offset + N].as_array().expect("the slice has N bytes")
}

/// `grid` with `offset` added, as bytes.
pub(crate) const fn raised(grid: [i8; 16], offset: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = (grid[i] as i32 + offset) as u8;
        i += 1;
    }
    bytes
}

/// The eight scales and eight minima of Q4_K and Q5_K, a byte each.
#[inline(always)]
pub(crate) fn scales_and_minima(block: &[u8]) -> (u64, u64) {
    let word = |i: usize| u32::from_le_bytes(*at(block, 4 + 4 * i));
    let (a, b, c) = (word(0), word(1), word(2));
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let upper = |low: u32, high: u32| low & 0x0f0f_0f0f | (high >> 2) & 0x3030_3030;
    (join(a & 0x3f3f_3f3f, upper(c, a)), join(b & 0x3f3f_3f3f, upper(c >> 4, b)))
}

/// The signed scales of Q6_K and IQ4_XS, one for each 16 elements.
#[inline(always)]
pub(crate) fn sub_scales<T: Kind>(block: &[u8]) -> [i8; 16] {
    if matches!(T::DTYPE, DType::Q6_K) {
        at::<16>(block, 192).map(|scale| scale as i8)
    } else {
        let scales = iq4_scales(block).to_le_bytes();
        std::array::from_fn(|group| scales[group / 2] as i8)
    }
}

/// The eight scales of IQ4_XS, a signed byte each.
#[inline(always)]
pub(crate) fn iq4_scales(block: &[u8]) -> u64 {
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
pub(crate) fn scale_bits<T: Kind>(block: &[u8]) -> u16 {
    match T::DTYPE {
        DType::MXFP4 => block[0].into(),
        DType::Q6_K => u16::from_le_bytes(*at(block, 208)),
        _ => u16::from_le_bytes(*at(block, 0)),
    }
}

/// A block's scale.
#[inline(always)]
pub(crate) fn scale<T: Kind>(block: &[u8]) -> f32 {
    let bits = scale_bits::<T>(block);
    if matches!(T::DTYPE, DType::MXFP4) { half_e8m0(bits as u8) } else { widen(bits) }
}

/// The bits of a block's minimum or scale of minima.
#[inline(always)]
pub(crate) fn minimum_scale_bits(block: &[u8]) -> u16 {
    u16::from_le_bytes(*at(block, 2))
}
