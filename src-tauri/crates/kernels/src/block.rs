//! Blocks of quantised weights as vector kernels read them: the type when a kernel is compiled, and the numbers in a block
//! that are not its elements. The layouts are drawn in `cairn_gguf::dtype`.
//!
//! [`with_block_types!`] is the table of the types that have vector kernels. Types that are not in it take the scalar path.

use cairn_gguf::DType;
use cairn_gguf::dtype::Scales;
use cairn_gguf::dtype::codebook::{E2M1_TWICE, IQ4, half_e8m0};

use crate::portable::arith::widen;

/// How a block stores its quants. Kernels choose the code that unpacks a block by this, not by the type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Signed bytes after a scale of two bytes.
    Bytes,
    /// Sixteen bytes for each 32 elements: their low nibbles, then their high ones.
    Nibbles,
    /// [`Layout::Nibbles`] after four bytes of fifth bits.
    FiveBits,
    /// [`Layout::Nibbles`] that are indices into [`BlockType::GRID`]. Blocks of 256 have the integer scales of IQ4_XS.
    Indices,
    /// 32 bytes for each 64 elements: their low nibbles, then their high ones. The head is that of Q4_K.
    PairedNibbles,
    /// [`Layout::PairedNibbles`] after 32 bytes of fifth bits at byte 16.
    PairedFiveBits,
    /// Four low bits and two high bits in places of their own, and sixteen signed scales at byte 192, as in Q6_K.
    SixBits,
}

/// Passes the table of types with vector kernels to the macro `$use`, after the arguments: per type its name, the layout of
/// its quants, and the number whose addition makes the quants unsigned.
macro_rules! with_block_types {
    ($use:ident!($($args:tt)*)) => {
        $use! {
            ($($args)*)
            Q8_0: Bytes + 128,
            Q4_0: Nibbles + 8,
            Q5_0: FiveBits + 16,
            Q4_1: Nibbles + 0,
            Q5_1: FiveBits + 0,
            IQ4_NL: Indices + 128,
            IQ4_XS: Indices + 128,
            MXFP4: Indices + 12,
            Q4_K: PairedNibbles + 0,
            Q5_K: PairedFiveBits + 0,
            Q6_K: SixBits + 32,
        }
    };
}
pub(crate) use with_block_types;

/// For [`with_block_types!`]: evaluates `$kernel` with `$type` as the [`BlockType`] of `$dtype`, or `$otherwise` for a type
/// that is not in the table.
macro_rules! dispatch {
    (($dtype:expr, $type:ident => $kernel:expr, else $otherwise:expr) $($name:ident: $layout:ident + $offset:literal,)*) => {
        match $dtype {
            $(cairn_gguf::DType::$name => {
                type $type = $crate::block::$name;
                $kernel
            })*
            _ => $otherwise,
        }
    };
}
pub(crate) use dispatch;

/// A quantised type for weights, chosen when a kernel is compiled.
pub(crate) trait BlockType {
    /// The type.
    const DTYPE: DType;
    /// How a block stores its quants.
    const LAYOUT: Layout;
    /// The number whose addition makes the quants unsigned.
    const OFFSET: i32;
    /// The bytes of a block.
    type Block: AsRef<[u8]> + 'static;
    /// Elements in a block.
    const BLOCK: usize = Self::DTYPE.block();
    /// Bytes of a block. A constant, because a look-up in the types' table would be repeated in every kernel.
    #[cfg(target_arch = "x86_64")]
    const BYTES: usize = Self::DTYPE.block_bytes();
    /// Where a block has its scale.
    const SCALE_AT: usize = match Self::DTYPE.scales() {
        Scales::F16(offsets) => offsets[0],
        _ => 0,
    };
    /// Whether the scale is an exponent instead of a binary16.
    const EXPONENT_SCALE: bool = matches!(Self::DTYPE.scales(), Scales::E8M0);
    /// Whether blocks have minima: one that is added (blocks of 32), or one per sub-block that is subtracted (blocks of 256).
    const MINIMA: bool = matches!(Self::DTYPE.scales(), Scales::F16(offsets) if offsets.len() == 2);
    /// Whether unsigned quants take all eight bits: then the sum of two products with activations may not fit 16 bits.
    #[cfg(target_arch = "x86_64")]
    const WIDE: bool = Self::OFFSET == 128;
    /// Elements of a block of 256 that share an integer scale.
    const SUB: usize = if matches!(Self::LAYOUT, Layout::SixBits) { 16 } else { 32 };
    /// Where nibbles start: in all layouts of nibbles they end a block.
    const NIBBLES: usize = Self::DTYPE.block_bytes() - Self::BLOCK / 2;
    /// The values of nibbles that are indices.
    const GRID: [i8; 16] = if Self::EXPONENT_SCALE { E2M1_TWICE } else { IQ4 };
    /// The first `blocks` blocks of a row. With one `blocks` for all rows, a loop over blocks needs no further checks.
    fn blocks(row: &[u8], blocks: usize) -> &[Self::Block];
}

macro_rules! define {
    (() $($name:ident: $layout:ident + $offset:literal,)*) => { $(
        #[allow(non_camel_case_types, reason = "named as in `DType`, of which some are camel case")]
        pub(crate) struct $name;
        impl BlockType for $name {
            const DTYPE: DType = DType::$name;
            const LAYOUT: Layout = Layout::$layout;
            const OFFSET: i32 = $offset;
            type Block = [u8; DType::$name.block_bytes()];
            #[inline(always)]
            fn blocks(row: &[u8], blocks: usize) -> &[Self::Block] {
                &row.as_chunks().0[..blocks]
            }
        }
    )* };
}
with_block_types! { define!() }

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
pub(crate) fn sub_scales<T: BlockType>(block: &[u8]) -> [i8; 16] {
    if matches!(T::LAYOUT, Layout::SixBits) {
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

/// The bits of a block's scale: a binary16, or an exponent.
#[inline(always)]
pub(crate) fn scale_bits<T: BlockType>(block: &[u8]) -> u16 {
    if T::EXPONENT_SCALE { block[T::SCALE_AT].into() } else { u16::from_le_bytes(*at(block, T::SCALE_AT)) }
}

/// A block's scale.
#[inline(always)]
pub(crate) fn scale<T: BlockType>(block: &[u8]) -> f32 {
    let bits = scale_bits::<T>(block);
    if T::EXPONENT_SCALE { half_e8m0(bits as u8) } else { widen(bits) }
}

/// The bits of a block's minimum or scale of minima.
#[inline(always)]
pub(crate) fn minimum_scale_bits(block: &[u8]) -> u16 {
    u16::from_le_bytes(*at(block, 2))
}
