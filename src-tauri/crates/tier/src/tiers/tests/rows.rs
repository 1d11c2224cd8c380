//! What may befall a place, one test for each event that others do not have: see section 5.12 of the design.

use std::sync::atomic::{AtomicU64, Ordering};

use cairn_disk::RealDisk;

use super::fake::Fault;
use super::*;
use crate::identity::WeightsDigest;
use crate::tiers::{Event, Health, PlaceStatus};
use crate::{FileKeys, Fingerprint, Namespace, Ssd, SsdOptions};

fn ssd(tiers: &Tiers) -> PlaceStatus {
    tiers.status().places.into_iter().find(|place| place.place == Place::Ssd).expect("it is there")
}

#[test]
fn a_disk_that_takes_no_writes_is_read_and_tried_again() {
    let bench = Bench::new();
    let (old, new) = (keys(1, 1024), keys(50_000, 1024));
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &old, StoreWhy::Idle);
    tiers.close(SOON);
    let tiers = bench.open(bench.config());
    let events = tiers.events();
    bench.ssd.set_faults(|call| if call == "save" { Fault::Fail } else { Fault::None });
    bench.store(&tiers, &new, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "what waits is given up");
    let status = ssd(&tiers);
    assert_eq!(status.health, Health::ReadOnly, "it is not written to");
    assert_eq!(status.trouble.as_deref(), Some("told to"), "and says why");
    let told = |event| event == Event::Health(Place::Ssd, Health::ReadOnly);
    assert!(events.try_iter().any(told), "people are told");
    assert_eq!(bench.restore(&tiers, &old), (1024, vec![Place::Ssd; 4], End::Complete), "it is read as before");
    assert_eq!(bench.restore(&tiers, &new).0, 1024, "RAM has the new");
    bench.ssd.set_faults(|_| Fault::None);
    bench.clock.pass(Duration::from_secs(61));
    bench.store(&tiers, &new, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    let status = ssd(&tiers);
    assert_eq!((status.health, status.trouble, bench.ssd.len()), (Health::Up, None, 8), "a minute later all is well");
}

#[test]
fn a_full_disk_is_emptied_to_the_low_mark() {
    let bench = Bench::new();
    let mut config = bench.config();
    let budget = 1 << 20;
    config.ssd.as_mut().expect("it is there").budget_bytes = budget;
    let tiers = bench.open(config);
    let low = budget * 85 / 100;
    let (mut prompt, mut before) = (0, 0);
    while before <= low + (32 << 10) {
        prompt += 1;
        assert!(prompt < 200, "it fills: {before} bytes");
        bench.store(&tiers, &keys(1000 * prompt, 512), StoreWhy::Idle);
        bench.clock.pass(Duration::from_secs(1));
        assert!(tiers.settle(SOON), "it is written");
        before = ssd(&tiers).used_bytes;
    }
    bench.ssd.set_faults(|call| if call == "save" { Fault::Full } else { Fault::None });
    bench.store(&tiers, &keys(900_000, 512), StoreWhy::Idle);
    let until = std::time::Instant::now() + SOON;
    let status = loop {
        let status = ssd(&tiers);
        if status.used_bytes <= low || std::time::Instant::now() > until {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.health, Health::ReadOnly, "it is full");
    assert!(status.used_bytes <= low, "it makes room: {} of {before} bytes", status.used_bytes);
    assert_eq!(bench.find(&tiers, &keys(1000 * prompt, 512)).tokens(), 512, "what was used last stays");
}

/// A clock whose wall time is set by somebody.
struct WallSet {
    since_start_ms: AtomicU64,
    unix_s: AtomicU64,
}

impl crate::Clock for WallSet {
    fn now(&self) -> Duration {
        Duration::from_millis(self.since_start_ms.load(Ordering::SeqCst))
    }

    fn unix_s(&self) -> u64 {
        self.unix_s.load(Ordering::SeqCst)
    }
}

#[test]
fn a_clock_that_is_set_changes_neither_what_is_kept_nor_what_goes_first() {
    let bench = Bench::new();
    let clock = Arc::new(WallSet { since_start_ms: AtomicU64::new(0), unix_s: AtomicU64::new(1_800_000_000) });
    let mut config = bench.config();
    config.ssd.as_mut().expect("it is there").budget_bytes = 20 * (12 << 10);
    let tiers = Tiers::open(config, Arc::clone(&clock) as _).expect("threads are to be had");
    let prompts: Vec<_> = (0..12).map(|prompt| keys(1 + 10_000 * prompt, 512)).collect();
    for (number, prompt) in prompts.iter().enumerate() {
        // Years back, a few seconds more each time.
        let year_s = if number < 4 { 1_800_000_000 } else { 1_000_000_000 };
        clock.unix_s.store(year_s + number as u64, Ordering::SeqCst);
        clock.since_start_ms.fetch_add(700_000, Ordering::SeqCst);
        bench.store(&tiers, prompt, StoreWhy::Idle);
        assert!(tiers.settle(SOON), "it is written");
    }
    assert!(bench.ssd.len() >= 10, "nothing expires because a clock was set back: {} chunks", bench.ssd.len());
    tiers.close(SOON);
    assert!(bench.ssd.len() >= 10, "at the end neither: {} chunks", bench.ssd.len());
    let reopened = bench.open(bench.config());
    let found: Vec<usize> = prompts.iter().map(|prompt| bench.find(&reopened, prompt).tokens()).collect();
    assert_eq!(found[11], 512, "the last is there: {found:?}");
    assert_eq!(found[0], 0, "and the first went first, whatever the wall said: {found:?}");
}

#[test]
fn another_file_for_a_model_finds_nothing_of_the_old_one_which_ages_out() {
    let bench = Bench::new();
    let prompt = keys(1, 1024);
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    let mut replaced = bench.toy.prefix(&prompt);
    replaced.fingerprint = Fingerprint::new(WeightsDigest([2; 32]), [("arch", b"toy".as_slice())]);
    assert_eq!(tiers.find(&replaced).tokens(), 0, "other weights have other rows");
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 1024, "the old ones are there while there is room");
    bench.clock.pass(Duration::from_secs(31 * 24 * 3600));
    let until = std::time::Instant::now() + SOON;
    while bench.ssd.len() > 0 && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(bench.ssd.len(), 0, "and go when nobody has used them for long");
}

