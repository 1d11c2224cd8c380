//! A place that is slow, hangs, or fails: who computes waits no longer than its own deadline, and all is well when the place is.

use std::ops::Range;
use std::sync::Condvar;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::*;
use crate::tiers::tests::fake::{Toy, keys};
use crate::tiers::{Config, End, Health, Lower, Next, Offer, StoreWhy, Tiers};
use crate::{Key, Place};

/// What a shim does to every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    /// Answers after so long.
    Late(Duration),
    /// Does not answer until the mood changes, as a stopped file server.
    Hang,
    /// Says that something went wrong, as a server's 500.
    Fail,
}

/// A place with moods.
struct Shim {
    inner: Arc<dyn Files>,
    mood: Mutex<Mood>,
    changed: Condvar,
    calls: AtomicU64,
}

impl Shim {
    fn over(inner: Arc<dyn Files>) -> Arc<Self> {
        Arc::new(Self { inner, mood: Mutex::new(Mood::Well), changed: Condvar::new(), calls: AtomicU64::new(0) })
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
        self.changed.notify_all();
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn pass(&self) -> Result<&dyn Files, TierError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mood = self.mood.lock().unwrap();
        let mood = self.changed.wait_while(mood, |mood| *mood == Mood::Hang).unwrap();
        match *mood {
            Mood::Fail => return Err(TierError::Failed("500 Internal Server Error".to_owned())),
            Mood::Late(span) => {
                drop(mood);
                std::thread::sleep(span);
            }
            Mood::Well | Mood::Hang => {}
        }
        Ok(self.inner.as_ref())
    }
}

impl Files for Shim {
    fn threads(&self) -> usize {
        self.inner.threads()
    }

