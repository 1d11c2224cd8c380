//! Prompt parts that go through the layers in several steps, because a step that also decodes has little time for them.

use cairn_kv::SeqId;

use super::rows::{PromptPart, StepRows};
use crate::sequence::Sequence;

/// Prompt parts that have gone through some of the layers.
#[derive(Debug)]
pub(crate) struct PromptSlice {
    prompts: Vec<SlicedPrompt>,
    next_layer: usize,
}

#[derive(Debug)]
struct SlicedPrompt {
    seq: SeqId,
    first_slot: usize,
    tokens: usize,
}

impl PromptSlice {
    /// The prompts of a step that has been computed; none if it has no prompt, or has completed the last of these layers.
    pub(super) fn after(step: &StepRows, layers: usize, active: &[Sequence]) -> Option<Self> {
        let sliced = |part: &PromptPart| {
            let sequence = &active[part.index];
            SlicedPrompt { seq: sequence.seq, first_slot: sequence.computed(), tokens: part.tokens }
        };
        let is_incomplete = !step.prompts.is_empty() && step.layers.end < layers;
        is_incomplete.then(|| Self { prompts: step.prompts.iter().map(sliced).collect(), next_layer: step.layers.end })
    }

    /// The prompts, and their next layer. None if one of them is not `ready` any more, or another one that is ready has a higher
    /// priority. No prompt loses two slices in a row to others, or frequent prompts with a higher priority would stop it.
    pub(super) fn next(&self, active: &[Sequence], ready: &[usize]) -> Option<(Vec<PromptPart>, usize)> {
        let find = |prompt: &SlicedPrompt| {
            let is_same = |index: &usize| {
                let sequence = &active[*index];
                (sequence.seq, sequence.computed()) == (prompt.seq, prompt.first_slot)
            };
            let index = ready.iter().copied().find(is_same)?;
            Some(PromptPart { index, tokens: prompt.tokens })
        };
        let parts: Vec<PromptPart> = self.prompts.iter().map(find).collect::<Option<_>>()?;
        let priority = |index: usize| active[index].client().priority;
        let highest = parts.iter().map(|part| priority(part.index)).min();
        let is_next = ready.iter().map(|index| priority(*index)).min() == highest;
        let must_complete = parts.iter().any(|part| active[part.index].lost_slice);
        (is_next || must_complete).then_some((parts, self.next_layer))
    }

    /// Records that a step has not continued the slice, so that its rows are computed again.
    pub(super) fn abandon(&self, active: &mut [Sequence]) {
        for sequence in active {
            sequence.lost_slice |= self.prompts.iter().any(|prompt| prompt.seq == sequence.seq);
        }
    }
}
