//! A third place: chunks go there before the disk lets them go, and come back from there.

use std::sync::atomic::Ordering;

use super::fake::Fault;
use super::*;

/// A daemon with a disk for some twenty chunks, and a large remote place.
fn bench_with(remote: &Arc<FakePlace>) -> (Bench, impl Fn(&Bench) -> Config + use<>) {
    let remote: Arc<dyn crate::Tier> = Arc::clone(remote) as _;
    let config = move |bench: &Bench| {
        let ssd: Arc<dyn crate::Tier> = Arc::clone(&bench.ssd) as _;
        let ssd = Some(Lower::new(ssd, 400 << 10));
        Config { ssd, remote: Some(Lower::new(Arc::clone(&remote), 1 << 30)), ..bench.config() }
    };
    (Bench::new(), config)
}

#[test]
fn the_disk_hands_on_what_it_lets_go() {
    let remote = FakePlace::new(Place::Remote);
    let (bench, config) = bench_with(&remote);
    let home = tempfile::tempdir().expect("a temporary folder");
    let open = || bench.open(Config { index: Some(home.path().join("index.redb")), ..config(&bench) });
    let tiers = open();
    let prompts: Vec<Vec<Key>> = (0..12).map(|prompt| keys(1 + 10_000 * prompt, 1024)).collect();
    for prompt in &prompts {
        for chunk in bench.toy.chunks(prompt) {
            offer(&tiers, chunk, StoreWhy::Idle, Some("ann")).expect("there is room");
        }
        assert!(tiers.settle(SOON), "it is written");
        // What left the disk for the remote place makes room there in the next round.
        std::thread::sleep(Duration::from_millis(120));
    }
    tiers.close(SOON);
    assert!(remote.len() > 0, "chunks went on");
    let tiers = open();
    for prompt in &prompts {
        assert_eq!(bench.restore(&tiers, prompt).0, 1024, "nothing was lost on the way");
    }
    let places = bench.restore(&tiers, &prompts[0]).1;
    assert!(places.iter().all(|place| *place != Place::Ssd), "the oldest left the disk: {places:?}");
}

#[test]
fn what_the_disk_loses_comes_from_further_away() {
    let remote = FakePlace::new(Place::Remote);
    let (bench, config) = bench_with(&remote);
    let tiers = bench.open(config(&bench));
    let prompt = keys(1, 1024);
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    tiers.close(SOON);
    *remote.files.lock().unwrap() = bench.ssd.files.lock().unwrap().clone();
    let tiers = bench.open(config(&bench));
    bench.ssd.set_faults(|call| if call == "load" { Fault::Lose } else { Fault::None });
    let (tokens, places, end) = bench.restore(&tiers, &prompt);
    assert_eq!((tokens, places, end), (1024, vec![Place::Remote; 4], End::Complete), "each hole is filled");
}

#[test]
fn a_remote_place_that_lists_nothing_is_asked_by_name() {
    let remote = FakePlace::new(Place::Remote);
    remote.unlisted.store(true, Ordering::SeqCst);
    let (bench, config) = bench_with(&remote);
    let prompt = keys(1, 1024);
    for chunk in bench.toy.chunks(&prompt) {
        remote.files.lock().unwrap().insert(chunk.head.id, chunk);
    }
    let tiers = bench.open(config(&bench));
    assert_eq!(bench.restore(&tiers, &prompt), (1024, vec![Place::Remote; 4], End::Complete), "it has them");
    assert_eq!(bench.restore(&tiers, &prompt).1, vec![Place::Ram; 4], "once from afar is enough");
}

#[test]
fn a_remote_place_that_gives_nothing_is_given_up_long_before_all_is_due() {
    let remote = FakePlace::new(Place::Remote);
    let bench = Bench::new();
    let lower = Lower::new(Arc::clone(&remote) as Arc<dyn crate::Tier>, 1 << 30);
    let open = || bench.open(Config { ssd: None, remote: Some(lower.clone()), ..bench.config() });
    let prompt = keys(1, 1024);
    let tiers = open();
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    tiers.close(SOON);
    let tiers = open();
    let coverage = bench.find(&tiers, &prompt);
    assert_eq!(coverage.tokens(), 1024, "all is there");
    remote.set_faults(|call| if call == "load" { Fault::Hang } else { Fault::None });
    let mut restoring = tiers.restore(&coverage, 0..1024, SOON);
    bench.clock.pass(Duration::from_millis(90));
    assert!(matches!(restoring.try_next(), Next::Waiting), "a network takes its time");
    bench.clock.pass(Duration::from_millis(30));
    assert!(matches!(restoring.try_next(), Next::Ended(End::Deadline)), "but not more than twice its time");
    remote.release();
}

/// A place far away that says nothing.
struct Mute(Arc<FakePlace>);

impl crate::Tier for Mute {
    fn place(&self) -> Place {
        Place::Remote
    }

    fn heard_at(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn scan(&self, each: &mut dyn FnMut(crate::Stored)) -> Result<(), crate::TierError> {
        self.0.scan(each)
    }

    fn load(&self, wanted: &crate::Wanted<'_>) -> Result<Chunk, crate::Miss> {
        self.0.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<crate::Stored, crate::TierError> {
        self.0.save(chunk)
    }

    fn remove(&self, id: &crate::ChunkId) -> Result<(), crate::TierError> {
        self.0.remove(id)
    }
}

#[test]
fn a_remote_place_that_has_only_the_end_keeps_nobody_waiting_either() {
    let far = FakePlace::new(Place::Remote);
    let bench = Bench::new();
    let prompt = keys(1, 2048);
    for chunk in bench.toy.chunks(&prompt) {
        // The disk lets go of ends first.
        let place = if chunk.head.first_position < 512 { &bench.ssd } else { &far };
        place.files.lock().unwrap().insert(chunk.head.id, chunk);
    }
    let lower = Lower::new(Arc::new(Mute(Arc::clone(&far))), 1 << 30);
    let tiers = bench.open(Config { remote: Some(lower), ..bench.config() });
    bench.clock.pass(Duration::from_secs(1));
    far.set_faults(|call| if call == "load" { Fault::Hang } else { Fault::None });
    let coverage = bench.find(&tiers, &prompt);
    assert_eq!(coverage.tokens(), 2048, "all is there");
    let mut restoring = tiers.restore(&coverage, 0..2048, SOON);
    let began = std::time::Instant::now();
    let mut came = 0;
    while came < 2 && began.elapsed() < SOON {
        match restoring.try_next() {
            Next::Ready(_) => came += 1,
            Next::Waiting => std::thread::sleep(Duration::from_millis(1)),
            Next::Ended(end) => panic!("what the disk has comes: {end:?}"),
        }
    }
    bench.clock.pass(Duration::from_millis(40));
    assert!(matches!(restoring.try_next(), Next::Waiting), "a network takes its time");
    bench.clock.pass(Duration::from_millis(40));
    let end = restoring.try_next();
    assert!(matches!(end, Next::Ended(End::Silence)), "but who hears nothing computes: {end:?}");
    far.release();
    let began = std::time::Instant::now();
    while bench.find(&tiers, &prompt).near().tokens() < 2048 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(bench.find(&tiers, &prompt).near().tokens(), 2048, "what comes later is there for the next");
}
