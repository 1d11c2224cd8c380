//! The search for a scale without a minimum: how Q6_K is encoded, and with importance Q3_K, Q4_0 and Q5_0.

use super::lanes::{Lanes, SubBlocks};
use super::scales::SMALLEST;

/// Returns the scales that leave the least weighted error, of the nineteen grids that put the element of the largest magnitude at
/// `levels` +- 0.9 steps below zero, and the quants of those grids, with the offset `levels` added.
///
/// Quants are `-levels` to `levels - 1`. For fixed quants the best scale is `sum(w x q) / sum(w q q)`.
pub(super) fn best_scales<const N: usize, const LEN: usize>(
    x: &SubBlocks<N, LEN>,
    weights: &SubBlocks<N, LEN>,
    levels: f32,
) -> (Lanes<N>, SubBlocks<N, LEN>) {
    let zero = Lanes::all(0.0);
    let quantise = |inverse: Lanes<N>, x: Lanes<N>| (inverse * x).level(-levels, levels - 1.0);
    let max = x.iter().fold(zero, |max, &x| max.largest(x));
    let empty = Lanes::all(SMALLEST).above(max.map(f32::abs));
    let sums = |inverse: Lanes<N>| {
        x.iter().zip(weights).fold((zero, zero), |(xq, qq), (&x, &w)| {
            let q = quantise(inverse, x);
            (xq + w * x * q, qq + w * q * q)
        })
    };
    let mut inverse = Lanes::all(-levels) / max;
    let (xq, qq) = sums(inverse);
    let mut scale = (xq / qq).or(qq.above(zero), zero);
    let mut best = scale * xq;
    for tenths in (-9i8..=9).filter(|&tenths| tenths != 0) {
        let candidate = Lanes::all(-(levels + 0.1 * f32::from(tenths))) / max;
        let (xq, qq) = sums(candidate);
        let better = qq.above(zero).and((xq * xq).above(best * qq));
        scale = (xq / qq).or(better, scale);
        best = (scale * xq).or(better, best);
        inverse = candidate.or(better, inverse);
    }
    let quants = x.map(|x| quantise(inverse, x) + Lanes::all(levels));
    (zero.or(empty, scale), quants.map(|q| zero.or(empty, q)))
}
