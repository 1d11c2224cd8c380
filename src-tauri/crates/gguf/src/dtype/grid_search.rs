//! The search for a scale and for vectors of a grid: how IQ3 and IQ2 types are encoded, as ggml does it.
//!
//! The elements' magnitudes are approximated by `scale * q`, where a few `q` together are a vector of the grid. Candidates
//! are scales around the one that puts the largest magnitude on the top level. For the vectors of a candidate the best scale
//! is `sum(w x q) / sum(w q q)`; the one that leaves the least weighted error wins. Then the vectors are chosen once more
//! for that scale, and the scale for those vectors.

use std::sync::LazyLock;

use super::corners::Corners;
use super::integers::BLOCK;
use super::lanes::nearest;
use super::positive_search::positive_quants;

/// Parameters of the search.
pub(super) struct GridSearch<const LEN: usize> {
    pub(super) corners: &'static LazyLock<Corners<LEN>>,
    /// Highest level of an element. Levels 0, 1, 2, ... are the magnitudes 1, 3, 5, ...
    pub(super) top: u8,
    /// Candidates on either side of the first.
    pub(super) tries: i8,
    /// By how many levels' halves candidates differ.
    pub(super) step: f32,
    /// Below this magnitude a sub-block is all zeros.
    pub(super) smallest: f32,
    /// Which vectors are chosen again for the best scale.
    pub(super) again: Reselection,
}

/// The vectors that are chosen again for the best scale.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reselection {
    /// Those with nearest levels that were no vector of the grid.
    OffGrid,
    /// All, if one of them was off the grid.
    AllIfOffGrid,
    /// All. The search starts from the best scale of numbers that are on no grid.
    All,
}

/// Most vectors in a sub-block: 32 elements in vectors of four.
const MOST: usize = 8;
/// Most bytes of signs in a sub-block.
const MOST_SIGNS: usize = 4;

/// A sub-block on the grid.
#[derive(Clone, Copy, Default)]
pub(super) struct SubBlock {
    /// Zero or more.
    pub(super) scale: f32,
    /// As many as there are vectors, then zeros.
    pub(super) indices: [u16; MOST],
    /// The signs of every eight elements, then zeros.
    pub(super) signs: [u8; MOST_SIGNS],
}

/// Vectors of a candidate.
#[derive(Clone, Copy)]
struct Vectors {
    indices: [u16; MOST],
    /// Whether the elements' nearest levels were the vector.
    on_grid: [bool; MOST],
}

impl<const LEN: usize> GridSearch<LEN> {
    /// Encodes a sub-block. `even` is whether seven of eight signs are stored. A sub-block of zeros has neither indices
    /// nor signs.
    fn sub_block<const SUB: usize>(&self, x: &[f32; SUB], weights: &[f32; SUB], even: bool) -> SubBlock {
        let (signs, magnitudes) = if even { even_signs(x, weights) } else { signs(x) };
        let Some((scale, indices)) = self.search(&magnitudes, weights) else { return SubBlock::default() };
        let signs = if scale < 0.0 { signs.map(|signs| !signs) } else { signs };
        SubBlock { scale: scale.abs(), indices, signs }
    }

    /// Encodes the sub-blocks of a block.
    pub(super) fn sub_blocks<const SUB: usize, const N: usize>(
        &self,
        x: &[f32; BLOCK],
        weights: &[f32; BLOCK],
        even: bool,
    ) -> [SubBlock; N] {
        const { assert!(SUB * N == BLOCK, "sub-blocks make up a block") };
        let mut subs = [SubBlock::default(); N];
        for (sub, (x, weights)) in subs.iter_mut().zip(x.as_chunks::<SUB>().0.iter().zip(weights.as_chunks().0)) {
            *sub = self.sub_block(x, weights, even);
        }
        subs
    }

    /// Returns the best scale of magnitudes, one of which may be negative (see [`even_signs`]), and the indices of their
    /// vectors.
    fn search<const SUB: usize>(&self, x: &[f32; SUB], weights: &[f32; SUB]) -> Option<(f32, [u16; MOST])> {
        let max = x.iter().copied().reduce(|max, x| if max > x { max } else { x }).unwrap_or(0.0);
        if max < self.smallest {
            return None;
        }
        // The error of one vector is weighted by the roots of the weights.
        let roots = weights.map(f32::sqrt);
        let reach = 2.0 * f32::from(self.top) + 1.0;
        let mut scale = max / reach;
        let mut max = max;
        let mut best = Vectors { indices: [0; MOST], on_grid: [self.again == Reselection::OffGrid; MOST] };
        if self.again == Reselection::All {
            let levels = f32::from(self.top) + 1.0;
            scale = positive_quants(x, weights, levels + 1.0).0;
            max = scale * levels;
            // Written so that a NaN is no reason to stop, as in ggml.
            if max <= 0.0 {
                return None;
            }
        }
        let mut score = 0.0;
        for candidate in -self.tries..=self.tries {
            let inverse = (reach + f32::from(candidate) * self.step) / max;
            let vectors = self.vectors(x, &roots, inverse, 1.0 / inverse);
            let (xq, qq) = self.sums(x, weights, &vectors.indices);
            if qq > 0.0 && xq * xq > score * qq {
                scale = xq / qq;
                score = scale * xq;
                best = vectors;
            }
        }
        let count = SUB / LEN;
        let off_grid = best.on_grid.iter().take(count).any(|on_grid| !on_grid);
        if scale > 0.0 && (off_grid || self.again == Reselection::All) {
            let vectors = self.vectors(x, &roots, 1.0 / scale, scale);
            for ((best, new), on_grid) in best.indices.iter_mut().zip(vectors.indices).zip(best.on_grid) {
                if !(on_grid && self.again == Reselection::OffGrid) {
                    *best = new;
                }
            }
            let (xq, qq) = self.sums(x, weights, &best.indices);
            if qq > 0.0 {
                scale = xq / qq;
            }
        }
        Some((scale, best.indices))
    }

