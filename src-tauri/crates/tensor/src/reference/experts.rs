//! Mixtures of experts, in f64 (Shazeer et al., arXiv 1701.06538, section 2).

use super::arithmetic::sigmoid;
use crate::router::{ExpertGroups, Gating, Router};

/// The experts of one row and their weights, `[2 * used]`.
pub(super) fn route(
    logits: &[f32],
    router: &Router,
    choice_bias: Option<&[f32]>,
    expert_scales: Option<&[f32]>,
) -> Vec<f32> {
    let logits: Vec<f64> = logits.iter().copied().map(f64::from).collect();
    let scores = match router.gating {
        Gating::Softmax { .. } => softmax(&logits),
        Gating::Sigmoid { .. } => logits.iter().copied().map(sigmoid).collect(),
        Gating::SoftmaxOfChosen => logits,
    };
    let biased = |expert: usize| scores[expert] + choice_bias.map_or(0.0, |bias| f64::from(bias[expert]));
    let ranks: Vec<f64> = (0..scores.len()).map(biased).collect();
    let size = router.groups.map_or(scores.len(), |groups| scores.len() / groups.count);
    let sums: Vec<f64> = ranks
        .chunks(size)
        .map(|ranks| ranked(ranks)[..ExpertGroups::BEST.min(size)].iter().map(|rank| ranks[*rank]).sum())
        .collect();
    let usable = &ranked(&sums)[..router.groups.map_or(1, |groups| groups.used)];
    let mut chosen = ranked(&ranks);
    chosen.retain(|expert| usable.contains(&(expert / size)));
    chosen.truncate(router.used);
    let of_chosen: Vec<f64> = chosen.iter().map(|expert| scores[*expert]).collect();
    let weights = match router.gating {
        Gating::SoftmaxOfChosen => softmax(&of_chosen),
        Gating::Softmax { renormalise: false } | Gating::Sigmoid { renormalise: false } => of_chosen,
        Gating::Softmax { renormalise: true } | Gating::Sigmoid { renormalise: true } => {
            let sum = of_chosen.iter().sum::<f64>().max(Router::MIN_SUM.into());
            of_chosen.iter().map(|score| score / sum).collect()
        }
    };
    let scale = |expert: usize| f64::from(router.scale) * expert_scales.map_or(1.0, |scales| scales[expert].into());
    let weights = weights.into_iter().zip(&chosen).map(|(weight, expert)| (weight * scale(*expert)) as f32);
    chosen.iter().map(|expert| *expert as f32).chain(weights).collect()
}

/// Indices by descending value, ties by index.
fn ranked(values: &[f64]) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..values.len()).collect();
    // The sort is stable.
    ranked.sort_by(|a, b| values[*b].partial_cmp(&values[*a]).unwrap_or(std::cmp::Ordering::Equal));
    ranked
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// Returns one row times each of the weights, which become 1.
pub(super) fn weigh(x: &[f32], weights: &mut [f32]) -> Vec<f32> {
    let weighed = weights.iter().flat_map(|weight| x.iter().map(move |x| (f64::from(*weight) * f64::from(*x)) as f32));
    let weighed = weighed.collect();
    weights.fill(1.0);
    weighed
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

    fn check(router: &Router, bias: Option<&[f32]>, expected: [f64; 4]) {
        check_scaled(router, bias, None, expected);
    }

    fn check_scaled(router: &Router, bias: Option<&[f32]>, scales: Option<&[f32]>, expected: [f64; 4]) {
        let logits = [0.0, 2f32.ln(), 2f32.ln(), 3f32.ln()];
        let found = route(&logits, &Router { scale: 2.0, ..*router }, bias, scales);
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{router:?} gives {found}, not {expected}");
        }
    }

    fn check_gating(gating: Gating, expected: [f64; 4]) {
        check(&Router::new(2, gating), None, expected);
    }

    #[test]
    fn route_weights_are_shares_of_powers() {
        // The powers are 1, 2, 2 and 3; the weights are doubled.
        check_gating(Gating::Softmax { renormalise: false }, [3.0, 1.0, 2.0 * 3.0 / 8.0, 2.0 * 2.0 / 8.0]);
        check_gating(Gating::Softmax { renormalise: true }, [3.0, 1.0, 2.0 * 3.0 / 5.0, 2.0 * 2.0 / 5.0]);
        check_gating(Gating::SoftmaxOfChosen, [3.0, 1.0, 2.0 * 3.0 / 5.0, 2.0 * 2.0 / 5.0]);
        // The sigmoids are 1/2, 2/3, 2/3 and 3/4.
        check_gating(Gating::Sigmoid { renormalise: false }, [3.0, 1.0, 2.0 * 3.0 / 4.0, 2.0 * 2.0 / 3.0]);
        check_gating(Gating::Sigmoid { renormalise: true }, [3.0, 1.0, 2.0 * 9.0 / 17.0, 2.0 * 8.0 / 17.0]);
    }

    #[test]
    fn bias_and_groups_change_the_choice_and_not_the_weights() {
        let router = Router::new(2, Gating::Sigmoid { renormalise: false });
        let bias = [1.0, 0.0, 0.0, -1.0];
        check(&router, Some(&bias), [0.0, 1.0, 2.0 / 2.0, 2.0 * 2.0 / 3.0]);
        let router = Router { groups: Some(ExpertGroups { count: 2, used: 1 }), ..router };
        check(&router, None, [3.0, 2.0, 2.0 * 3.0 / 4.0, 2.0 * 2.0 / 3.0]);
        check(&router, Some(&bias), [0.0, 1.0, 2.0 / 2.0, 2.0 * 2.0 / 3.0]);
    }

    #[test]
    fn factors_of_experts_change_the_weights_and_not_the_choice() {
        let router = Router::new(2, Gating::Softmax { renormalise: true });
        let scales = [100.0, 0.5, 7.0, -3.0];
        check_scaled(&router, None, Some(&scales), [3.0, 1.0, -3.0 * 2.0 * 3.0 / 5.0, 0.5 * 2.0 * 2.0 / 5.0]);
    }

    #[test]
    fn weighed_inputs_take_the_weights() {
        let mut weights = [2.0, -0.5];
        assert_eq!(weigh(&[1.0, 4.0], &mut weights), [2.0, 8.0, -0.5, -2.0], "one part for each weight");
        assert_eq!(weights, [1.0; 2], "the outputs have no weights");
    }

    #[test]
    fn combine_adds_weighted_parts() {
        let found = combine(&[1.0, 2.0, 10.0, 20.0, 100.0, 200.0], &[7.0, 1.0, 4.0, 1.0, 0.5, 0.25]);
        assert_eq!(found, [31.0, 62.0], "1 * 1 + 0.5 * 10 + 0.25 * 100, and twice that");
    }
}
