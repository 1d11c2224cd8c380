//! A model and a backend, without cache, queue or sampler.

use std::sync::Arc;

use anyhow::Context;
use cairn_kernels::Variant;
use cairn_models::{Adapter, Encoder, ModelFile, decoder_position};
use cairn_tensor::{
    AdapterUse, Backend, Batch, BufferId, Cpu, Input, Limits, PAGE_TOKENS, PageId, PlanId, Reference, Row, SnapshotId,
    SnapshotTable, Team,
};

use crate::{cases, fixture};

/// The most rows of one batch here.
const BATCH_ROWS: usize = 512;

/// The context that models are loaded for, as the peer's.
pub const CONTEXT_TOKENS: usize = 1024;

/// A model that is ready to run.
pub struct Evaluator {
    backend: Box<dyn Backend>,
    plan: PlanId,
    logits: BufferId,
    /// Rows of a logits matrix.
    pub vocabulary: usize,
    pages: usize,
    /// Recurrent states after the last step.
    snapshot: u32,
    /// Adapters of the sequence.
    adapters: Vec<AdapterUse>,
    /// What reads the input of a model with an encoder and a decoder.
    reader: Option<Reader>,
    /// Rows of the sequence's input.
    input: u32,
}

/// The encoder of a model that has a decoder beside it.
struct Reader {
    backend: Box<dyn Backend>,
    plan: PlanId,
    output: BufferId,
    width: usize,
    /// Stores its rows in the pages of the decoder.
    store: PlanId,
}

/// Creates another backend of the same kind.
fn twin(backend: &dyn Backend) -> anyhow::Result<Box<dyn Backend>> {
    let caps = backend.caps();
    if caps.backend == "reference" {
        return Ok(Box::new(Reference::new()));
    }
    let features = cairn_hardware::Machine::probe().cpu.features;
    let variants = cairn_kernels::usable(&features);
    let variant = variants.into_iter().find(|variant| variant.name == caps.variant).context("the variant is usable")?;
    cpu(variant, 2)
}

/// Creates the CPU backend with this kernel variant and number of threads.
pub fn cpu(variant: &'static Variant, threads: usize) -> anyhow::Result<Box<dyn Backend>> {
    let cores = cairn_hardware::Machine::probe().cpu.usable_cores;
    Ok(Box::new(Cpu::new(variant, Arc::new(Team::new(threads, &cores)?))))
}

impl Evaluator {
    /// Loads a model file into a backend, for the logits of whole batches.
    pub fn new(file: &ModelFile, backend: Box<dyn Backend>) -> anyhow::Result<Self> {
        Self::with_logit_rows(file, backend, BATCH_ROWS)
    }

    /// As [`Evaluator::new`], with memory for the logits of only `logit_rows` rows of a batch. Logits of a large
    /// vocabulary need much memory.
    pub fn with_logit_rows(file: &ModelFile, backend: Box<dyn Backend>, logit_rows: usize) -> anyhow::Result<Self> {
        Self::with_adapters(file, &[], backend, logit_rows)
    }

    /// As [`Evaluator::with_logit_rows`], with adapters of scale 1.
    pub fn with_adapters(
        file: &ModelFile,
        adapters: &[Adapter],
        mut backend: Box<dyn Backend>,
        logit_rows: usize,
    ) -> anyhow::Result<Self> {
        let model = cairn_models::load_with_adapters(file, adapters, CONTEXT_TOKENS, backend.as_mut())?;
        let logits = model.plan.logits.context("the plan ends in logits")?;
        let plan = backend.prepare(model.plan, Limits { rows: BATCH_ROWS, logit_rows })?;
        let read = |store| -> anyhow::Result<Reader> {
            let store = backend.prepare(store, Limits { rows: BATCH_ROWS, logit_rows: 0 })?;
            let mut own = twin(backend.as_ref())?;
            let Encoder { plan, width } = cairn_models::load_encoder(file, own.as_mut())?;
            let output = plan.logits.context("the encoder has an output")?;
            let plan = own.prepare(plan, Encoder::limits(CONTEXT_TOKENS))?;
            own.grow_pages(Encoder::pages(CONTEXT_TOKENS))?;
            Ok(Reader { backend: own, plan, output, width, store })
        };
        let reader = model.store.map(read).transpose()?;
        // A step reads one snapshot and writes the other.
        backend.grow_snapshots(2)?;
        let adapters = (0..adapters.len() as u32).map(|adapter| AdapterUse { adapter, scale: 1.0 }).collect();
        let vocabulary = model.hparams.vocab;
        Ok(Self { backend, plan, logits, vocabulary, pages: 0, snapshot: 0, adapters, reader, input: 0 })
    }

