//! Q5_K: 256 values of 5 bits in eight sub-blocks of 32, each with a 6-bit scale and a 6-bit minimum.
//!
//! ```text
//! byte  0   2      4        16           48                            176
//!       +---+------+--------+------------+-------------------------------+    d, dmin: f16
//!       | d | dmin | scales | fifth bits | 4 x 32 bytes of nibbles       |    scales: see `k_scales`
//!       +---+------+--------+------------+-------------------------------+
//! ```
//!
//! The 32 bytes of nibbles number `p` hold sub-block `2p` in their low nibbles and `2p + 1` in their high ones. Bit `j`
//! of fifth-bit byte `l` belongs to element `l` of sub-block `j`. An element of sub-block `j` is
//! `(d * scale[j]) * q - (dmin * minimum[j])`: the two products are rounded before they are used.

use super::minimum_search::{Grids, Search};
use super::scales::scale;
use super::unpacked::UnpackedRow;
use super::{k_scales, q4_k};

const BLOCK: usize = 256;
const BYTES: usize = 176;

/// Spreads each byte over two sub-blocks, joins the fifth bits and applies scales and minima.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let (head, quants) = block.split_at(48);
        let (head, fifth) = head.split_at(16);
        let [d0, d1, m0, m1, packed @ ..] = head.first_chunk::<16>().expect("the head was cut 16 bytes long");
        let (d, dmin) = (scale([*d0, *d1]), scale([*m0, *m1]));
        let (scales, minima) = k_scales::unpack(*packed);
        let scales = scales.map(|s| d * f32::from(s));
        let minima = minima.map(|m| dmin * f32::from(m));

        let pairs = scales.as_chunks::<2>().0.iter().zip(minima.as_chunks::<2>().0);
        let halves = quants.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0);
        for (p, ((&[low_scale, high_scale], &[low_minimum, high_minimum]), (quants, out))) in
            pairs.zip(halves).enumerate()
        {
            let (low, high) = out.split_at_mut(32);
            for (((&b, &h), low), high) in quants.iter().zip(fifth).zip(low).zip(high) {
                let low_fifth = (h >> (2 * p) & 1) << 4;
                let high_fifth = (h >> (2 * p + 1) & 1) << 4;
                *low = low_scale * f32::from(b & 15 | low_fifth) - low_minimum;
                *high = high_scale * f32::from(b >> 4 | high_fifth) - high_minimum;
            }
        }
    }
}

/// Appends the scales, the minima and the nibbles joined with their fifth bits.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let rest = row.push_scale(block);
    let rest = row.push_minimum_scale(rest);
    let (packed, rest) = rest.split_first_chunk().expect("twelve bytes of scales follow");
    let (fifth, quants) = rest.split_first_chunk::<32>().expect("32 bytes of fifth bits follow");
    row.push_sub_blocks(k_scales::unpack(*packed));
    for (p, bytes) in quants.as_chunks::<32>().0.iter().enumerate() {
        let fifth_bits = |sub: usize| fifth.iter().map(move |h| (h >> sub & 1) << 4);
        row.quants.extend(bytes.iter().zip(fifth_bits(2 * p)).map(|(b, fifth)| (b & 15 | fifth) as i8));
        row.quants.extend(bytes.iter().zip(fifth_bits(2 * p + 1)).map(|(b, fifth)| (b >> 4 | fifth) as i8));
    }
}

const WEIGHTED: Search = Search::weighted(31.0, 63.0);
const SEARCH: Search = Search { first: -0.5, step: 0.1, further: 15, ..WEIGHTED };

/// Searches each sub-block's scale and minimum for the least weighted error.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    SEARCH.spread_blocks::<8, 32>(x).for_each(|grids| pack(&grids, out));
}

/// Like [`encode`], with errors weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    WEIGHTED.weighted_blocks::<8, 32>(x, importance).for_each(|grids| pack(&grids, out));
}

fn pack(grids: &Grids<8>, out: &mut Vec<u8>) {
    let mut fifth = [0u8; 32];
    for (j, q) in grids.quants.as_chunks::<32>().0.iter().enumerate() {
        for (fifth, q) in fifth.iter_mut().zip(q) {
            *fifth |= (q >> 4) << j;
        }
    }
    out.extend(grids.d.to_le_bytes());
    out.extend(grids.dmin.to_le_bytes());
    out.extend(k_scales::pack(grids.scales, grids.minima));
    out.extend(fifth);
    out.extend(q4_k::nibbles(&grids.quants));
}
