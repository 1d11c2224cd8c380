//! The search for a scale and a minimum, for Q2_K, Q4_K and Q5_K, and with importance for Q4_1 and Q5_1.
//!
//! A sub-block's elements are approximated by `scale * q + minimum`, `q` from 0 to `levels` and the minimum at most zero.
//! Candidates are grids of slightly more and fewer steps than levels between the least and the greatest element. For the
//! quants of a candidate the best scale and minimum are a weighted linear regression; the one that leaves the least
//! weighted error wins. Sums are taken in ggml's order, so that the result is ggml's, bit for bit.

use super::importance::{block_weights, mean_square};
use super::integers::BLOCK;
use super::lanes::{Lanes, SubBlocks, join, nearest, part};
use super::positive_search::positive_quants;
use half::f16;

/// Parameters of the search, and the weights of elements' errors.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// The greatest quant.
    pub(super) levels: f32,
    /// How many steps more than `levels` the first candidate has.
    pub(super) first: f32,
    /// How many steps each further candidate has more than the one before.
    pub(super) step: f32,
    /// Candidates after the first one.
    pub(super) further: u8,
    /// Whether the magnitude of an error counts, rather than its square.
    pub(super) magnitude: bool,
    /// The greatest number that a sub-block's scale or minimum becomes.
    pub(super) scale_levels: f32,
}

/// A block on the grids of its sub-blocks.
pub(super) struct Grids<const N: usize> {
    /// The scale of the scales.
    pub(super) d: f16,
    /// The scale of the minima.
    pub(super) dmin: f16,
    /// Each sub-block's scale.
    pub(super) scales: [u8; N],
    /// Each sub-block's minimum, which is taken off.
    pub(super) minima: [u8; N],
    /// Each element's quant.
    pub(super) quants: [u8; BLOCK],
}

impl Search {
    /// ggml's search for errors that are weighted by importance.
    pub(super) const fn weighted(levels: f32, scale_levels: f32) -> Search {
        Search { levels, first: -0.9, step: 0.05, further: 36, magnitude: false, scale_levels }
    }

    /// The grids of each block, with errors weighted by the elements' magnitudes and their spread.
    pub(super) fn spread_blocks<const N: usize, const LEN: usize>(self, x: &[f32]) -> impl Iterator<Item = Grids<N>> {
        x.as_chunks::<BLOCK>().0.iter().map(move |x| {
            let x = part::<N, LEN>(x);
            self.grids(&x, &magnitudes_and_spread(&x))
        })
    }

    /// The grids of each block, with errors weighted by importance.
    pub(super) fn weighted_blocks<const N: usize, const LEN: usize>(
        self,
        x: &[f32],
        importance: &[f32],
    ) -> impl Iterator<Item = Grids<N>> {
        x.as_chunks::<BLOCK>().0.iter().zip(importance.as_chunks().0).map(move |(x, importance)| {
            let weights = block_weights(x, importance, 2.0 * mean_square(x));
            self.weighted_grids(&part::<N, LEN>(x), &part(&weights))
        })
    }

    /// Encodes a block: searches the sub-blocks' scales and minima, makes small integers of them, and rounds each element
    /// to the grid that results.
    pub(super) fn grids<const N: usize, const LEN: usize>(
        self,
        x: &SubBlocks<N, LEN>,
        weights: &SubBlocks<N, LEN>,
    ) -> Grids<N> {
        let (scales, minima, quants) = self.best(x, weights);
        self.round(x, self.integers(scales), self.integers(minima), quants)
    }

    /// Like [`Search::grids`], but the integers of scales and minima also leave the least error, weighted by the sums of
    /// the sub-blocks' weights.
    pub(super) fn weighted_grids<const N: usize, const LEN: usize>(
        self,
        x: &SubBlocks<N, LEN>,
        weights: &SubBlocks<N, LEN>,
    ) -> Grids<N> {
        let sums = weights.iter().fold(Lanes::all(0.0), |sum, &w| sum + w);
        let (scales, minima, quants) = self.best(x, weights);
        let integers = |x: Lanes<N>| {
            let (d, quants) = positive_quants(&x.0, &sums.0, self.scale_levels);
            (f16::from_f32(d), Lanes(quants.map(f32::from)))
        };
        self.round(x, integers(scales), integers(minima), quants)
    }

    /// Rounds each element to the grid of integer scales and minima.
    fn round<const N: usize, const LEN: usize>(
        self,
        x: &SubBlocks<N, LEN>,
        (d, scales): (f16, Lanes<N>),
        (dmin, minima): (f16, Lanes<N>),
        mut quants: SubBlocks<N, LEN>,
    ) -> Grids<N> {
        let step = Lanes::all(d.to_f32()) * scales;
        let minimum = Lanes::all(dmin.to_f32()) * minima;
        // A step of zero decodes to the minimum whatever the quants, so the ones found above may stay.
        let empty = step.equal(Lanes::all(0.0));
        for (q, &x) in quants.iter_mut().zip(x) {
            *q = q.or(empty, ((x + minimum) / step).level(0.0, self.levels));
        }
        Grids { d, dmin, scales: scales.0.map(|s| s as u8), minima: minima.0.map(|m| m as u8), quants: join(&quants) }
    }

