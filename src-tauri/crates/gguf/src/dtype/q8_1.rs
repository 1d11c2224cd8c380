//! Q8_1: 32 signed bytes with one scale and their sum. ggml multiplies with it, so it is a type of activations.
//!
//! ```text
//! byte  0   2   4                                36
//!       +---+---+--------------------------------+     d, s: f16, q: i8
//!       | d | s | q0 q1 q2 ...               q31 |     x[i] = q[i] * d
//!       +---+---+--------------------------------+     s    = d * (q[0] + q[1] + ... + q[31])
//! ```

use super::scales::scale;

/// Multiplies each byte with its block's scale; the stored sum is not needed.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<36>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let d = scale([block[0], block[1]]);
        for (&q, out) in block[4..].iter().zip(out) {
            *out = f32::from(q as i8) * d;
        }
    }
}
