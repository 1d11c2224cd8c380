//! TQ2_0: 256 values of -1, 0 or 1 in two bits each, with one scale.
//!
//! ```text
//! byte  0               64  66
//!       +---------------+---+     d: f16
//!       | two bits each | d |     x = d * (q - 1)
//!       +---------------+---+
//! ```

use half::f16;

use super::integers::{BLOCK, Integers};
use super::scales::scale;
use super::{tq1_0, two_bits};

const BYTES: usize = 66;

/// Takes the offset off; a quant of 3, which no encoder writes, is 2.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let (quants, d) = block.split_first_chunk().expect("a block is longer than its quants");
    let mut out = Integers::new(scale(*d.first_chunk().expect("two bytes of the scale follow")));
    out.quants = two_bits::unpack(quants).map(|q| q - 1);
    out
}

/// Maps the largest magnitude to 1 and rounds half away from zero.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let (d, quants) = tq1_0::ternary(x);
        out.extend(two_bits::pack(&quants));
        out.extend(f16::from_f32(d).to_le_bytes());
    }
}
