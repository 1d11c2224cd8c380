//! Rows survive an unload of their model and a restart of the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_runtime::{
    CacheScope, CacheTiers, Engine, EngineConfig, Event, Finish, Lease, LoadOptions, RecomputeReason, Request,
    RestoreUsage, Source,
};
use cairn_tier::{
    Chunk, ChunkId, ChunkRequest, Clock, Config, FileKeys, LowerTier, Miss, Namespace, Owner, SsdOptions, SsdTier,
    StoredChunk, Tier, TierError, TierKind, Tiers, WeightsDigest,
};
use tempfile::TempDir;

use super::common::{answer, config, greedy, model, prompt};

/// Size of a full chunk of the random model.
const CHUNK_BYTES: u64 = 256 << 10;

struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000
    }
}

/// Tiers with RAM and a folder, without cost estimates: all stored rows are restored.
pub(crate) fn tiers(folder: &Path) -> Arc<Tiers> {
    open(folder, |tier| tier, |config| Config { use_cost_model: false, ..config })
}

/// Tiers with RAM and a folder that `wrap` wraps.
fn open(
    folder: &Path,
    wrap: impl FnOnce(Arc<dyn Tier>) -> Arc<dyn Tier>,
    settings: impl FnOnce(Config) -> Config,
) -> Arc<Tiers> {
    let keys = FileKeys::new(&Namespace::new(b"the secret of this test", "files"));
    let ssd =
        SsdTier::open(Arc::new(RealDisk), folder, keys, SsdOptions::default(), || [0; 24]).expect("the folder is new");
    let lower = LowerTier::new(wrap(Arc::new(ssd)), 1 << 30);
    let config = Config { ssd: Some(lower), min_tokens: 0, min_recompute: Duration::ZERO, ..Config::new(64 << 20) };
    let tiers = Tiers::open(settings(config), Arc::new(WallClock(Instant::now()))).expect("threads start");
    assert!(tiers.wait_idle(Duration::from_secs(10)), "the empty folder is scanned");
    Arc::new(tiers)
}

pub(crate) fn engine(tiers: Option<&Arc<Tiers>>) -> Engine {
    let namespace = Namespace::new(b"the secret of this test", "me");
    let cache_tiers = tiers.map(|tiers| CacheTiers { tiers: Arc::clone(tiers), namespace });
    Engine::start(EngineConfig { cache_tiers, ..config() }).expect("a kernel variant runs")
}

async fn lease(engine: &Engine, path: &Path) -> Lease {
    let options =
        LoadOptions { context_tokens: Some(2048), weights: Some(WeightsDigest([7; 32])), ..LoadOptions::default() };
    engine.acquire("m".to_owned(), Source::File(path.to_owned()), options, None).await.expect("the model loads")
}

async fn ask(engine: &Engine, path: &Path, tokens: Vec<u32>) -> Finish {
    let lease = lease(engine, path).await;
    answer(lease.generate(greedy(tokens, 24))).await.expect("the generation finishes")
}

