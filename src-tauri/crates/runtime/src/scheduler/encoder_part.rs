//! The next part of an encoder's work: the sequence that it is for, and its time.

use std::time::Duration;

use super::{Shares, StepCost};
use crate::sequence::Sequence;

/// Time of a part while no answer runs. New requests and cancellations wait for its end.
const PART_TIME: Duration = Duration::from_millis(100);

/// Selects one of the sequences that need an encoder, by index, and the time of the next part. Work in progress is completed first: its
/// results of earlier layers are in buffers that other work uses, too.
pub(super) fn next_part(
    active: &[Sequence],
    needed: &[usize],
    is_in_progress: impl Fn(&Sequence) -> bool,
    shares: &Shares,
    cost: &StepCost,
) -> Option<(usize, Duration)> {
    let used = |index: usize| {
        let client = active[index].client();
        (client.priority, shares.used(client), index)
    };
    let first = needed.iter().copied().min_by_key(|&index| used(index));
    let index = needed.iter().copied().find(|&index| is_in_progress(&active[index])).or(first)?;
    let answers = active.iter().filter(|sequence| sequence.pending().len() == 1 && !sequence.is_blocked()).count();
    Some((index, if answers > 0 { cost.prompt_time(answers) } else { PART_TIME }))
}
