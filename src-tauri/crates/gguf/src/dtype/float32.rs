//! F32: IEEE 754 binary32, little-endian, one element a block.

/// Reinterprets each four bytes.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (&block, out) in blocks.as_chunks().0.iter().zip(out) {
        *out = f32::from_le_bytes(block);
    }
}

/// Appends each element's four bytes.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    out.extend(x.iter().flat_map(|x| x.to_le_bytes()));
}