/// Unloads the model, and waits until it has flushed its cache and released the tiers.
pub(crate) async fn unload(engine: &Engine, tiers: &Arc<Tiers>, holders: usize) {
    assert!(engine.unload("m"), "the model was loaded");
    while Arc::strong_count(tiers) > holders {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reloaded_model_restores_rows_from_ram() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 5);
    let tiers = tiers(&folder.path().join("kept"));
    let engine = engine(Some(&tiers));
    let holders = Arc::strong_count(&tiers);
    let first = ask(&engine, &path, prompt(1, 900)).await;
    assert_eq!((first.usage.cached_tokens, first.usage.restored.ram_tokens), (0, 0), "empty cache and tiers");
    unload(&engine, &tiers, holders).await;

    let again = ask(&engine, &path, prompt(1, 900)).await;
    assert_eq!(
        again.usage.restored.ram_tokens, 899,
        "all but the last token were restored from RAM: {:?}",
        again.usage.restored
    );
    assert_eq!(again.usage.cached_tokens, 899, "restored tokens count as cached");
    assert_eq!(again.tokens, first.tokens, "the same tokens");
    let RestoreUsage { wait_ns, recompute_ns, recomputed, .. } = again.usage.restored;
    assert!(wait_ns > 0 && recompute_ns > 0, "wait and recompute times: {:?}", again.usage.restored);
    assert_eq!(recomputed.reasons().count(), 0, "no token was recomputed");
    assert_eq!(first.usage.restored.recomputed.tokens(RecomputeReason::Miss), 899, "all were computed the first time");
    let metrics = engine.metrics().remove(0).1;
    assert_eq!((metrics.lookup_tokens, metrics.page_tokens), (1800, 0), "two prompts, no page hits");
    assert_eq!(metrics.restored_tokens, [899, 0, 0], "the second prompt was restored from RAM");
    assert_eq!(metrics.restores[0].counts.iter().sum::<u64>(), 1, "one restore");
    assert_eq!(metrics.recomputed, first.usage.restored.recomputed, "the first prompt was computed");

    // The conversation continues from the answer.
    let longer: Vec<u32> =
        prompt(1, 900).into_iter().chain(first.tokens.iter().copied()).chain(prompt(2, 50)).collect();
    unload(&engine, &tiers, holders).await;
    let restored = ask(&engine, &path, longer.clone()).await;
    assert!(
        restored.usage.restored.ram_tokens >= 900,
        "prompt and answer were restored: {:?}",
        restored.usage.restored
    );
    let plain = ask(&self::engine(None), &path, longer).await;
    assert_eq!(restored.tokens, plain.tokens, "the answer without tiers");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_process_restores_rows_from_disk() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 6);
    let chunk_folder = folder.path().join("kept");
    let first = {
        let tiers = tiers(&chunk_folder);
        let engine = engine(Some(&tiers));
        let holders = Arc::strong_count(&tiers);
        let first = ask(&engine, &path, prompt(3, 1200)).await;
        unload(&engine, &tiers, holders).await;
        drop(engine);
        Arc::into_inner(tiers).expect("the engine has ended").close(Duration::from_secs(10));
        first
    };
    let tiers = tiers(&chunk_folder);
    let engine = engine(Some(&tiers));
    let again = ask(&engine, &path, prompt(3, 1200)).await;
    // Some chunks may have been prefetched while the model was loaded.
    let restored = again.usage.restored.ssd_tokens + again.usage.restored.ram_tokens;
    assert_eq!(restored, 1199, "all but the last token were restored from the disk: {:?}", again.usage.restored);
    assert_eq!(again.tokens, first.tokens, "the same tokens");

    // Other weights do not find these rows.
    let options =
        LoadOptions { context_tokens: Some(2048), weights: Some(WeightsDigest([8; 32])), ..LoadOptions::default() };
    let other = model(&folder, 7);
    let lease = engine.acquire("other".to_owned(), Source::File(other), options, None).await.expect("the model loads");
    let finish = answer(lease.generate(greedy(prompt(3, 1200), 4))).await.expect("the generation finishes");
    assert_eq!(finish.usage.cached_tokens, 0, "other weights, other rows");
}

/// A tier whose reads of some chunks take longer than the restore timeout.
struct SlowTier {
    tier: Arc<dyn Tier>,
    from_position: u64,
    save_time: Duration,
}

impl Tier for SlowTier {
    fn kind(&self) -> TierKind {
        self.tier.kind()
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        self.tier.scan(each)
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        if wanted.first_position >= self.from_position {
            std::thread::sleep(Duration::from_secs(2));
        }
        self.tier.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        std::thread::sleep(self.save_time);
        self.tier.save(chunk)
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.tier.remove(id)
    }
}

/// Computes a prompt in an engine that is dropped afterwards, like in an earlier process.
async fn compute_and_close(path: &Path, chunk_folder: &Path, tokens: Vec<u32>) -> Finish {
    let tiers = tiers(chunk_folder);
    let engine = engine(Some(&tiers));
    let holders = Arc::strong_count(&tiers);
    let first = ask(&engine, path, tokens).await;
    unload(&engine, &tiers, holders).await;
    drop(engine);
    Arc::into_inner(tiers).expect("the engine has ended").close(Duration::from_secs(10));
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_not_restored_by_deadline_are_recomputed() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, chunk_folder) = (model(&folder, 8), folder.path().join("kept"));
    let first = compute_and_close(&path, &chunk_folder, prompt(5, 1200)).await;
    // No chunk is in RAM, and none is prefetched.
    let slow = |tier| Arc::new(SlowTier { tier, from_position: 512, save_time: Duration::ZERO }) as Arc<dyn Tier>;
    let tiers = open(&chunk_folder, slow, |config| Config { ram_bytes: 0, ..config });
    let engine = engine(Some(&tiers));
    let again = ask(&engine, &path, prompt(5, 1200)).await;
    assert_eq!(again.tokens, first.tokens, "the same tokens");
    let RestoreUsage { ssd_tokens, recomputed, .. } = again.usage.restored;
    // On a busy machine, even the first two chunks may be late.
    assert!(
        ssd_tokens <= 512 && ssd_tokens.is_multiple_of(256),
        "full chunks that were restored in time: {:?}",
        again.usage.restored
    );
    let late = recomputed.tokens(RecomputeReason::Deadline) as usize;
    assert_eq!(ssd_tokens + late, 1199, "the rest is recomputed: {recomputed:?}");
}

