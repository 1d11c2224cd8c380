//! The rows of a step: which sequences take part, and with how many rows.

use cairn_tensor::{Batch, Row};

use super::shares::{Candidate, choose_decodes};
use super::{BATCH_ROWS, Scheduler};
use crate::sequence::Sequence;

/// A sequence's share of a batch.
pub(super) struct Part {
    /// Index among the active sequences.
    pub(super) index: usize,
    /// Rows.
    pub(super) tokens: usize,
}

impl Scheduler {
    /// The sequences that take part in a step if there are pages, in order, with their numbers of rows: first those that need a
    /// single row, then parts of prompts.
    fn choose_rows(&self, active: &[Sequence]) -> Vec<(usize, usize)> {
        let is_ready = |index: &usize| !active[*index].is_blocked() && !active[*index].is_waiting();
        let (decodes, mut prompts): (Vec<usize>, Vec<usize>) =
            (0..active.len()).filter(is_ready).partition(|&index| active[index].pending().len() == 1);
        let candidates = decodes.into_iter().map(|index| {
            let sequence = &active[index];
            Candidate { index, client: sequence.client(), served: sequence.served }
        });
        let decodes = choose_decodes(candidates.collect(), self.steps, &self.cost);
        let mut prompt_rows = self.cost.prompt_rows(decodes.len()).min(BATCH_ROWS.saturating_sub(decodes.len()));
        let mut chosen: Vec<(usize, usize)> = decodes.into_iter().map(|index| (index, 1)).collect();
        prompts.sort_by_key(|&index| {
            let client = active[index].client();
            (client.priority, self.shares.used(client), index)
        });
        for index in prompts {
            let rows = active[index].pending().len().min(prompt_rows);
            prompt_rows -= rows;
            chosen.push((index, rows));
        }
        chosen.retain(|(_, rows)| *rows > 0);
        chosen
    }

    /// Fills the batch. Sequences without a free page wait for a later step. If no sequence can continue, one is preempted.
    pub(super) fn gather(&mut self, active: &mut Vec<Sequence>, batch: &mut Batch) -> Vec<Part> {
        loop {
            let mut parts = Vec::with_capacity(active.len());
            batch.rows.clear();
            let mut page_error = None;
            // Read before a reservation fails: another model may release its pages right after it.
            let others_have_pages = self.cache.others_have_pages();
            for (index, tokens) in self.choose_rows(active) {
                let sequence = &active[index];
                let pending = sequence.pending();
                if let Err(error) = self.cache.reserve(self.backend.as_mut(), sequence.seq, tokens) {
                    page_error = Some(error);
                    continue;
                }
                let seq = parts.len();
                if batch.tables.len() <= seq {
                    batch.tables.push(Vec::new());
                }
                batch.tables[seq].clear();
                batch.tables[seq].extend_from_slice(self.cache.pages(sequence.seq));
                for (offset, &token) in pending[..tokens].iter().enumerate() {
                    let slot = sequence.computed() + offset;
                    let last = offset + 1 == pending.len();
                    batch.rows.push(Row::text(seq as u32, token, slot as u32, last));
                }
                parts.push(Part { index, tokens });
            }
            batch.tables.truncate(parts.len());
            let Some(error) = page_error.filter(|_| parts.is_empty()) else { return parts };
            if !self.preempt(active, &error, others_have_pages) {
                return parts;
            }
        }
    }
}
