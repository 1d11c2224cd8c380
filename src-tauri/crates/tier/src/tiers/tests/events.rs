//! Tests of single events: failing and full disks, clock changes, replaced models, other versions, daily limits.

use std::sync::atomic::{AtomicU64, Ordering};

use cairn_disk::RealDisk;

use super::fake::Fault;
use super::*;
use crate::identity::WeightsDigest;
use crate::tiers::{Event, Health, TierStatus};
use crate::{FileKeys, Fingerprint, Namespace, SsdOptions, SsdTier};

fn ssd(tiers: &Tiers) -> TierStatus {
    tiers.status().tiers.into_iter().find(|status| status.kind == TierKind::Ssd).expect("it exists")
}

#[test]
fn unwritable_disk_is_read_and_retried() {
    let env = TestEnv::new();
    let (old, new) = (keys(1, 1024), keys(50_000, 1024));
    let tiers = env.open(env.config());
    env.store(&tiers, &old, StoreReason::Idle);
    tiers.close(SOON);
    let tiers = env.open(env.config());
    let events = tiers.events();
    env.ssd.set_faults(|call| if call == "save" { Fault::Fail } else { Fault::None });
    env.store(&tiers, &new, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the write queue is dropped");
    let status = ssd(&tiers);
    assert_eq!(status.health, Health::ReadOnly, "it is not written to");
    assert_eq!(status.last_error.as_deref(), Some("injected fault"), "the error is reported");
    let reported = |event| event == Event::Health(TierKind::Ssd, Health::ReadOnly);
    assert!(events.try_iter().any(reported), "an event is emitted");
    assert_eq!(
        env.restore(&tiers, &old),
        (1024, vec![TierKind::Ssd; 4], RestoreEnd::Complete),
        "the disk is still read"
    );
    assert_eq!(env.restore(&tiers, &new).0, 1024, "RAM has the new chunks");
    env.ssd.set_faults(|_| Fault::None);
    env.clock.pass(Duration::from_secs(61));
    env.store(&tiers, &new, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    let status = ssd(&tiers);
    assert_eq!(
        (status.health, status.last_error, env.ssd.len()),
        (Health::Up, None, 8),
        "the disk works again after a minute"
    );
}

#[test]
fn full_disk_is_trimmed_to_the_low_mark() {
    let env = TestEnv::new();
    let mut config = env.config();
    let budget = 1 << 20;
    config.ssd.as_mut().expect("it exists").budget_bytes = budget;
    let tiers = env.open(config);
    let low = budget * 85 / 100;
    let (mut prompt, mut before) = (0, 0);
    while before <= low + (32 << 10) {
        prompt += 1;
        assert!(prompt < 200, "the disk fills: {before} bytes");
        env.store(&tiers, &keys(1000 * prompt, 512), StoreReason::Idle);
        env.clock.pass(Duration::from_secs(1));
        assert!(tiers.wait_idle(SOON), "the chunks are written");
        before = ssd(&tiers).used_bytes;
    }
    env.ssd.set_faults(|call| if call == "save" { Fault::Full } else { Fault::None });
    env.store(&tiers, &keys(900_000, 512), StoreReason::Idle);
    let until = std::time::Instant::now() + SOON;
    let status = loop {
        let status = ssd(&tiers);
        if status.used_bytes <= low || std::time::Instant::now() > until {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.health, Health::ReadOnly, "the disk is full");
    assert!(status.used_bytes <= low, "the disk is trimmed: {} of {before} bytes", status.used_bytes);
    assert_eq!(env.find(&tiers, &keys(1000 * prompt, 512)).tokens(), 512, "the most recent prompt stays");
}

/// A clock whose wall time can be set.
struct SettableClock {
    since_start_ms: AtomicU64,
    unix_s: AtomicU64,
}

impl crate::Clock for SettableClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.since_start_ms.load(Ordering::SeqCst))
    }

    fn unix_s(&self) -> u64 {
        self.unix_s.load(Ordering::SeqCst)
    }
}

