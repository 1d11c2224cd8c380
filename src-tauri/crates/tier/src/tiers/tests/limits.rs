//! Tests of limits: metadata, owners, pins and prefetches are bounded.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fake::Fault;
use super::*;
use crate::Owner;

#[test]
fn no_metadata_accumulates_without_an_index() {
    let env = TestEnv::new();
    let tiers = env.open(Config { ssd: None, ram_bytes: 64 * 4096, ..env.config() });
    for prompt in 0..200 {
        for chunk in env.model.chunks(&keys(1 + 10_000 * prompt, 1024)) {
            // Rejected chunks do not matter here.
            let _ = offer(&tiers, chunk, StoreReason::Evicted, None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    env.clock.pass(Duration::from_secs(6));
    let began = std::time::Instant::now();
    let collected = || tiers.inner.lock().dirty.len();
    while collected() > 0 && began.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(collected(), 0, "no metadata waits for a missing index");
}

#[test]
fn chunk_has_a_maximum_number_of_owners() {
    let env = TestEnv::new();
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let open = || env.open(Config { index_path: Some(home.path().join("index.redb")), ..env.config() });
    let tiers = open();
    let system = keys(1, 512);
    env.store(&tiers, &system, StoreReason::Idle);
    let last = tiers.stored_prefixes(1)[0].last;
    let name = |number: usize| {
        Owner::new(&format!("a client that names another owner each time {number}")).expect("the name is short")
    };
    for number in 0..5 * Owner::MAX_PER_CHUNK {
        assert!(tiers.add_owner(&last, &name(number)), "the prefix is stored");
    }
    let owners = |tiers: &Tiers| tiers.stored_prefixes(1)[0].owners.len();
    assert_eq!(owners(&tiers), Owner::MAX_PER_CHUNK, "further owners are ignored");
    tiers.close(SOON);
    let tiers = open();
    assert_eq!(owners(&tiers), Owner::MAX_PER_CHUNK, "the limit holds after a restart");
    assert_eq!(tiers.forget_owner(&name(0), SOON).chunks, 0, "the chunks stay while they have other owners");
}

#[test]
fn pins_stay_within_a_reduced_budget() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let pinned = keys(1, 2048);
    env.store(&tiers, &pinned, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    tiers.set_pinned(&tiers.stored_prefixes(1)[0].last, true).expect("the pin quota suffices");
    let budget = 20 << 10;
    for tier in [TierKind::Ram, TierKind::Ssd] {
        tiers.set_budget(tier, budget);
    }
    let began = std::time::Instant::now();
    let used = || tiers.status().tiers.into_iter().map(|tier| tier.used_bytes).max().expect("there are two tiers");
    while used() > budget && began.elapsed() < SOON / 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(used() <= budget, "no tier exceeds its budget: {} of {budget}", used());
    let left = env.find(&tiers, &pinned).tokens();
    assert!((256..2048).contains(&left), "the allowed part of the pins stays: {left}");
}

#[test]
fn pins_stay_within_a_budget_reduced_at_restart() {
    let (env, home) = (TestEnv::new(), tempfile::tempdir().expect("cannot create a temporary folder"));
    let open = |bytes: u64| {
        let ssd = env.config().ssd.map(|ssd| LowerTier { budget_bytes: bytes, ..ssd });
        env.open(Config { ssd, index_path: Some(home.path().join("index.redb")), ..env.config() })
    };
    let tiers = open(64 << 20);
    env.store(&tiers, &keys(1, 2048), StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    tiers.set_pinned(&tiers.stored_prefixes(1)[0].last, true).expect("the pin quota suffices");
    tiers.close(SOON);
    let tiers = open(60 << 10);
    let began = std::time::Instant::now();
    let used = || tiers.status().tiers[1].used_bytes;
    while used() > 60 << 10 && began.elapsed() < SOON / 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(used() <= 60 << 10, "the tier is within its budget: {}", used());
    assert!(env.find(&tiers, &keys(1, 2048)).tokens() >= 256, "the allowed part of the pins stays");
}

/// The case of a downgrade followed by an upgrade.
#[test]
fn pins_in_an_index_of_a_newer_version_are_kept() {
    let (env, home) = (TestEnv::new(), tempfile::tempdir().expect("cannot create a temporary folder"));
    let path = home.path().join("index.redb");
    let open = || env.open(Config { index_path: Some(path.clone()), ..env.config() });
    let set_version = |version: u8| {
        let mut bytes = std::fs::read(&path).expect("the index exists");
        (bytes[64], bytes[192]) = (version, version);
        std::fs::write(&path, &bytes).expect("writable");
    };
    let tiers = open();
    env.store(&tiers, &keys(1, 600), StoreReason::Idle);
    tiers.set_pinned(&tiers.stored_prefixes(1)[0].last, true).expect("the pin quota suffices");
    tiers.close(SOON);
    set_version(4);
    env.clock.pass(Duration::from_secs(60 * 24 * 3600));
    let tiers = open();
    let error = tiers.status().index_error.expect("the index is not used");
    assert!(error.contains("a newer version"), "{error}");
    assert_eq!(env.restore(&tiers, &keys(1, 600)).0, 600, "chunks are found, and do not expire without their pins");
    tiers.close(SOON);
    set_version(3);
    let tiers = open();
    assert_eq!(tiers.status().index_error, None, "the index is used");
    assert!(tiers.stored_prefixes(1)[0].pinned, "the pin is still there");
}

#[test]
fn zero_ram_budget_is_kept() {
    let env = TestEnv::new();
    for ssd in [None, env.config().ssd] {
        let has_disk = ssd.is_some();
        let tiers = env.open(Config { ssd, ..env.config() });
        env.store(&tiers, &keys(1, 2048), StoreReason::Idle);
        assert!(tiers.wait_idle(SOON), "all due chunks are written");
        tiers.set_budget(TierKind::Ram, 0);
        let began = std::time::Instant::now();
        let used = || tiers.status().tiers[0].used_bytes;
        while used() > 0 && began.elapsed() < SOON / 4 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(used(), 0, "with a disk: {has_disk}");
        let chunk = env.model.chunks(&keys(90_000, 256)).remove(0);
        assert_eq!(
            offer(&tiers, chunk, StoreReason::Idle, None).is_ok(),
            has_disk,
            "only chunks that will be written are accepted"
        );
    }
}

#[test]
fn repeated_prefetch_reads_each_chunk_at_most_twice() {
    let env = TestEnv::new();
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let open = || env.open(Config { index_path: Some(home.path().join("index.redb")), ..env.config() });
    let tiers = open();
    let system = keys(1, 1024);
    for chat in 0..4 {
        let prompt = [system.clone(), keys(100_000 * (chat + 1), 512)].concat();
        for chunk in env.model.chunks(&prompt) {
            offer(&tiers, chunk, StoreReason::Idle, Some("ann")).expect("the chunk is stored");
        }
    }
    tiers.close(SOON);
    let chunks = env.ssd.len();
    assert_eq!(chunks, 4 + 4 * 2, "four prefixes share their first chunks");
    let reads = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reads);
    env.ssd.set_faults(move |call| match call {
        "load" => {
            count.fetch_add(1, Ordering::SeqCst);
            Fault::Slow(Duration::from_millis(2))
        }
        _ => Fault::None,
    });
    let tiers = open();
    // The interface prefetches at each keystroke.
    for _ in 0..30 {
        tiers.prefetch_owner(&Owner::new("ann").expect("the name is short"));
    }
    let began = std::time::Instant::now();
    let jobs = || tiers.inner.lock().jobs.len();
    while jobs() > 0 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tiers.status().tiers[0].chunks, chunks, "all chunks are in RAM");
    // Two threads may read the same chunk concurrently.
    let read = reads.load(Ordering::SeqCst) as usize;
    assert!(read <= 2 * chunks, "{read} reads for {chunks} chunks");
}
