//! Starts the thread of a loaded model: a scheduler, or the embedder of an embedding model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use cairn_kv::{Budget, Cache, ModelTiers, Rotation};
use cairn_models::{Adapter, EmbeddingOutput, ModelFile};
use cairn_tensor::{Backend, Limits, Plan, Team};
use cairn_tier::CostModel;
use cairn_tokenizer::Tokenizer;

use crate::command::{Command, CommandSender};
use crate::embedder::{Embedder, EmbeddingDevice};
use crate::encoder::PictureEncoder;
use crate::error::LoadError;
use crate::input_encoder::{InputEncoder, InputStage};
use crate::metrics::Counters;
use crate::random::Random;
use crate::scheduler::{Admission, BATCH_ROWS, Phase, Scheduler, Shares, StepCost};

/// Number of recently used contexts to prefetch when a model is loaded, in addition to pinned ones.
const PREFETCH_CONTEXTS: usize = 2;

/// The parts of a model's thread that a scheduler and an embedder both have.
pub(crate) struct ModelThreadBuilder {
    pub(crate) file: Arc<ModelFile>,
    pub(crate) adapters: Vec<Adapter>,
    pub(crate) team: Arc<Team>,
    pub(crate) backend: Box<dyn Backend>,
    /// The forward pass, not yet prepared.
    pub(crate) plan: Plan,
    pub(crate) vocabulary: usize,
    /// Maximum number of active requests.
    pub(crate) parallel: usize,
    pub(crate) commands: Receiver<Command>,
    /// Cleared when the thread accepts no more requests.
    pub(crate) alive: Arc<AtomicBool>,
}

/// The other parts of a scheduler.
pub(crate) struct SchedulerParts {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) cache: Cache,
    pub(crate) encoder: Option<PictureEncoder>,
    pub(crate) input: Option<InputParts>,
    pub(crate) seeds: Random,
    pub(crate) counters: Arc<Counters>,
}

/// The encoder of a model that has a decoder beside it.
pub(crate) struct InputParts {
    pub(crate) encoder: InputEncoder,
    /// Stores the encoder's rows; not yet prepared.
    pub(crate) store: Plan,
    pub(crate) start: u32,
}

impl ModelThreadBuilder {
    /// Creates the model's cache. Its waker is a command.
    pub(crate) fn cache(
        &self,
        budget: Arc<Budget>,
        tiers: Option<&ModelTiers>,
        weights_bytes: u64,
        commands: CommandSender,
    ) -> Cache {
        let mut cache = Cache::new(self.plan.page_layout(self.backend.caps().kv_type), budget);
        if let Some(tiers) = tiers {
            // Weights are read on first use, so the prefetch is done before the first prompt needs its rows.
            tiers.tiers.prefetch_model(&tiers.fingerprint, PREFETCH_CONTEXTS);
            cache.attach_tiers(tiers.clone(), CostModel::of_weights(weights_bytes));
        }
        cache.set_waker(Arc::new(move || commands.send(Command::Wake)));
        cache
    }

    /// Prepares the plan and starts the embedder. A text has at most `rows` tokens.
    pub(crate) fn start_embedder(self, output: EmbeddingOutput, rows: usize) -> Result<(), LoadError> {
        let embedder = Embedder {
            file: self.file,
            team: self.team,
            device: EmbeddingDevice::prepare(self.backend, self.plan, output, rows)?,
            vocabulary: self.vocabulary,
            parallel: self.parallel,
            shares: Shares::default(),
            cost: StepCost::default(),
            served: 0,
            deferred: 0,
            commands: self.commands,
            alive: self.alive,
        };
        spawn("cairn-embedder", move || embedder.run())
    }

    /// Prepares the plan and starts the scheduler.
    pub(crate) fn start_scheduler(self, parts: SchedulerParts) -> Result<(), LoadError> {
        let Self { file, adapters, team, mut backend, plan, vocabulary, parallel, commands, alive } = self;
        let SchedulerParts { tokenizer, cache, encoder, input, seeds, counters } = parts;
        let logits = plan.logits.expect("every family's plan ends in logits");
        let rotation = Rotation::from_plan(&plan, backend.caps().kv_type);
        let layers = plan.layers();
        let plan = backend.prepare(plan, Limits { rows: BATCH_ROWS, logit_rows: parallel })?;
        let prepare = |InputParts { encoder, store, start }| -> Result<InputStage, LoadError> {
            let store = backend.prepare(store, Limits { rows: BATCH_ROWS, logit_rows: 0 })?;
            Ok(InputStage { encoder, store, start })
        };
        let input = input.map(prepare).transpose()?;
        let scheduler = Scheduler {
            file,
            adapters,
            team,
            backend,
            plan,
            logits,
            vocabulary,
            layers,
            cache,
            encoder,
            input,
            input_page_error: None,
            rotation,
            tokenizer,
            parallel,
            waiting: VecDeque::new(),
            admission: Admission::default(),
            shares: Shares::default(),
            is_crowded: false,
            short_of_pages_since: None,
            step_time: Duration::ZERO,
            steps: 0,
            cost: StepCost::default(),
            slice: None,
            seeds,
            counters,
            commands,
            received: 0,
            drain_limits: None,
            phase: Phase::default(),
            alive,
            has_changed: false,
        };
        spawn("cairn-scheduler", move || scheduler.run())
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LoadError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(LoadError::Thread)
}
