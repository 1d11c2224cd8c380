//! Cairn's side of a benchmark: the engine without a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cairn_models::ModelFile;
use cairn_tensor::{Cpu, Team};
use it::evaluate::Evaluator;

use crate::peer::Work;

/// A model that is ready to run.
pub(crate) struct Loaded {
    evaluator: Evaluator,
    team: Arc<Team>,
    variant: &'static str,
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
        let file = ModelFile::open(path)?;
        let evaluator = Evaluator::with_logit_rows(&file, Box::new(Cpu::new(variant, Arc::clone(&team))), 1)?;
        Ok(Self { evaluator, team, variant: variant.name })
    }

    /// The kernel variant in use.
    pub(crate) fn variant(&self) -> &'static str {
        self.variant
    }

    /// Generates greedily from one token, or computes a prompt, in an empty context; returns tokens per second. Runs on a separate
    /// thread, because the engine pins its thread, and child processes of a pinned thread inherit the pinning.
    pub(crate) fn run(&mut self, work: Work, tokens: usize) -> anyhow::Result<f64> {
        let Self { evaluator, team, .. } = self;
        let compute = move || {
            team.pin_caller();
            let started = Instant::now();
            match work {
                Work::Decode => drop(evaluator.greedy(&[1], tokens)?),
                Work::Prefill => drop(evaluator.greedy(&(0..tokens as u32).collect::<Vec<_>>(), 1)?),
            }
            Ok(tokens as f64 / started.elapsed().as_secs_f64())
        };
        std::thread::scope(|scope| scope.spawn(compute).join().expect("computing does not panic"))
    }
}
