//! Scales of blocks: where types store them, and what encoders need to choose them.

/// Where a block stores its scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// The type has no blocks, or its scale is an f32.
    None,
    /// An f16 at each of these byte offsets: the block's scale, then its minimum or the scale of its minima.
    F16(&'static [usize]),
    /// One f16, four bits of it on top of each of four u16 that start at this byte offset, the lowest bits first.
    SplitF16(usize),
    /// A power of two, the exponent in the first byte: [`half_e8m0`](super::codebook::half_e8m0).
    E8M0,
    /// 8-bit floats for several elements each: [`ue4m3_half`](super::codebook::ue4m3_half).
    UE4M3,
}

/// The `f16` at the start of `bytes` as `f32`; scales are stored so.
pub(super) fn scale(bytes: [u8; 2]) -> f32 {
    half::f16::from_le_bytes(bytes).to_f32()
}

/// Below this magnitude a sub-block counts as all zero, as in ggml (`GROUP_MAX_EPS`).
pub(super) const SMALLEST: f32 = 1e-15;

/// The element of the largest magnitude, the first of equals; zero for an empty slice.
pub(super) fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |largest: f32, &x| if x.abs() > largest.abs() { x } else { largest })
}

/// What starts a block with a minimum, `d` and `m`, and the elements' places on the grid of `levels` steps that `d` spreads
/// from the least element `m` to the greatest.
pub(super) fn grid_above_minimum(x: &[f32; 32], levels: u8) -> ([u8; 4], [u8; 32]) {
    let least = x.iter().copied().fold(f32::INFINITY, f32::min);
    let greatest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = (greatest - least) / f32::from(levels);
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let [d0, d1] = half::f16::from_f32(d).to_le_bytes();
    let [m0, m1] = half::f16::from_f32(least).to_le_bytes();
    ([d0, d1, m0, m1], x.map(|x| (((x - least) * inverse + 0.5) as u8).min(levels)))
}
