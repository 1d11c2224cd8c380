//! The exponential of the engine, and the functions that use it.
//!
//! `exp(x) = 2^n * exp(r)` with `n` the integer nearest to `x / ln 2` and `|r| <= ln 2 / 2`; `exp(r)` is the polynomial of
//! degree seven of the Cephes library (Moshier, `expf.c`), whose error is below two units in the last place.

use super::Arith;

/// Below this the result is less than half the smallest subnormal; above the other limit it overflows.
const LOWEST: f32 = -104.0;
const HIGHEST: f32 = 89.0;
/// Adding it rounds a small number to an integer in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;
/// `ln 2` in two parts: the first has few bits, so that its product with `n` is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Returns `exp(x)`. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<A: Arith>(x: f32) -> f32 {
    // Comparisons with NaN are false, so both limits keep NaN.
    let x = if x < LOWEST { LOWEST } else { x };
    let x = if x > HIGHEST { HIGHEST } else { x };
    let shifted = A::fma(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = A::fma(n, -LN2_LOW, A::fma(n, -LN2_HIGH, x));
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = A::fma(p, r, c);
    }
    let p = A::fma(p * r, r, r) + 1.0;
    // The power of two may lie outside the normal numbers, its two halves do not.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    p * power(half) * power(n.wrapping_sub(half))
}

/// `2^n` for `n` in -126..=127.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid<A: Arith>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<A>(-x))
}

/// `x / (1 + exp(-alpha * x))`.
#[inline(always)]
pub(crate) fn swish<A: Arith>(x: f32, alpha: f32) -> f32 {
    x / (1.0 + exp::<A>(-(alpha * x)))
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`. `(1 + tanh(u)) / 2` is `1 / (1 + exp(-2 * u))`, which keeps
/// its precision where the sum would cancel.
#[inline(always)]
pub(crate) fn gelu<A: Arith>(x: f32) -> f32 {
    /// `sqrt(2 / pi)`.
    const ROOT: f32 = 0.797_884_6;
    let u = x * ROOT * A::fma(0.044_715 * x, x, 1.0);
    x / (1.0 + exp::<A>(-2.0 * u))
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`. The normal distribution's tail is `erfc(a) / 2` with `a = |x| / sqrt(2)`, which keeps its
/// precision where the sum would cancel.
#[inline(always)]
pub(crate) fn gelu_erf<A: Arith>(x: f32) -> f32 {
    /// The tail of larger numbers is zero.
    const HIGHEST: f32 = 16.0;
    /// `(a + 2) * exp(a * a) * erfc(a)` as a polynomial of `(a - 2) / (a + 2)`, the lowest power last: a minimax fit
    /// to numbers of 0 to 16 with a relative error below 5e-8. The form is that of Shepherd and Laframboise (Mathematics
    /// of Computation 36, 1981).
    const TAIL: [f32; 8] = [
        -7.579_263e-4,
        2.976_612_4e-3,
        6.439_003_6e-3,
        -2.148_196_7e-2,
        -3.643_540_7e-2,
        2.794_694e-1,
        -6.871_609_7e-1,
        1.021_582_7,
    ];
    let a = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    // Comparisons with NaN are false, so NaN stays.
    let a = if a > HIGHEST { HIGHEST } else { a };
    let inverse = 1.0 / (a + 2.0);
    let s = (a - 2.0) * inverse;
    let mut p = -4.621_312_8e-4;
    for c in TAIL {
        p = A::fma(p, s, c);
    }
    let tail = 0.5 * exp::<A>(-(a * a)) * p * inverse;
    x * if x < 0.0 { tail } else { 1.0 - tail }
}

/// `tanh(x)`, within rounding of 1: small results lose relative precision, which a cap on scores does not need.
#[inline(always)]
pub(crate) fn tanh<A: Arith>(x: f32) -> f32 {
    1.0 - 2.0 / (exp::<A>(2.0 * x) + 1.0)
}
