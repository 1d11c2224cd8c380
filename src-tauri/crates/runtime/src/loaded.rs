//! Loading a model: from a file to a scheduler thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cairn_gguf::{DType, Gguf};
use cairn_grammar::Vocabulary;
use cairn_hardware::Machine;
use cairn_kernels::Variant;
use cairn_kv::{Budget, ModelTiers};
use cairn_models::{Adapter, Hparams, MemoryRequirements, Model, ModelFile, TowerHparams};
use cairn_prompt::Template;
use cairn_tensor::{Backend, Caps, Cpu, Limits, Plan, Team, UnevenHead};
use cairn_tier::{Fingerprint, Groups, NumericClass, RowTypes, WeightsDigest};
use cairn_tokenizer::Tokenizer;

use crate::command::{Command, CommandSender};
use crate::config::CacheTiers;
use crate::encoder::PictureEncoder;
use crate::error::LoadError;
use crate::input_encoder::InputEncoder;
use crate::masks::MaskWorker;
use crate::metrics::Counters;
use crate::model_thread::{InputParts, ModelThreadBuilder, SchedulerParts};
use crate::model_use::ModelUses;
use crate::picture::TowerIdentity;
use crate::queue::Queue;
use crate::random::Random;
use crate::scheduler::BATCH_ROWS;
use crate::tower;

/// Tokens that an encoder has memory for at least, so that no small context needs another load.
const MIN_INPUT_TOKENS: usize = 64;

/// A loaded model. Dropping the last reference ends its scheduler thread and frees its memory.
pub(crate) struct LoadedModel {
    pub(crate) file: Arc<ModelFile>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// The chat template in the model's file, if it has one.
    pub(crate) template: Result<Option<Template>, cairn_prompt::Error>,
    pub(crate) hparams: Hparams,
    /// The vision tower; none if the model has none, or the reason why it cannot be used.
    pub(crate) vision: Option<Result<Vision, LoadError>>,
    pub(crate) caps: Caps,
    pub(crate) requested_kv_type: DType,
    /// Why keys and values do not have the requested type, if so.
    pub(crate) kv_refused: Option<UnevenHead>,
    pub(crate) weights_bytes: u64,
    pub(crate) threads: usize,
    /// Number of adapters.
    pub(crate) adapters: usize,
    /// Maximum number of tokens of a text, if it is an embedding model, or of an input, if it has an encoder and a decoder.
    pub(crate) max_text_tokens: Option<usize>,
    /// Whether it uses its family's variant for long contexts.
    pub(crate) long: bool,
    pub(crate) load_ns: u64,
    pub(crate) commands: CommandSender,
    /// The tiers of its chunks, if it has any.
    pub(crate) tiers: Option<ModelTiers>,
    /// Requests that were accepted.
    pub(crate) queue: Queue,
    /// Leases and generations that keep the model loaded when another one needs room.
    pub(crate) uses: ModelUses,
    alive: Arc<AtomicBool>,
    /// Built in the background.
    vocabulary: Arc<LazyVocabulary>,
    /// Started for the first constrained answer; none if the system refused the thread.
    mask_worker: OnceLock<Option<MaskWorker>>,
}

/// The vocabulary for constraints. Building that of a large model takes about a second, so a thread begins with it when the model
/// is loaded.
struct LazyVocabulary {
    tokenizer: Arc<Tokenizer>,
    built: OnceLock<Result<Arc<Vocabulary>, cairn_grammar::Error>>,
}

impl LazyVocabulary {
    fn new(tokenizer: &Arc<Tokenizer>) -> Arc<Self> {
        Arc::new(Self { tokenizer: Arc::clone(tokenizer), built: OnceLock::new() })
    }

    fn build_in_background(self: &Arc<Self>) {
        let background = Arc::clone(self);
        let build = move || drop(background.get());
        if let Err(error) = std::thread::Builder::new().name("cairn-vocabulary".to_owned()).spawn(build) {
            tracing::warn!(%error, "no thread for the vocabulary; the first constrained answer builds it");
        }
    }

    fn get(&self) -> Result<Arc<Vocabulary>, cairn_grammar::Error> {
        let build = || {
            let ids = 0..self.tokenizer.vocab_size() as u32;
            // Control tokens that are shown, such as harmony's, are structure and no text.
            let pieces = ids.map(|id| if self.tokenizer.is_control(id) { &[][..] } else { self.tokenizer.piece(id) });
            Vocabulary::new(pieces, self.tokenizer.end_ids())
        };
        self.built.get_or_init(build).clone()
    }
}

/// Makes a model's backend from the CPU backend that has its weights and its page type.
pub type Device = Arc<dyn Fn(Cpu) -> Box<dyn Backend> + Send + Sync>;

