//! Loading: from a file to a scheduler thread that answers requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::Variant;
use cairn_kv::{Budget, Cache, Keeping, Rotation};
use cairn_models::{Hparams, Model, ModelFile};
use cairn_prompt::Template;
use cairn_tensor::{Backend, Caps, Cpu, Limits, Plan, Team, UnevenHead};
use cairn_tier::{Costs, Fingerprint, NumericClass, RowTypes, WeightsDigest};
use cairn_tokenizer::Tokenizer;

use crate::config::Kept;
use crate::errand::Errand;
use crate::error::LoadError;
use crate::random::Random;
use crate::scheduler::{BATCH_ROWS, Scheduler};
use crate::sequence::Job;
use crate::usage::Counters;

/// Contexts that are brought up when a model is loaded, beside those that are pinned: the last ones that were talked in.
const PREFETCHED: usize = 2;

/// A loaded model as requests see it. Dropping the last reference ends its thread and frees its memory.
pub(crate) struct LoadedModel {
    pub(crate) file: Arc<ModelFile>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// The file's own chat template: none, broken with its reason, or ready.
    pub(crate) template: Result<Option<Template>, cairn_prompt::Error>,
    pub(crate) hparams: Hparams,
    pub(crate) caps: Caps,
    /// The type of keys and values that was asked for.
    pub(crate) kv_asked: DType,
    /// Why they do not have it.
    pub(crate) kv_refused: Option<UnevenHead>,
    pub(crate) weights_bytes: u64,
    pub(crate) threads: usize,
    /// Whether it computes as its family does for long sequences.
    pub(crate) long: bool,
    pub(crate) load_ns: u64,
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) errands: mpsc::Sender<Errand>,
    /// How its state is kept beyond its stay, if it is.
    pub(crate) keeping: Option<Keeping>,
    pub(crate) queued: Arc<AtomicUsize>,
    alive: Arc<AtomicBool>,
}

/// What computes a model, made of the CPU backend that has its weights and the type of its pages.
pub type Device = Arc<dyn Fn(Cpu) -> Box<dyn Backend> + Send + Sync>;

/// What loading needs from the engine.
pub(crate) struct Loading {
    pub(crate) variant: &'static Variant,
    pub(crate) team: Arc<Team>,
    pub(crate) device: Device,
    pub(crate) budget: Arc<Budget>,
    pub(crate) parallel: usize,
    /// Tokens of context that the first request asks for.
    pub(crate) context_tokens: u32,
    /// Type of keys and values that is asked for.
    pub(crate) kv_type: DType,
    /// Source of the seeds of requests that name none.
    pub(crate) seeds: Random,
    pub(crate) closing: Arc<AtomicBool>,
    /// Where computed state is kept, and what the file's contents are.
    pub(crate) kept: Option<(Kept, WeightsDigest)>,
    /// Where its use is counted.
    pub(crate) counters: Arc<Counters>,
}

impl LoadedModel {
    /// Whether its thread still runs.
    pub(crate) fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Tells whether its thread still runs, also when this has been dropped.
    pub(crate) fn running(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.alive)
    }

    /// Builds the model and starts its thread. Takes as long as reading the header and the vocabulary does; the weights
    /// are mapped and come in as they are used.
    pub(crate) fn load(file: ModelFile, loading: Loading) -> Result<Self, LoadError> {
        let started = Instant::now();
        let threads = loading.team.threads();
        let mut backend = Cpu::new(loading.variant, Arc::clone(&loading.team));
        let (tokenizer, model) = read(&file, loading.context_tokens as usize, &mut backend)?;
        let tokenizer = Arc::new(tokenizer);
        let template = chat_template(&file);
        if let Err(error) = &template {
            tracing::warn!(%error, "the model's chat template cannot be used");
        }
        let (kv_type, kv_refused) = model.plan.kv_type(loading.kv_type);
        if let Some(why) = kv_refused {
            tracing::warn!(asked = loading.kv_type.name(), used = kv_type.name(), %why, "type of the KV cache refused");
        }
        let mut backend = (loading.device)(backend.with_kv_type(kv_type));
        let caps = backend.caps();
        let layout = model.plan.page_layout(caps.kv_type);
        let logits = model.plan.logits.expect("every family's plan ends in logits");
        let limits = Limits { rows: BATCH_ROWS, logit_rows: loading.parallel };
        let mut cache = Cache::new(layout, loading.budget);
        let keeping = loading.kept.map(|(kept, weights)| keeping(kept, weights, &model.plan, &caps));
        if let Some(keeping) = &keeping {
            let costs = Costs::of_weights(weights_bytes(&file));
            // Weights come in as they are used, so the first prompt finds its rows in RAM by then.
            keeping.tiers.prefetch_model(&keeping.fingerprint, PREFETCHED);
            cache.keep_in(keeping.clone(), costs);
        }
        let rotation = Rotation::of(&model.plan, caps.kv_type);
        let plan = backend.prepare(model.plan, limits)?;

        let file = Arc::new(file);
        let (jobs, inbox) = mpsc::channel();
        let (errands, asked) = mpsc::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let alive = Arc::new(AtomicBool::new(true));
        let scheduler = Scheduler {
            file: Arc::clone(&file),
            team: loading.team,
            backend,
            plan,
            logits,
            vocabulary: model.hparams.vocab,
            cache,
            rotation,
            tokenizer: Arc::clone(&tokenizer),
            parallel: loading.parallel,
            waiting: VecDeque::new(),
            crowded: false,
            short_since: None,
            step_took: std::time::Duration::ZERO,
            seeds: loading.seeds,
            counters: loading.counters,
            inbox,
            errands: asked,
            queued: Arc::clone(&queued),
            closing: loading.closing,
            alive: Arc::clone(&alive),
        };
        std::thread::Builder::new()
            .name("cairn-scheduler".to_owned())
            .spawn(move || scheduler.run())
            .map_err(LoadError::Thread)?;
        Ok(Self {
            weights_bytes: weights_bytes(&file),
            long: model.hparams.is_long(loading.context_tokens as usize),
            file,
            tokenizer,
            template,
            hparams: model.hparams,
            caps,
            kv_asked: loading.kv_type,
            kv_refused,
            threads,
            load_ns: started.elapsed().as_nanos() as u64,
            jobs,
            errands,
            keeping,
            queued,
            alive,
        })
    }
}

