//! Tests with a server that is slow, hangs or fails: readers wait no longer than their deadline, and the tier
//! recovers.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use parking_lot::Condvar;

use super::*;
use crate::tiers::tests::fake::{ToyModel, keys};
use crate::tiers::{Config, Health, LowerTier, RestoreEnd, RestorePoll, StoreReason, StoreRequest, Tiers};
use crate::{Key, TierKind};

/// Injected behavior of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    Well,
    /// Responds after a delay.
    Late(Duration),
    /// Does not respond until the behavior changes, like a stopped file server.
    Hang,
    /// Returns an error, like status 500.
    Fail,
}

/// A store with injected behavior.
struct FaultyFileStore {
    inner: Arc<dyn FileStore>,
    behavior: Mutex<Behavior>,
    changed: Condvar,
    calls: AtomicU64,
}

impl FaultyFileStore {
    fn over(inner: Arc<dyn FileStore>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            behavior: Mutex::new(Behavior::Well),
            changed: Condvar::new(),
            calls: AtomicU64::new(0),
        })
    }

    fn set(&self, behavior: Behavior) {
        *self.behavior.lock() = behavior;
        self.changed.notify_all();
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn pass(&self) -> Result<&dyn FileStore, TierError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut behavior = self.behavior.lock();
        self.changed.wait_while(&mut behavior, |behavior| *behavior == Behavior::Hang);
        match *behavior {
            Behavior::Fail => return Err(TierError::Failed("500 Internal Server Error".to_owned())),
            Behavior::Late(span) => {
                drop(behavior);
                std::thread::sleep(span);
            }
            Behavior::Well | Behavior::Hang => {}
        }
        Ok(self.inner.as_ref())
    }
}

impl FileStore for FaultyFileStore {
    fn threads(&self) -> usize {
        self.inner.threads()
    }

    fn list(&self, each: &mut dyn FnMut(&str, FileEntry) -> bool, within: Duration) -> Result<(), TierError> {
        self.pass()?.list(each, within)
    }

    fn read(
        &self,
        name: &str,
        part: Range<u64>,
        within: Duration,
        heard: &dyn Fn(),
    ) -> Result<Option<Vec<u8>>, TierError> {
        self.pass()?.read(name, part, within, heard)
    }

