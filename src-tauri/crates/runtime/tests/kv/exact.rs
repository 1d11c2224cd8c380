//! Exactness: a real model's logits are bit-identical, whether the prompt's rows are in pages, restored from RAM, from the disk, from the
//! disk after a restart, or computed.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_runtime::{
    CacheTiers, Device, Engine, EngineConfig, Event, Finish, KeepAlive, LoadOptions, Request, Sampling, Source,
};
use cairn_testkit::{ModelSpec, Random, families, tiny, tiny_llama};
use cairn_tier::{Config, FileKeys, LowerTier, Namespace, SsdOptions, SsdTier, Tiers, WeightsDigest};
use tempfile::TempDir;

use crate::faults::WrappedBackend;
use crate::scale;
use crate::world::{CONTEXT, MockClock, TIMEOUT};

/// Hashes of the logits of each generated token.
type Bits = Arc<Mutex<Vec<u64>>>;

/// FNV-1a over the bits of a row of logits.
fn hash(logits: &[f32]) -> u64 {
    let step = |hash: u64, bits: u32| (hash ^ u64::from(bits)).wrapping_mul(0x0000_0100_0000_01b3);
    logits.iter().map(|logit| logit.to_bits()).fold(0xcbf2_9ce4_8422_2325, step)
}

/// An engine that records its logits, and its tiers.
struct Harness {
    engine: Engine,
    bits: Bits,
    tiers: Option<Arc<Tiers>>,
    model: std::path::PathBuf,
}

impl Harness {
    /// Starts an engine with tiers in a folder and this many bytes of RAM, or without tiers.
    fn start(model: &Path, kv_type: DType, storage: Option<(&Path, u64)>) -> Self {
        let tiers = storage.map(|(folder, ram_bytes)| {
            let keys = FileKeys::new(&Namespace::new(b"the secret of these proofs", "files"));
            let ssd = SsdTier::open(Arc::new(RealDisk), folder, keys, SsdOptions::default(), || [0; 24]);
            let ssd = Arc::new(ssd.expect("the folder is writable"));
            let config = Config {
                ssd: Some(LowerTier::ssd(&ssd, 1 << 30, 0)),
                min_tokens: 0,
                min_recompute: Duration::ZERO,
                use_cost_model: false,
                ..Config::new(ram_bytes)
            };
            let tiers = Tiers::open(config, MockClock::new() as _).expect("threads start");
            assert!(tiers.wait_idle(TIMEOUT), "the folder is scanned");
            Arc::new(tiers)
        });
        let config = EngineConfig {
            machine: Machine::probe(),
            kernel: None,
            kv_budget_bytes: Some(64 << 20),
            kv_type,
            parallel: 1,
            max_loaded: 1,
            max_queue: 4,
            keep_alive: KeepAlive::Forever,
            load_timeouts: cairn_runtime::LoadTimeouts::default(),
            seed: 1,
            cache_tiers: tiers
                .clone()
                .map(|tiers| CacheTiers { tiers, namespace: Namespace::new(b"the secret of these proofs", "me") }),
        };
        let bits = Bits::default();
        let recorded = Arc::clone(&bits);
        let device: Device = Arc::new(move |backend| {
            let recorded = Arc::clone(&recorded);
            let observer = Box::new(move |logits: &[f32]| {
                recorded.lock().expect("no thread panics with the lock").push(hash(logits))
            });
            Box::new(WrappedBackend { backend, copied: |rows| rows, observer })
        });
        let engine = Engine::start_on(config, device).expect("a kernel variant runs");
        Self { engine, bits, tiers, model: model.to_owned() }
    }

    async fn ask(&self, prompt: &[u32], tokens: u32) -> (Finish, Vec<u64>) {
        let options = LoadOptions {
            context_tokens: Some(CONTEXT),
            threads: Some(1),
            weights: Some(WeightsDigest([7; 32])),
            ..LoadOptions::default()
        };
        let lease = self.engine.acquire("m".to_owned(), Source::File(self.model.clone()), options, None).await;
        let lease = lease.expect("the model loads");
        self.bits.lock().expect("no thread panics with the lock").clear();
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let request = Request { prompt: prompt.to_vec(), sampling, max_tokens: Some(tokens), ..Request::default() };
        let mut events = lease.generate(request);
        loop {
            match events.recv().await.expect("a generation has a last event") {
                Event::Delta(_) | Event::ContextFull(_) => {}
                Event::Finish(finish) => {
                    return (finish, self.bits.lock().expect("no thread panics with the lock").clone());
                }
                Event::Error(error) => panic!("{error}"),
            }
        }
    }

    /// Unloads the model, and waits until its chunks are stored.
    async fn unload(&self) {
        self.engine.unload("m");
        let Some(tiers) = &self.tiers else { return };
        let until = Instant::now() + TIMEOUT;
        while Arc::strong_count(tiers) > 2 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let tiers = Arc::clone(tiers);
        let settled = tokio::task::spawn_blocking(move || tiers.wait_idle(TIMEOUT));
        assert!(settled.await.expect("no panic"), "all chunks are written");
    }

