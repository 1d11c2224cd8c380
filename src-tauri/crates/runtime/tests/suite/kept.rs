//! What a model has computed outlives it: its unloading, and the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_runtime::{
    Because, Engine, EngineConfig, Event, Finish, Kept, Lease, LoadOptions, Recalls, Request, Source, Whose,
};
use cairn_tier::{
    Chunk, ChunkId, Clock, Config, FileKeys, Lower, Miss, Namespace, Owner, Place, Ssd, SsdOptions, Stored, Tier,
    TierError, Tiers, Wanted, WeightsDigest,
};
use tempfile::TempDir;

use super::common::{answer, config, greedy, model, prompt};

/// Bytes of a whole chunk of the random model.
const CHUNK_BYTES: u64 = 256 << 10;

struct Wall(Instant);

impl Clock for Wall {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000
    }
}

/// Tiers over RAM and a folder, which bring back all that they have.
pub(crate) fn tiers(folder: &Path) -> Arc<Tiers> {
    open(folder, |tier| tier, |config| Config { weigh: false, ..config })
}

/// Tiers over RAM and what `slow` makes of a folder.
fn open(
    folder: &Path,
    slow: impl FnOnce(Arc<dyn Tier>) -> Arc<dyn Tier>,
    settings: impl FnOnce(Config) -> Config,
) -> Arc<Tiers> {
    let keys = FileKeys::new(&Namespace::new(b"the secret of this test", "files"));
    let ssd =
        Ssd::open(Arc::new(RealDisk), folder, keys, SsdOptions::default(), || [0; 24]).expect("the folder is new");
    let lower = Lower::new(slow(Arc::new(ssd)), 1 << 30);
    let config = Config { ssd: Some(lower), min_tokens: 0, min_recompute: Duration::ZERO, ..Config::new(64 << 20) };
    let tiers = Tiers::open(settings(config), Arc::new(Wall(Instant::now()))).expect("threads start");
    assert!(tiers.settle(Duration::from_secs(10)), "an empty folder is soon read");
    Arc::new(tiers)
}

pub(crate) fn engine(tiers: Option<&Arc<Tiers>>) -> Engine {
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
pub(crate) async fn unload(engine: &Engine, tiers: &Arc<Tiers>, holders: usize) {
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
    assert_eq!((first.spent.cached_tokens, first.spent.recalled.ram_tokens), (0, 0), "nothing is known yet");
    unload(&engine, &tiers, holders).await;

    let again = ask(&engine, &path, prompt(1, 900)).await;
    assert_eq!(
        again.spent.recalled.ram_tokens, 899,
        "all but the last token came from RAM: {:?}",
        again.spent.recalled
    );
    assert_eq!(again.spent.cached_tokens, 899, "and is counted as cached");
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");
    let Recalls { ns, recompute_ns, recomputed, .. } = again.spent.recalled;
    assert!(ns > 0 && recompute_ns > 0, "what it took and what it saved is told: {:?}", again.spent.recalled);
    assert_eq!(recomputed.reasons().count(), 0, "nothing was computed again");
    assert_eq!(first.spent.recalled.recomputed.tokens(Because::Miss), 899, "the first time, all was");
    let usage = engine.usage().remove(0).1;
    assert_eq!((usage.lookup_tokens, usage.page_tokens), (1800, 0), "two prompts, of which no page was left");
    assert_eq!(usage.restored_tokens, [899, 0, 0], "the second came from RAM");
    assert_eq!(usage.restores[0].counts.iter().sum::<u64>(), 1, "at once");
    assert_eq!(usage.recomputed, first.spent.recalled.recomputed, "the first was computed");

    // The conversation goes on from the answer.
    let longer: Vec<u32> =
        prompt(1, 900).into_iter().chain(first.tokens.iter().copied()).chain(prompt(2, 50)).collect();
    unload(&engine, &tiers, holders).await;
    let kept = ask(&engine, &path, longer.clone()).await;
    assert!(kept.spent.recalled.ram_tokens >= 900, "prompt and answer came back: {:?}", kept.spent.recalled);
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
    // Some may have been brought up while the model was loaded.
    let recalled = again.spent.recalled.ssd_tokens + again.spent.recalled.ram_tokens;
    assert_eq!(recalled, 1199, "all but the last token came from the disk: {:?}", again.spent.recalled);
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");

    // Other weights under the same name have nothing of it.
    let options =
        LoadOptions { context_tokens: Some(2048), weights: Some(WeightsDigest([8; 32])), ..LoadOptions::default() };
    let other = model(&folder, 7);
    let lease = engine.acquire("other".to_owned(), Source::File(other), options, None).await.expect("the model loads");
    let finish = answer(lease.generate(greedy(prompt(3, 1200), 4))).await.expect("it answers");
    assert_eq!(finish.spent.cached_tokens, 0, "other weights, other rows");
}

/// A folder in which reading some chunks takes longer than anybody waits.
struct Slow {
    tier: Arc<dyn Tier>,
    from_position: u64,
    saving: Duration,
}

impl Tier for Slow {
    fn place(&self) -> Place {
        self.tier.place()
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        self.tier.scan(each)
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        if wanted.first_position >= self.from_position {
            std::thread::sleep(Duration::from_secs(2));
        }
        self.tier.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        std::thread::sleep(self.saving);
        self.tier.save(chunk)
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.tier.remove(id)
    }
}

/// Computes a prompt, and ends the process, so to say.
async fn computed(path: &Path, kept: &Path, tokens: Vec<u32>) -> Finish {
    let tiers = tiers(kept);
    let engine = engine(Some(&tiers));
    let holders = Arc::strong_count(&tiers);
    let first = ask(&engine, path, tokens).await;
    unload(&engine, &tiers, holders).await;
    drop(engine);
    Arc::into_inner(tiers).expect("the engine has ended").close(Duration::from_secs(10));
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_in_time_is_computed() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, kept) = (model(&folder, 8), folder.path().join("kept"));
    let first = computed(&path, &kept, prompt(5, 1200)).await;
    // Nothing is in RAM, and nothing is brought there ahead.
    let slow = |tier| Arc::new(Slow { tier, from_position: 512, saving: Duration::ZERO }) as Arc<dyn Tier>;
    let tiers = open(&kept, slow, |config| Config { ram_bytes: 0, ..config });
    let engine = engine(Some(&tiers));
    let again = ask(&engine, &path, prompt(5, 1200)).await;
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");
    let Recalls { ssd_tokens, recomputed, .. } = again.spent.recalled;
    // On a machine that is busy with other things even the first two chunks may be late.
    assert!(
        ssd_tokens <= 512 && ssd_tokens.is_multiple_of(256),
        "whole chunks that came in time: {:?}",
        again.spent.recalled
    );
    let late = recomputed.tokens(Because::Deadline) as usize;
    assert_eq!(ssd_tokens + late, 1199, "the rest is computed, and it is said why: {recomputed:?}");
}

