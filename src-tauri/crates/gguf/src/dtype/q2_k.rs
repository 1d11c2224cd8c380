//! Q2_K: 256 values of 2 bits in sixteen sub-blocks of 16, each with a 4-bit scale and a 4-bit minimum.
//!
//! ```text
//! byte  0                16              80  82     84
//!       +----------------+---------------+---+------+     d, dmin: f16
//!       | minima, scales | two bits each | d | dmin |     scale in the low 4 bits, minimum in the high ones
//!       +----------------+---------------+---+------+     x = (d * scale) * q - (dmin * minimum)
//! ```

use super::importance::{block_weights, mean_square};
use super::integers::{BLOCK, Integers, Minima};
use super::lanes::part;
use super::minimum_search::{Grids, Search};
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

const WEIGHTED: Search = Search::weighted(3.0, 15.0);
const SEARCH: Search = Search { first: -0.5, step: 0.1, further: 15, magnitude: true, ..WEIGHTED };

/// Searches each sub-block's scale and minimum for the least error, weighted by the elements' magnitudes.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let x = part::<16, 16>(x);
        pack(&SEARCH.grids(&x, &x.map(|x| x.map(f32::abs))), out);
    }
}

/// Like [`encode`], with errors weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    for (x, importance) in x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0) {
        let weights = block_weights(x, importance, mean_square(x));
        pack(&WEIGHTED.weighted_grids(&part::<16, 16>(x), &part(&weights)), out);
    }
}

fn pack(grids: &Grids<16>, out: &mut Vec<u8>) {
    out.extend(grids.scales.iter().zip(grids.minima).map(|(scale, minimum)| scale | minimum << 4));
    out.extend(two_bits::pack(&grids.quants));
    out.extend(grids.d.to_le_bytes());
    out.extend(grids.dmin.to_le_bytes());
}
