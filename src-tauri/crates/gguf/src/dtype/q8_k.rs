//! Q8_K: 256 signed bytes with one scale and their sums. ggml multiplies K-quants with it: a type of activations.
//!
//! ```text
//! byte  0   4                    260            292
//!       +---+--------------------+--------------+     d: f32, q: i8, sums: 16 x i16
//!       | d | q0 q1 ...     q255 | sums         |     x[i]    = d * q[i]
//!       +---+--------------------+--------------+     sums[j] = q[16 j] + ... + q[16 j + 15]
//! ```

/// Multiplies each byte by the scale of its block. The stored sums are redundant and not read.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<292>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        for (&q, out) in block[4..260].iter().zip(out) {
            *out = d * f32::from(q as i8);
        }
    }
}
