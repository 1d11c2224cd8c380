//! Choice and weights of a row's experts.

use cairn_kernels::Variant;

use crate::plan::{Op, Plan};
use crate::router::{ExpertGroups, Gating, Router};

/// Scratch memory of a thread for routers.
#[derive(Debug, Default)]
pub(super) struct RouterScratch {
    /// `[experts]`.
    scores: Vec<f32>,
    /// Scores for the choice, `[experts]`.
    ranks: Vec<f32>,
    /// Sum of each group's best ranks, `[groups]`.
    sums: Vec<f32>,
    /// Groups of which the experts can be chosen, `[groups]`.
    groups: Vec<f32>,
    /// Their sums, `[groups]`.
    group_sums: Vec<f32>,
}

impl RouterScratch {
    /// Allocates memory for a plan.
    pub(super) fn fit(&mut self, plan: &Plan) {
        let grow = |memory: &mut Vec<f32>, len: usize| memory.resize(len.max(memory.len()), 0.0);
        for op in &plan.ops {
            let Op::Route { logits, router, .. } = op else { continue };
            let experts = plan.buffers[logits.0 as usize].width;
            grow(&mut self.scores, experts);
            grow(&mut self.ranks, experts);
            let groups = router.groups.map_or(0, |groups| groups.count);
            for memory in [&mut self.sums, &mut self.groups, &mut self.group_sums] {
                grow(memory, groups);
            }
        }
    }

    /// Chooses the experts of one row.
    pub(super) fn route(
        &mut self,
        variant: &Variant,
        router: &Router,
        logits: &[f32],
        bias: Option<&[f32]>,
        [ids, weights]: [&mut [f32]; 2],
    ) {
        let scores = &mut self.scores[..logits.len()];
        scores.copy_from_slice(logits);
        match router.gating {
            Gating::Softmax { .. } => (variant.softmax)(scores),
            Gating::Sigmoid { .. } => (variant.sigmoid)(scores),
            Gating::SoftmaxOfChosen => {}
        }
        if router.changes_order() {
            let ranks = &mut self.ranks[..scores.len()];
            ranks.copy_from_slice(scores);
            if let Some(bias) = bias {
                (variant.add)(ranks, bias);
            }
            if let Some(groups) = router.groups {
                self.exclude_groups(logits.len(), groups);
            }
            choose(&self.ranks[..logits.len()], ids, weights);
        } else {
            // Scores may round to equal numbers.
            choose(logits, ids, weights);
        }
        for (weight, id) in weights.iter_mut().zip(ids) {
            *weight = self.scores[*id as usize];
        }
        match router.gating {
            Gating::SoftmaxOfChosen => (variant.softmax)(weights),
            Gating::Softmax { renormalise: true } | Gating::Sigmoid { renormalise: true } => {
                let sum: f32 = weights.iter().sum();
                // A comparison with NaN is false, so NaN stays.
                let sum = if sum < Router::MIN_SUM { Router::MIN_SUM } else { sum };
                weights.iter_mut().for_each(|weight| *weight /= sum);
            }
            Gating::Softmax { renormalise: false } | Gating::Sigmoid { renormalise: false } => {}
        }
        (variant.scale)(weights, router.scale);
    }

    /// Ranks the experts of all but the best groups lowest.
    fn exclude_groups(&mut self, experts: usize, ExpertGroups { count, used }: ExpertGroups) {
        let ranks = &mut self.ranks[..experts];
        let mut best = [0.0; 2 * ExpertGroups::BEST];
        for (ranks, sum) in ranks.chunks(experts / count).zip(&mut self.sums) {
            let (ids, values) = best.split_at_mut(ExpertGroups::BEST);
            choose(ranks, ids, values);
            *sum = values.iter().sum();
        }
        let usable = &mut self.groups[..used];
        choose(&self.sums[..count], usable, &mut self.group_sums[..used]);
        for (group, ranks) in ranks.chunks_mut(experts / count).enumerate() {
            if !usable.contains(&(group as f32)) {
                ranks.fill(f32::NEG_INFINITY);
            }
        }
    }
}

/// Selects the largest values and their indices, in descending order, ties to the lower index. NaN counts as largest,
/// so that it reaches the weights and is not lost.
fn choose(values: &[f32], ids: &mut [f32], chosen: &mut [f32]) {
    let used = ids.len();
    for (index, &value) in values.iter().enumerate() {
        let held = index.min(used);
        let place =
            chosen[..held].iter().position(|other| value > *other || value.is_nan() && !other.is_nan()).unwrap_or(held);
        if place < used {
            let moved = place..held.min(used - 1);
            ids.copy_within(moved.clone(), place + 1);
            chosen.copy_within(moved, place + 1);
            (ids[place], chosen[place]) = (index as f32, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that are chosen, and their indices.
    fn check(values: &[f32], expected: &[(usize, f32)]) {
        let mut ids = vec![-1.0; expected.len()];
        let mut chosen = ids.clone();
        choose(values, &mut ids, &mut chosen);
        let found: Vec<(usize, u32)> =
            ids.iter().zip(chosen).map(|(id, value)| (*id as usize, value.to_bits())).collect();
        let expected: Vec<(usize, u32)> = expected.iter().map(|(id, value)| (*id, value.to_bits())).collect();
        assert_eq!(found, expected, "the first {} of {values:?}", expected.len());
    }

    #[test]
    fn choice_has_the_largest_values_in_order() {
        check(&[1.0, 3.0, 2.0, 4.0], &[(3, 4.0), (1, 3.0)]);
        check(&[4.0, 3.0, 2.0, 1.0], &[(0, 4.0), (1, 3.0), (2, 2.0)]);
        check(&[1.0, 2.0], &[(1, 2.0), (0, 1.0)]);
        check(&[5.0, 7.0, 7.0, 5.0, 7.0], &[(1, 7.0), (2, 7.0), (4, 7.0), (0, 5.0)]);
        check(&[-0.0, 0.0, -1.0], &[(0, -0.0), (1, 0.0)]);
        check(&[1.0, f32::NAN, 2.0, 3.0], &[(1, f32::NAN), (3, 3.0)]);
    }
}
