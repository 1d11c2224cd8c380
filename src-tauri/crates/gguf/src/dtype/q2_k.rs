//! Q2_K: 256 values of 2 bits in sixteen sub-blocks of 16, each with a 4-bit scale and a 4-bit minimum.
//!
//! ```text
//! byte  0                16              80  82     84
//!       +----------------+---------------+---+------+     d, dmin: f16
//!       | minima, scales | two bits each | d | dmin |     scale in the low 4 bits, minimum in the high ones
//!       +----------------+---------------+---+------+     x = (d * scale) * q - (dmin * minimum)
//! ```

use super::integers::{BLOCK, Integers, Minima};
use super::lanes::part;
use super::minimum_search::Search;
use super::scales::scale;
use super::two_bits;

const BYTES: usize = 84;

/// Parts scales from minima.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let (packed, quants) = block.split_first_chunk::<16>().expect("a block is longer than its scales");
    let quants = quants.first_chunk().expect("64 bytes of quants follow");
    Integers {
        d: scale([block[80], block[81]]),
        scales: packed.map(|byte| (byte & 15) as i8),
        quants: two_bits::unpack(quants),
        minima: Some(Minima { d: scale([block[82], block[83]]), values: packed.map(|byte| byte >> 4) }),
    }
}

const SEARCH: Search = Search { levels: 3.0, first: -0.5, further: 15, magnitude: true, scale_levels: 15.0 };

/// Searches each sub-block's scale and minimum for the least error, weighted by the elements' magnitudes.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let x = part::<16, 16>(x);
        let grids = SEARCH.grids(&x, &x.map(|x| x.map(f32::abs)));
        out.extend(grids.scales.iter().zip(grids.minima).map(|(scale, minimum)| scale | minimum << 4));
        out.extend(two_bits::pack(&grids.quants));
        out.extend(grids.d.to_le_bytes());
        out.extend(grids.dmin.to_le_bytes());
    }
}
