//! Tests of the tiers over fake tiers with injected faults, and over real folders.

mod budgets;
mod churn;
mod crash_safety;
mod deletion;
mod events;
pub(crate) mod fake;
mod faults;
mod folder;
mod limits;
mod owners;
mod remote;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use self::fake::{FakeTier, ManualClock, ToyModel, keys};
use super::{Config, LowerTier, Restore, RestoreEnd, RestorePoll, StoreOutcome, StoreReason, StoreRequest, Tiers};
use crate::{Chunk, ChunkHead, Coverage, Group, Groups, Key, NumericClass, Prefix, TierKind};

/// Upper limit for waiting in tests.
const SOON: Duration = Duration::from_secs(10);

/// A daemon with an SSD tier that outlives it.
struct TestEnv {
    clock: Arc<ManualClock>,
    ssd: Arc<FakeTier>,
    model: ToyModel,
}

impl TestEnv {
    fn new() -> Self {
        Self { clock: Arc::default(), ssd: FakeTier::new(TierKind::Ssd), model: ToyModel::new() }
    }

    fn config(&self) -> Config {
        let tier: Arc<dyn crate::Tier> = Arc::clone(&self.ssd) as _;
        Config { ssd: Some(LowerTier::new(tier, 64 << 20)), min_recompute: Duration::ZERO, ..Config::new(8 << 20) }
    }

    fn open(&self, config: Config) -> Tiers {
        let clock: Arc<dyn crate::Clock> = Arc::clone(&self.clock) as _;
        let tiers = Tiers::open(config, clock).expect("threads can be created");
        assert!(tiers.wait_idle(SOON), "an idle tier is scanned at once");
        tiers
    }

    /// Stores all chunks of a sequence.
    fn store(&self, tiers: &Tiers, keys: &[Key], why: StoreReason) {
        for chunk in self.model.chunks(keys) {
            offer(tiers, chunk, why, None).expect("the chunk is stored");
        }
    }

    fn find(&self, tiers: &Tiers, keys: &[Key]) -> Coverage {
        tiers.lookup(&self.model.prefix(keys))
    }

    /// Restores everything that is found and checks all rows. Returns the number of tokens, the source of each chunk,
    /// and the end.
    fn restore(&self, tiers: &Tiers, keys: &[Key]) -> (usize, Vec<TierKind>, RestoreEnd) {
        let coverage = self.find(tiers, keys);
        let restoring = tiers.restore(&coverage, 0..coverage.tokens(), SOON);
        self.drain(restoring, keys)
    }

    fn drain(&self, mut restoring: Restore, keys: &[Key]) -> (usize, Vec<TierKind>, RestoreEnd) {
        let (mut tokens, mut places) = (0, Vec::new());
        loop {
            match restoring.try_next() {
                RestorePoll::Ready(restored) => {
                    let first = restored.head().first_position as usize;
                    let rows = restored.rows();
                    assert_eq!(
                        restored.head().keys[..rows],
                        keys[first..first + rows],
                        "keys of the restored rows match the request"
                    );
                    let known = [&keys[..first], &restored.head().keys].concat();
                    let expected = self.model.rows(&known, restored.head().id.group);
                    assert_eq!(restored.payload(), &expected[..], "the rows match the tokens");
                    if restored.head().id.group == crate::Group::Full {
                        assert_eq!(first, tokens, "chunks come in order, each once");
                        tokens += rows;
                    }
                    places.push(restored.tier());
                }
                RestorePoll::Pending => std::thread::sleep(Duration::from_millis(1)),
                RestorePoll::Ended(end) => return (tokens, places, end),
            }
        }
    }
}

fn offer(
    tiers: &Tiers,
    chunk: Chunk,
    why: StoreReason,
    owner: Option<&str>,
) -> Result<StoreOutcome, super::StoreError> {
    let owner = owner.map(|name| crate::Owner::new(name).expect("the name is short"));
    tiers.store(StoreRequest { chunk, reason: why, owner, recompute: Duration::ZERO })
}

