//! Activations of feed-forward blocks, gated or not, and the cap on logits.
//!
//! All rest on the one exponential, and each element's result depends on no other element.

use super::Arith;
use super::exp::{gelu as gelu_of, gelu_erf as gelu_erf_of, sigmoid as sigmoid_of, swish, tanh};

/// `gate = activation(gate) * up` (Shazeer, arXiv 2002.05202).
#[inline(always)]
fn gated(gate: &mut [f32], up: &[f32], activation: impl Fn(f32, f32) -> f32) {
    assert_eq!(gate.len(), up.len(), "a gate for each element");
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate = activation(*gate, up);
    }
}

/// `gate = silu(gate) * up`.
#[inline(always)]
pub(crate) fn swiglu<A: Arith>(gate: &mut [f32], up: &[f32]) {
    gated(gate, up, |gate, up| swish::<A>(gate, 1.0) * up);
}

/// `gate = gelu(gate) * up`.
#[inline(always)]
pub(crate) fn geglu<A: Arith>(gate: &mut [f32], up: &[f32]) {
    gated(gate, up, |gate, up| gelu_of::<A>(gate) * up);
}

/// `gate = swish(min(gate, limit)) * (clamp(up) + 1)`.
#[inline(always)]
pub(crate) fn clamped_glu<A: Arith>(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
    // Comparisons with NaN are false, so the limits do not change NaN.
    let below = |x: f32| if x > limit { limit } else { x };
    let above = |x: f32| if x < -limit { -limit } else { x };
    gated(gate, up, |gate, up| swish::<A>(below(gate), alpha) * (above(below(up)) + 1.0));
}

/// `x = gelu(x)` (Hendrycks and Gimpel, arXiv 1606.08415), in the form with tanh.
#[inline(always)]
pub(crate) fn gelu<A: Arith>(x: &mut [f32]) {
    for x in x {
        *x = gelu_of::<A>(*x);
    }
}

/// `x = gelu(x)`, in the form with the error function.
#[inline(always)]
pub(crate) fn gelu_erf<A: Arith>(x: &mut [f32]) {
    for x in x {
        *x = gelu_erf_of::<A>(*x);
    }
}

/// `x = 1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid<A: Arith>(x: &mut [f32]) {
    for x in x {
        *x = sigmoid_of::<A>(*x);
    }
}

/// `x = x / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn silu<A: Arith>(x: &mut [f32]) {
    for x in x {
        *x = swish::<A>(*x, 1.0);
    }
}

/// `x = max(x, 0)^2` (So et al., arXiv 2109.08668). NaN stays NaN.
#[inline(always)]
pub(crate) fn relu_squared(x: &mut [f32]) {
    for x in x {
        *x *= if *x < 0.0 { 0.0 } else { *x };
    }
}

/// `x = cap * tanh(x / cap)`.
#[inline(always)]
pub(crate) fn softcap<A: Arith>(x: &mut [f32], cap: f32) {
    for x in x {
        *x = cap * tanh::<A>(*x / cap);
    }
}