    /// Reads the input to which the next tokens are the answer, if the model has an encoder.
    fn read_input(&mut self, input: &[u32]) -> anyhow::Result<()> {
        let Some(Reader { backend, plan, output, width, store }) = &mut self.reader else { return Ok(()) };
        backend.run(*plan, &Encoder::batch(input))?;
        let mut rows = vec![0.0; input.len() * *width];
        backend.read(*plan, *output, 0..input.len(), &mut rows);
        self.input = input.len() as u32;
        let pages = Encoder::pages(input.len());
        self.pages = self.pages.max(pages);
        self.backend.grow_pages(pages)?;
        let row = |(at, slot): (u32, u32)| Row { input: Input::Embedding(at), ..Row::text(0, 0, slot, false) };
        let slots: Vec<u32> = (0..self.input).collect();
        for (slots, rows) in slots.chunks(BATCH_ROWS).zip(rows.chunks(BATCH_ROWS * *width)) {
            let batch = Batch {
                rows: (0..).zip(slots.iter().copied()).map(row).collect(),
                tables: vec![(0..pages as u32).map(PageId).collect()],
                embeddings: rows.to_vec(),
                ..Batch::default()
            };
            self.backend.run(*store, &batch)?;
        }
        Ok(())
    }

    /// Computes the logits of all positions of a prompt, without cached rows: `[tokens, vocabulary]`.
    pub fn logits(&mut self, prompt: &[u32]) -> anyhow::Result<Vec<f32>> {
        let mut logits = vec![0.0; prompt.len() * self.vocabulary];
        self.read_input(cases::input(prompt))?;
        let mut done = 0;
        for (tokens, out) in prompt.chunks(BATCH_ROWS).zip(logits.chunks_mut(BATCH_ROWS * self.vocabulary)) {
            self.step(tokens, done, true, out)?;
            done += tokens.len();
        }
        Ok(logits)
    }

    /// Computes the logits of all prompts and concatenates them.
    pub fn all_logits(&mut self, prompts: &[Vec<u32>]) -> anyhow::Result<Vec<f32>> {
        let mut all = Vec::new();
        for prompt in prompts {
            all.extend(self.logits(prompt)?);
        }
        Ok(all)
    }

    /// Computes the logits of the positions that recordings contain: `[recorded positions, vocabulary]`.
    pub fn recorded(&mut self, prompts: &[Vec<u32>]) -> anyhow::Result<Vec<f32>> {
        let all = self.all_logits(prompts)?;
        let rows = |at: usize| &all[at * self.vocabulary..(at + 1) * self.vocabulary];
        Ok(fixture::positions(prompts).into_iter().flat_map(rows).copied().collect())
    }

    /// Computes `tokens` after `done` earlier ones; `out` receives the logits of each, or of the last one only.
    pub fn step(&mut self, tokens: &[u32], done: usize, all: bool, out: &mut [f32]) -> anyhow::Result<()> {
        let before = self.input as usize;
        let pages = (before + done + tokens.len()).div_ceil(PAGE_TOKENS);
        if pages > self.pages {
            self.backend.grow_pages(pages)?;
            self.pages = pages;
        }
        let input = self.input;
        let rows = tokens.iter().enumerate().map(|(at, &token)| {
            let slot = (before + done + at) as u32;
            let row = Row::text(0, token, slot, all || at + 1 == tokens.len());
            if input > 0 { Row { pos: decoder_position(slot, input), ..row } } else { row }
        });
        let (from, to) = (self.snapshot, 1 - self.snapshot);
        let snapshots = SnapshotTable {
            from: (done > 0).then_some(SnapshotId(from)),
            to: vec![((done + tokens.len()) as u32, SnapshotId(to))],
        };
        let batch = Batch {
            rows: rows.collect(),
            tables: vec![(0..pages as u32).map(PageId).collect()],
            snapshots: vec![snapshots],
            adapters: vec![self.adapters.clone()],
            ..Batch::default()
        };
        self.backend.run(self.plan, &batch)?;
        self.snapshot = to;
        self.backend.read(self.plan, self.logits, 0..out.len() / self.vocabulary, out);
        Ok(())
    }

    /// Generates `count` tokens greedily. Returns the prompt and these tokens.
    pub fn greedy(&mut self, prompt: &[u32], count: usize) -> anyhow::Result<Vec<u32>> {
        self.read_input(cases::input(prompt))?;
        self.continue_greedily(prompt, count)
    }

    /// Generates `count` tokens of the answer to an input greedily, which begins with the token `start`.
    pub fn answer(&mut self, input: &[u32], start: u32, count: usize) -> anyhow::Result<Vec<u32>> {
        self.read_input(input)?;
        Ok(self.continue_greedily(&[start], count)?.split_off(1))
    }

    fn continue_greedily(&mut self, prompt: &[u32], count: usize) -> anyhow::Result<Vec<u32>> {
        let mut tokens = prompt.to_vec();
        let mut row = vec![0.0; self.vocabulary];
        let mut done = 0;
        for _ in 0..count {
            self.step(&tokens[done..], done, false, &mut row)?;
            done = tokens.len();
            tokens.push(likeliest(&row).0);
        }
        Ok(tokens)
    }
}

/// Returns the most likely token, and its lead over the second most likely one in logits.
pub fn likeliest(row: &[f32]) -> (u32, f32) {
    let (mut best, mut lead) = (0, f32::INFINITY);
    for (id, &logit) in row.iter().enumerate().skip(1) {
        let over = logit - row[best];
        if over > 0.0 {
            (best, lead) = (id, over);
        } else {
            lead = lead.min(-over);
        }
    }
    (best as u32, lead)
}
