//! Tests with a remote tier: chunks are copied there before the SSD evicts them, and are restored from there.

use std::sync::atomic::Ordering;

use super::fake::Fault;
use super::*;

/// A daemon with an SSD for about twenty chunks, and a large remote tier.
fn bench_with(remote: &Arc<FakeTier>) -> (TestEnv, impl Fn(&TestEnv) -> Config + use<>) {
    let remote: Arc<dyn crate::Tier> = Arc::clone(remote) as _;
    let config = move |env: &TestEnv| {
        let ssd: Arc<dyn crate::Tier> = Arc::clone(&env.ssd) as _;
        let ssd = Some(LowerTier::new(ssd, 400 << 10));
        Config { ssd, remote: Some(LowerTier::new(Arc::clone(&remote), 1 << 30)), ..env.config() }
    };
    (TestEnv::new(), config)
}

#[test]
fn ssd_copies_chunks_to_remote_before_eviction() {
    let remote = FakeTier::new(TierKind::Remote);
    let (env, config) = bench_with(&remote);
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let open = || env.open(Config { index_path: Some(home.path().join("index.redb")), ..config(&env) });
    let tiers = open();
    let prompts: Vec<Vec<Key>> = (0..12).map(|prompt| keys(1 + 10_000 * prompt, 1024)).collect();
    for prompt in &prompts {
        for chunk in env.model.chunks(prompt) {
            offer(&tiers, chunk, StoreReason::Idle, Some("ann")).expect("the chunk is stored");
        }
        assert!(tiers.wait_idle(SOON), "the chunks are written");
        // Chunks that were copied leave the SSD in the next round.
        tiers.check_clock();
        std::thread::sleep(Duration::from_millis(120));
    }
    tiers.close(SOON);
    assert!(remote.len() > 0, "chunks were copied");
    let tiers = open();
    for prompt in &prompts {
        assert_eq!(env.restore(&tiers, prompt).0, 1024, "no chunk was lost");
    }
    let places = env.restore(&tiers, &prompts[0]).1;
    assert!(places.iter().all(|tier| *tier != TierKind::Ssd), "the oldest prefix left the SSD: {places:?}");
}

#[test]
fn chunks_lost_on_ssd_are_restored_from_remote() {
    let remote = FakeTier::new(TierKind::Remote);
    let (env, config) = bench_with(&remote);
    let tiers = env.open(config(&env));
    let prompt = keys(1, 1024);
    env.store(&tiers, &prompt, StoreReason::Idle);
    tiers.close(SOON);
    *remote.files.lock() = env.ssd.files.lock().clone();
    let tiers = env.open(config(&env));
    env.ssd.set_faults(|call| if call == "load" { Fault::Lose } else { Fault::None });
    let (tokens, places, end) = env.restore(&tiers, &prompt);
    assert_eq!(
        (tokens, places, end),
        (1024, vec![TierKind::Remote; 4], RestoreEnd::Complete),
        "the remote tier has the missing chunks"
    );
}

#[test]
fn unlisted_remote_chunk_is_requested_by_name() {
    let remote = FakeTier::new(TierKind::Remote);
    remote.unlisted.store(true, Ordering::SeqCst);
    let (env, config) = bench_with(&remote);
    let prompt = keys(1, 1024);
    for chunk in env.model.chunks(&prompt) {
        remote.files.lock().insert(chunk.head.id, chunk);
    }
    let tiers = env.open(config(&env));
    assert_eq!(
        env.restore(&tiers, &prompt),
        (1024, vec![TierKind::Remote; 4], RestoreEnd::Complete),
        "the remote tier has the chunks"
    );
    assert_eq!(env.restore(&tiers, &prompt).1, vec![TierKind::Ram; 4], "remote chunks go to RAM after one use");
}

