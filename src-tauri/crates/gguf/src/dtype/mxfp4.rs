//! MXFP4: 32 four-bit floats (two bits of exponent, one of mantissa) with a power of two as their scale.
//!
//! ```text
//! byte  0   1                 17
//!       +---+------------------+     e: u8
//!       | e | b0 b1 ...    b15 |     x[i]      = E2M1_TWICE[b[i] & 15] * 2^(e - 128)      i = 0..16
//!       +---+------------------+     x[i + 16] = E2M1_TWICE[b[i] >> 4] * 2^(e - 128)
//! ```

use super::codebook::{E2M1_TWICE, half_e8m0, pair};
use super::unpacked::UnpackedRow;

const BLOCK: usize = 32;
const BYTES: usize = 17;

/// Looks up low nibbles for the first half of a block, high nibbles for the second.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = half_e8m0(block[0]);
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for ((&b, low), high) in block[1..].iter().zip(low).zip(high) {
            [*low, *high] = pair(&E2M1_TWICE, b).map(|value| d * value);
        }
    }
}

/// Appends the scale and the values, doubled.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let (&e, quants) = block.split_first().expect("a block starts with its exponent");
    row.scales.push(half_e8m0(e));
    row.push_indices(quants, &E2M1_TWICE);
}

/// Takes the exponent that scales the largest magnitude to between 4 and 8. Up to 6 it is on the grid, above it is
/// clipped, and rounds each element to the nearest value, the first of equally near ones.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let largest = x.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        // The logarithm is rounded to f32 before its floor is taken, as ggml's is: just below a power of two it is that of
        // the power itself. A magnitude so small that no exponent reaches it gets the smallest.
        let e = (f64::from(largest).log2() as f32).floor() - 2.0 + 127.0;
        let e = if largest > 0.0 { e as u8 } else { 0 };
        let d = half_e8m0(e);
        let (low, high) = x.split_at(BLOCK / 2);
        out.push(e);
        out.extend(low.iter().zip(high).map(|(&low, &high)| nearest(low, d) | nearest(high, d) << 4));
    }
}

/// The index of the value whose product with `d` is nearest to `x`.
fn nearest(x: f32, d: f32) -> u8 {
    let error = |value: i8| (d * f32::from(value) - x).abs();
    let mut best = (0, error(E2M1_TWICE[0]));
    for (index, &value) in (0u8..).zip(&E2M1_TWICE) {
        if error(value) < best.1 {
            best = (index, error(value));
        }
    }
    best.0
}