/// How this model's state is kept. The plan decides, with the weights, all that is computed: dimensions, windows, RoPE frequencies,
/// experts; writing it out covers what a list of facts might forget.
fn keeping(kept: Kept, weights: WeightsDigest, plan: &Plan, caps: &Caps) -> Keeping {
    let class = format!("{}/{}/{}", caps.backend, caps.variant, caps.numerics_rev);
    let rows = RowTypes { keys: caps.kv_type, values: caps.kv_type };
    let facts = [("plan", format!("{plan:?}")), ("rows", format!("{rows:?}"))];
    Keeping {
        tiers: kept.tiers,
        namespace: kept.namespace,
        fingerprint: Fingerprint::new(weights, facts.iter().map(|(name, value)| (*name, value.as_bytes()))),
        class: NumericClass::new(&class).expect("names of backends and variants are short"),
        rows,
        groups: cairn_kv::groups(&plan.page_layout(caps.kv_type)),
    }
}

/// Says whether a file could be loaded, without a thread that answers: nothing of it stays in memory.
pub(crate) fn check(file: &ModelFile, variant: &'static Variant, team: Arc<Team>) -> Result<(), LoadError> {
    let mut backend = Cpu::new(variant, team);
    // For any context: the longest asks for no more of a file than the shortest.
    let (_, model) = read(file, 1, &mut backend)?;
    backend.prepare(model.plan, Limits { rows: 1, logit_rows: 1 })?;
    Ok(())
}

/// A file's vocabulary and its model, whose weights the backend then has.
fn read(file: &ModelFile, context_tokens: usize, backend: &mut Cpu) -> Result<(Tokenizer, Model), LoadError> {
    let tokenizer = Tokenizer::from_metadata(file.gguf().metadata())?;
    let model = cairn_models::load(file, context_tokens, backend)?;
    let (tokens, rows) = (tokenizer.vocab_size(), model.hparams.vocab);
    if tokens > rows {
        // Padding may give the model more rows than there are tokens, but a token without a row cannot be computed.
        let why = format!("{tokens} tokens, and the embedding table has {rows} rows");
        return Err(cairn_models::LoadError::Key { key: "tokenizer.ggml.tokens".to_owned(), why }.into());
    }
    Ok((tokenizer, model))
}

fn chat_template(file: &ModelFile) -> Result<Option<Template>, cairn_prompt::Error> {
    match file.gguf().metadata().str("tokenizer.chat_template") {
        Ok(Some(source)) => Template::jinja(source).map(Some),
        _ => Ok(None),
    }
}

/// Bytes of all tensors in the file.
pub(crate) fn weights_bytes(file: &ModelFile) -> u64 {
    file.gguf().tensors().iter().map(|tensor| tensor.bytes).sum()
}

/// Refuses a model that this machine's memory cannot hold beside what runs already.
pub(crate) fn check_memory(
    file: &ModelFile,
    context_tokens: u32,
    kv_type: DType,
    machine: &Machine,
) -> Result<(), LoadError> {
    let limits = Limits { rows: BATCH_ROWS, logit_rows: 1 };
    let need = cairn_models::need(file, context_tokens as usize, limits, kv_type)?;
    // The whole file counts, also what this family does not read.
    let need_bytes = weights_bytes(file).saturating_add(need.kv_bytes).saturating_add(need.activations_bytes);
    let have_bytes = machine.memory.limit_bytes.unwrap_or(u64::MAX).min(machine.memory.available_bytes);
    if need_bytes > have_bytes {
        return Err(LoadError::TooBig { need_bytes, have_bytes });
    }
    Ok(())
}
