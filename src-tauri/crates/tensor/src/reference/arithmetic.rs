//! The formulas, in f64.

use crate::plan::{Glu, Rope, RopeStyle};

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

/// `(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`, in place (arXiv 1607.06450, equation 4).
pub(super) fn layer_norm(x: &mut [f32], weight: &[f32], bias: Option<&[f32]>, eps: f32) {
    let mean = x.iter().copied().map(f64::from).sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let deviation = (variance + f64::from(eps)).sqrt();
    for (index, (x, weight)) in x.iter_mut().zip(weight).enumerate() {
        let bias = bias.map_or(0.0, |bias| f64::from(bias[index]));
        *x = ((f64::from(*x) - mean) / deviation * f64::from(*weight) + bias) as f32;
    }
}

/// Rotates the pairs of one head by the angles of a position (arXiv 2104.09864, equation 34).
pub(super) fn rotate(head: &mut [f32], rope: &Rope, pos: [u32; 4]) {
    let (pairs, magnitude) = (rope.inverse_frequencies.len(), rope.magnitude_at(pos[0]));
    for (pair, frequency) in rope.inverse_frequencies.iter().enumerate() {
        let (i, j) = match rope.style {
            RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
            RopeStyle::Half => (pair, pair + pairs),
        };
        let (sin, cos) = (f64::from(rope.position(pair, pos)) * f64::from(*frequency)).sin_cos();
        let (a, b) = (f64::from(head[i]), f64::from(head[j]));
        head[i] = (magnitude * (a * cos - b * sin)) as f32;
        head[j] = (magnitude * (a * sin + b * cos)) as f32;
    }
}

/// Softmax of the scaled, perhaps capped, products of `q` with all keys and of the sink; then the mean of the values so
/// weighted, where the sink's is zero.
pub(super) fn attend(
    q: &[f32],
    seen: &[[impl AsRef<[f32]>; 2]],
    scale: f32,
    softcap: Option<f32>,
    sink: Option<f32>,
    out: &mut [f32],
) {
    let score = |key: &[f32]| {
        let score = dot(q, key) * f64::from(scale);
        softcap.map(f64::from).map_or(score, |cap| cap * (score / cap).tanh())
    };
    let scores: Vec<f64> = seen.iter().map(|[key, _]| score(key.as_ref())).collect();
    weigh(&scores, seen, sink, out);
}

/// The same with a bias for each position, and without a cap and sinks.
pub(super) fn attend_biased(q: &[f32], seen: &[[impl AsRef<[f32]>; 2]], scale: f32, biases: &[f32], out: &mut [f32]) {
    let scores = seen.iter().zip(biases);
    let scores = scores.map(|([key, _], bias)| dot(q, key.as_ref()) * f64::from(scale) + f64::from(*bias));
    weigh(&scores.collect::<Vec<_>>(), seen, None, out);
}

/// Softmax of scores, and the mean of the values with its weights.
fn weigh(scores: &[f64], seen: &[[impl AsRef<[f32]>; 2]], sink: Option<f32>, out: &mut [f32]) {
    // Subtracting the greatest score changes nothing but the range: exp() overflows on raw scores past 709.
    let sink = sink.map_or(f64::NEG_INFINITY, f64::from);
    let max = scores.iter().copied().fold(sink, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = weights.iter().sum::<f64>() + (sink - max).exp();
    for (element, out) in out.iter_mut().enumerate() {
        let mean: f64 =
            weights.iter().zip(seen).map(|(weight, [_, value])| weight * f64::from(value.as_ref()[element])).sum();
        *out = (mean / sum) as f32;
    }
}

/// The logistic function.
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A gated activation (arXiv 2002.05202, equations 5 and 6); the clamped one is that of gpt-oss (arXiv 2508.10925).
pub(super) fn glu(activation: Glu, gate: f32, up: f32) -> f32 {
    let swish = |x: f64, alpha: f64| x / (1.0 + (-alpha * x).exp());
    let (gate, up) = (f64::from(gate), f64::from(up));
    let result = match activation {
        Glu::Silu => swish(gate, 1.0) * up,
        Glu::Gelu => gelu(gate) * up,
        Glu::Clamped { alpha, limit } => {
            let limit = f64::from(limit);
            swish(gate.min(limit), f64::from(alpha)) * (up.clamp(-limit, limit) + 1.0)
        }
    };
    result as f32
}

/// The form with tanh (arXiv 1606.08415, section 2).
pub(super) fn gelu(x: f64) -> f64 {
    let root = (2.0 / std::f64::consts::PI).sqrt();
    x / 2.0 * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh())
}

