//! F16: IEEE 754 binary16, little-endian, one element a block; encoding rounds to nearest, ties to even.

use half::f16;

/// Widens each element, which is exact.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (&block, out) in blocks.as_chunks().0.iter().zip(out) {
        *out = f16::from_le_bytes(block).to_f32();
    }
}

/// Rounds each element to the nearest binary16; values beyond 65,520 become infinities.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    out.extend(x.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()));
}
