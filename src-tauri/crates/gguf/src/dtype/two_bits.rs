//! The 64 bytes in which Q2_K, Q3_K and TQ2_0 store two bits of each of 256 elements.
//!
//! Each half of a block (128 elements) has 32 bytes; its element `32 g + l` (`g` = 0..4, `l` = 0..32) takes bits `2g` and
//! `2g + 1` of byte `l`.

use super::integers::BLOCK;

/// All elements, each 0 to 3.
pub(super) fn unpack(bytes: &[u8; BLOCK / 4]) -> [i8; BLOCK] {
    let mut out = [0; BLOCK];
    for (bytes, out) in bytes.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<128>().0) {
        for (g, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            *out = bytes.map(|byte| (byte >> (2 * g) & 3) as i8);
        }
    }
    out
}

/// The bytes of elements from 0 to 3.
pub(super) fn pack(q: &[u8; BLOCK]) -> impl Iterator<Item = u8> {
    q.as_chunks::<128>()
        .0
        .iter()
        .flat_map(|half| (0..32).map(|l| half.iter().skip(l).step_by(32).rev().fold(0, |byte, q| byte << 2 | q)))
}