#[test]
fn stored_prefix_is_restored_after_restart() {
    let env = TestEnv::new();
    let prompt = keys(10, 1100);
    let tiers = env.open(env.config());
    env.store(&tiers, &prompt, StoreReason::Idle);
    assert_eq!(
        env.restore(&tiers, &prompt),
        (1100, vec![TierKind::Ram; 5], RestoreEnd::Complete),
        "stored chunks are in RAM"
    );
    tiers.close(SOON);
    assert_eq!(env.ssd.len(), 5, "all chunks were written");

    let tiers = env.open(env.config());
    assert_eq!(env.find(&tiers, &prompt).tokens(), 1100, "a lookup after a restart finds everything");
    assert_eq!(
        env.restore(&tiers, &prompt),
        (1100, vec![TierKind::Ssd; 5], RestoreEnd::Complete),
        "restored from the disk"
    );
    assert_eq!(env.restore(&tiers, &prompt).0, 1100, "again");
    assert_eq!(env.restore(&tiers, &prompt).1, vec![TierKind::Ram; 5], "chunks that were used twice move to RAM");
}

#[test]
fn diverging_request_uses_rows_before_the_divergence() {
    let env = TestEnv::new();
    let stored = keys(10, 700);
    let tiers = env.open(env.config());
    env.store(&tiers, &stored, StoreReason::Idle);
    for diverges in [1, 255, 256, 257, 300, 512, 513, 650, 699] {
        let mut requested = stored.clone();
        requested.truncate(diverges);
        requested.extend(keys(50_000, 400));
        assert_eq!(env.find(&tiers, &requested).tokens(), diverges, "diverges at {diverges}");
        assert_eq!(env.restore(&tiers, &requested).0, diverges, "diverges at {diverges}");
    }
    assert_eq!(env.find(&tiers, &keys(11, 700)).tokens(), 0, "no common prefix");
    assert_eq!(env.find(&tiers, &stored[..100]).tokens(), 100, "a prefix of a chunk");
}

#[test]
fn window_layers_need_only_the_last_chunks() {
    let mut env = TestEnv::new();
    env.model.groups = Groups { window_tokens: Some(300), ..Groups::FULL };
    let prompt = keys(10, 2000);
    let check = |stored: &dyn Fn(&ChunkHead) -> bool, tokens: usize, why: &str| {
        let tiers = env.open(env.config());
        for chunk in env.model.chunks(&prompt).into_iter().filter(|chunk| stored(&chunk.head)) {
            offer(&tiers, chunk, StoreReason::Evicted, None).expect("the chunk is stored");
        }
        assert_eq!(env.find(&tiers, &prompt).tokens(), tokens, "{why}");
        let (restored, places, end) = env.restore(&tiers, &prompt);
        assert_eq!((restored, end), (tokens, RestoreEnd::Complete), "{why}");
        let windows = places.len() - tokens.div_ceil(256);
        assert!(windows <= 3, "{why}: {windows} chunks of a window of 300 tokens");
        tiers.clear(SOON);
    };
    let window = |head: &ChunkHead| head.id.group == Group::Window;
    check(&|_| true, 2000, "all chunks are stored");
    check(&|head| !window(head) || head.first_position >= 1536, 2000, "the end of the window is stored");
    check(&|head| !window(head) || (768..1792).contains(&head.first_position), 1792, "the window chunks end earlier");
    check(&|head| !window(head) || head.first_position < 768, 768, "only the first window chunks are stored");
    check(&|head| !window(head), 0, "no window chunks are stored");
    check(&|head| window(head) || head.first_position < 1024, 1024, "the full-attention chunks end earlier");
    check(&|head| !window(head) || ![768, 1024].contains(&head.first_position), 2000, "a gap outside the window");
    check(&|head| !window(head) || ![1536].contains(&head.first_position), 1536, "a gap at the end");
}

#[test]
fn recurrent_layers_need_whole_chunks() {
    let mut env = TestEnv::new();
    env.model.groups = Groups { recurrent: true, window_tokens: Some(1), ..Groups::FULL };
    let stored = keys(10, 1000);
    let tiers = env.open(env.config());
    env.store(&tiers, &stored, StoreReason::Idle);
    for (tokens, usable, why) in [
        (1000, 1000, "all chunks"),
        (1500, 1000, "the tail, and more"),
        (999, 768, "a part of the tail"),
        (768, 768, "whole chunks"),
        (700, 512, "a part of a chunk"),
        (255, 0, "a part of the first chunk"),
    ] {
        let mut requested = stored.clone();
        requested.extend(keys(50_000, 500));
        requested.truncate(tokens);
        let coverage = env.find(&tiers, &requested);
        assert_eq!(coverage.tokens(), usable, "{why}");
        assert_eq!(env.restore(&tiers, &requested).0, usable, "{why}");
        assert_eq!(coverage.longest_prefix(700), usable.min(512), "{why}, of at most 700 tokens");
    }
    let held = |tokens: usize| tiers.lookup_after(&env.model.prefix(&stored[..700]), tokens);
    assert_eq!(held(600).tokens(), 600, "the end of the reader's rows");
    assert_eq!(held(600).longest_prefix(599), 512, "the last states before");
    assert_eq!(held(600).longest_prefix(511), 256, "the states before those");
}