#[test]
fn silent_remote_tier_is_abandoned_before_the_deadline() {
    let remote = FakeTier::new(TierKind::Remote);
    let env = TestEnv::new();
    let lower = LowerTier::new(Arc::clone(&remote) as Arc<dyn crate::Tier>, 1 << 30);
    let open = || env.open(Config { ssd: None, remote: Some(lower.clone()), ..env.config() });
    let prompt = keys(1, 1024);
    let tiers = open();
    env.store(&tiers, &prompt, StoreReason::Idle);
    tiers.close(SOON);
    let tiers = open();
    let coverage = env.find(&tiers, &prompt);
    assert_eq!(coverage.tokens(), 1024, "all chunks are stored");
    remote.set_faults(|call| if call == "load" { Fault::Hang } else { Fault::None });
    let mut restoring = tiers.restore(&coverage, 0..1024, SOON);
    env.clock.pass(Duration::from_millis(90));
    assert!(matches!(restoring.try_next(), RestorePoll::Pending), "a network latency is tolerated");
    env.clock.pass(Duration::from_millis(30));
    assert!(
        matches!(restoring.try_next(), RestorePoll::Ended(RestoreEnd::Deadline)),
        "at most twice the expected time is tolerated"
    );
    remote.release();
}

/// A remote tier that does not respond.
struct SilentTier(Arc<FakeTier>);

impl crate::Tier for SilentTier {
    fn kind(&self) -> TierKind {
        TierKind::Remote
    }

    fn last_response_at(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn scan(&self, each: &mut dyn FnMut(crate::StoredChunk)) -> Result<(), crate::TierError> {
        self.0.scan(each)
    }

    fn load(&self, wanted: &crate::ChunkRequest<'_>) -> Result<Chunk, crate::Miss> {
        self.0.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<crate::StoredChunk, crate::TierError> {
        self.0.save(chunk)
    }

    fn remove(&self, id: &crate::ChunkId) -> Result<(), crate::TierError> {
        self.0.remove(id)
    }
}

#[test]
fn silent_remote_tier_with_last_chunks_blocks_no_reader() {
    let remote_tier = FakeTier::new(TierKind::Remote);
    let env = TestEnv::new();
    let prompt = keys(1, 2048);
    for chunk in env.model.chunks(&prompt) {
        // The SSD evicts last chunks first.
        let tier = if chunk.head.first_position < 512 { &env.ssd } else { &remote_tier };
        tier.files.lock().insert(chunk.head.id, chunk);
    }
    let lower = LowerTier::new(Arc::new(SilentTier(Arc::clone(&remote_tier))), 1 << 30);
    let tiers = env.open(Config { remote: Some(lower), ..env.config() });
    env.clock.pass(Duration::from_secs(1));
    remote_tier.set_faults(|call| if call == "load" { Fault::Hang } else { Fault::None });
    let coverage = env.find(&tiers, &prompt);
    assert_eq!(coverage.tokens(), 2048, "all chunks are stored");
    let mut restoring = tiers.restore(&coverage, 0..2048, SOON);
    let began = std::time::Instant::now();
    let mut came = 0;
    while came < 2 && began.elapsed() < SOON {
        match restoring.try_next() {
            RestorePoll::Ready(_) => came += 1,
            RestorePoll::Pending => std::thread::sleep(Duration::from_millis(1)),
            RestorePoll::Ended(end) => panic!("the SSD's chunks arrive: {end:?}"),
        }
    }
    env.clock.pass(Duration::from_millis(40));
    assert!(matches!(restoring.try_next(), RestorePoll::Pending), "a network latency is tolerated");
    env.clock.pass(Duration::from_millis(40));
    let end = restoring.try_next();
    assert!(matches!(end, RestorePoll::Ended(RestoreEnd::NoResponse)), "a missing response ends the restore: {end:?}");
    remote_tier.release();
    let began = std::time::Instant::now();
    while env.find(&tiers, &prompt).without_remote().tokens() < 2048 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(env.find(&tiers, &prompt).without_remote().tokens(), 2048, "late chunks go to RAM for the next request");
}
