//! What a model has computed outlives it: its unloading, and the process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_runtime::{Engine, EngineConfig, Finish, Kept, Lease, LoadOptions, Source};
use cairn_tier::{Clock, Config, FileKeys, Lower, Namespace, Ssd, SsdOptions, Tiers, WeightsDigest};
use tempfile::TempDir;

use super::common::{answer, config, greedy, model, prompt};

struct Wall(Instant);

impl Clock for Wall {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000
    }
}

/// Tiers over RAM and a folder.
fn tiers(folder: &Path) -> Arc<Tiers> {
    let keys = FileKeys::new(&Namespace::new(b"the secret of this test", "files"));
    let ssd =
        Ssd::open(Arc::new(RealDisk), folder, keys, SsdOptions::default(), || [0; 24]).expect("the folder is new");
    let config = Config {
        ssd: Some(Lower::ssd(&Arc::new(ssd), 1 << 30, 0)),
        min_tokens: 0,
        weigh: false,
        ..Config::new(64 << 20)
    };
    let tiers = Tiers::open(config, Arc::new(Wall(Instant::now()))).expect("threads start");
    assert!(tiers.settle(Duration::from_secs(10)), "an empty folder is soon read");
    Arc::new(tiers)
}

fn engine(tiers: Option<&Arc<Tiers>>) -> Engine {
    let namespace = Namespace::new(b"the secret of this test", "me");
    let kept = tiers.map(|tiers| Kept { tiers: Arc::clone(tiers), namespace });
    Engine::start(EngineConfig { kept, ..config() }).expect("a variant runs")
}

async fn lease(engine: &Engine, path: &Path) -> Lease {
    let options =
        LoadOptions { context_tokens: Some(2048), weights: Some(WeightsDigest([7; 32])), ..LoadOptions::default() };
    engine.acquire("m".to_owned(), Source::File(path.to_owned()), options, None).await.expect("the model loads")
}

async fn ask(engine: &Engine, path: &Path, tokens: Vec<u32>) -> Finish {
    let lease = lease(engine, path).await;
    answer(lease.generate(greedy(tokens, 24))).await.expect("it answers")
}

/// Unloads, and waits until what was computed has been handed over: nobody else has the tiers then.
async fn unload(engine: &Engine, tiers: &Arc<Tiers>, holders: usize) {
    assert!(engine.unload("m"), "the model was loaded");
    while Arc::strong_count(tiers) > holders {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unloaded_model_comes_back_with_what_it_had_computed() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 5);
    let tiers = tiers(&folder.path().join("kept"));
    let engine = engine(Some(&tiers));
    let holders = Arc::strong_count(&tiers);
    let first = ask(&engine, &path, prompt(1, 900)).await;
    assert_eq!((first.cached_tokens, first.recalled.ram_tokens), (0, 0), "nothing is known yet");
    unload(&engine, &tiers, holders).await;

    let again = ask(&engine, &path, prompt(1, 900)).await;
    assert_eq!(again.recalled.ram_tokens, 899, "all but the last token came from RAM: {:?}", again.recalled);
    assert_eq!(again.cached_tokens, 899, "and is counted as cached");
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");

    // The conversation goes on from the answer.
    let longer: Vec<u32> =
        prompt(1, 900).into_iter().chain(first.tokens.iter().copied()).chain(prompt(2, 50)).collect();
    unload(&engine, &tiers, holders).await;
    let kept = ask(&engine, &path, longer.clone()).await;
    assert!(kept.recalled.ram_tokens >= 900, "prompt and answer came back: {:?}", kept.recalled);
    let plain = ask(&self::engine(None), &path, longer).await;
    assert_eq!(kept.tokens, plain.tokens, "as if it had been computed anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_process_finds_it_on_the_disk() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 6);
    let kept = folder.path().join("kept");
    let first = {
        let tiers = tiers(&kept);
        let engine = engine(Some(&tiers));
        let holders = Arc::strong_count(&tiers);
        let first = ask(&engine, &path, prompt(3, 1200)).await;
        unload(&engine, &tiers, holders).await;
        drop(engine);
        Arc::into_inner(tiers).expect("the engine has ended").close(Duration::from_secs(10));
        first
    };
    let tiers = tiers(&kept);
    let engine = engine(Some(&tiers));
    let again = ask(&engine, &path, prompt(3, 1200)).await;
    assert_eq!(again.recalled.ssd_tokens, 1199, "all but the last token came from the disk: {:?}", again.recalled);
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");

    // Other weights under the same name have nothing of it.
    let options =
        LoadOptions { context_tokens: Some(2048), weights: Some(WeightsDigest([8; 32])), ..LoadOptions::default() };
    let other = model(&folder, 7);
    let lease = engine.acquire("other".to_owned(), Source::File(other), options, None).await.expect("the model loads");
    let finish = answer(lease.generate(greedy(prompt(3, 1200), 4))).await.expect("it answers");
    assert_eq!(finish.cached_tokens, 0, "other weights, other rows");
}