/// The vision tower of a loaded model.
pub(crate) struct Vision {
    pub(crate) hparams: TowerHparams,
    pub(crate) identity: TowerIdentity,
}

/// A vision tower that can be loaded.
pub(crate) struct TowerFile {
    /// The model's own file, or a separate one.
    pub(crate) file: Arc<ModelFile>,
    /// Digest of the weights, if available.
    pub(crate) weights: Option<WeightsDigest>,
}

/// What the engine provides for a load.
pub(crate) struct Loading {
    pub(crate) variant: &'static Variant,
    pub(crate) team: Arc<Team>,
    pub(crate) device: Device,
    pub(crate) budget: Arc<Budget>,
    pub(crate) parallel: usize,
    /// Maximum number of requests that wait.
    pub(crate) max_queue: usize,
    /// Context size of the first request.
    pub(crate) context_tokens: u32,
    /// Requested type of keys and values.
    pub(crate) kv_type: DType,
    /// Seeds for requests without one.
    pub(crate) seeds: Random,
    /// Counts the model's uses.
    pub(crate) uses: ModelUses,
    /// Tiers for the model's chunks, and the digest of its weights.
    pub(crate) tiers: Option<(CacheTiers, WeightsDigest)>,
    /// Digests of the adapters.
    pub(crate) adapter_digests: Vec<Option<[u8; 32]>>,
    /// The model's metrics.
    pub(crate) counters: Arc<Counters>,
    /// The file of the vision tower, if it is a separate one, or the reason why it cannot be opened.
    pub(crate) projector: Option<Result<TowerFile, LoadError>>,
}

impl LoadedModel {
    /// Whether its scheduler accepts requests.
    pub(crate) fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// A flag that is true while its scheduler runs, also after this is dropped.
    pub(crate) fn running(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.alive)
    }

    /// The vocabulary for constraints. Waits until it is built.
    pub(crate) fn vocabulary(&self) -> Result<Arc<Vocabulary>, cairn_grammar::Error> {
        self.vocabulary.get()
    }

    /// The thread that computes masks. The first call starts it.
    pub(crate) fn mask_worker(&self) -> Option<MaskWorker> {
        let start = || MaskWorker::start().inspect_err(|error| tracing::warn!(%error, "no thread for masks")).ok();
        self.mask_worker.get_or_init(start).clone()
    }

    /// Loads the model and starts its scheduler or embedder. Reads the header and the vocabulary; the weights are mapped, and read on first
    /// use.
    pub(crate) fn load(file: ModelFile, adapters: Vec<Adapter>, loading: Loading) -> Result<Self, LoadError> {
        let started = Instant::now();
        let context_tokens = loading.context_tokens as usize;
        let threads = loading.team.threads();
        let mut backend = Cpu::new(loading.variant, Arc::clone(&loading.team));
        let (tokenizer, Model { plan, hparams, store }) = read(&file, &adapters, context_tokens, &mut backend)?;
        let template = chat_template(&file);
        let (kv_type, kv_refused) = supported_kv_type(&plan, loading.kv_type);
        let backend = (loading.device)(backend.with_kv_type(kv_type));
        let caps = backend.caps();
        let (file, tokenizer) = (Arc::new(file), Arc::new(tokenizer));
        let weights_bytes = weights_bytes(&file);
        let adapter_count = adapters.len();
        let (commands, receiver) = CommandSender::channel();
        let alive = Arc::new(AtomicBool::new(true));
        let vocabulary = LazyVocabulary::new(&tokenizer);
        let builder = ModelThreadBuilder {
            file: Arc::clone(&file),
            adapters,
            team: loading.team,
            backend,
            plan,
            vocabulary: hparams.vocab,
            parallel: loading.parallel,
            commands: receiver,
            alive: Arc::clone(&alive),
        };
        let (mut tiers, mut max_text_tokens, mut vision) = (None, None, None);
        let own_tower = || {
            let weights = loading.tiers.as_ref().map(|(_, weights)| *weights);
            file.tower().map(|_| Ok(TowerFile { file: Arc::clone(&file), weights }))
        };
        let tower = loading.projector.or_else(own_tower);
        match hparams.embedding {
            Some(output) => {
                let rows = hparams.limits(context_tokens, Limits { rows: BATCH_ROWS, logit_rows: BATCH_ROWS }).rows;
                builder.start_embedder(output, rows)?;
                max_text_tokens = Some(rows);
            }
            None => {
                // Without the digest of an adapter, its rows have no names.
                let digests: Option<Vec<[u8; 32]>> = loading.adapter_digests.into_iter().collect();
                let input_tokens = context_tokens.max(MIN_INPUT_TOKENS).min(hparams.context_length);
                let mut plans = vec![("plan", format!("{:?}", builder.plan))];
                let mut input = None;
                if let (Some(store), Some(start)) = (store, hparams.decoder_start) {
                    let mut backend = Cpu::new(loading.variant, Arc::clone(&builder.team));
                    let encoder = cairn_models::load_encoder(&file, &mut backend)?;
                    plans.extend([("store", format!("{store:?}")), ("encoder", format!("{:?}", encoder.plan))]);
                    let encoder = InputEncoder::new(Arc::clone(&file), Box::new(backend), encoder, input_tokens)?;
                    input = Some(InputParts { encoder, store, start });
                    max_text_tokens = Some(input_tokens);
                }
                let groups = cairn_kv::groups(&builder.plan.page_layout(caps.kv_type));
                let tiered = loading.tiers.zip(digests);
                tiers = tiered
                    .map(|((tiers, weights), digests)| model_tiers(tiers, weights, &digests, plans, groups, &caps));
                let cache = builder.cache(loading.budget, tiers.as_ref(), weights_bytes, commands.clone());
                let tokenizer = Arc::clone(&tokenizer);
                let (mut seeds, counters) = (loading.seeds, loading.counters);
                let encoder = tower.map(|tower| {
                    let backend = Cpu::new(loading.variant, Arc::clone(&builder.team));
                    encoder(tower?, builder.plan.input_width(), backend, seeds.next())
                });
                let encoder = match encoder {
                    None => None,
                    Some(Ok(encoder)) => {
                        let (hparams, identity) = (encoder.hparams().clone(), encoder.identity());
                        vision = Some(Ok(Vision { hparams, identity }));
                        Some(encoder)
                    }
                    Some(Err(error)) => {
                        tracing::warn!(%error, "the vision tower cannot be used: the model reads text only");
                        vision = Some(Err(error));
                        None
                    }
                };
                builder.start_scheduler(SchedulerParts { tokenizer, cache, encoder, input, seeds, counters })?;
                vocabulary.build_in_background();
            }
        }
        Ok(Self {
            weights_bytes,
            adapters: adapter_count,
            long: hparams.is_long(context_tokens),
            file,
            tokenizer,
            template,
            hparams,
            vision,
            caps,
            requested_kv_type: loading.kv_type,
            kv_refused,
            threads,
            max_text_tokens,
            load_ns: started.elapsed().as_nanos() as u64,
            commands,
            tiers,
            queue: Queue::new(loading.parallel, loading.max_queue),
            uses: loading.uses,
            alive,
            vocabulary,
            mask_worker: OnceLock::new(),
        })
    }
}