    fn list(&self, each: &mut dyn FnMut(&str, Listed) -> bool, within: Duration) -> Result<(), TierError> {
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

/// A daemon whose only place below RAM is a remote one with moods, which has a sequence that RAM has not.
struct Far {
    home: Home,
    shim: Arc<Shim>,
    toy: Toy,
    tiers: Tiers,
    prompt: Vec<Key>,
}

const SOON: Duration = Duration::from_secs(10);
/// What a machine that is busy with other things may add. The places here keep their callers for longer, so that who waited for one is
/// found out.
const SLACK: Duration = Duration::from_millis(1500);

impl Far {
    fn new(door: Door) -> Self {
        Self::answering_within(door, Duration::from_millis(300))
    }

    /// One whose calls may take so long.
    fn answering_within(door: Door, answer: Duration) -> Self {
        let home = Home::new();
        let (toy, prompt) = (Toy::new(), keys(10, 1024));
        let writer = home.open(door);
        for chunk in toy.chunks(&prompt) {
            writer.save(&chunk).expect("it is written");
        }
        let shim = Shim::over(home.files(door));
        let remote = Arc::new(home.open_waiting(Arc::clone(&shim) as _, shared(), answer));
        let remote = Some(Lower::remote(&remote, 1 << 30, true));
        let config = Config { remote, min_recompute: Duration::ZERO, ..Config::new(8 << 20) };
        let tiers = Tiers::open(config, Arc::clone(&home.clock) as _).expect("threads are to be had");
        assert!(tiers.settle(SOON), "it is scanned");
        Self { home, shim, toy, tiers, prompt }
    }

    /// Asks as a scheduler does: what is found is restored until it ends, or until `within`, by both clocks. Returns the tokens that
    /// came, the end and how long all of it took.
    fn ask(&self, within: Duration) -> (usize, End, Duration) {
        let began = Instant::now();
        let coverage = self.tiers.find(&self.toy.prefix(&self.prompt));
        assert!(began.elapsed() < SLACK, "a lookup asks memory: {:?}", began.elapsed());
        let mut restoring = self.tiers.restore(&coverage, 0..coverage.tokens(), within);
        let (mut tokens, mut passed) = (0, Duration::ZERO);
        loop {
            let asked = Instant::now();
            let next = restoring.try_next();
            assert!(asked.elapsed() < SLACK, "a poll asks memory: {:?}", asked.elapsed());
            match next {
                Next::Ready(restored) => {
                    let end = tokens + restored.rows();
                    let rows = self.toy.rows(&self.prompt[..end], restored.head().id.group);
                    assert_eq!(restored.payload(), &rows[..], "the rows that these tokens have");
                    tokens = end;
                }
                Next::Ended(end) => return (tokens, end, began.elapsed()),
                Next::Waiting => std::thread::sleep(Duration::from_millis(1)),
            }
            let now = began.elapsed();
            self.home.clock.pass(Duration::from_millis((now - passed).as_millis() as u64));
            passed += Duration::from_millis((now - passed).as_millis() as u64);
        }
    }

    fn health(&self) -> Health {
        let status = self.tiers.status();
        status.places.iter().find(|place| place.place == Place::Remote).expect("it is there").health
    }

    /// Lets time pass until the place is up again, as a daemon that nobody touches, for at most this long by its own clock.
    fn recovers(&self, within: Duration, why: &str) {
        let mut passed = Duration::ZERO;
        while self.ask(SOON).0 != 1024 {
            assert!(passed < within, "{why}: not back after {passed:?}, {:?}", self.health());
            passed += Duration::from_secs(5);
            self.home.clock.pass(Duration::from_secs(5));
            // Its threads look at the clock that often.
            std::thread::sleep(Duration::from_millis(150));
        }
    }
}

/// Whether a call was not even made, because those before it failed.
pub(super) fn is_left_alone(missed: Option<&Miss>) -> bool {
    matches!(missed, Some(Miss::Tier(TierError::Away(why))) if why.contains("left alone"))
}

/// A mood comes, requests go on, the mood goes.
fn check(door: Door, mood: Mood) {
    let why = format!("{door:?} {mood:?}");
    let far = Far::new(door);
    assert_eq!((far.ask(SOON).0, far.health()), (1024, Health::Up), "{why}: all is well at first");
    // The second use put it into RAM; here it is to come from afar.
    let far = Far::new(door);
    far.shim.set(mood);
    let within = Duration::from_millis(250);
    for round in 0..12 {
        let (_, end, took) = far.ask(within);
        assert!(took < within + SLACK, "{why}: request {round} waited {took:?}, ended with {end:?}");
    }
    let calls = far.shim.calls();
    for round in 0..20 {
        let (tokens, _, took) = far.ask(within);
        assert!(took < SLACK && tokens == 0, "{why}: request {round} waited {took:?} for what is away");
    }
    let tried = far.shim.calls() - calls;
    assert!(tried <= 4, "{why}: a place that is away is not called for each request, but {tried} times");
    let chunk = far.toy.chunks(&keys(70_000, 256)).remove(0);
    let began = Instant::now();
    far.tiers
        .store(Offer { chunk, why: StoreWhy::Evicted, owner: None, recompute: Duration::from_secs(1) })
        .expect("RAM works on");
    assert!(began.elapsed() < SLACK, "{why}: storing waits for nobody");
    far.shim.set(Mood::Well);
    // One minute for the breaker, one for the scan, and some for what was under way.
    far.recovers(Duration::from_secs(260), &why);
}

#[test]
fn a_folder_that_hangs_holds_nobody_up_and_is_used_again_when_it_is_back() {
    check(Door::Folder, Mood::Hang);
}

#[test]
fn a_bucket_that_hangs_holds_nobody_up_and_is_used_again_when_it_is_back() {
    check(Door::Bucket, Mood::Hang);
}

#[test]
fn a_bucket_that_fails_is_left_alone_and_used_again_when_it_is_back() {
    check(Door::Bucket, Mood::Fail);
}

#[test]
fn a_bucket_that_takes_seconds_holds_nobody_up_and_what_it_gives_is_found_later() {
    let far = Far::answering_within(Door::Bucket, SOON);
    far.shim.set(Mood::Late(Duration::from_millis(500)));
    let (tokens, end, took) = far.ask(SOON);
    assert_eq!((tokens, &end), (0, &End::Silence), "nothing came in time");
    assert!(took < SLACK, "who waits gives up soon: {took:?}");
    let began = Instant::now();
    let near = || far.tiers.find(&far.toy.prefix(&far.prompt)).near().tokens();
    while near() < 1024 {
        assert!(began.elapsed() < 2 * SOON, "what comes goes to RAM: {} tokens have", near());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (tokens, end, _) = far.ask(SOON);
    assert_eq!((tokens, end), (1024, End::Complete), "and is there for the next who asks");
    assert_eq!(far.health(), Health::Up, "slow is not away");
}

#[test]
fn a_daemon_ends_while_its_place_hangs() {
    let far = Far::new(Door::Folder);
    far.shim.set(Mood::Hang);
    far.ask(Duration::from_millis(100));
    let began = Instant::now();
    let Far { shim, tiers, .. } = far;
    drop(tiers);
    assert!(began.elapsed() < SOON, "nobody is joined: {:?}", began.elapsed());
    shim.set(Mood::Well);
}

#[test]
fn calls_end_with_their_deadline_and_soon_at_once() {
    for door in DOORS {
        let home = Home::new();
        let chunk = &chunks(1)[0];
        let shim = Shim::over(home.files(door));
        let remote = home.open_over(Arc::clone(&shim) as _, shared());
        remote.save(chunk).expect("it is written");
        shim.set(Mood::Hang);
        let mut took = Vec::new();
        for _ in 0..6 {
            let began = Instant::now();
            let missed = remote.load(&wanted(chunk)).err();
            assert!(matches!(missed, Some(Miss::Tier(TierError::Away(_)))), "{door:?}: {missed:?}");
            took.push((began.elapsed(), is_left_alone(missed.as_ref())));
        }
        assert!(took.iter().all(|(took, _)| *took < 2 * SLACK), "{door:?}: each is given up: {took:?}");
        let left_alone: Vec<bool> = took.iter().map(|(_, left_alone)| *left_alone).collect();
        assert_eq!(left_alone, [false, false, false, true, true, true], "{door:?}: then nobody waits at all: {took:?}");
        assert!(!remote.may_hold(&chunk.head.id) && !remote.is_up(), "{door:?}: and nothing is promised");
        shim.set(Mood::Well);
        home.clock.pass(breaker::FIRST);
        assert!(remote.load(&wanted(chunk)).is_err(), "{door:?}: who computes does not try it out");
        remote.scan(&mut |_| {}).expect("a scan does");
        comes_back(&remote, chunk, "it is back");
    }
}
