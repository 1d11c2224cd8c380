//! IQ4_NL: 32 values of 4 bits with one scale, on the non-linear grid [`IQ4`].
//!
//! ```text
//! byte  0   2                 18
//!       +---+------------------+     d: f16
//!       | d | b0 b1 ...    b15 |     x[i]      = IQ4[b[i] & 15] * d      i = 0..16
//!       +---+------------------+     x[i + 16] = IQ4[b[i] >> 4] * d
//! ```

use super::codebook::{IQ4, pair};
use super::scale;

const BLOCK: usize = 32;
const BYTES: usize = 18;

/// Looks up low nibbles for the first half of a block, high nibbles for the second.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for ((&b, low), high) in block[2..].iter().zip(low).zip(high) {
            [*low, *high] = pair(&IQ4, b).map(|value| d * value);
        }
    }
}
