//! IQ3_S: 256 values as 64 vectors of a grid of 512, with eight bits of signs for every two and a 4-bit scale for every
//! eight.
//!
//! ```text
//! byte  0   2             66          74          106      110
//!       +---+-------------+-----------+-----------+--------+     d: f16
//!       | d | 64 indices  | high bits | signs     | scales |     x = d * (2 s + 1) * (+- grid[index][i])
//!       +---+-------------+-----------+-----------+--------+
//! high bits: the ninth bit of each index, the lowest first
//! scales: a nibble for each 32 elements, the low one first
//! ```

use std::sync::LazyLock;

use half::f16;

use super::grids::{IQ3_S, entry, odd, signed};
use super::integers::{BLOCK, Integers};
use super::lanes::nearest;
use super::scales::scale;

const BYTES: usize = 110;

/// Joins the indices, looks the vectors up and applies their signs.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[0], block[1]]));
    let ninths = block[66..74].iter().flat_map(|&byte| (0..8).map(move |bit| u16::from(byte >> bit & 1)));
    let indices = block[2..66].iter().zip(ninths).map(|(&low, ninth)| u16::from(low) | ninth << 8);
    let signs = block[74..106].iter().flat_map(|&signs| [signs, signs >> 4]);
    for ((quants, index), signs) in out.quants.as_chunks_mut().0.iter_mut().zip(indices).zip(signs) {
        *quants = signed(entry(&IQ3_S, index), signs);
    }
    for (scales, &byte) in out.scales.as_chunks_mut().0.iter_mut().zip(&block[106..]) {
        let (low, high) = (odd((byte & 15).into()), odd((byte >> 4).into()));
        *scales = [low, low, high, high];
    }
    out
}

/// Elements that share a scale.
const SUB: usize = 32;
/// Highest level of an element. Levels 0, 1, 2, ... stand for the magnitudes 1, 3, 5, ...
const TOP: f32 = 7.0;
/// The scale of the scales is made larger than it would have to be, which leaves less error on the whole.
const ENLARGED: f32 = 1.033;

/// Searches each sub-block's scale and vectors of the grid for the least weighted error, then makes 4-bit integers of the
/// scales; ggml does the same.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let subs = x.as_chunks::<SUB>().0.iter().map(sub_block).collect::<Vec<_>>();
        let max = subs.iter().fold(0.0f32, |max, sub| max.max(sub.scale));
        let d = max / 31.0;
        let inverse = if max > 0.0 { 1.0 / d } else { 0.0 };
        let scales = subs.iter().map(|sub| nearest(0.5 * (inverse * sub.scale - 1.0)).clamp(0.0, 15.0) as u8);
        let scales = scales.collect::<Vec<_>>();
        let indices = || subs.iter().flat_map(|sub| sub.indices);
        out.extend(f16::from_f32(d * ENLARGED).to_le_bytes());
        out.extend(indices().map(|index| index as u8));
        out.extend(
            subs.iter().map(|sub| sub.indices.iter().rev().fold(0, |bits, index| bits << 1 | (index >> 8) as u8)),
        );
        out.extend(subs.iter().flat_map(|sub| sub.signs));
        out.extend(scales.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4));
    }
}

/// A sub-block on the grid.
struct SubBlock {
    scale: f32,
    indices: [u16; SUB / 4],
    signs: [u8; SUB / 8],
}

/// Of nineteen grids around the one that puts the largest magnitude on top, the scale that leaves the least error weighted by
/// `x * x` once every four elements are rounded to a vector of the grid; then, unless the elements' nearest levels were such
/// vectors, the vectors for that scale, and the best scale for those.
fn sub_block(x: &[f32; SUB]) -> SubBlock {
    let magnitudes = x.map(|x| if x >= 0.0 { x } else { -x });
    let mut signs = [0; SUB / 8];
    for (signs, x) in signs.iter_mut().zip(x.as_chunks::<8>().0) {
        *signs = x.iter().rev().fold(0, |bits, &x| bits << 1 | u8::from(x < 0.0));
    }
    let max = magnitudes.iter().fold(0.0f32, |max, &x| if x > max { x } else { max });
    if max == 0.0 {
        return SubBlock { scale: 0.0, indices: [0; SUB / 4], signs };
    }
    // The error of one vector is weighted by the roots of the weights, the magnitudes themselves.
    let weights = x.map(|x| x * x);
    let roots = weights.map(f32::sqrt);
    let mut scale = max / (2.0 * TOP + 1.0);
    let mut indices = [0; SUB / 4];
    let mut exact = false;
    let mut best = 0.0;
    for fifths in -9i8..=9 {
        let inverse = (2.0 * TOP + 1.0 + f32::from(fifths) * 0.2) / max;
        let (candidate, its_exact) = vectors(&magnitudes, &roots, inverse, 1.0 / inverse);
        let (xq, qq) = sums(&magnitudes, &weights, &candidate);
        if qq > 0.0 && xq * xq > best * qq {
            scale = xq / qq;
            best = scale * xq;
            (indices, exact) = (candidate, its_exact);
        }
    }
    if !exact && scale > 0.0 {
        (indices, _) = vectors(&magnitudes, &roots, 1.0 / scale, scale);
        let (xq, qq) = sums(&magnitudes, &weights, &indices);
        if qq > 0.0 {
            scale = xq / qq;
        }
    }
    SubBlock { scale, indices, signs }
}