#[test]
fn wall_clock_change_affects_neither_expiry_nor_eviction_order() {
    let env = TestEnv::new();
    let clock = Arc::new(SettableClock { since_start_ms: AtomicU64::new(0), unix_s: AtomicU64::new(1_800_000_000) });
    let mut config = env.config();
    config.ssd.as_mut().expect("it exists").budget_bytes = 20 * (12 << 10);
    let tiers = Tiers::open(config, Arc::clone(&clock) as _).expect("threads can be created");
    let prompts: Vec<_> = (0..12).map(|prompt| keys(1 + 10_000 * prompt, 512)).collect();
    for (number, prompt) in prompts.iter().enumerate() {
        // Years back, and a few seconds more each time.
        let year_s = if number < 4 { 1_800_000_000 } else { 1_000_000_000 };
        clock.unix_s.store(year_s + number as u64, Ordering::SeqCst);
        clock.since_start_ms.fetch_add(700_000, Ordering::SeqCst);
        env.store(&tiers, prompt, StoreReason::Idle);
        assert!(tiers.wait_idle(SOON), "the chunks are written");
    }
    assert!(env.ssd.len() >= 10, "nothing expires when the clock is set back: {} chunks", env.ssd.len());
    tiers.close(SOON);
    assert!(env.ssd.len() >= 10, "nothing expires at shutdown: {} chunks", env.ssd.len());
    let reopened = env.open(env.config());
    let found: Vec<usize> = prompts.iter().map(|prompt| env.find(&reopened, prompt).tokens()).collect();
    assert_eq!(found[11], 512, "the last prompt is stored: {found:?}");
    assert_eq!(found[0], 0, "the first prompt was evicted first: {found:?}");
}

#[test]
fn replaced_model_file_finds_no_old_chunks_and_those_expire() {
    let env = TestEnv::new();
    let prompt = keys(1, 1024);
    let tiers = env.open(env.config());
    env.store(&tiers, &prompt, StoreReason::Idle);
    let mut replaced = env.model.prefix(&prompt);
    replaced.fingerprint = Fingerprint::new(WeightsDigest([2; 32]), [("arch", b"toy".as_slice())]);
    assert_eq!(tiers.lookup(&replaced).tokens(), 0, "other weights have other chunks");
    assert_eq!(env.find(&tiers, &prompt).tokens(), 1024, "the old chunks are still stored");
    env.clock.pass(Duration::from_secs(31 * 24 * 3600));
    let until = std::time::Instant::now() + SOON;
    while env.ssd.len() > 0 && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(env.ssd.len(), 0, "the old chunks expire");
}

#[test]
fn files_of_another_format_version_are_ignored() {
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let other = home.path().join("v2/00/file.kvc");
    std::fs::create_dir_all(other.parent().expect("the path has a parent")).expect("the folder is writable");
    std::fs::write(&other, b"of another version").expect("the folder is writable");
    let env = TestEnv::new();
    let keys_of = FileKeys::new(&Namespace::new(&[9; 32], "files"));
    let ssd = SsdTier::open(Arc::new(RealDisk), home.path(), keys_of, SsdOptions::default(), || [0; 24]);
    let ssd = Arc::new(ssd.expect("the folder is writable"));
    let tiers = env.open(Config { ssd: Some(LowerTier::ssd(&ssd, 8 << 20, 0)), ..env.config() });
    let prompt = keys(1, 1024);
    env.store(&tiers, &prompt, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    assert_eq!(tiers.clear(SOON).pending, 0, "all chunks are removed");
    assert!(ssd.quarantined_files().is_empty(), "no file is quarantined");
    assert_eq!(std::fs::read(&other).expect("it exists"), b"of another version", "the other version's file stays");
}

#[test]
fn daily_write_total_survives_restart() {
    let env = TestEnv::new();
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let index = |name: &str| home.path().join(name);
    let open = |name: &str| {
        let mut config = Config { index_path: Some(index(name)), ..env.config() };
        config.ssd.as_mut().expect("it exists").daily_write_bytes = Some(200 << 10);
        env.open(config)
    };
    let store = |tiers: &Tiers, prompt: u32| {
        env.store(tiers, &keys(1000 * prompt, 512), StoreReason::Idle);
        assert!(tiers.wait_idle(SOON), "the chunks are written or dropped");
        ssd(tiers).written_today_bytes
    };
    let tiers = open("index");
    let first = store(&tiers, 1);
    assert!((1..200 << 10).contains(&first), "two chunks: {first}");
    // The index of a killed daemon.
    std::fs::copy(index("index"), index("killed")).expect("it exists");
    tiers.close(SOON);
    let killed = ssd(&open("killed")).written_today_bytes;
    assert!((first..=200 << 10).contains(&killed), "the restored total is at least the true one: {killed}");
    let tiers = open("index");
    assert_eq!(ssd(&tiers).written_today_bytes, first, "the earlier writes count");
    let mut written = first;
    for prompt in 2..40 {
        written = store(&tiers, prompt);
    }
    assert!((first + 1..=200 << 10).contains(&written), "more is written, within the limit: {written}");
    assert!(tiers.status().dropped.daily_cap > 0, "dropped chunks are counted");
    tiers.close(SOON);
    let tiers = open("index");
    let chunks = env.ssd.len();
    store(&tiers, 50);
    assert_eq!(env.ssd.len(), chunks, "a restart does not reset the total");
    env.clock.pass(Duration::from_secs(24 * 3600));
    store(&tiers, 51);
    assert!(env.ssd.len() > chunks, "a new day resets the total");
}
