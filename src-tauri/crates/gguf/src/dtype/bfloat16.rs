//! BF16: the upper 16 bits of a binary32, little-endian, one element a block; encoding rounds to nearest, ties to even.

/// Places each element's bits in the upper half, which is exact.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (&block, out) in blocks.as_chunks().0.iter().zip(out) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(block)) << 16);
    }
}

/// Rounds each element to the nearest upper half; a NaN stays one, made quiet.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    out.extend(x.iter().flat_map(|&x| upper_half(x).to_le_bytes()));
}

fn upper_half(x: f32) -> u16 {
    let bits = x.to_bits();
    // Rounding could carry a NaN's payload into the exponent, and cutting could leave an infinity, hence the quiet bit.
    let rounded = if x.is_nan() { bits | 0x0040_0000 } else { bits + (0x7fff + ((bits >> 16) & 1)) };
    (rounded >> 16) as u16
}