    /// Numbers from zero up as integers of a common scale.
    fn integers<const N: usize>(self, x: Lanes<N>) -> (f16, Lanes<N>) {
        let max = x.0.iter().fold(0.0f32, |max, &x| if x > max { x } else { max });
        let inverse = if max > 0.0 { self.scale_levels / max } else { 0.0 };
        (f16::from_f32(max / self.scale_levels), x.map(|x| nearest(inverse * x).clamp(0.0, self.scale_levels)))
    }

    /// The best scales, the best minima with their signs turned, and the quants that belong to them.
    pub(super) fn best<const N: usize, const LEN: usize>(
        self,
        x: &SubBlocks<N, LEN>,
        weights: &SubBlocks<N, LEN>,
    ) -> (Lanes<N>, Lanes<N>, SubBlocks<N, LEN>) {
        let zero = Lanes::all(0.0);
        let (mut minimum, mut greatest) = (zero, Lanes::all(f32::NEG_INFINITY));
        let (mut sum_w, mut sum_wx) = (zero, zero);
        for (&x, &w) in x.iter().zip(weights) {
            (minimum, greatest) = (minimum.least(x), greatest.greatest(x));
            (sum_w, sum_wx) = (sum_w + w, sum_wx + w * x);
        }
        let flat = greatest.equal(minimum);

        let mut inverse = Lanes::all(self.levels) / (greatest - minimum);
        let mut scale = Lanes::all(1.0) / inverse;
        let mut quants = x.map(|x| (inverse * (x - minimum)).level(0.0, self.levels));
        let mut least = self.error(x, weights, &quants, scale, minimum);
        for step in 0..=self.further {
            let steps = self.first + self.step * f32::from(step) + self.levels;
            inverse = Lanes::all(steps) / (greatest - minimum);
            let mut candidate = [zero; LEN];
            let (mut sum_q, mut sum_qq, mut sum_qx) = (zero, zero, zero);
            for ((q, &x), &w) in candidate.iter_mut().zip(x).zip(weights) {
                *q = (inverse * (x - minimum)).level(0.0, self.levels);
                let wq = w * *q;
                (sum_q, sum_qq, sum_qx) = (sum_q + wq, sum_qq + wq * *q, sum_qx + wq * x);
            }
            let determinant = sum_w * sum_qq - sum_q * sum_q;
            let fitted = (sum_qq * sum_wx - sum_q * sum_qx) / determinant;
            let positive = fitted.above(zero);
            let its_minimum = zero.or(positive, fitted);
            let its_scale = (sum_qx / sum_qq).or(positive, (sum_w * sum_qx - sum_wx * sum_q) / determinant);
            let error = self.error(x, weights, &candidate, its_scale, its_minimum);
            let better = determinant.above(zero).and(least.above(error));
            if better.any() {
                for (q, candidate) in quants.iter_mut().zip(candidate) {
                    *q = candidate.or(better, *q);
                }
                least = error.or(better, least);
                scale = its_scale.or(better, scale);
                minimum = its_minimum.or(better, minimum);
            }
        }
        (zero.or(flat, scale), zero - minimum, quants.map(|q| zero.or(flat, q)))
    }

    /// The weighted error that a grid leaves.
    #[inline(always)]
    fn error<const N: usize, const LEN: usize>(
        self,
        x: &SubBlocks<N, LEN>,
        weights: &SubBlocks<N, LEN>,
        quants: &SubBlocks<N, LEN>,
        scale: Lanes<N>,
        minimum: Lanes<N>,
    ) -> Lanes<N> {
        let mut sum = Lanes::all(0.0);
        for ((&x, &w), &q) in x.iter().zip(weights).zip(quants) {
            let error = scale * q + minimum - x;
            sum = sum + w * if self.magnitude { error.map(f32::abs) } else { error * error };
        }
        sum
    }
}

/// The weights of Q4_K and Q5_K: an element's magnitude and the root of the sub-block's mean square.
pub(super) fn magnitudes_and_spread<const N: usize, const LEN: usize>(x: &SubBlocks<N, LEN>) -> SubBlocks<N, LEN> {
    let squares = x.iter().fold(Lanes::all(0.0), |sum, &x| sum + x * x);
    let spread = squares.map(|sum| (sum / LEN as f32).sqrt());
    x.map(|x| spread + x.map(f32::abs))
}
