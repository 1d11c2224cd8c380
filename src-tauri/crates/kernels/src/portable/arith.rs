//! What differs between variants in code that is written once: fused or separate rounding, and binary16.

use crate::attention::SPAN_POSITIONS;

/// Lanes of every sum over an axis.
pub(crate) const LANES: usize = 16;

/// One vector of partial results.
pub(crate) type Lanes = [f32; LANES];

/// The operations of a variant. Those on lanes have a portable form, which a variant may replace by instructions, since a
/// compiler that unrolls lanes does not always find the vectors again.
pub(crate) trait Arith {
    /// `a * b + c`, rounded once where the instructions allow it.
    fn fma(a: f32, b: f32, c: f32) -> f32;

    /// `c += a * b`, lane by lane, rounded as [`Self::fma`].
    #[inline(always)]
    fn fma_lanes(a: &Lanes, b: &Lanes, c: &mut Lanes) {
        for ((&a, &b), c) in a.iter().zip(b).zip(c) {
            *c = Self::fma(a, b, *c);
        }
    }

    /// `c += a * b` with one `a` for all lanes.
    #[inline(always)]
    fn fma_splat(a: f32, b: &Lanes, c: &mut Lanes) {
        for (&b, c) in b.iter().zip(c) {
            *c = Self::fma(a, b, *c);
        }
    }

    /// Asks for the cache lines of bytes that are read soon.
    #[inline(always)]
    fn prefetch(_bytes: &[u8]) {}

    /// Number of queries up to which a variant has its own functions for attention over binary16: [`Self::scores_f16`] and
    /// [`Self::values_f16`]. Their results have the bits of the portable code.
    #[inline(always)]
    fn few_queries() -> usize {
        0
    }

    /// Scores of few queries `[queries, head_dim]` against all positions of a page of keys, which are the positions of `page` in
    /// `scores`. Meanwhile `next` is prefetched.
    #[inline(always)]
    fn scores_f16(_keys: &[u8], _q: &[f32], _scores: &mut [[f32; SPAN_POSITIONS]], _page: usize, _next: &[u8]) {
        unreachable!("the variant has no functions for few queries");
    }

    /// Adds rows of values with the weights of one or four queries to their accumulators `[queries, head_dim]`.
    #[inline(always)]
    fn values_f16(_rows: &[u8], _weights: &[&[f32]], _acc: &mut [f32]) {
        unreachable!("the variant has no functions for few queries");
    }

    /// Sixteen little-endian `f32`.
    #[inline(always)]
    fn read_f32(bytes: &[u8; 4 * LANES]) -> Lanes {
        let words = bytes.as_chunks::<4>().0;
        std::array::from_fn(|lane| f32::from_le_bytes(words[lane]))
    }

    /// Sixteen little-endian binary16.
    #[inline(always)]
    fn read_f16(bytes: &[u8; 2 * LANES]) -> Lanes {
        let words = bytes.as_chunks::<2>().0;
        std::array::from_fn(|lane| widen(u16::from_le_bytes(words[lane])))
    }

    /// Sixteen little-endian upper halves of `f32`.
    #[inline(always)]
    fn read_bf16(bytes: &[u8; 2 * LANES]) -> Lanes {
        let words = bytes.as_chunks::<2>().0;
        std::array::from_fn(|lane| f32::from_bits(u32::from(u16::from_le_bytes(words[lane])) << 16))
    }

    /// Binary16 to `f32`, exactly.
    #[inline(always)]
    fn widen(half: &[u16; LANES]) -> Lanes {
        half.map(widen)
    }

    /// `f32` to binary16, ties to even.
    #[inline(always)]
    fn narrow(x: &Lanes) -> [u16; LANES] {
        x.map(|x| half::f16::from_f32_const(x).to_bits())
    }

    /// Sixteen signed bytes times one factor.
    #[inline(always)]
    fn read_i8(bytes: &[u8; LANES], factor: f32) -> Lanes {
        bytes.map(|byte| f32::from(byte as i8) * factor)
    }

    /// The lower halves of sixteen bytes, then the upper ones, each less eight.
    #[inline(always)]
    fn nibbles(bytes: &[u8; LANES]) -> [u8; 2 * LANES] {
        std::array::from_fn(|i| if i < LANES { bytes[i] & 15 } else { bytes[i - LANES] >> 4 }.wrapping_sub(8))
    }

    /// Sixteen rows of sixteen little-endian binary16 as `f32`, transposed: `out[column][row]`.
    #[inline(always)]
    fn transpose_f16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
        transpose(rows.map(Self::read_f16))
    }

    /// Sixteen rows of sixteen little-endian upper halves of `f32`, transposed.
    #[inline(always)]
    fn transpose_bf16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES] {
        transpose(rows.map(Self::read_bf16))
    }

    /// Sixteen rows of thirty-two signed bytes, transposed, each row times its own factor.
    #[inline(always)]
    fn transpose_i8(rows: [&[u8; 2 * LANES]; LANES], factors: &Lanes) -> [Lanes; 2 * LANES] {
        std::array::from_fn(|column| std::array::from_fn(|row| f32::from(rows[row][column] as i8) * factors[row]))
    }
}

/// Separate rounding of product and sum, no conversion instructions.
pub(crate) struct Plain;

impl Arith for Plain {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Sixteen rows of sixteen elements, transposed.
#[inline(always)]
fn transpose(rows: [Lanes; LANES]) -> [Lanes; LANES] {
    std::array::from_fn(|column| std::array::from_fn(|row| rows[row][column]))
}

/// One binary16 to `f32`.
#[inline(always)]
pub(crate) fn widen(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff) << 13;
    // The exponents' biases differ by 112; a product moves subnormals too, exactly.
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let special = if half & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(finite.to_bits() | special | u32::from(half >> 15) << 31)
}

/// The tree that ends every sum over lanes: the upper half is added to the lower, four times.
#[inline(always)]
pub(crate) fn sum(x: &Lanes) -> f32 {
    let x: [f32; 8] = std::array::from_fn(|lane| x[lane] + x[lane + 8]);
    let x: [f32; 4] = std::array::from_fn(|lane| x[lane] + x[lane + 4]);
    (x[0] + x[2]) + (x[1] + x[3])
}
