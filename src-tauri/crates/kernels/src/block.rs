//! Blocks of quantised weights as kernels know them: the type when a kernel is compiled, and the numbers in a block that
//! are not its elements. The layouts are drawn in `cairn_gguf::dtype`.

use cairn_gguf::DType;

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
    /// Whether blocks have minima (Q4_K, Q5_K).
    const MINIMA: bool = matches!(Self::DTYPE, DType::Q4_K | DType::Q5_K);
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
kinds! { Q80 = Q8_0 + 128  Q40 = Q4_0 + 8  Q50 = Q5_0 + 16  Q4K = Q4_K + 0  Q5K = Q5_K + 0  Q6K = Q6_K + 32 }

/// `N` bytes at `offset`.
#[inline(always)]
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> &[u8; N] {
    bytes[offset..offset + N].as_array().expect("the slice has N bytes")
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

/// The sixteen signed scales of Q6_K.
#[inline(always)]
pub(crate) fn sub_scales(block: &[u8]) -> &[u8; 16] {
    at(block, 192)
}

/// The bits of a block's scale.
#[inline(always)]
pub(crate) fn scale<T: Kind>(block: &[u8]) -> u16 {
    u16::from_le_bytes(*at(block, if matches!(T::DTYPE, DType::Q6_K) { 208 } else { 0 }))
}

/// The bits of a block's scale of minima.
#[inline(always)]
pub(crate) fn minimum_scale(block: &[u8]) -> u16 {
    u16::from_le_bytes(*at(block, 2))
}