#[test]
fn files_of_another_version_are_left_alone() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let other = home.path().join("v2/00/file.kvc");
    std::fs::create_dir_all(other.parent().expect("it has one")).expect("it is writable");
    std::fs::write(&other, b"of another version").expect("it is writable");
    let bench = Bench::new();
    let keys_of = FileKeys::new(&Namespace::new(&[9; 32], "files"));
    let ssd = Ssd::open(Arc::new(RealDisk), home.path(), keys_of, SsdOptions::default(), || [0; 24]);
    let ssd = Arc::new(ssd.expect("it is writable"));
    let tiers = bench.open(Config { ssd: Some(Lower::ssd(&ssd, 8 << 20, 0)), ..bench.config() });
    let prompt = keys(1, 1024);
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    assert_eq!(tiers.clear(SOON).left, 0, "all of ours is removed");
    assert!(ssd.aside().is_empty(), "nothing was taken for damaged");
    assert_eq!(std::fs::read(&other).expect("it is there"), b"of another version", "and theirs stays");
}

#[test]
fn a_days_writes_are_counted_over_restarts() {
    let bench = Bench::new();
    let home = tempfile::tempdir().expect("a temporary folder");
    let index = |name: &str| home.path().join(name);
    let open = |name: &str| {
        let mut config = Config { index: Some(index(name)), ..bench.config() };
        config.ssd.as_mut().expect("it is there").daily_bytes = Some(200 << 10);
        bench.open(config)
    };
    let store = |tiers: &Tiers, prompt: u32| {
        bench.store(tiers, &keys(1000 * prompt, 512), StoreWhy::Idle);
        assert!(tiers.settle(SOON), "it is written or given up");
        ssd(tiers).written_today_bytes
    };
    let tiers = open("index");
    let first = store(&tiers, 1);
    assert!((1..200 << 10).contains(&first), "two chunks: {first}");
    // As a daemon finds it that was killed.
    std::fs::copy(index("index"), index("killed")).expect("it is there");
    tiers.close(SOON);
    let killed = ssd(&open("killed")).written_today_bytes;
    assert!((first..=200 << 10).contains(&killed), "no less is known than was written: {killed}");
    let tiers = open("index");
    assert_eq!(ssd(&tiers).written_today_bytes, first, "what was written before counts");
    let mut written = first;
    for prompt in 2..40 {
        written = store(&tiers, prompt);
    }
    assert!((first + 1..=200 << 10).contains(&written), "more is written, but no more than the limit: {written}");
    assert!(tiers.status().dropped.daily_cap > 0, "what was left out is counted");
    tiers.close(SOON);
    let tiers = open("index");
    let chunks = bench.ssd.len();
    store(&tiers, 50);
    assert_eq!(bench.ssd.len(), chunks, "a restart is no new day");
    bench.clock.pass(Duration::from_secs(24 * 3600));
    store(&tiers, 51);
    assert!(bench.ssd.len() > chunks, "a new day is");
}
