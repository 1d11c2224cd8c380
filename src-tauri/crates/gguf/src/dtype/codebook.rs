//! The grids of types whose 4-bit quants are indices into a table, and the scale that is a bare exponent.
//!
//! `IQ4` is ggml's non-linear grid (`kvalues_iq4nl`), denser around zero, where weights are. `E2M1_TWICE` holds the sixteen
//! values of the four-bit float of the Open Compute Project's microscaling formats, doubled so that they are integers;
//! the scale beside them is therefore half of what its bits say.
//! <https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf>

/// The values of a quant of IQ4_NL and IQ4_XS, ascending.
pub const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of a quant of MXFP4 and NVFP4: a sign bit above seven magnitudes and zero.
pub const E2M1_TWICE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Returns `2^(e - 128)`, half of the scale that the E8M0 exponent `e` encodes. The result is exact for all
/// exponents; the smallest two give subnormals. The format defines 255 as NaN. ggml ignores that definition, and so
/// does this function.
#[must_use]
pub const fn half_e8m0(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e as u32 - 1) << 23 })
}

/// Returns half of the value of a UE4M3 byte: four bits of exponent, biased by 7, and three of mantissa. The highest
/// bit is ignored, with one exception as in ggml: 0x7f is NaN and counts as zero, but 0xff is a number.
#[must_use]
pub fn ue4m3_half(byte: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(byte >> 3 & 15), byte & 7);
    match exponent {
        _ if byte == 0x7f => 0.0,
        0 => f32::from(mantissa) * f32::from_bits((127 - 10) << 23),
        _ => f32::from(8 + mantissa) * f32::from_bits((127 - 11 + exponent) << 23),
    }
}

/// The values of the low nibble of `byte` and of its high one.
#[expect(clippy::indexing_slicing, reason = "a nibble is below 16")]
pub(super) fn pair(codebook: &[i8; 16], byte: u8) -> [f32; 2] {
    [byte & 15, byte >> 4].map(|nibble| f32::from(codebook[usize::from(nibble)]))
}
