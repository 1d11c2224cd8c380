//! Inputs of models with an encoder: computes their rows in parts between the steps of running answers, and stores keys and values.

use std::time::Instant;

use cairn_tensor::{Batch, Input, Row};

use super::encoder_part::next_part;
use super::{BATCH_ROWS, Scheduler};
use crate::input_encoder::{EncodedInput, InputStage};
use crate::not_finite;
use crate::request::{GenerateError, NotFinite};
use crate::sequence::Sequence;

impl Scheduler {
    /// Encodes a part of the next input, if any sequence needs one, and stores the rows of complete ones.
    pub(super) fn read_inputs(&mut self, active: &mut Vec<Sequence>) -> Result<(), GenerateError> {
        if self.input.is_none() {
            return Ok(());
        }
        self.encode_input(active)?;
        for sequence in active.iter_mut().filter(|sequence| !sequence.is_blocked() && !sequence.is_waiting()) {
            self.store_input(sequence)?;
        }
        Ok(())
    }

    fn encode_input(&mut self, active: &mut Vec<Sequence>) -> Result<(), GenerateError> {
        let Some(InputStage { encoder, .. }) = &mut self.input else { return Ok(()) };
        let needs = |sequence: &Sequence| {
            !sequence.is_blocked() && !sequence.is_waiting() && sequence.unencoded_input().is_some()
        };
        let needed: Vec<usize> = (0..active.len()).filter(|&index| needs(&active[index])).collect();
        let is_in_progress = |sequence: &Sequence| sequence.unencoded_input_id().as_ref() == encoder.in_progress();
        let next = next_part(active, &needed, is_in_progress, &self.shares, &self.cost);
        let Some((index, time)) = next else { return Ok(()) };
        let input = active[index].unencoded_input().expect("the sequence needs its input");
        let id = active[index].unencoded_input_id().expect("the sequence needs its input");
        let began = Instant::now();
        let encoded = encoder.encode_some(input, &id, time)?;
        let rows_in_input = 0..input.len();
        self.shares.charge(active[index].client(), began.elapsed());
        self.has_changed = true;
        let Some(EncodedInput { rows, took }) = encoded else { return Ok(()) };
        if let Err(error) = not_finite::check_rows(&rows, NotFinite::Input) {
            self.fail_some(active, &error, |sequence| sequence.unencoded_input_id().as_ref() == Some(&id));
        } else {
            self.counters.count(|metrics| metrics.inputs += 1);
            self.cache.add_compute_time(rows_in_input, took);
            active.iter_mut().for_each(|sequence| sequence.set_input_rows(&id, &rows));
        }
        Ok(())
    }

    /// Stores keys and values of an encoded input. Without free pages, a later round does: see [`Scheduler::gather`].
    fn store_input(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        let Some(InputStage { encoder, store, .. }) = &self.input else { return Ok(()) };
        let Some((unstored, rows)) = sequence.unstored_input() else { return Ok(()) };
        if let Err(error) = self.cache.reserve(self.backend.as_mut(), sequence.seq, unstored.len()) {
            self.input_page_error = Some(error);
            return Ok(());
        }
        let (width, began) = (encoder.width(), Instant::now());
        let mut batch = Batch { tables: vec![self.cache.pages(sequence.seq).to_vec()], ..Batch::default() };
        for first in unstored.clone().step_by(BATCH_ROWS) {
            let part = first..unstored.end.min(first + BATCH_ROWS);
            let row =
                |(at, slot): (u32, usize)| Row { input: Input::Embedding(at), ..Row::text(0, 0, slot as u32, false) };
            batch.rows = (0..).zip(part.clone()).map(row).collect();
            batch.embeddings = rows[part.start * width..part.end * width].to_vec();
            self.backend.run(*store, &batch).map_err(|error| GenerateError::Backend(error.to_string()))?;
        }
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        self.shares.charge(sequence.client(), began.elapsed());
        self.cache.advance(sequence.seq, &sequence.keys()[unstored.clone()]);
        sequence.advance(unstored.len());
        self.short_of_pages_since = None;
        self.has_changed = true;
        Ok(())
    }
}
