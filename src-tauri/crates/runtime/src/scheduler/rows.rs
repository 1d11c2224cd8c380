//! The rows of a step: which sequences take part, and with how many rows.
//!
//! Beside running answers, a prompt part goes through as many layers as the time budget allows, and through the others in the next
//! steps: see [`Slice`]. So it can have many rows, which share the reads of weights, keys and values.

use std::ops::Range;

use cairn_tensor::{Batch, Row, Slice, SnapshotTable};

use super::shares::{Candidate, choose_decodes};
use super::slice_size::{slice_layers, slice_rows};
use super::{BATCH_ROWS, Scheduler};
use crate::sequence::Sequence;

/// The rows of a step, in this order.
pub(super) struct StepRows {
    pub(super) prompts: Vec<PromptPart>,
    /// Indices of the active sequences that have one row.
    pub(super) decodes: Vec<usize>,
    /// Layers that the prompts go through.
    pub(super) layers: Range<usize>,
}

/// A part of a prompt.
pub(super) struct PromptPart {
    /// Index among the active sequences.
    pub(super) index: usize,
    /// Rows.
    pub(super) tokens: usize,
}

impl StepRows {
    /// Whether no sequence takes part.
    pub(super) fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.decodes.is_empty()
    }

    /// Number of rows of prompts.
    pub(super) fn prompt_rows(&self) -> usize {
        self.prompts.iter().map(|part| part.tokens).sum()
    }

    /// The sequences that take part, with their numbers of rows.
    pub(super) fn sequences(&self) -> impl Iterator<Item = (usize, usize)> {
        let prompts = self.prompts.iter().map(|part| (part.index, part.tokens));
        prompts.chain(self.decodes.iter().map(|index| (*index, 1)))
    }
}

impl Scheduler {
    /// Fills the batch. Sequences without a free page wait for a later step. If no sequence can continue, one is preempted.
    pub(super) fn gather(&mut self, active: &mut Vec<Sequence>, batch: &mut Batch) -> StepRows {
        loop {
            // Read before a reservation fails: another model may release its pages right after it.
            let others_have_pages = self.cache.others_have_pages();
            let (mut rows, first_layer) = self.choose_rows(active);
            let mut page_error = self.input_page_error.take();
            let mut reserve = |index: usize, tokens: usize| {
                let reserved = self.cache.reserve(self.backend.as_mut(), active[index].seq, tokens);
                reserved.map_err(|error| page_error = Some(error)).is_ok()
            };
            // Running answers come first.
            rows.decodes.retain(|index| reserve(*index, 1));
            let prompts = rows.prompts.len();
            rows.prompts.retain(|part| reserve(part.index, part.tokens));
            // A slice has the same rows in all its steps.
            let first_layer = if rows.prompts.len() < prompts { 0 } else { first_layer };
            rows.layers = first_layer..first_layer + self.prompt_layers(&rows, self.layers - first_layer);
            self.fill(batch, active, &rows);
            let Some(error) = page_error.filter(|_| rows.is_empty()) else { return rows };
            if !self.preempt(active, &error, others_have_pages) {
                return rows;
            }
        }
    }

    /// The rows of a step if there are pages, and the first layer of its prompts. Continues the slice in progress, if any.
    fn choose_rows(&self, active: &[Sequence]) -> (StepRows, usize) {
        let is_ready = |index: &usize| {
            let sequence = &active[*index];
            !sequence.is_blocked() && !sequence.is_waiting() && sequence.has_next_row()
        };
        let (decodes, prompts): (Vec<usize>, Vec<usize>) =
            (0..active.len()).filter(is_ready).partition(|&index| active[index].pending().len() == 1);
        let candidates = decodes.into_iter().map(|index| {
            let sequence = &active[index];
            Candidate { index, client: sequence.client(), served: sequence.served }
        });
        let mut decodes = choose_decodes(candidates.collect(), self.steps, &self.cost);
        decodes.truncate(BATCH_ROWS);
        let sliced = self.slice.as_ref().and_then(|slice| slice.next(active, &prompts));
        let (prompts, first_layer) = sliced.unwrap_or_else(|| (self.choose_prompts(active, prompts, decodes.len()), 0));
        let mut rows = StepRows { prompts, decodes, layers: 0..0 };
        rows.decodes.truncate(BATCH_ROWS - rows.prompt_rows());
        (rows, first_layer)
    }

    /// The next prompt parts: of the clients that have used the least time.
    fn choose_prompts(&self, active: &[Sequence], mut prompts: Vec<usize>, decode_rows: usize) -> Vec<PromptPart> {
        if decode_rows > 0 && self.cost.needs_decode_step() {
            return Vec::new();
        }
        let full_rows = self.cost.prompt_rows(decode_rows);
        // A sequence that ends early ends its slice. So no client can delay a slice of another one.
        let [own_limit, others_limit] = match decode_rows {
            0 => [full_rows as usize; 2],
            _ => [slice_rows(full_rows, self.layers), full_rows as usize],
        };
        prompts.sort_by_key(|&index| {
            let client = active[index].client();
            (client.priority, self.shares.used(client), index)
        });
        let first = prompts.first().copied();
        let mut taken = 0;
        let take = |index: usize| {
            let is_own = first.is_some_and(|first| active[first].client() == active[index].client());
            let limit = if is_own { own_limit } else { others_limit }.min(BATCH_ROWS - decode_rows);
            // A picture may displace rows of answers, which then wait for the next step.
            let tokens = active[index].part(limit.saturating_sub(taken), BATCH_ROWS - taken);
            taken += tokens;
            PromptPart { index, tokens }
        };
        prompts.into_iter().map(take).filter(|part| part.tokens > 0).collect()
    }

    /// Number of layers that the prompts of a step go through, of those that are left.
    fn prompt_layers(&self, rows: &StepRows, left: usize) -> usize {
        match rows.decodes.len() {
            0 => left,
            decode_rows => slice_layers(self.cost.prompt_rows(decode_rows), rows.prompt_rows(), self.layers, left),
        }
    }

    fn fill(&self, batch: &mut Batch, active: &[Sequence], rows: &StepRows) {
        batch.rows.clear();
        let sequences = rows.sequences().count();
        batch.tables.resize(sequences, Vec::new());
        batch.snapshots.resize(sequences, SnapshotTable::default());
        batch.adapters.clear();
        batch.adapters.extend(rows.sequences().map(|(index, _)| active[index].adapters().to_vec()));
        batch.embeddings.clear();
        let prompt_rows = rows.prompt_rows();
        let tables = batch.tables.iter_mut().zip(&mut batch.snapshots);
        for ((seq, (index, tokens)), (table, snapshots)) in (0..).zip(rows.sequences()).zip(tables) {
            let sequence = &active[index];
            let pending = sequence.pending();
            table.clear();
            table.extend_from_slice(self.cache.pages(sequence.seq));
            self.cache.write_snapshots(sequence.seq, snapshots);
            let has_logits = rows.layers.end == self.layers || batch.rows.len() >= prompt_rows;
            for offset in 0..tokens {
                let slot = sequence.computed() + offset;
                let is_last = offset + 1 == pending.len();
                let (input, until) = sequence.row_input(slot, &mut batch.embeddings);
                let row = Row::text(seq, 0, slot as u32, is_last && has_logits);
                batch.rows.push(Row { input, pos: sequence.position(slot), until: until as u32, ..row });
            }
        }
        let is_slice = prompt_rows > 0 && rows.layers != (0..self.layers);
        batch.slice = is_slice.then(|| Slice { rows: prompt_rows, layers: rows.layers.clone() });
    }
}
