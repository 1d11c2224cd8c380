//! A model and a backend, without cache, queue or sampler.

use std::sync::Arc;

use anyhow::Context;
use cairn_kernels::Variant;
use cairn_models::{Adapter, ModelFile};
use cairn_tensor::{
    AdapterUse, Backend, Batch, BufferId, Cpu, Limits, PAGE_TOKENS, PageId, PlanId, Row, SnapshotId, SnapshotTable,
    Team,
};

use crate::fixture;

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
        // A step reads one snapshot and writes the other.
        backend.grow_snapshots(2)?;
        let adapters = (0..adapters.len() as u32).map(|adapter| AdapterUse { adapter, scale: 1.0 }).collect();
        Ok(Self { backend, plan, logits, vocabulary: model.hparams.vocab, pages: 0, snapshot: 0, adapters })
    }

    /// Computes the logits of all positions of a prompt, without cached rows: `[tokens, vocabulary]`.
    pub fn logits(&mut self, prompt: &[u32]) -> anyhow::Result<Vec<f32>> {
        let mut logits = vec![0.0; prompt.len() * self.vocabulary];
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
        let pages = (done + tokens.len()).div_ceil(PAGE_TOKENS);
        if pages > self.pages {
            self.backend.grow_pages(pages)?;
            self.pages = pages;
        }
        let rows = tokens
            .iter()
            .enumerate()
            .map(|(at, &token)| Row::text(0, token, (done + at) as u32, all || at + 1 == tokens.len()));
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