/// Chunks that are dropped from the queue would be lost if the process were killed.
#[tokio::test(flavor = "multi_thread")]
async fn due_chunks_are_written_to_slow_disk() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, chunk_folder) = (model(&folder, 13), folder.path().join("kept"));
    let save_time = Duration::from_millis(50);
    let slow = |tier| Arc::new(SlowTier { tier, from_position: u64::MAX, save_time }) as Arc<dyn Tier>;
    // The queue has room for two chunks.
    let config = |config| Config { queue_bytes: 2 * CHUNK_BYTES, ..config };
    let tiers = open(&chunk_folder, slow, config);
    let engine = engine(Some(&tiers));
    for _ in 0..2 {
        ask(&engine, &path, prompt(14, 1800)).await;
    }
    let until = Instant::now() + Duration::from_secs(60);
    while tiers.status().tiers[1].chunks < 7 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let [ram, ssd, ..] = &tiers.status().tiers[..] else { panic!("missing tiers") };
    // The last chunk, which is not full, is flushed after a pause.
    assert!(ram.used_bytes >= 7 * CHUNK_BYTES, "all full chunks are in RAM: {ram:?}");
    assert!(ssd.chunks >= 7, "all full chunks are on the disk: {:?}", tiers.status().dropped);
}

/// A remote tier whose first read fails. Later reads of a prompt's first chunk take this long.
struct RemoteTier {
    tier: Arc<dyn Tier>,
    silence: Duration,
    reads: AtomicU64,
}

impl Tier for RemoteTier {
    fn kind(&self) -> TierKind {
        TierKind::Remote
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        self.tier.scan(each)
    }

    fn last_response_at(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        if self.reads.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(TierError::Unavailable("not yet".to_owned()).into());
        }
        // Several threads read at once, so the order of calls is not the order of chunks.
        if wanted.first_position == 0 {
            std::thread::sleep(self.silence);
        }
        self.tier.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        self.tier.save(chunk)
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.tier.remove(id)
    }
}

/// A model that computes so slowly that restoring is faster.
fn slow_model(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the folder is writable");
    path
}

/// Tiers with this folder as the remote tier.
fn remote_tiers(chunk_folder: &Path, silence: Duration) -> Arc<Tiers> {
    let far = |tier| Arc::new(RemoteTier { tier, silence, reads: AtomicU64::new(0) }) as Arc<dyn Tier>;
    open(chunk_folder, far, |config| Config { remote: config.ssd, ssd: None, ..config })
}

