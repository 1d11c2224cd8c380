//! Forward passes of this crate's tests, on the reference backend.

use cairn_tensor::{Backend, Batch, Input, Limits, PAGE_TOKENS, PageId, Reference, Row, SnapshotId, SnapshotTable};

use crate::encoder_decoder::{Encoder, decoder_position};
use crate::file::ModelFile;
use crate::load::{Model, load, load_encoder};

/// Returns the logits of every position, computed in batches of `cut` tokens.
pub(crate) fn logits(file: &ModelFile, tokens: &[u32], cut: usize) -> Vec<Vec<f32>> {
    logits_on(&mut Reference::new(), file, tokens, cut, &(0..0))
}

/// Returns the logits of every position on a backend. These rows are of a picture: all of them are visible to each.
pub(crate) fn logits_on(
    backend: &mut dyn Backend,
    file: &ModelFile,
    tokens: &[u32],
    cut: usize,
    picture: &std::ops::Range<u32>,
) -> Vec<Vec<f32>> {
    let Model { plan, hparams, .. } = load(file, 4096, backend).expect("the model is whole");
    let logits = plan.logits.expect("every family has logits");
    let plan = backend.prepare(plan, Limits { rows: cut, logit_rows: cut }).expect("the plan fits its weights");
    let pages = tokens.len().div_ceil(PAGE_TOKENS);
    backend.grow_pages(pages).expect("a few pages fit");
    let table: Vec<PageId> = (0..pages as u32).rev().map(PageId).collect();
    backend.grow_snapshots(SnapshotTurns::count(1)).expect("a few snapshots fit");
    let (mut out, mut snapshots) = (Vec::new(), SnapshotTurns::default());
    for (part, chunk) in tokens.chunks(cut).enumerate() {
        let slot = |i: usize| (part * cut + i) as u32;
        let row = |(i, &token): (usize, &u32)| {
            let row = Row::text(0, token, slot(i), true);
            Row { until: if picture.contains(&row.slot) { picture.end } else { row.until }, ..row }
        };
        let rows = chunk.iter().enumerate().map(row).collect();
        let mut batch = Batch { rows, tables: vec![table.clone()], ..Batch::default() };
        snapshots.link(&mut batch, |_| true);
        backend.run(plan, &batch).expect("the batch is within the limits");
        let mut values = vec![0.0; chunk.len() * hparams.vocab];
        backend.read(plan, logits, 0..chunk.len(), &mut values);
        out.extend(values.chunks(hparams.vocab).map(<[f32]>::to_vec));
    }
    out
}

/// Returns the output of a model's encoder for an input, and the logits of each token of an answer to it, computed in batches of `cut`.
pub(crate) fn answer_logits(file: &ModelFile, input: &[u32], answer: &[u32], cut: usize) -> [Vec<Vec<f32>>; 2] {
    let mut backend = Reference::new();
    let encoder = load_encoder(file, &mut backend).expect("the encoder is whole");
    let output = encoder.plan.logits.expect("every encoder has an output");
    let plan = backend.prepare(encoder.plan, Encoder::limits(input.len())).expect("the plan fits its weights");
    backend.grow_pages(Encoder::pages(input.len())).expect("a few pages fit");
    backend.run(plan, &Encoder::batch(input)).expect("the batch is within the limits");
    let mut encoded = vec![0.0; input.len() * encoder.width];
    backend.read(plan, output, 0..input.len(), &mut encoded);

    let mut backend = Reference::new();
    let Model { plan, hparams, store } = load(file, 256, &mut backend).expect("the model is whole");
    let logits = plan.logits.expect("every family has logits");
    let rows = input.len().max(cut);
    let [plan, store] = [plan, store.expect("the model has an input")]
        .map(|plan| backend.prepare(plan, Limits { rows, logit_rows: cut }).expect("the plan fits its weights"));
    let pages = (input.len() + answer.len()).div_ceil(PAGE_TOKENS) as u32;
    backend.grow_pages(pages as usize).expect("a few pages fit");
    let tables = vec![(0..pages).rev().map(PageId).collect::<Vec<_>>()];
    let row = |slot: u32| Row { input: Input::Embedding(slot), ..Row::text(0, 0, slot, false) };
    let rows = (0..input.len() as u32).map(row).collect();
    let batch = Batch { rows, tables: tables.clone(), embeddings: encoded.clone(), ..Batch::default() };
    backend.run(store, &batch).expect("the batch is within the limits");
    let (count, mut out) = (input.len() as u32, Vec::new());
    for (part, chunk) in answer.chunks(cut).enumerate() {
        let row = |(at, &token): (usize, &u32)| {
            let slot = count + (part * cut + at) as u32;
            Row { pos: decoder_position(slot, count), ..Row::text(0, token, slot, true) }
        };
        let rows = chunk.iter().enumerate().map(row).collect();
        backend
            .run(plan, &Batch { rows, tables: tables.clone(), ..Batch::default() })
            .expect("it is within the limits");
        let mut values = vec![0.0; chunk.len() * hparams.vocab];
        backend.read(plan, logits, 0..chunk.len(), &mut values);
        out.extend(values.chunks(hparams.vocab).map(<[f32]>::to_vec));
    }
    [encoded.chunks(encoder.width).map(<[f32]>::to_vec).collect(), out]
}

