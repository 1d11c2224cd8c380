//! I8, I16, I32, I64, F64: plain little-endian numbers, one element a block.
//!
//! Files carry them for tables beside the weights (indices, counters), never as weights. Decoding rounds to the
//! nearest `f32`, so large integers and doubles lose their low bits.

/// Widens each byte as a signed number.
pub(super) fn decode_i8(blocks: &[u8], out: &mut [f32]) {
    each(blocks, out, |bytes| f32::from(i8::from_le_bytes(bytes)));
}

/// Widens each 16-bit number.
pub(super) fn decode_i16(blocks: &[u8], out: &mut [f32]) {
    each(blocks, out, |bytes| f32::from(i16::from_le_bytes(bytes)));
}

/// Rounds each 32-bit number.
pub(super) fn decode_i32(blocks: &[u8], out: &mut [f32]) {
    each(blocks, out, |bytes| i32::from_le_bytes(bytes) as f32);
}

/// Rounds each 64-bit number.
pub(super) fn decode_i64(blocks: &[u8], out: &mut [f32]) {
    each(blocks, out, |bytes| i64::from_le_bytes(bytes) as f32);
}

/// Rounds each double.
pub(super) fn decode_f64(blocks: &[u8], out: &mut [f32]) {
    each(blocks, out, |bytes| f64::from_le_bytes(bytes) as f32);
}

fn each<const N: usize>(blocks: &[u8], out: &mut [f32], read: fn([u8; N]) -> f32) {
    for (&block, out) in blocks.as_chunks().0.iter().zip(out) {
        *out = read(block);
    }
}