    fn create(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<bool, TierError> {
        self.pass()?.create(name, file, draft, within)
    }

    fn replace(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<(), TierError> {
        self.pass()?.replace(name, file, draft, within)
    }

    fn remove(&self, name: &str, within: Duration) -> Result<(), TierError> {
        self.pass()?.remove(name, within)
    }
}

/// A daemon with only a remote tier, which has a sequence that RAM does not have.
struct RemoteEnv {
    dir: TestFolder,
    store: Arc<FaultyFileStore>,
    model: ToyModel,
    tiers: Tiers,
    prompt: Vec<Key>,
}

const SOON: Duration = Duration::from_secs(10);
/// Margin for a busy machine. Injected delays are longer, so waiting for them is detected.
const SLACK: Duration = Duration::from_millis(1500);

impl RemoteEnv {
    fn new(backend: Backend) -> Self {
        Self::answering_within(backend, Duration::from_millis(300))
    }

    /// Creates an environment with this response timeout.
    fn answering_within(backend: Backend, answer: Duration) -> Self {
        let dir = TestFolder::new();
        let (model, prompt) = (ToyModel::new(), keys(10, 1024));
        let writer = dir.open(backend);
        for chunk in model.chunks(&prompt) {
            writer.save(&chunk).expect("the chunks are written");
        }
        let store = FaultyFileStore::over(dir.files(backend));
        let remote = Arc::new(dir.open_with_timeout(Arc::clone(&store) as _, shared(), answer));
        let remote = Some(LowerTier::remote(&remote, 1 << 30, true));
        let config = Config { remote, min_recompute: Duration::ZERO, ..Config::new(8 << 20) };
        let tiers = Tiers::open(config, Arc::clone(&dir.clock) as _).expect("threads can be created");
        assert!(tiers.wait_idle(SOON), "the tier is scanned");
        Self { dir, store, model, tiers, prompt }
    }

    /// Looks up and restores the prompt as a scheduler does, for at most `within` on both clocks. Returns the number of
    /// restored tokens, how the restore ended, and its duration.
    fn ask(&self, within: Duration) -> (usize, RestoreEnd, Duration) {
        let began = Instant::now();
        let coverage = self.tiers.lookup(&self.model.prefix(&self.prompt));
        assert!(began.elapsed() < SLACK, "a lookup accesses only memory: {:?}", began.elapsed());
        let mut restoring = self.tiers.restore(&coverage, 0..coverage.tokens(), within);
        let (mut tokens, mut passed) = (0, Duration::ZERO);
        loop {
            let polled_at = Instant::now();
            let next = restoring.try_next();
            assert!(polled_at.elapsed() < SLACK, "a poll accesses only memory: {:?}", polled_at.elapsed());
            match next {
                RestorePoll::Ready(restored) => {
                    let end = tokens + restored.rows();
                    let rows = self.model.rows(&self.prompt[..end], restored.head().id.group);
                    assert_eq!(restored.payload(), &rows[..], "the rows match the tokens");
                    tokens = end;
                }
                RestorePoll::Ended(end) => return (tokens, end, began.elapsed()),
                RestorePoll::Pending => std::thread::sleep(Duration::from_millis(1)),
            }
            let now = began.elapsed();
            self.dir.clock.pass(Duration::from_millis((now - passed).as_millis() as u64));
            passed += Duration::from_millis((now - passed).as_millis() as u64);
        }
    }

    fn health(&self) -> Health {
        let status = self.tiers.status();
        status.tiers.iter().find(|status| status.kind == TierKind::Remote).expect("it exists").health
    }

    /// Advances the clock until the tier works again, at most by `within`.
    fn recovers(&self, within: Duration, why: &str) {
        let mut passed = Duration::ZERO;
        while self.ask(SOON).0 != 1024 {
            assert!(passed < within, "{why}: not recovered after {passed:?}, {:?}", self.health());
            passed += Duration::from_secs(5);
            self.dir.clock.pass(Duration::from_secs(5));
            self.tiers.check_clock();
            std::thread::sleep(Duration::from_millis(150));
        }
    }
}

/// Returns whether the circuit breaker rejected the call.
pub(super) fn is_left_alone(missed: Option<&Miss>) -> bool {
    matches!(missed, Some(Miss::Tier(TierError::Unavailable(why))) if why.contains("not called"))
}

/// Injects a behavior, sends requests, and ends the behavior.
fn check(backend: Backend, behavior: Behavior) {
    let why = format!("{backend:?} {behavior:?}");
    let env = RemoteEnv::new(backend);
    assert_eq!((env.ask(SOON).0, env.health()), (1024, Health::Up), "{why}: the tier works at first");
    // The restore moved the chunks to RAM; this test needs them in the remote tier.
    let env = RemoteEnv::new(backend);
    env.store.set(behavior);
    let within = Duration::from_millis(250);
    for round in 0..12 {
        let (_, end, took) = env.ask(within);
        assert!(took < within + SLACK, "{why}: request {round} waited {took:?}, ended with {end:?}");
    }
    let calls = env.store.calls();
    for round in 0..20 {
        let (tokens, _, took) = env.ask(within);
        assert!(took < SLACK && tokens == 0, "{why}: request {round} waited {took:?} for an unavailable tier");
    }
    let tried = env.store.calls() - calls;
    assert!(tried <= 4, "{why}: an unavailable tier is not called for each request, but was called {tried} times");
    let chunk = env.model.chunks(&keys(70_000, 256)).remove(0);
    let began = Instant::now();
    env.tiers
        .store(StoreRequest { chunk, reason: StoreReason::Evicted, owner: None, recompute: Duration::from_secs(1) })
        .expect("RAM still works");
    assert!(began.elapsed() < SLACK, "{why}: storing does not wait");
    env.store.set(Behavior::Well);
    // One minute for the circuit breaker, one for the scan, and a margin for running calls.
    env.recovers(Duration::from_secs(260), &why);
}

#[test]
fn hanging_folder_blocks_no_reader_and_recovers() {
    check(Backend::Folder, Behavior::Hang);
}

#[test]
fn hanging_bucket_blocks_no_reader_and_recovers() {
    check(Backend::Bucket, Behavior::Hang);
}

#[test]
fn failing_bucket_is_not_called_and_recovers() {
    check(Backend::Bucket, Behavior::Fail);
}

#[test]
fn slow_bucket_blocks_no_reader_and_prefetches_for_the_next() {
    let env = RemoteEnv::answering_within(Backend::Bucket, SOON);
    env.store.set(Behavior::Late(Duration::from_millis(500)));
    let (tokens, end, took) = env.ask(SOON);
    assert_eq!((tokens, &end), (0, &RestoreEnd::NoResponse), "nothing arrived in time");
    assert!(took < SLACK, "the reader gives up soon: {took:?}");
    let began = Instant::now();
    let near = || env.tiers.lookup(&env.model.prefix(&env.prompt)).without_remote().tokens();
    while near() < 1024 {
        assert!(began.elapsed() < 2 * SOON, "late chunks go to RAM: {} tokens so far", near());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (tokens, end, _) = env.ask(SOON);
    assert_eq!((tokens, end), (1024, RestoreEnd::Complete), "the next request finds them");
    assert_eq!(env.health(), Health::Up, "a slow tier is not unavailable");
}

#[test]
fn shutdown_does_not_wait_for_hanging_store() {
    let env = RemoteEnv::new(Backend::Folder);
    env.store.set(Behavior::Hang);
    env.ask(Duration::from_millis(100));
    let began = Instant::now();
    let RemoteEnv { store, tiers, .. } = env;
    drop(tiers);
    assert!(began.elapsed() < SOON, "hanging threads are not joined: {:?}", began.elapsed());
    store.set(Behavior::Well);
}

#[test]
fn calls_end_at_deadline_then_circuit_breaker_rejects_them() {
    for backend in BACKENDS {
        let dir = TestFolder::new();
        let chunk = &chunks(1)[0];
        let store = FaultyFileStore::over(dir.files(backend));
        let remote = dir.open_over(Arc::clone(&store) as _, shared());
        remote.save(chunk).expect("the chunks are written");
        store.set(Behavior::Hang);
        let mut took = Vec::new();
        for _ in 0..6 {
            let began = Instant::now();
            let missed = remote.load(&wanted(chunk)).err();
            assert!(matches!(missed, Some(Miss::Tier(TierError::Unavailable(_)))), "{backend:?}: {missed:?}");
            took.push((began.elapsed(), is_left_alone(missed.as_ref())));
        }
        assert!(took.iter().all(|(took, _)| *took < 2 * SLACK), "{backend:?}: each call is abandoned: {took:?}");
        let left_alone: Vec<bool> = took.iter().map(|(_, left_alone)| *left_alone).collect();
        assert_eq!(
            left_alone,
            [false, false, false, true, true, true],
            "{backend:?}: later calls are rejected at once: {took:?}"
        );
        assert!(!remote.may_contain(&chunk.head.id) && !remote.is_up(), "{backend:?}: no chunk is expected there");
        store.set(Behavior::Well);
        dir.clock.pass(circuit_breaker::FIRST);
        assert!(remote.load(&wanted(chunk)).is_err(), "{backend:?}: a load does not probe");
        remote.scan(&mut |_| {}).expect("a scan probes");
        assert_loads(&remote, chunk, "the tier works again");
    }
}
