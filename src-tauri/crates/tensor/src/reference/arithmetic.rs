//! The formulas, in f64.

use crate::plan::{Rope, RopeStyle};

/// Sum of products.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// `x / sqrt(mean(x²) + eps) * weight`, in place (arXiv 1910.07467, equation 4).
pub(super) fn rms_norm(x: &mut [f32], weight: &[f32], eps: f32) {
    let mean = dot(x, x) / x.len() as f64;
    let root = (mean + f64::from(eps)).sqrt();
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = (f64::from(*x) / root * f64::from(*weight)) as f32;
    }
}

/// Rotates the pairs of one head by the angles of a position (arXiv 2104.09864, equation 34).
pub(super) fn rotate(head: &mut [f32], rope: &Rope, position: u32) {
    let pairs = rope.inverse_frequencies.len();
    for (pair, frequency) in rope.inverse_frequencies.iter().enumerate() {
        let (i, j) = match rope.style {
            RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
            RopeStyle::Half => (pair, pair + pairs),
        };
        let (sin, cos) = (f64::from(position) * f64::from(*frequency)).sin_cos();
        let (a, b) = (f64::from(head[i]), f64::from(head[j]));
        head[i] = (f64::from(rope.magnitude) * (a * cos - b * sin)) as f32;
        head[j] = (f64::from(rope.magnitude) * (a * sin + b * cos)) as f32;
    }
}

/// Softmax of the scaled, perhaps capped, products of `q` with all keys; then the mean of the values so weighted.
pub(super) fn attend(q: &[f32], seen: &[[&[f32]; 2]], scale: f32, softcap: Option<f32>, out: &mut [f32]) {
    let score = |key: &[f32]| {
        let score = dot(q, key) * f64::from(scale);
        softcap.map(f64::from).map_or(score, |cap| cap * (score / cap).tanh())
    };
    let scores: Vec<f64> = seen.iter().map(|[key, _]| score(key)).collect();
    // Subtracting the greatest score changes nothing but the range: exp() overflows on raw scores past 709.
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    for (element, out) in out.iter_mut().enumerate() {
        let mean: f64 = weights.iter().zip(seen).map(|(weight, [_, value])| weight * f64::from(value[element])).sum();
        *out = (mean / sum) as f32;
    }
}

/// `silu(gate) * up` with `silu(x) = x / (1 + exp(-x))` (arXiv 2002.05202, equation 5).
pub(super) fn swiglu(gate: f32, up: f32) -> f32 {
    let gate = f64::from(gate);
    (gate / (1.0 + (-gate).exp()) * f64::from(up)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers worked out by hand, to f32's precision.
    fn check(found: &[f32], expected: &[f64], formula: &str) {
        assert_eq!(found.len(), expected.len(), "{formula}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{formula}: {found} is not {expected}");
        }
    }

    #[test]
    fn formulas() {
        let mut x = [3.0, 4.0];
        rms_norm(&mut x, &[1.0, 2.0], 12.0);
        check(&x, &[3.0 / 24.5f64.sqrt(), 8.0 / 24.5f64.sqrt()], "the mean square of 3 and 4 is 12.5");
        check(&[swiglu(0.0, 5.0), swiglu(2.0, 3.0)], &[0.0, 6.0 / (1.0 + (-2.0f64).exp())], "silu(2) * 3");
        check(&[dot(&[1.0, -2.0], &[3.0, 0.5]) as f32], &[2.0], "1 * 3 - 2 * 0.5");
    }

    #[test]
    fn rotations_pair_elements_by_style() {
        let (cos, sin) = (1.0f64.cos(), 1.0f64.sin());
        let still = vec![0.5, 0.0];
        for (style, expected) in [
            (RopeStyle::Interleaved, [2.0 * (cos - 2.0 * sin), 2.0 * (sin + 2.0 * cos), 6.0, 8.0, 5.0]),
            (RopeStyle::Half, [2.0 * (cos - 3.0 * sin), 4.0, 2.0 * (sin + 3.0 * cos), 8.0, 5.0]),
        ] {
            let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
            let rope = Rope { style, inverse_frequencies: still.clone(), magnitude: 2.0 };
            rotate(&mut head, &rope, 2);
            check(&head, &expected, "position 2 turns the first pair by 1, the second by 0, and leaves the rest");
        }
    }

    #[test]
    fn attention_is_a_mean_of_values() {
        let (keys, values) = ([[1.0, 0.0], [0.0, 1.0]], [[10.0, 0.0], [0.0, 20.0]]);
        let seen: Vec<[&[f32]; 2]> = keys.iter().zip(&values).map(|(k, v)| [&k[..], &v[..]]).collect();
        let mut out = [0.0; 2];
        attend(&[3.0, 1.0], &seen, 0.5, None, &mut out);
        let [a, b] = [1.5f64.exp(), 0.5f64.exp()];
        check(&out, &[10.0 * a / (a + b), 20.0 * b / (a + b)], "scores 1.5 and 0.5");
        attend(&[3000.0, 1000.0], &seen, 0.5, Some(2.0), &mut out);
        check(&out, &[5.0, 10.0], "both scores are capped at 2");
        attend(&[3000.0, 1000.0], &seen, 0.5, None, &mut out);
        check(&out, &[10.0, 0.0], "a score of 1500 does not overflow");
    }
}