/// A process that is killed afterwards would have lost what had been dropped from the queue.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_is_written_even_where_the_disk_is_slower() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, kept) = (model(&folder, 13), folder.path().join("kept"));
    let saving = Duration::from_millis(50);
    let slow = |tier| Arc::new(Slow { tier, from_position: u64::MAX, saving }) as Arc<dyn Tier>;
    // Two of the model's chunks may wait.
    let config = |config| Config { queue_bytes: 2 * CHUNK_BYTES, ..config };
    let tiers = open(&kept, slow, config);
    let engine = engine(Some(&tiers));
    for _ in 0..2 {
        ask(&engine, &path, prompt(14, 1800)).await;
    }
    let until = Instant::now() + Duration::from_secs(10);
    while tiers.status().places[1].chunks < 7 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let [ram, ssd, ..] = &tiers.status().places[..] else { panic!("there are three places") };
    assert_eq!(ram.used_bytes, 7 * CHUNK_BYTES, "chunks are as large as that: {ram:?}");
    assert_eq!(ssd.chunks, 7, "all whole chunks are on the disk: {:?}", tiers.status().dropped);
}

/// A place far away that refuses its first read, and says nothing for so long when it is asked the second time.
struct Far {
    tier: Arc<dyn Tier>,
    silence: Duration,
    reads: AtomicU64,
}

impl Tier for Far {
    fn place(&self) -> Place {
        Place::Remote
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        self.tier.scan(each)
    }

    fn heard_at(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        match self.reads.fetch_add(1, Ordering::SeqCst) {
            0 => return Err(TierError::Away("not yet".to_owned()).into()),
            1 => std::thread::sleep(self.silence),
            _ => {}
        }
        self.tier.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        self.tier.save(chunk)
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.tier.remove(id)
    }
}

/// A model whose prompts take so long that bringing them back pays.
fn slow_model(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the folder is writable");
    path
}

/// Tiers for which what lies in this folder lies far away.
fn far_away(kept: &Path, silence: Duration) -> Arc<Tiers> {
    let far = |tier| Arc::new(Far { tier, silence, reads: AtomicU64::new(0) }) as Arc<dyn Tier>;
    open(kept, far, |config| Config { remote: config.ssd, ssd: None, ..config })
}

