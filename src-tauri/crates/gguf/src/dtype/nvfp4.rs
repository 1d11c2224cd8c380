//! NVFP4: 64 values of 4 bits in four sub-blocks of 16, each with an 8-bit float as its scale.
//!
//! ```text
//! byte  0               4                          36
//!       +---------------+--------------------------+     d: 4 x UE4M3, the scale of elements 16 j..16 (j + 1)
//!       | d0 d1 d2 d3   | 8 bytes for each 16      |     x[i]     = (d / 2) * E2M1_TWICE[b[i] & 15]    i = 0..8
//!       +---------------+--------------------------+     x[i + 8] = (d / 2) * E2M1_TWICE[b[i] >> 4]
//! ```
//!
//! E2M1 and E4M3, of which UE4M3 is the half without a sign:
//! <https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf>.

use super::codebook::{E2M1_TWICE, pair, ue4m3_half};
use super::unpacked::UnpackedRow;

/// Low nibbles give the first half of a sub-block, high nibbles the second.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<36>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        let (scales, quants) = block.split_at(4);
        let subs = quants.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<16>().0);
        for (&scale, (quants, out)) in scales.iter().zip(subs) {
            let d = ue4m3_half(scale);
            let (low, high) = out.split_at_mut(8);
            for ((&b, low), high) in quants.iter().zip(low).zip(high) {
                [*low, *high] = pair(&E2M1_TWICE, b).map(|value| d * value);
            }
        }
    }
}

/// Appends the four scales and the values, doubled.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let (scales, quants) = block.split_first_chunk::<4>().expect("a block starts with its scales");
    row.scales.extend(scales.map(ue4m3_half));
    for bytes in quants.as_chunks::<8>().0 {
        row.push_indices(bytes, &E2M1_TWICE);
    }
}
