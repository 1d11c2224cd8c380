//! Benchmarks of the tiered KV cache: `cargo xtask bench kv-overhead | kv-bandwidth | kv-ttft | kv-cold | kv-far`.
//!
//! Each benchmark alternates two variants of the same work in one run, prints a table of targets, and fails if one is
//! missed. Models have random weights in the shape of real ones, and stay in the target folder for the next run.

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
    CacheTiers, Engine, EngineConfig, Event, Finish, KeepAlive, Lease, LoadOptions, Request, Sampling, Source,
};
use cairn_testkit::{ModelSpec, Types};
use cairn_tier::WeightsDigest;

/// Options of the command line after the benchmark's name.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Models of this shape only.
    pub(crate) shape: Option<String>,
    /// Prompts of this many tokens only.
    pub(crate) tokens: Option<usize>,
    /// Pairs of a toggled measurement.
    pub(crate) pairs: Option<usize>,
}

/// A model's shape under a short name.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) spec: ModelSpec,
}

/// All shapes, the fastest first. `small` is for overheads, which need many tokens; `tiny` is for trials.
pub(crate) fn shapes() -> Vec<Shape> {
    let types = Types::All(DType::Q4_0);
    let qwen = cairn_testkit::qwen06b_shape(types);
    let llama = cairn_testkit::llama1b_shape(types);
    let of = |name, spec| Shape { name, spec };
    vec![
        of("tiny", cairn_testkit::slow_llama()),
        of("small", ModelSpec { layers: 6, vocab: 32_768, ..qwen.clone() }),
        of("0.6b", qwen),
        of("0.6b-q8_0", cairn_testkit::qwen06b_shape(Types::All(DType::Q8_0))),
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
    /// The model's file, created at the first call.
    pub(crate) fn file(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join(format!("kv-{}.gguf", self.name));
        if !path.exists() {
            eprintln!("writing {}", path.display());
            // Write and rename, so that an interrupted write leaves no model file.
            let draft = path.with_extension("part");
            cairn_testkit::write_file(&self.spec, &draft)?;
            std::fs::rename(draft, &path)?;
        }
        Ok(path)
    }

    /// Replaces the digest of the weights: the name is unique, so the file need not be hashed.
    pub(crate) fn weights(&self) -> WeightsDigest {
        let mut digest = [0; 32];
        digest[..self.name.len()].copy_from_slice(self.name.as_bytes());
        WeightsDigest(digest)
    }

    /// A prompt of filler tokens. Prompts of two seeds differ from the first token on.
    pub(crate) fn prompt(&self, seed: u64, tokens: usize) -> Vec<u32> {
        let mut random = cairn_testkit::Random::from_name(seed, "prompt");
        // The models generate increasing ids from the last token. They must not reach the end tokens of the vocabulary.
        let (low, high) = (1000, self.spec.vocab / 2);
        (0..tokens).map(|_| (low + random.below(high - low)) as u32).collect()
    }
}

/// An engine with one model.
pub(crate) struct Running {
    engine: Engine,
    name: &'static str,
    lease: Lease,
    kept: Option<CacheTiers>,
    /// References to the tiers while no model is loaded.
    holders: usize,
}

impl Running {
    /// Loads a shape's model, with tiers if given.
    pub(crate) async fn load(
        shape: &Shape,
        folder: &Path,
        kept: Option<CacheTiers>,
        context: usize,
    ) -> anyhow::Result<Self> {
        let config = EngineConfig {
            machine: Machine::probe(),
            kernel: None,
            kv_budget_bytes: None,
            kv_type: DType::F16,
            parallel: 5,
            max_loaded: 2,
            max_queue: 16,
            keep_alive: KeepAlive::Forever,
            load_timeouts: cairn_runtime::LoadTimeouts::default(),
            seed: 1,
            cache_tiers: kept.clone(),
        };
        let engine = Engine::start(config)?;
        let holders = kept.as_ref().map_or(0, |kept| Arc::strong_count(&kept.tiers));
        let lease = lease(&engine, shape, folder, context).await?;
        Ok(Self { engine, name: shape.name, lease, kept, holders })
    }

    /// Loads another model into the same engine.
    pub(crate) async fn beside(&self, shape: &Shape, folder: &Path, context: usize) -> anyhow::Result<Self> {
        let lease = lease(&self.engine, shape, folder, context).await?;
        Ok(Self { engine: self.engine.clone(), name: shape.name, lease, kept: None, holders: 0 })
    }

    /// Generates at most `tokens` tokens greedily, with a callback for each.
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
                Event::Delta(_) => {
                    let now = Instant::now();
                    first.get_or_insert(now - began);
                    each(count, now);
                    count += 1;
                }
                Event::Finish(finish) => {
                    let first = first.context("the answer has no text")?;
                    return Ok(Answer { first, finish });
                }
                Event::Error(error) => bail!(error),
                Event::ContextFull(_) => bail!("the context is full"),
            }
        }
    }

    /// Unloads the model and waits until its KV chunks are flushed.
    pub(crate) async fn unload(self) -> anyhow::Result<()> {
        let Self { engine, name, lease, kept, holders } = self;
        drop(lease);
        engine.unload(name);
        let until = Instant::now() + Duration::from_secs(30);
        while let Some(kept) = &kept
            && Arc::strong_count(&kept.tiers) > holders
        {
            ensure!(Instant::now() < until, "the model does not unload");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}

async fn lease(engine: &Engine, shape: &Shape, folder: &Path, context: usize) -> anyhow::Result<Lease> {
    let options =
        LoadOptions { context_tokens: Some(context as u32), weights: Some(shape.weights()), ..LoadOptions::default() };
    Ok(engine.acquire(shape.name.to_owned(), Source::File(shape.file(folder)?), options, None).await?)
}

/// An answer and the time to its first token.
pub(crate) struct Answer {
    pub(crate) first: Duration,
    pub(crate) finish: Finish,
}

/// Runs the future of a benchmark.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(work)
}