impl Drop for LoadedModel {
    fn drop(&mut self) {
        self.commands.send(Command::Drain);
    }
}

/// Loads a vision tower for a text model with rows of `width` elements. Without a digest of the weights, `salt` identifies them.
fn encoder(tower: TowerFile, width: usize, mut backend: Cpu, salt: u64) -> Result<PictureEncoder, LoadError> {
    let TowerFile { file, weights } = tower;
    let tower = cairn_models::vision::load(&file, width, &mut backend)?;
    tower::check_rows(&tower.hparams)?;
    let weights = match weights {
        Some(WeightsDigest(digest)) => digest.to_vec(),
        None => salt.to_le_bytes().to_vec(),
    };
    // As for the tiers of the text model, the whole plan and the arithmetic determine the results.
    let caps = backend.caps();
    let facts = (&tower.plan, &tower.hparams, caps.backend, caps.variant, caps.numerics_rev);
    let identity = TowerIdentity::new(&[&weights, format!("{facts:?}").as_bytes()]);
    PictureEncoder::new(file, Box::new(backend), tower, identity)
}

/// The tiers of a model. The fingerprint covers the whole plans: with the weights, they determine all that is computed
/// (dimensions, windows, RoPE frequencies, experts). A list of facts could be incomplete.
fn model_tiers(
    tiers: CacheTiers,
    weights: WeightsDigest,
    adapters: &[[u8; 32]],
    plans: Vec<(&'static str, String)>,
    groups: Groups,
    caps: &Caps,
) -> ModelTiers {
    let class = format!("{}/{}/{}", caps.backend, caps.variant, caps.numerics_rev);
    let rows = RowTypes { keys: caps.kv_type, values: caps.kv_type };
    let mut facts = plans;
    facts.insert(1, ("rows", format!("{rows:?}")));
    facts.extend(adapters.iter().map(|digest| ("adapter", format!("{digest:02x?}"))));
    ModelTiers {
        tiers: tiers.tiers,
        namespace: tiers.namespace,
        fingerprint: Fingerprint::new(weights, facts.iter().map(|(name, value)| (*name, value.as_bytes()))),
        class: NumericClass::new(&class).expect("names of backends and variants are short"),
        rows,
        groups,
    }
}

/// Checks that a model file can be loaded. Nothing stays in memory.
pub(crate) fn check(file: &ModelFile, variant: &'static Variant, team: Arc<Team>) -> Result<(), LoadError> {
    let mut backend = Cpu::new(variant, Arc::clone(&team));
    // The context size does not matter: all sizes need the same tensors.
    let (_, model) = read(file, &[], 1, &mut backend)?;
    let limits = Limits { rows: 1, logit_rows: 1 };
    backend.prepare(model.plan, limits)?;
    if let Some(store) = model.store {
        backend.prepare(store, limits)?;
        let mut backend = Cpu::new(variant, team);
        let encoder = cairn_models::load_encoder(file, &mut backend)?;
        backend.prepare(encoder.plan, limits)?;
    }
    Ok(())
}

/// Reads the vocabulary and the model, and gives the weights to the backend.
pub(crate) fn read(
    file: &ModelFile,
    adapters: &[Adapter],
    context_tokens: usize,
    backend: &mut Cpu,
) -> Result<(Tokenizer, Model), LoadError> {
    let tokenizer = Tokenizer::from_metadata(file.gguf().metadata())?;
    let model = cairn_models::load_with_adapters(file, adapters, context_tokens, backend)?;
    check_vocabulary(&tokenizer, model.hparams.vocab)?;
    Ok((tokenizer, model))
}

/// Padding may give the model more rows than there are tokens, but a token without a row cannot be computed.
fn check_vocabulary(tokenizer: &Tokenizer, rows: usize) -> Result<(), LoadError> {
    let tokens = tokenizer.vocab_size();
    if tokens > rows {
        let why = format!("{tokens} tokens, and the embedding table has {rows} rows");
        return Err(cairn_models::LoadError::Key { key: "tokenizer.ggml.tokens".to_owned(), why }.into());
    }
    Ok(())
}

/// Checks by the head of a model file whether the model can be loaded. Returns the memory that it needs.
pub(crate) fn check_head(gguf: Gguf, context_tokens: u32, kv_type: DType) -> Result<u64, LoadError> {
    let gguf = &cairn_models::translate(gguf)?;
    let limits = Limits { rows: BATCH_ROWS, logit_rows: 1 };
    let (hparams, need) = cairn_models::check_head(gguf, context_tokens as usize, limits, kv_type)?;
    check_vocabulary(&Tokenizer::from_metadata(gguf.metadata())?, hparams.vocab)?;
    Ok(total_bytes(gguf, &need))
}

/// Reads the chat template. Logs why it cannot be used.
fn chat_template(file: &ModelFile) -> Result<Option<Template>, cairn_prompt::Error> {
    let template = match file.gguf().metadata().str("tokenizer.chat_template") {
        Ok(Some(source)) => Template::jinja(source).map(Some),
        _ => Ok(None),
    };
    template.inspect_err(|error| tracing::warn!(%error, "unusable chat template in the model file"))
}

/// Returns the type of keys and values that the model supports, and why it is not the requested one. Logs a replacement.
fn supported_kv_type(plan: &Plan, requested: DType) -> (DType, Option<UnevenHead>) {
    let (used, refused) = plan.kv_type(requested);
    if let Some(why) = refused {
        let (requested, used) = (requested.name(), used.name());
        tracing::warn!(requested, used, %why, "KV cache type not supported by the model");
    }
    (used, refused)
}

/// Total size of the tensors in the file.
pub(crate) fn weights_bytes(file: &ModelFile) -> u64 {
    tensor_bytes(file.gguf())
}

fn tensor_bytes(gguf: &Gguf) -> u64 {
    gguf.tensors().iter().map(|tensor| tensor.bytes).sum()
}

/// Memory that a model needs. All tensors count, also those that the family does not read.
fn total_bytes(gguf: &Gguf, need: &MemoryRequirements) -> u64 {
    tensor_bytes(gguf).saturating_add(need.kv_bytes).saturating_add(need.activations_bytes)
}

/// Checks that the model fits into the memory that is available now, with `tower_bytes` for its vision tower.
pub(crate) fn check_memory(
    file: &ModelFile,
    tower_bytes: u64,
    context_tokens: u32,
    kv_type: DType,
    machine: &Machine,
) -> Result<(), LoadError> {
    let limits = Limits { rows: BATCH_ROWS, logit_rows: 1 };
    let need = cairn_models::memory_requirements(file, context_tokens as usize, limits, kv_type)?;
    let need_bytes = total_bytes(file.gguf(), &need).saturating_add(tower_bytes);
    let have_bytes = machine.memory.limit_bytes.unwrap_or(u64::MAX).min(machine.memory.available_bytes);
    if need_bytes > have_bytes {
        return Err(LoadError::TooBig { need_bytes, have_bytes });
    }
    Ok(())
}