/// Returns the output rows of texts of an embedding model in one batch. The second half of each text is its second segment.
pub(crate) fn output_rows(file: &ModelFile, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let mut backend = Reference::new();
    let loaded = load(file, 256, &mut backend).expect("the model is whole");
    let is_causal = loaded.hparams.embedding.expect("it is an embedding model").is_causal;
    let output = loaded.plan.logits.expect("every plan has an output");
    let width = loaded.plan.buffers[output.0 as usize].width;
    let plan = backend.prepare(loaded.plan, Limits { rows: 256, logit_rows: 256 }).expect("the plan fits");
    let mut batch = Batch::default();
    let mut pages = 0;
    for (seq, text) in texts.iter().enumerate() {
        let tokens = text.len() as u32;
        for (&token, slot) in text.iter().zip(0..) {
            let row = Row::encoder(seq as u32, token, slot, segment(slot, tokens), tokens);
            let until = if is_causal { slot + 1 } else { tokens };
            batch.rows.push(Row { until, want_logits: true, ..row });
        }
        let count = text.len().div_ceil(PAGE_TOKENS) as u32;
        batch.tables.push((pages..pages + count).map(PageId).collect());
        pages += count;
    }
    backend.grow_pages(pages as usize).expect("a few pages fit");
    backend.run(plan, &batch).expect("the batch is within the limits");
    let mut values = vec![0.0; batch.rows.len() * width];
    backend.read(plan, output, 0..batch.rows.len(), &mut values);
    values.chunks(width).map(<[f32]>::to_vec).collect()
}

/// Returns the segment of a token of a text.
pub(crate) fn segment(slot: u32, tokens: u32) -> u32 {
    u32::from(slot * 2 >= tokens)
}

/// Snapshots of test sequences: each reads one and writes another, in turn.
#[derive(Debug, Default)]
pub(crate) struct SnapshotTurns(Vec<Option<SnapshotId>>);

impl SnapshotTurns {
    /// Snapshots that these many sequences need.
    pub(crate) const fn count(sequences: usize) -> usize {
        2 * sequences
    }

    /// The snapshot after the last rows of a sequence.
    pub(crate) fn last(&self, seq: u32) -> Option<SnapshotId> {
        self.0.get(seq as usize).copied().flatten()
    }

    /// Lets a sequence continue from its first snapshot.
    pub(crate) fn begin_at_first(&mut self, seq: u32) -> SnapshotId {
        let id = SnapshotId(2 * seq);
        self.0.resize(self.0.len().max(seq as usize + 1), None);
        self.0[seq as usize] = Some(id);
        id
    }

    /// Adds the snapshots of a batch. Sequences that are not `complete` repeat these rows.
    pub(crate) fn link(&mut self, batch: &mut Batch, complete: impl Fn(u32) -> bool) {
        batch.snapshots = vec![SnapshotTable::default(); batch.tables.len()];
        self.0.resize(self.0.len().max(batch.tables.len()), None);
        for rows in batch.rows.chunk_by(|a, b| a.seq == b.seq) {
            let seq = rows[0].seq;
            let from = self.last(seq);
            let to = SnapshotId(2 * seq + u32::from(from == Some(SnapshotId(2 * seq))));
            let end = rows[0].slot + rows.len() as u32;
            batch.snapshots[seq as usize] = SnapshotTable { from, to: vec![(end, to)] };
            if complete(seq) {
                self.0[seq as usize] = Some(to);
            }
        }
    }
}