/// The form with the error function (arXiv 1606.08415, section 2).
pub(super) fn gelu_erf(x: f64) -> f64 {
    x / 2.0 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// The error function, by its series with positive terms (Abramowitz and Stegun, 7.1.6). Beyond 6, it is 1 within 2e-17.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Growth;

    /// Numbers worked out by hand, to f32's precision.
    fn check(found: &[f32], expected: &[f64], formula: &str) {
        assert_eq!(found.len(), expected.len(), "{formula}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{formula}: {found} is not {expected}");
        }
    }

    #[test]
    fn norms_match_values_worked_out_by_hand() {
        let mut x = [3.0, 4.0];
        rms_norm(&mut x, &[1.0, 2.0], 12.0);
        check(&x, &[3.0 / 24.5f64.sqrt(), 8.0 / 24.5f64.sqrt()], "the mean square of 3 and 4 is 12.5");
        let mut x = [1.0, 3.0, 8.0];
        layer_norm(&mut x, &[1.0, 2.0, 3.0], Some(&[0.0, 10.0, 0.0]), 1.0 / 3.0);
        check(&x, &[-1.0, 10.0 - 2.0 / 3.0, 4.0], "the mean is 4, the variance 26 / 3");
        check(&[dot(&[1.0, -2.0], &[3.0, 0.5]) as f32], &[2.0], "1 * 3 - 2 * 0.5");
    }

    #[test]
    fn activations_match_values_worked_out_by_hand() {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        check(&[glu(Glu::Silu, 0.0, 5.0), glu(Glu::Silu, 2.0, 3.0)], &[0.0, 6.0 * sigmoid(2.0)], "silu(2) * 3");
        // The normal distribution's own values, from which the form with tanh differs by less than 1e-3.
        let normal = [0.841_344_7, 2.0 * 0.977_249_9, -0.158_655_3];
        for (x, expected) in [1.0, 2.0, -1.0].into_iter().zip(normal) {
            assert!((gelu(x) - expected).abs() < 1e-3, "gelu({x}) is {}, not about {expected}", gelu(x));
            assert!((gelu_erf(x) - expected).abs() < 1e-7, "gelu({x}) is {}, not {expected}", gelu_erf(x));
        }
        check(&[glu(Glu::Gelu, 1.0, 2.0)], &[2.0 * gelu(1.0)], "gelu(1) * 2");
        let clamped = Glu::Clamped { alpha: 2.0, limit: 3.0 };
        let found = [glu(clamped, 1.0, 1.0), glu(clamped, 5.0, 9.0), glu(clamped, -5.0, -9.0)];
        check(
            &found,
            &[2.0 * sigmoid(2.0), 12.0 * sigmoid(6.0), 10.0 * sigmoid(-10.0)],
            "cut at 3, but not from below",
        );
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
            let rope = Rope { magnitude: 2.0, ..Rope::new(style, still.clone()) };
            rotate(&mut head, &rope, [2, 0, 0, 0]);
            check(&head, &expected, "position 2 turns the first pair by 1, the second by 0, and leaves the rest");
            // Position 2 begins the second of the steps: the magnitude grows by 1 + ln 2.
            let rope = Rope { magnitude: 2.0, growth: Some(Growth { factor: 1.0, step: 2, offset: 0 }), ..rope };
            let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
            rotate(&mut head, &rope, [2, 0, 0, 0]);
            let grown: Vec<f64> = expected[..4].iter().map(|x| x * (1.0 + 2f64.ln())).chain([5.0]).collect();
            check(&head, &grown, "rotated elements grow");
            let growth = Growth { factor: 1.0, step: 3, offset: 1 };
            let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
            rotate(&mut head, &Rope::of_growth(growth, 4), [2, 0, 0, 0]);
            let grown: Vec<f64> = [1.0, 2.0, 3.0, 4.0].iter().map(|x| x * (1.0 + 2f64.ln())).chain([5.0]).collect();
            check(&head, &grown, "with the offset, position 2 begins the second step");
        }
    }

    #[test]
    fn attention_is_a_mean_of_values() {
        let (keys, values) = ([[1.0, 0.0], [0.0, 1.0]], [[10.0, 0.0], [0.0, 20.0]]);
        let seen: Vec<[&[f32]; 2]> = keys.iter().zip(&values).map(|(k, v)| [&k[..], &v[..]]).collect();
        let mut out = [0.0; 2];
        attend(&[3.0, 1.0], &seen, 0.5, None, None, &mut out);
        let [a, b] = [1.5f64.exp(), 0.5f64.exp()];
        check(&out, &[10.0 * a / (a + b), 20.0 * b / (a + b)], "scores 1.5 and 0.5");
        attend(&[3.0, 1.0], &seen, 0.5, None, Some(1.0), &mut out);
        let sum = a + b + 1f64.exp();
        check(&out, &[10.0 * a / sum, 20.0 * b / sum], "a sink of 1 takes its share");
        attend(&[3000.0, 1000.0], &seen, 0.5, Some(2.0), None, &mut out);
        check(&out, &[5.0, 10.0], "both scores are capped at 2");
        attend(&[3000.0, 1000.0], &seen, 0.5, None, None, &mut out);
        check(&out, &[10.0, 0.0], "a score of 1500 does not overflow");
    }
}
