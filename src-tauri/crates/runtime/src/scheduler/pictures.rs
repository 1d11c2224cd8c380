//! Encodes the pictures of prompts, in parts that fit between the steps of running answers.

use std::time::{Duration, Instant};

use super::Scheduler;
use crate::request::GenerateError;
use crate::sequence::Sequence;

/// Time of a part while no answer runs. New requests and cancellations wait for its end.
const PART_TIME: Duration = Duration::from_millis(100);

impl Scheduler {
    /// Encodes a part of the next picture, if any sequence needs one.
    pub(super) fn encode_pictures(&mut self, active: &mut [Sequence]) -> Result<(), GenerateError> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        let mut needed = Vec::new();
        for (index, sequence) in active.iter_mut().enumerate() {
            while let Some(digest) = sequence.next_picture().map(|picture| picture.digest)
                && let Some(rows) = encoder.kept(&digest)
            {
                sequence.set_picture_rows(&digest, &rows);
                self.has_changed = true;
            }
            if sequence.next_picture().is_some() && !sequence.is_blocked() && !sequence.is_waiting() {
                needed.push(index);
            }
        }
        // A picture in progress is completed first: its results of earlier layers are in buffers that the next one uses.
        let is_in_progress = |&index: &usize| {
            active[index].next_picture().is_some_and(|picture| Some(&picture.digest) == encoder.in_progress())
        };
        let used = |index: usize| {
            let client = active[index].client();
            (client.priority, self.shares.used(client), index)
        };
        let first = needed.iter().copied().min_by_key(|&index| used(index));
        let Some(index) = needed.iter().copied().find(is_in_progress).or(first) else { return Ok(()) };
        let answers = active.iter().filter(|sequence| sequence.pending().len() == 1 && !sequence.is_blocked()).count();
        let time = if answers > 0 { self.cost.prompt_time(answers) } else { PART_TIME };
        let picture = active[index].next_picture().expect("the sequence needs a picture").clone();
        let began = Instant::now();
        let encoded = encoder.encode_some(&picture, time)?;
        let took = began.elapsed();
        self.shares.charge(active[index].client(), took);
        self.counters.count(|metrics| metrics.picture_parts += 1);
        self.has_changed = true;
        if let Some(rows) = encoded {
            self.counters.count(|metrics| metrics.pictures += 1);
            active.iter_mut().for_each(|sequence| sequence.set_picture_rows(&picture.digest, &rows));
        }
        Ok(())
    }
}
