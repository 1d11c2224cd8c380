//! Mixtures of experts, in f64 (Shazeer et al., arXiv 1701.06538, section 2).

use crate::plan::Gating;

/// The experts of one row and their weights, `[2 * used]`.
pub(super) fn route(logits: &[f32], used: usize, gating: Gating, scale: f32) -> Vec<f32> {
    let mut ranked: Vec<usize> = (0..logits.len()).collect();
    // The sort is stable, so equal logits stay in the order of their indices.
    ranked.sort_by(|a, b| logits[*b].partial_cmp(&logits[*a]).unwrap_or(std::cmp::Ordering::Equal));
    let largest = f64::from(logits[ranked[0]]);
    let exp = |expert: &usize| (f64::from(logits[*expert]) - largest).exp();
    let all: f64 = ranked.iter().map(exp).sum();
    ranked.truncate(used);
    // Renormalised shares of the softmax over all experts equal the softmax over the chosen experts.
    let sum = match gating {
        Gating::Softmax { renormalise: false } => all,
        Gating::Softmax { renormalise: true } | Gating::SoftmaxOfChosen => ranked.iter().map(exp).sum(),
    };
    let weights = ranked.iter().map(|expert| (exp(expert) / sum * f64::from(scale)) as f32);
    ranked.iter().map(|expert| *expert as f32).chain(weights).collect()
}

/// Returns the weighted sum of one row's parts.
pub(super) fn combine(x: &[f32], routes: &[f32]) -> Vec<f32> {
    let used = routes.len() / 2;
    let width = x.len() / used;
    let weighted = |slot: usize, element: usize| f64::from(routes[used + slot]) * f64::from(x[slot * width + element]);
    (0..width).map(|element| (0..used).map(|slot| weighted(slot, element)).sum::<f64>() as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gating: Gating, expected: [f64; 4]) {
        let logits = [0.0, 2f32.ln(), 2f32.ln(), 3f32.ln()];
        let found = route(&logits, 2, gating, 2.0);
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{gating:?} gives {found}, not {expected}");
        }
    }

    #[test]
    fn route_weights_are_shares_of_powers() {
        // The powers are 1, 2, 2 and 3; the weights are doubled.
        check(Gating::Softmax { renormalise: false }, [3.0, 1.0, 2.0 * 3.0 / 8.0, 2.0 * 2.0 / 8.0]);
        check(Gating::Softmax { renormalise: true }, [3.0, 1.0, 2.0 * 3.0 / 5.0, 2.0 * 2.0 / 5.0]);
        check(Gating::SoftmaxOfChosen, [3.0, 1.0, 2.0 * 3.0 / 5.0, 2.0 * 2.0 / 5.0]);
    }

    #[test]
    fn combine_adds_weighted_parts() {
        let found = combine(&[1.0, 2.0, 10.0, 20.0, 100.0, 200.0], &[7.0, 1.0, 4.0, 1.0, 0.5, 0.25]);
        assert_eq!(found, [31.0, 62.0], "1 * 1 + 0.5 * 10 + 0.25 * 100, and twice that");
    }
}
