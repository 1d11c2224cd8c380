//! Measures of the tiered KV cache: `cargo xtask bench kv-overhead | kv-bandwidth | kv-ttft | kv-cold | kv-far`.
//!
//! Each compares two ways of the same work in one run, by turns, prints a table of bars, and fails where one is missed. Models
//! have random weights in the shape of known ones, and lie in the target folder for the next run.

pub(crate) mod bandwidth;
pub(crate) mod bars;
pub(crate) mod cold;
pub(crate) mod far;
pub(crate) mod overhead;
pub(crate) mod pages;
pub(crate) mod place;
pub(crate) mod ttft;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_runtime::{
    Engine, EngineConfig, Event, Finish, KeepAlive, Kept, Lease, LoadOptions, Request, Sampling, Source,
};
use cairn_testkit::{ModelSpec, Types};
use cairn_tier::WeightsDigest;

/// What was asked for on the command line, beyond the bench's name.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Models of this shape only.
    pub(crate) shape: Option<String>,
    /// Prompts of so many tokens only.
    pub(crate) tokens: Option<usize>,
    /// Pairs of a toggled measurement.
    pub(crate) pairs: Option<usize>,
}

/// A model's shape under a short name.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) spec: ModelSpec,
}

/// All shapes, the quickest first. `small` is for overheads, which are measured over many tokens; `tiny` is for trying things out.
pub(crate) fn shapes() -> Vec<Shape> {
    let types = Types::All(DType::Q4_0);
    let qwen = cairn_testkit::qwen06b_shape(types);
    let llama = cairn_testkit::llama1b_shape(types);
    let of = |name, spec| Shape { name, spec };
    vec![
        of("tiny", cairn_testkit::slow_llama()),
        of("small", ModelSpec { layers: 6, vocab: 32_768, ..qwen.clone() }),
        of("0.6b", qwen),
        of("1b", llama.clone()),
        of("8b-8layers", ModelSpec { layers: 8, width: 4096, head_dim: 128, ffn: 14_336, ..llama }),
    ]
}

/// The shape of this name.
pub(crate) fn shape(name: &str) -> anyhow::Result<Shape> {
    let names = shapes().iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ");
    shapes()
        .into_iter()
        .find(|shape| shape.name == name)
        .with_context(|| format!("no shape {name:?}; there are: {names}"))
}

impl Shape {
    /// The model's file, which is written at the first need.
    pub(crate) fn file(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join(format!("kv-{}.gguf", self.name));
        if !path.exists() {
            eprintln!("writing {}", path.display());
            // One that was interrupted must not be taken for a model.
            let draft = path.with_extension("part");
            cairn_testkit::write_file(&self.spec, &draft)?;
            std::fs::rename(draft, &path)?;
        }
        Ok(path)
    }

    /// Stands for the weights. Nothing else has this name, so the file need not be hashed.
    pub(crate) fn weights(&self) -> WeightsDigest {
        let mut digest = [0; 32];
        digest[..self.name.len()].copy_from_slice(self.name.as_bytes());
        WeightsDigest(digest)
    }

    /// A prompt of filling tokens: each seed has its own from the first token on.
    pub(crate) fn prompt(&self, seed: u64, tokens: usize) -> Vec<u32> {
        let mut random = cairn_testkit::Random::named(seed, "prompt");
        // Models count upwards from the last token, and shall not reach the end of the vocabulary, where answers end.
        let (low, high) = (1000, self.spec.vocab / 2);
        (0..tokens).map(|_| (low + random.below(high - low)) as u32).collect()
    }
}

/// An engine with one model.
pub(crate) struct Running {
    engine: Engine,
    lease: Lease,
    kept: Option<Kept>,
    /// Who holds the tiers when no model is loaded.
    holders: usize,
}

const MODEL: &str = "m";

impl Running {
    /// Loads a shape's model, over tiers where there are some.
    pub(crate) async fn load(shape: &Shape, folder: &Path, kept: Option<Kept>, context: usize) -> anyhow::Result<Self> {
        let config = EngineConfig {
            machine: Machine::probe(),
            kernel: None,
            kv_budget_bytes: None,
            kv_type: DType::F16,
            parallel: 4,
            max_loaded: 1,
            max_queue: 16,
            keep_alive: KeepAlive::Forever,
            seed: 1,
            kept: kept.clone(),
        };
        let engine = Engine::start(config)?;
        let holders = kept.as_ref().map_or(0, |kept| Arc::strong_count(&kept.tiers));
        let options = LoadOptions {
            context_tokens: Some(context as u32),
            weights: Some(shape.weights()),
            ..LoadOptions::default()
        };
        let lease = engine.acquire(MODEL.to_owned(), Source::File(shape.file(folder)?), options, None).await?;
        Ok(Self { engine, lease, kept, holders })
    }

    /// Asks greedily for at most so many tokens, and tells of each when it comes.
    pub(crate) async fn ask(
        &self,
        prompt: Vec<u32>,
        tokens: usize,
        mut each: impl FnMut(usize, Instant),
    ) -> anyhow::Result<Answer> {
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let request = Request { prompt, sampling, max_tokens: Some(tokens as u32), ..Request::default() };
        let began = Instant::now();
        let mut events = self.lease.generate(request);
        let (mut count, mut first) = (0, None);
        loop {
            match events.recv().await.context("an answer ends with its end")? {
                Event::Text(_) => {
                    let now = Instant::now();
                    first.get_or_insert(now - began);
                    each(count, now);
                    count += 1;
                }
                Event::Done(finish) => {
                    let first = first.context("the answer has no text")?;
                    return Ok(Answer { first, finish });
                }
                Event::Failed(error) => bail!(error),
                Event::Full(_) => bail!("the context is full"),
            }
        }
    }

    /// Unloads the model, and waits until it has handed over what it had computed.
    pub(crate) async fn unload(self) -> anyhow::Result<()> {
        let Self { engine, lease, kept, holders } = self;
        drop(lease);
        engine.unload(MODEL);
        let until = Instant::now() + Duration::from_secs(30);
        while let Some(kept) = &kept
            && Arc::strong_count(&kept.tiers) > holders
        {
            ensure!(Instant::now() < until, "the model does not go");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}

/// An answer and the time to its first token.
pub(crate) struct Answer {
    pub(crate) first: Duration,
    pub(crate) finish: Finish,
}

/// Runs a bench that asks an engine.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(work)
}
