//! Norms, softmax, rotation, scaling and addition over one row.

use super::Arith;
use super::arith::{LANES, Lanes, sum};
use super::exp::exp;

/// `1 / sqrt(mean(x * x) + eps)`.
#[inline(always)]
fn inverse_rms<A: Arith>(x: &[f32], eps: f32) -> f32 {
    let mut squares: Lanes = [0.0; LANES];
    let (whole, tail) = x.as_chunks::<LANES>();
    for x in whole {
        A::fma_lanes(x, x, &mut squares);
    }
    // Lanes past the end keep what they have, as an added zero would leave them.
    for (&x, square) in tail.iter().zip(&mut squares) {
        *square = A::fma(x, x, *square);
    }
    1.0 / (sum(&squares) / x.len() as f32 + eps).sqrt()
}

/// `out = x / sqrt(mean(x * x) + eps) * weight`.
#[inline(always)]
pub(crate) fn rms_norm<A: Arith>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert_eq!(x.len(), weight.len(), "one weight per element");
    assert_eq!(x.len(), out.len(), "one result per element");
    let inverse = inverse_rms::<A>(x, eps);
    for ((&x, &weight), out) in x.iter().zip(weight).zip(out) {
        *out = x * inverse * weight;
    }
}

/// [`rms_norm`] with `x` as its own output.
#[inline(always)]
pub(crate) fn rms_norm_in_place<A: Arith>(x: &mut [f32], weight: &[f32], eps: f32) {
    assert_eq!(x.len(), weight.len(), "one weight per element");
    let inverse = inverse_rms::<A>(x, eps);
    for (x, &weight) in x.iter_mut().zip(weight) {
        *x = *x * inverse * weight;
    }
}

/// The sum over a row of what `term` gives for each element.
#[inline(always)]
fn sum_of(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums: Lanes = [0.0; LANES];
    let (whole, tail) = x.as_chunks::<LANES>();
    for x in whole {
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum += term(x);
        }
    }
    for (sum, &x) in sums.iter_mut().zip(tail) {
        *sum += term(x);
    }
    sum(&sums)
}

/// `x = (x - mean) / sqrt(variance + eps) * weight` (Ba et al., arXiv 1607.06450). The variance is that of the
/// differences: the mean of squares less the squared mean would lose what a large mean hides.
#[inline(always)]
pub(crate) fn layer_norm<A: Arith>(x: &mut [f32], weight: &[f32], eps: f32) {
    assert_eq!(x.len(), weight.len(), "one weight per element");
    let mean = sum_of(x, |x| x) / x.len() as f32;
    for x in x.iter_mut() {
        *x -= mean;
    }
    let inverse = inverse_rms::<A>(x, eps);
    for (x, &weight) in x.iter_mut().zip(weight) {
        *x = *x * inverse * weight;
    }
}

/// `x = exp(x) / sum(exp(x))`. The largest is taken off first, so that nothing overflows.
#[inline(always)]
pub(crate) fn softmax<A: Arith>(x: &mut [f32]) {
    let largest = x.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    for x in x.iter_mut() {
        *x = exp::<A>(*x - largest);
    }
    let inverse = 1.0 / sum_of(x, |x| x);
    scale(x, inverse);
}

/// Turns each pair by its angle (Su et al., arXiv 2104.09864).
#[inline(always)]
pub(crate) fn rope<A: Arith>(x: &mut [f32], cos: &[f32], sin: &[f32], interleaved: bool) {
    assert_eq!(cos.len(), sin.len(), "a sine for each cosine");
    let pairs = cos.len();
    let x = &mut x[..2 * pairs];
    if interleaved {
        for (([a, b], &cos), &sin) in x.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
            (*a, *b) = turn::<A>(*a, *b, cos, sin);
        }
    } else {
        let (first, second) = x.split_at_mut(pairs);
        for (((a, b), &cos), &sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            (*a, *b) = turn::<A>(*a, *b, cos, sin);
        }
    }
}

#[inline(always)]
fn turn<A: Arith>(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (A::fma(a, cos, -(b * sin)), A::fma(a, sin, b * cos))
}

/// `x *= factor`.
#[inline(always)]
pub(crate) fn scale(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

/// `x *= y`.
#[inline(always)]
pub(crate) fn mul(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "one factor per element");
    for (x, &y) in x.iter_mut().zip(y) {
        *x *= y;
    }
}

/// `x += factor * y`.
#[inline(always)]
pub(crate) fn add_scaled<A: Arith>(x: &mut [f32], y: &[f32], factor: f32) {
    assert_eq!(x.len(), y.len(), "one summand per element");
    for (x, &y) in x.iter_mut().zip(y) {
        *x = A::fma(factor, y, *x);
    }
}

/// `x += y * z`.
#[inline(always)]
pub(crate) fn add_product<A: Arith>(x: &mut [f32], y: &[f32], z: &[f32]) {
    assert_eq!(x.len(), y.len(), "one factor per element");
    assert_eq!(x.len(), z.len(), "one factor per element");
    for ((x, &y), &z) in x.iter_mut().zip(y).zip(z) {
        *x = A::fma(y, z, *x);
    }
}

/// `x += y`.
#[inline(always)]
pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "one summand per element");
    for (x, &y) in x.iter_mut().zip(y) {
        *x += y;
    }
}