/// A model whose place far away has refused its first read: that of what would have been brought up while the model was loaded.
async fn lease_once_refused(engine: &Engine, tiers: &Tiers, path: &Path) -> Lease {
    let loaded = lease(engine, path).await;
    let refused = || tiers.status().places.iter().any(|place| place.flow.failed > 0);
    let until = Instant::now() + Duration::from_secs(10);
    while !refused() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    loaded
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_comes_is_told_of_with_an_answer_of_one_token() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, kept) = (slow_model(&folder), folder.path().join("kept"));
    let first = computed(&path, &kept, prompt(11, 1900)).await;
    let tiers = far_away(&kept, Duration::from_secs(60));
    let engine = engine(Some(&tiers));
    let loaded = lease_once_refused(&engine, &tiers, &path).await;
    let again = answer(loaded.generate(greedy(prompt(11, 1900), 1))).await.expect("it answers");
    assert_eq!(again.tokens, first.tokens[..1], "the answer is the same");
    let late = again.spent.recalled.recomputed.tokens(Because::Deadline);
    assert_eq!(late, 1899, "all of it was computed, and why: {:?}", again.spent.recalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_while_a_prompt_is_computed_is_taken() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, kept) = (slow_model(&folder), folder.path().join("kept"));
    let first = computed(&path, &kept, prompt(11, 1900)).await;
    let tiers = far_away(&kept, Duration::from_millis(150));
    let engine = engine(Some(&tiers));
    let loaded = lease_once_refused(&engine, &tiers, &path).await;
    let again = answer(loaded.generate(greedy(prompt(11, 1900), 24))).await.expect("it answers");
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");
    let Recalls { ram_tokens, remote_tokens, recomputed, .. } = again.spent.recalled;
    assert_eq!(remote_tokens, 0, "nobody waited for it: {:?}", again.spent.recalled);
    assert!(ram_tokens > 0, "it went on with what had come meanwhile: {:?}", again.spent.recalled);
    let late = recomputed.tokens(Because::Deadline) as usize;
    assert_eq!(ram_tokens + late, 1899, "and says what it computed, and why: {recomputed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_loaded_has_its_last_context_brought_up() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, kept) = (model(&folder, 9), folder.path().join("kept"));
    let first = computed(&path, &kept, prompt(6, 1200)).await;
    let tiers = tiers(&kept);
    let engine = engine(Some(&tiers));
    let loaded = lease(&engine, &path).await;
    let until = Instant::now() + Duration::from_secs(10);
    while tiers.status().places[0].chunks < 5 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let again = answer(loaded.generate(greedy(prompt(6, 1200), 24))).await.expect("it answers");
    assert_eq!(again.spent.recalled.ram_tokens, 1199, "it was in RAM by then: {:?}", again.spent.recalled);
    assert_eq!(again.tokens, first.tokens, "the answer is the same, token for token");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_is_kept_while_another_answers() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 10);
    let tiers = tiers(&folder.path().join("kept"));
    let engine = engine(Some(&tiers));
    let lease = lease(&engine, &path).await;
    // Nobody reads this answer, so that it does not end; it has its place all the same. The other prompt's second use makes it due.
    let busy = lease.generate(greedy(prompt(7, 40), 1500));
    for _ in 0..2 {
        answer(lease.generate(greedy(prompt(8, 900), 4))).await.expect("it answers");
    }
    let until = Instant::now() + Duration::from_secs(10);
    while tiers.status().places[0].chunks < 3 && Instant::now() < until && !busy.is_closed() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stalls = engine.usage()[0].1.stalls;
    assert!(tiers.status().places[0].chunks >= 3, "three whole chunks are kept meanwhile");
    assert!(stalls.counts.iter().sum::<u64>() > 0, "and how long the other waited is told: {stalls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_stopped_and_deleted_at_once_leaves_nothing() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the folder is writable");
    let tiers = tiers(&folder.path().join("kept"));
    let engine = engine(Some(&tiers));
    let lease = Arc::new(lease(&engine, &path).await);
    let ann = Owner::new("ann").expect("short");
    for round in 0..6 {
        let asked = prompt(20 + round, 600);
        let whose = Whose { owner: Some(ann.clone()), ..Whose::default() };
        let mut events = lease.generate(Request { whose, ..greedy(asked.clone(), 1000) });
        assert!(matches!(events.recv().await, Some(Event::Text(_))), "round {round}: it answers");
        drop(events);
        let (engine, ann, kept) = (engine.clone(), ann.clone(), Arc::clone(&tiers));
        let forget = move || {
            engine.forget(Some(&ann));
            kept.forget_owner(&ann, Duration::from_secs(10))
        };
        tokio::task::spawn_blocking(forget).await.expect("it does not panic");
        // By now the model has noticed that nobody listens.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let lease = Arc::clone(&lease);
        let held = tokio::task::spawn_blocking(move || lease.held(&asked, None)).await.expect("it does not panic");
        assert_eq!(held.memory_tokens, 0, "round {round}: what was deleted is in no page");
    }
}
