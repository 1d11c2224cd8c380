//! Encodes the pictures of prompts, in parts that fit between the steps of running answers.

use std::time::Instant;

use super::Scheduler;
use super::encoder_part::next_part;
use crate::not_finite;
use crate::request::{GenerateError, NotFinite};
use crate::sequence::Sequence;

impl Scheduler {
    /// Encodes a part of the next picture, if any sequence needs one.
    pub(super) fn encode_pictures(&mut self, active: &mut Vec<Sequence>) -> Result<(), GenerateError> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        let mut needed = Vec::new();
        for (index, sequence) in active.iter_mut().enumerate() {
            while let Some(id) = sequence.next_picture_id()
                && let Some(rows) = encoder.kept(&id)
            {
                sequence.set_picture_rows(&id, &rows);
                self.has_changed = true;
            }
            if sequence.next_picture().is_some() && !sequence.is_blocked() && !sequence.is_waiting() {
                needed.push(index);
            }
        }
        let is_in_progress = |sequence: &Sequence| sequence.next_picture_id().as_ref() == encoder.in_progress();
        let next = next_part(active, &needed, is_in_progress, &self.shares, &self.cost);
        let Some((index, time)) = next else { return Ok(()) };
        let picture = active[index].next_picture().expect("the sequence needs a picture").clone();
        let id = active[index].next_picture_id().expect("the sequence needs a picture");
        let began = Instant::now();
        let encoded = encoder.encode_some(&picture, &id, time)?;
        let took = began.elapsed();
        self.shares.charge(active[index].client(), took);
        self.counters.count(|metrics| metrics.picture_parts += 1);
        self.has_changed = true;
        let Some(rows) = encoded else { return Ok(()) };
        if let Err(error) = not_finite::check_rows(&rows, NotFinite::Picture) {
            self.fail_some(active, &error, |sequence| sequence.next_picture_id().as_ref() == Some(&id));
        } else {
            self.counters.count(|metrics| metrics.pictures += 1);
            active.iter_mut().for_each(|sequence| sequence.set_picture_rows(&id, &rows));
            encoder.keep(id, rows);
        }
        Ok(())
    }

    /// Drops the rows of encoded pictures that no sequence has, and what encoders have in progress.
    pub(super) fn forget_encoded(&mut self) {
        if let Some(encoder) = &mut self.encoder {
            encoder.forget();
        }
        if let Some(stage) = &mut self.input {
            stage.encoder.forget();
        }
    }
}
