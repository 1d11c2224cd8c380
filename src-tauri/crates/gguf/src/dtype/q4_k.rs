//! Q4_K: 256 values of 4 bits in eight sub-blocks of 32, each with a 6-bit scale and a 6-bit minimum.
//!
//! ```text
//! byte  0   2      4        16                                  144
//!       +---+------+--------+-------------------------------------+    d, dmin: f16
//!       | d | dmin | scales | 4 x 32 bytes of nibbles             |    scales: see `k_scales`
//!       +---+------+--------+-------------------------------------+
//! ```
//!
//! The 32 bytes number `p` hold sub-block `2p` in their low nibbles and `2p + 1` in their high ones. An element of
//! sub-block `j` is `(d * scale[j]) * q - (dmin * minimum[j])`: the two products are rounded before they are used.

use super::k_scales;
use super::minimum_search::{Grids, Search};
use super::scales::scale;
use super::unpacked::UnpackedRow;

const BLOCK: usize = 256;
const BYTES: usize = 144;

/// Spreads each byte over two sub-blocks and applies their scales and minima.
pub(super) fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let (head, quants) = block.split_at(16);
        let [d0, d1, m0, m1, packed @ ..] = head.first_chunk::<16>().expect("the head was cut 16 bytes long");
        let (d, dmin) = (scale([*d0, *d1]), scale([*m0, *m1]));
        let (scales, minima) = k_scales::unpack(*packed);
        let scales = scales.map(|s| d * f32::from(s));
        let minima = minima.map(|m| dmin * f32::from(m));

        let pairs = scales.as_chunks::<2>().0.iter().zip(minima.as_chunks::<2>().0);
        let halves = quants.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0);
        for ((&[low_scale, high_scale], &[low_minimum, high_minimum]), (quants, out)) in pairs.zip(halves) {
            let (low, high) = out.split_at_mut(32);
            for ((&b, low), high) in quants.iter().zip(low).zip(high) {
                *low = low_scale * f32::from(b & 15) - low_minimum;
                *high = high_scale * f32::from(b >> 4) - high_minimum;
            }
        }
    }
}

/// Appends the scales, the minima and the nibbles.
pub(super) fn unpack(block: &[u8], row: &mut UnpackedRow) {
    let rest = row.push_scale(block);
    let rest = row.push_minimum_scale(rest);
    let (packed, quants) = rest.split_first_chunk().expect("twelve bytes of scales follow");
    row.push_sub_blocks(k_scales::unpack(*packed));
    for bytes in quants.as_chunks::<32>().0 {
        row.push_nibbles(bytes, |nibble| nibble as i8);
    }
}

const WEIGHTED: Search = Search::weighted(15.0, 63.0);
const SEARCH: Search = Search { first: -1.0, step: 0.1, further: 20, ..WEIGHTED };

/// Searches each sub-block's scale and minimum for the least weighted error.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    SEARCH.spread_blocks::<8, 32>(x).for_each(|grids| pack(&grids, out));
}

/// Like [`encode`], with errors weighted by importance.
pub(super) fn encode_weighted(x: &[f32], importance: &[f32], out: &mut Vec<u8>) {
    WEIGHTED.weighted_blocks::<8, 32>(x, importance).for_each(|grids| pack(&grids, out));
}

fn pack(grids: &Grids<8>, out: &mut Vec<u8>) {
    out.extend(grids.d.to_le_bytes());
    out.extend(grids.dmin.to_le_bytes());
    out.extend(k_scales::pack(grids.scales, grids.minima));
    out.extend(nibbles(&grids.quants));
}

/// The bytes of quants of 4 bits: each 32 of them hold those of two sub-blocks. Higher bits are cut.
pub(super) fn nibbles(q: &[u8; BLOCK]) -> impl Iterator<Item = u8> {
    q.as_chunks::<64>().0.iter().flat_map(|pair| {
        let (low, high) = pair.split_at(32);
        low.iter().zip(high).map(|(low, high)| low & 15 | high << 4)
    })
}
