//! Cairn's side of a bench: the engine without a server around it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cairn_kv::{Budget, Cache};
use cairn_tensor::{Backend, Batch, BufferId, Cpu, Limits, PlanId, Row, Team};

/// A model that is ready to run.
pub(crate) struct Loaded {
    backend: Cpu,
    plan: PlanId,
    logits: BufferId,
    cache: Cache,
    row: Vec<f32>,
}

/// Threads that the engine uses here.
pub(crate) fn threads() -> usize {
    cairn_hardware::Machine::probe().cpu.usable_cores.len()
}

impl Loaded {
    /// Loads a GGUF file with the best kernel variant.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let machine = cairn_hardware::Machine::probe();
        let cores = &machine.cpu.usable_cores;
        let variant = cairn_kernels::usable(&machine.cpu.features)[0];
        let team = Arc::new(Team::new(cores.len(), cores)?);
        team.pin_caller();
        let mut backend = Cpu::new(variant, team);
        let file = cairn_models::ModelFile::open(path)?;
        let model = cairn_models::load(&file, &mut backend)?;
        let layout = model.plan.page_layout(backend.caps().kv_element_bytes);
        let logits = model.plan.logits.expect("every family's plan ends in logits");
        let plan = backend.prepare(model.plan, Limits { rows: 512, logit_rows: 1 })?;
        let cache = Cache::new(layout, Arc::new(Budget::new(1 << 30)));
        Ok(Self { backend, plan, logits, cache, row: vec![0.0; model.hparams.vocab] })
    }

    /// The kernel variant in use.
    pub(crate) fn variant(&self) -> &'static str {
        self.backend.caps().variant
    }

    /// Generates greedily from one token, in a context of its own; returns tokens per second.
    pub(crate) fn decode(&mut self, tokens: usize) -> anyhow::Result<f64> {
        self.cache.clear();
        let mut token = 1;
        let (seq, _) = self.cache.open(&[token]);
        let mut batch = Batch::default();
        batch.tables.push(Vec::new());
        let started = Instant::now();
        for slot in 0..tokens {
            self.cache.reserve(&mut self.backend, seq, 1)?;
            batch.rows.clear();
            batch.rows.push(Row::text(0, token, slot as u32, true));
            batch.tables[0].clear();
            batch.tables[0].extend_from_slice(self.cache.pages(seq));
            self.backend.run(self.plan, &batch)?;
            self.cache.advance(seq, &[token]);
            self.backend.read(self.plan, self.logits, 0..1, &mut self.row);
            let best = self.row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            token = best.expect("a vocabulary is never empty").0 as u32;
        }
        let rate = tokens as f64 / started.elapsed().as_secs_f64();
        self.cache.discard(seq);
        Ok(rate)
    }
}