#[test]
fn states_are_read_at_the_end_only() {
    let mut env = TestEnv::new();
    env.model.groups = Groups { recurrent: true, window_tokens: Some(1), ..Groups::FULL };
    let stored = keys(10, 1000);
    let check = |has_states: &dyn Fn(u64) -> bool, steps: &[(Group, u64)], why: &str| {
        let tiers = env.open(env.config());
        for chunk in env.model.chunks(&stored) {
            if chunk.head.id.group == Group::Full || has_states(chunk.head.first_position) {
                offer(&tiers, chunk, StoreReason::Idle, None).expect("the chunk is stored");
            }
        }
        let coverage = env.find(&tiers, &stored);
        let found = coverage.steps(0..coverage.tokens());
        let read: Vec<_> = found.iter().map(|step| (step.id.group, step.first_position)).collect();
        assert_eq!(read, steps, "{why}");
        tiers.clear(SOON);
    };
    let (full, states) = (Group::Full, Group::Window);
    check(
        &|_| true,
        &[(full, 0), (full, 256), (full, 512), (states, 768), (full, 768)],
        "only the last states of those that are stored",
    );
    check(
        &|at| at == 256,
        &[(full, 0), (states, 256), (full, 256)],
        "rows beyond the last stored states are of no use",
    );
    check(&|_| false, &[], "nothing is usable without states");
}

#[test]
fn restore_of_a_shorter_prefix_reads_fewer_chunks() {
    let env = TestEnv::new();
    let prompt = keys(10, 1000);
    let tiers = env.open(env.config());
    env.store(&tiers, &prompt, StoreReason::Idle);
    let coverage = env.find(&tiers, &prompt);
    assert_eq!(coverage.longest_prefix(700), 700, "any end is possible");
    let steps = coverage.steps(300..700);
    let part: Vec<_> = steps.iter().map(|step| (step.first_position, step.rows)).collect();
    assert_eq!(part, [(256, 256), (512, 188)], "rows that the reader has are not read again");
}

#[test]
fn rows_of_another_numeric_class_are_not_used_and_are_replaced() {
    let mut env = TestEnv::new();
    let prompt = keys(10, 600);
    let tiers = env.open(env.config());
    env.store(&tiers, &prompt, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    env.model.class = NumericClass::new("gpu/wgpu/1").expect("the name is short");
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "rows of another class are not used");
    let any = Prefix { class: None, ..env.model.prefix(&prompt) };
    assert_eq!(tiers.lookup(&any).tokens(), 600, "a request without a class uses them");
    env.store(&tiers, &prompt, StoreReason::Idle);
    assert_eq!(env.restore(&tiers, &prompt).0, 600, "the new rows replaced them");
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    tiers.close(SOON);
    let tiers = env.open(env.config());
    assert_eq!(env.restore(&tiers, &prompt).0, 600, "the new rows are in the SSD tier");
}

#[test]
fn inconsistent_chunk_is_rejected() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let check = |change: &dyn Fn(&mut ChunkHead), why: &str| {
        let chunk = env.model.chunks(&keys(10, 300)).remove(1);
        let mut head = ChunkHead::clone(&chunk.head);
        change(&mut head);
        let refused = offer(&tiers, Chunk { head: Arc::new(head), ..chunk }, StoreReason::Idle, None);
        assert!(matches!(refused, Err(super::StoreError::Malformed(_))), "{why}: {refused:?}");
    };
    check(&|head| head.first_position = 100, "not a multiple of 256");
    check(&|head| head.flags.tail = false, "short, but not a tail");
    check(&|head| head.keys = Arc::new([]), "no tokens");
    check(&|head| head.sections = Arc::new([]), "rows without sections");
}
