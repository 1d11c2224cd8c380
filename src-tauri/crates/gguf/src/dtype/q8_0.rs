//! Q8_0: 32 signed bytes with one scale.
//!
//! ```text
//! byte  0   2                                34
//!       +---+--------------------------------+
//!       | d | q0 q1 q2 ...               q31 |     d: f16, q: i8
//!       +---+--------------------------------+     x[i] = q[i] * d
//! ```

use half::f16;

use super::scales::{largest, scale};
use super::unpacked::UnpackedRow;

const BLOCK: usize = 32;
const BYTES: usize = 34;

/// Multiplies each byte with its block's scale.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let d = scale([block[0], block[1]]);
        for (&q, out) in block[2..].iter().zip(out) {
            *out = f32::from(q as i8) * d;
        }
    }
}

/// Appends the scale and the bytes.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let quants = row.push_scale(block);
    row.quants.extend(quants.iter().map(|&b| b as i8));
}

/// Maps the largest magnitude to 127 and rounds half away from zero; the scale that is stored is rounded, the one that
/// divides is not.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let d = largest(x).abs() / 127.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        out.extend(f16::from_f32(d).to_le_bytes());
        out.extend(x.iter().map(|x| (x * inverse).round() as i8 as u8));
    }
}