/// The vectors of the grid that the elements are rounded to, and whether they are the elements' nearest levels.
fn vectors(x: &[f32; SUB], roots: &[f32; SUB], inverse: f32, scale: f32) -> ([u16; SUB / 4], bool) {
    let mut indices = [0; SUB / 4];
    let mut exact = true;
    let fours = x.as_chunks::<4>().0.iter().zip(roots.as_chunks::<4>().0);
    for (index, (x, roots)) in indices.iter_mut().zip(fours) {
        let levels = x.map(|x| nearest(0.5 * (inverse * x - 1.0)).clamp(0.0, TOP) as u16);
        let corner = levels.iter().rev().fold(0, |corner, level| corner << 3 | level);
        let near = CORNERS.near(corner);
        if let [only] = near {
            *index = *only;
            continue;
        }
        exact = false;
        let mut least = f32::MAX;
        for &near in near {
            let error = entry(&IQ3_S, near).iter().zip(x).zip(roots).fold(0.0, |error, ((&q, x), root)| {
                let difference = scale * f32::from(q) - x;
                error + root * difference * difference
            });
            if error < least {
                (least, *index) = (error, near);
            }
        }
    }
    (indices, exact)
}

/// `sum(w x q)` and `sum(w q q)`.
fn sums(x: &[f32; SUB], weights: &[f32; SUB], indices: &[u16; SUB / 4]) -> (f32, f32) {
    let quants = indices.iter().flat_map(|&index| entry(&IQ3_S, index)).map(|&q| f32::from(q));
    x.iter().zip(weights).zip(quants).fold((0.0, 0.0), |(xq, qq), ((x, w), q)| (xq + w * x * q, qq + w * q * q))
}

/// Grid vectors near each of the 8^4 points, which are all combinations of four levels.
struct Corners {
    /// For each point, the begin and end of its vectors in `near`.
    ranges: Vec<(u32, u32)>,
    /// The vector at the point; without one, the vectors at the three smallest distances, nearest first.
    near: Vec<u16>,
}

/// Computed on first use.
static CORNERS: LazyLock<Corners> = LazyLock::new(|| {
    const DISTANCES: usize = 3;
    let mut corners = Corners { ranges: Vec::new(), near: Vec::new() };
    for corner in 0..8i32.pow(4) {
        let point = [0, 3, 6, 9].map(|bits| 2 * (corner >> bits & 7) + 1);
        let distance =
            |vector: &[i8; 4]| -> i32 { vector.iter().zip(point).map(|(&q, x)| (i32::from(q) - x).pow(2)).sum() };
        let mut vectors: Vec<(i32, u16)> = IQ3_S.iter().map(distance).zip(0..).collect();
        vectors.sort_unstable();
        let mut distances: Vec<i32> = vectors.iter().map(|(distance, _)| *distance).collect();
        distances.dedup();
        let reach = match distances.as_slice() {
            [0, ..] => 0,
            distances => distances.get(DISTANCES - 1).copied().unwrap_or(i32::MAX),
        };
        let begin = corners.near.len() as u32;
        corners.near.extend(vectors.iter().take_while(|(distance, _)| *distance <= reach).map(|(_, index)| index));
        corners.ranges.push((begin, corners.near.len() as u32));
    }
    corners
});

impl Corners {
    /// Returns the grid vectors near a point. If the point is itself a grid vector, returns only that one.
    fn near(&self, corner: u16) -> &[u16] {
        let (begin, end) = self.ranges.get(usize::from(corner)).copied().unwrap_or_default();
        self.near.get(begin as usize..end as usize).unwrap_or_default()
    }
}
