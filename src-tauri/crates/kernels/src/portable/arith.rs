//! What differs between variants in code that is written once: fused or separate rounding, and binary16.

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

    /// Sixteen rows of sixteen binary16 as `f32`, transposed: `out[column][row]`.
    #[inline(always)]
    fn transpose_halves(rows: [&[u16; LANES]; LANES]) -> [Lanes; LANES] {
        std::array::from_fn(|column| std::array::from_fn(|row| widen(rows[row][column])))
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
