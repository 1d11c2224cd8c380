//! The search for a scale on the non-linear grid: how IQ4_NL and IQ4_XS are encoded.
//!
//! Candidates put the element of the largest magnitude at -127 and up to seven steps beside it. For the grid points that
//! the elements fall on, the best scale is `sum(w x q) / sum(w q q)`, with the weights `w = x * x`; the one that explains most
//! wins. Sums are taken in ggml's order, so that the result is ggml's, bit for bit.

use super::codebook::IQ4;
use super::lanes::{Lanes, SubBlocks};
use super::scales::SMALLEST;

/// How far beside -127 the element of the largest magnitude is put.
const TRIES: i8 = 7;

/// Midpoint and distance of each pair of neighbouring grid points. An element at a midpoint is rounded up. Integers of
/// this size and their halves are exact in `f32`.
#[expect(clippy::indexing_slicing, reason = "evaluated when compiling, where an index out of bounds is an error")]
const MIDDLES: [(f32, f32); 15] = {
    let mut middles = [(0.0, 0.0); 15];
    let mut at = 0;
    while at < middles.len() {
        let (low, high) = (IQ4[at] as f32, IQ4[at + 1] as f32);
        middles[at] = ((low + high) / 2.0, high - low);
        at += 1;
    }
    middles
};

/// The nearest grid points.
#[inline(always)]
fn points<const N: usize>(x: Lanes<N>) -> Lanes<N> {
    MIDDLES.iter().fold(Lanes::all(f32::from(IQ4[0])), |point, &(middle, distance)| {
        point + Lanes::all(0.0).or(Lanes::all(middle).above(x), Lanes::all(distance))
    })
}

/// The indices of the nearest grid points.
pub(super) fn indices<const N: usize>(x: Lanes<N>) -> Lanes<N> {
    MIDDLES.iter().fold(Lanes::all(0.0), |index, &(middle, _)| {
        index + Lanes::all(0.0).or(Lanes::all(middle).above(x), Lanes::all(1.0))
    })
}

/// One over each, but zero for zero.
pub(super) fn inverse<const N: usize>(x: Lanes<N>) -> Lanes<N> {
    x.map(|x| if x == 0.0 { 0.0 } else { 1.0 / x })
}

/// The sub-blocks' best scales for weighted errors.
pub(super) fn best_scales<const N: usize, const LEN: usize>(
    x: &SubBlocks<N, LEN>,
    weights: &SubBlocks<N, LEN>,
) -> Lanes<N> {
    let zero = Lanes::all(0.0);
    let max = x.iter().fold(zero, |max, &x| max.largest(x));
    let empty = Lanes::all(SMALLEST).above(max.map(f32::abs));
    let sums = |inverse: Lanes<N>| {
        x.iter().zip(weights).fold((zero, zero), |(xq, qq), (&x, &w)| {
            let q = points(inverse * x);
            let wq = w * q;
            (xq + wq * x, qq + wq * q)
        })
    };
    let lowest = f32::from(IQ4[0]);
    let (xq, qq) = sums(Lanes::all(1.0) / (max.map(|max| -max) / Lanes::all(lowest)));
    let mut scale = (xq / qq).or(qq.above(zero), zero);
    let mut best = scale * xq;
    for beside in -TRIES..=TRIES {
        let (xq, qq) = sums(Lanes::all(f32::from(beside) + lowest) / max);
        let better = qq.above(zero).and((xq * xq).above(best * qq));
        scale = (xq / qq).or(better, scale);
        best = (scale * xq).or(better, best);
    }
    zero.or(empty, scale)
}