/// Leases a model, and waits until the remote tier has failed the first read, which is the prefetch.
async fn lease_after_failed_prefetch(engine: &Engine, tiers: &Tiers, path: &Path) -> Lease {
    let loaded = lease(engine, path).await;
    let has_failed = || tiers.status().tiers.iter().any(|place| place.counters.failed > 0);
    let until = Instant::now() + Duration::from_secs(10);
    while !has_failed() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    loaded
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_chunks_are_counted_for_answer_of_one_token() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, chunk_folder) = (slow_model(&folder), folder.path().join("kept"));
    let first = compute_and_close(&path, &chunk_folder, prompt(11, 1900)).await;
    let tiers = remote_tiers(&chunk_folder, Duration::from_secs(60));
    let engine = engine(Some(&tiers));
    let loaded = lease_after_failed_prefetch(&engine, &tiers, &path).await;
    let again = answer(loaded.generate(greedy(prompt(11, 1900), 1))).await.expect("the generation finishes");
    assert_eq!(again.tokens, first.tokens[..1], "the same token");
    let late = again.usage.restored.recomputed.tokens(RecomputeReason::Deadline);
    assert_eq!(late, 1899, "all tokens were recomputed: {:?}", again.usage.restored);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_chunks_are_used_during_prefill() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, chunk_folder) = (slow_model(&folder), folder.path().join("kept"));
    let first = compute_and_close(&path, &chunk_folder, prompt(11, 1900)).await;
    let tiers = remote_tiers(&chunk_folder, Duration::from_millis(150));
    let engine = engine(Some(&tiers));
    let loaded = lease_after_failed_prefetch(&engine, &tiers, &path).await;
    let again = answer(loaded.generate(greedy(prompt(11, 1900), 24))).await.expect("the generation finishes");
    assert_eq!(again.tokens, first.tokens, "the same tokens");
    let RestoreUsage { ram_tokens, remote_tokens, recomputed, .. } = again.usage.restored;
    assert_eq!(remote_tokens, 0, "the sequence did not wait for the remote tier: {:?}", again.usage.restored);
    assert!(ram_tokens > 0, "late chunks were restored from RAM: {:?}", again.usage.restored);
    let late = recomputed.tokens(RecomputeReason::Deadline) as usize;
    assert_eq!(ram_tokens + late, 1899, "the rest is recomputed: {recomputed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn load_prefetches_last_context() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, chunk_folder) = (model(&folder, 9), folder.path().join("kept"));
    let first = compute_and_close(&path, &chunk_folder, prompt(6, 1200)).await;
    let tiers = tiers(&chunk_folder);
    let engine = engine(Some(&tiers));
    let loaded = lease(&engine, &path).await;
    let until = Instant::now() + Duration::from_secs(10);
    while tiers.status().tiers[0].chunks < 5 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let again = answer(loaded.generate(greedy(prompt(6, 1200), 24))).await.expect("the generation finishes");
    assert_eq!(again.usage.restored.ram_tokens, 1199, "the context was in RAM: {:?}", again.usage.restored);
    assert_eq!(again.tokens, first.tokens, "the same tokens");
}

#[tokio::test(flavor = "multi_thread")]
async fn due_chunks_are_flushed_while_another_generation_runs() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 10);
    let tiers = tiers(&folder.path().join("kept"));
    let engine = engine(Some(&tiers));
    let lease = lease(&engine, &path).await;
    // The client does not read, so this generation stays active. The second use of the other prompt makes its chunks due.
    let busy = lease.generate(greedy(prompt(7, 40), 1500));
    for _ in 0..2 {
        answer(lease.generate(greedy(prompt(8, 900), 4))).await.expect("the generation finishes");
    }
    let until = Instant::now() + Duration::from_secs(10);
    while tiers.status().tiers[0].chunks < 3 && Instant::now() < until && !busy.is_closed() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stalls = engine.metrics()[0].1.stalls;
    assert!(tiers.status().tiers[0].chunks >= 3, "three full chunks are stored");
    assert!(stalls.counts.iter().sum::<u64>() > 0, "stalls are counted: {stalls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_and_deleted_generation_leaves_no_rows() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the folder is writable");
    let tiers = tiers(&folder.path().join("kept"));
    let engine = engine(Some(&tiers));
    let lease = Arc::new(lease(&engine, &path).await);
    let ann = Owner::new("ann").expect("short");
    for round in 0..6 {
        let tokens = prompt(20 + round, 600);
        let scope = CacheScope { owner: Some(ann.clone()), ..CacheScope::default() };
        let mut events = lease.generate(Request { scope, ..greedy(tokens.clone(), 1000) });
        assert!(matches!(events.recv().await, Some(Event::Delta(_))), "round {round}: it answers");
        drop(events);
        let (engine, ann, tiers) = (engine.clone(), ann.clone(), Arc::clone(&tiers));
        let forget = move || {
            engine.clear_caches(Some(&ann));
            tiers.forget_owner(&ann, Duration::from_secs(10))
        };
        tokio::task::spawn_blocking(forget).await.expect("it does not panic");
        // The scheduler has closed the sequence by now.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let lease = Arc::clone(&lease);
        let found = tokio::task::spawn_blocking(move || lease.lookup_prefix(&tokens, &[], None))
            .await
            .expect("it does not panic");
        assert_eq!(found.memory_tokens, 0, "round {round}: deleted rows are in no page");
    }
}