    async fn end(self) {
        self.unload().await;
        self.engine.shutdown();
        if let Some(tiers) = self.tiers {
            tokio::task::spawn_blocking(move || tiers.shut_down(TIMEOUT)).await.expect("no panic");
        }
    }
}

/// Computes a prompt in every way, and then a second one that continues from its answer.
async fn check(model: &Path, kv_type: DType, seed: u64, tokens: u32) {
    let home = TempDir::new().expect("a temporary folder");
    let mut dice = Random::from_name(seed, "exact");
    let random = |dice: &mut Random, count: u64| -> Vec<u32> { (0..count).map(|_| dice.below(250) as u32).collect() };
    let count = 260 + dice.below(440);
    let prompt = random(&mut dice, count);
    let cold = Harness::start(model, kv_type, None);
    let expected = cold.ask(&prompt, tokens).await;
    cold.unload().await;
    let longer: Vec<u32> = [prompt.clone(), expected.0.tokens.clone(), random(&mut dice, 40)].concat();
    let expected_longer = cold.ask(&longer, tokens).await;
    let same = |way: &str, got: &(Finish, Vec<u64>), expected: &(Finish, Vec<u64>)| {
        assert_eq!(got.0.tokens, expected.0.tokens, "{}, seed {seed}: other tokens {way}", kv_type.name());
        assert_eq!(got.1, expected.1, "{}, seed {seed}: other bits {way}", kv_type.name());
        assert_eq!(got.1.len(), got.0.tokens.len(), "each token has recorded logits");
    };

    let ram = Harness::start(model, kv_type, Some((&home.path().join("ram"), 256 << 20)));
    same("the first time", &ram.ask(&prompt, tokens).await, &expected);
    for (way, prompt, expected) in
        [("from pages", &prompt, &expected), ("from pages, continued", &longer, &expected_longer)]
    {
        let got = ram.ask(prompt, tokens).await;
        assert!(got.0.usage.cached_tokens > 255 && got.0.usage.restored.ram_tokens == 0, "{way}: {:?}", got.0);
        same(way, &got, expected);
    }
    for (way, prompt, expected) in
        [("from RAM", &prompt, &expected), ("from RAM, continued", &longer, &expected_longer)]
    {
        ram.unload().await;
        let got = ram.ask(prompt, tokens).await;
        assert!(got.0.usage.restored.ram_tokens > 255, "{way}: {:?}", got.0);
        same(way, &got, expected);
    }
    ram.end().await;

    let folder = home.path().join("ssd");
    let mut ssd = Harness::start(model, kv_type, Some((&folder, 0)));
    same("the first time", &ssd.ask(&prompt, tokens).await, &expected);
    for restarted in [false, true] {
        for (prompt, expected) in [(&prompt, &expected), (&longer, &expected_longer)] {
            if restarted {
                ssd.end().await;
                ssd = Harness::start(model, kv_type, Some((&folder, 0)));
            } else {
                ssd.unload().await;
            }
            let got = ssd.ask(prompt, tokens).await;
            let way = if restarted { "from the disk after a restart" } else { "from the disk" };
            let restored = got.0.usage.restored.ssd_tokens + got.0.usage.restored.ram_tokens;
            assert!(restored > 255 && (!restarted || got.0.usage.restored.ssd_tokens > 255), "{way}: {:?}", got.0);
            same(way, &got, expected);
        }
    }
    ssd.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logits_from_cached_and_restored_rows_are_bit_identical() {
    let (seeds, tokens) = (scale::runs(2), if scale::is_full() { 512 } else { 40 });
    let home = TempDir::new().expect("a temporary folder");
    let write = |name: &str, head_dim: u64, spec: ModelSpec| {
        let model = home.path().join(name);
        let spec = ModelSpec { width: 128, heads: 4, kv_heads: 2, head_dim, ffn: 128, ..spec };
        cairn_testkit::write_file(&spec, &model).expect("the folder is writable");
        model
    };
    let (model, recurrent) = (write("m.gguf", 32, tiny_llama()), write("r.gguf", 32, tiny(&families::LFM2)));
    // Half as many elements have a position: a block of the page type.
    let latent = write("l.gguf", 64, tiny(&families::DEEPSEEK2));
    let linear = write("d.gguf", 32, tiny(&families::QWEN35));
    let hybrid = write("s.gguf", 32, tiny(&families::GRANITE_HYBRID));
    let began = Instant::now();
    for seed in seeds.clone() {
        for kv_type in [DType::F16, DType::Q8_0, DType::Q4_0] {
            check(&model, kv_type, seed, tokens).await;
        }
        check(&recurrent, DType::F16, seed, tokens).await;
        check(&latent, DType::Q8_0, seed, tokens).await;
        check(&linear, DType::F16, seed, tokens).await;
        check(&hybrid, DType::F16, seed, tokens).await;
    }
    println!(
        "{} prompts in eight ways with three types, three recurrent models and a latent one, {tokens} tokens each: the same bits, {:.0} s",
        seeds.count(),
        began.elapsed().as_secs_f64()
    );
}