    /// The vectors of the grid that the elements are rounded to.
    fn vectors(&self, x: &[f32], roots: &[f32], inverse: f32, scale: f32) -> Vectors {
        let top = f32::from(self.top);
        let mut vectors = Vectors { indices: [0; MOST], on_grid: [true; MOST] };
        let groups = x.as_chunks::<LEN>().0.iter().zip(roots.as_chunks::<LEN>().0);
        let out = vectors.indices.iter_mut().zip(&mut vectors.on_grid);
        for ((index, on_grid), (x, roots)) in out.zip(groups) {
            let levels = x.map(|x| nearest(0.5 * (inverse * x - 1.0)).clamp(0.0, top) as u8);
            let near = self.corners.near(&levels);
            if let [only] = near
                && self.corners.vector(*only).iter().zip(levels).all(|(&q, level)| q == 2 * level as i8 + 1)
            {
                *index = *only;
                continue;
            }
            *on_grid = false;
            let mut least = f32::MAX;
            for &near in near {
                let error = self.corners.vector(near).iter().zip(x).zip(roots).fold(0.0, |error, ((&q, x), root)| {
                    let difference = scale * f32::from(q) - x;
                    error + root * difference * difference
                });
                if error < least {
                    (least, *index) = (error, near);
                }
            }
        }
        vectors
    }

    /// `sum(w x q)` and `sum(w q q)`.
    fn sums(&self, x: &[f32], weights: &[f32], indices: &[u16; MOST]) -> (f32, f32) {
        let quants = indices.iter().flat_map(|&index| self.corners.vector(index)).map(|&q| f32::from(q));
        x.iter().zip(weights).zip(quants).fold((0.0, 0.0), |(xq, qq), ((x, w), q)| (xq + w * x * q, qq + w * q * q))
    }
}

/// The bits of the elements that are negative, the first element's the lowest, and the magnitudes.
fn signs<const SUB: usize>(x: &[f32; SUB]) -> ([u8; MOST_SIGNS], [f32; SUB]) {
    let mut signs = [0; MOST_SIGNS];
    for (signs, x) in signs.iter_mut().zip(x.as_chunks::<8>().0) {
        *signs = x.iter().rev().fold(0, |bits, &x| bits << 1 | u8::from(x < 0.0));
    }
    (signs, x.map(|x| if x >= 0.0 { x } else { -x }))
}

/// Like [`signs`], for types that store seven of eight signs: an even number of bits is set. To that end the element that
/// matters least of eight gets the other sign, and its magnitude is negative.
fn even_signs<const SUB: usize>(x: &[f32; SUB], weights: &[f32; SUB]) -> ([u8; MOST_SIGNS], [f32; SUB]) {
    let (mut bits, mut magnitudes) = signs(x);
    let eights = magnitudes.as_chunks_mut::<8>().0.iter_mut().zip(weights.as_chunks::<8>().0);
    for (bits, (x, weights)) in bits.iter_mut().zip(eights) {
        if bits.count_ones().is_multiple_of(2) {
            continue;
        }
        let mut least = (f32::INFINITY, 0);
        for (at, (x, w)) in x.iter().zip(weights).enumerate() {
            let error = w * x * x;
            if at == 0 || error < least.0 {
                least = (error, at);
            }
        }
        if let Some(x) = x.get_mut(least.1) {
            *x = -*x;
        }
        *bits ^= 1 << least.1;
    }
    (bits, magnitudes)
}

/// The scale that the sub-blocks' scales share, and their 4-bit integers; `None` if all are zero.
pub(super) fn four_bit_scales<const N: usize>(subs: &[SubBlock; N]) -> Option<(f32, [u8; N])> {
    let scales = subs.map(|sub| sub.scale);
    let max = scales.iter().fold(0.0f32, |max, &scale| if scale > max { scale } else { max });
    if max == 0.0 {
        return None;
    }
    let d = max / 31.0;
    let inverse = 1.0 / d;
    Some((d, scales.map(|scale| nearest(0.5 * (inverse * scale - 1.0)).clamp(0.0, 15.0) as u8)))
}
