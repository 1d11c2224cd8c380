//! What is remembered beside the chunks is bounded, too, and so is what is read without anybody waiting for it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fake::Fault;
use super::*;
use crate::Owner;

#[test]
fn without_an_index_nothing_is_collected_for_it() {
    let bench = Bench::new();
    let tiers = bench.open(Config { ssd: None, ram_bytes: 64 * 4096, ..bench.config() });
    for prompt in 0..200 {
        for chunk in bench.toy.chunks(&keys(1 + 10_000 * prompt, 1024)) {
            // What does not fit now is not kept, and is all the same to this test.
            let _ = offer(&tiers, chunk, StoreWhy::Evicted, None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.clock.pass(Duration::from_secs(6));
    let began = std::time::Instant::now();
    let collected = || tiers.inner.lock().dirty.len();
    while collected() > 0 && began.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(collected(), 0, "nobody will ever ask for it");
}

#[test]
fn a_chunk_remembers_so_many_owners_and_no_more() {
    let bench = Bench::new();
    let home = tempfile::tempdir().expect("a temporary folder");
    let open = || bench.open(Config { index: Some(home.path().join("index.redb")), ..bench.config() });
    let tiers = open();
    let system = keys(1, 512);
    bench.store(&tiers, &system, StoreWhy::Idle);
    let last = tiers.contexts(1)[0].last;
    let name =
        |number: usize| Owner::new(&format!("a client that names another owner each time {number}")).expect("short");
    for number in 0..5 * Owner::MOST {
        assert!(tiers.own(&last, &name(number)), "it is kept");
    }
    let owners = |tiers: &Tiers| tiers.contexts(1)[0].owners.len();
    assert_eq!(owners(&tiers), Owner::MOST, "what so many share is nobody's own");
    tiers.close(SOON);
    let tiers = open();
    assert_eq!(owners(&tiers), Owner::MOST, "nor are more remembered over a restart");
    assert_eq!(tiers.forget_owner(&name(0), SOON).chunks, 0, "and it goes only when all of those have gone");
}

#[test]
fn pins_do_not_exceed_a_budget_that_was_made_smaller() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let pinned = keys(1, 2048);
    bench.store(&tiers, &pinned, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    tiers.pin(&tiers.contexts(1)[0].last, true).expect("there is room for pins");
    let budget = 20 << 10;
    for place in [Place::Ram, Place::Ssd] {
        tiers.set_budget(place, budget);
    }
    let began = std::time::Instant::now();
    let used = || tiers.status().places.into_iter().map(|place| place.used_bytes).max().expect("there are two");
    while used() > budget && began.elapsed() < SOON / 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(used() <= budget, "no place holds more than its budget: {} of {budget}", used());
    let left = bench.find(&tiers, &pinned).tokens();
    assert!((256..2048).contains(&left), "as much of it as may be pinned stays at least: {left}");
}

#[test]
fn pins_do_not_exceed_a_budget_that_is_smaller_after_a_restart() {
    let (bench, home) = (Bench::new(), tempfile::tempdir().expect("a temporary folder"));
    let open = |bytes: u64| {
        let ssd = bench.config().ssd.map(|ssd| Lower { budget_bytes: bytes, ..ssd });
        bench.open(Config { ssd, index: Some(home.path().join("index.redb")), ..bench.config() })
    };
    let tiers = open(64 << 20);
    bench.store(&tiers, &keys(1, 2048), StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    tiers.pin(&tiers.contexts(1)[0].last, true).expect("there is room for pins");
    tiers.close(SOON);
    let tiers = open(60 << 10);
    let began = std::time::Instant::now();
    let used = || tiers.status().places[1].used_bytes;
    while used() > 60 << 10 && began.elapsed() < SOON / 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(used() <= 60 << 10, "no place holds more than its budget: {}", used());
    assert!(bench.find(&tiers, &keys(1, 2048)).tokens() >= 256, "what may be pinned stays");
}

#[test]
fn a_budget_of_nothing_is_kept_too() {
    let bench = Bench::new();
    for ssd in [None, bench.config().ssd] {
        let has_disk = ssd.is_some();
        let tiers = bench.open(Config { ssd, ..bench.config() });
        bench.store(&tiers, &keys(1, 2048), StoreWhy::Idle);
        assert!(tiers.settle(SOON), "what can be written is");
        tiers.set_budget(Place::Ram, 0);
        let began = std::time::Instant::now();
        let used = || tiers.status().places[0].used_bytes;
        while used() > 0 && began.elapsed() < SOON / 4 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(used(), 0, "with a disk: {has_disk}");
        let chunk = bench.toy.chunks(&keys(90_000, 256)).remove(0);
        assert_eq!(offer(&tiers, chunk, StoreWhy::Idle, None).is_ok(), has_disk, "only what will be written is taken");
    }
}

#[test]
fn what_is_being_brought_up_is_not_read_again_and_again() {
    let bench = Bench::new();
    let home = tempfile::tempdir().expect("a temporary folder");
    let open = || bench.open(Config { index: Some(home.path().join("index.redb")), ..bench.config() });
    let tiers = open();
    let system = keys(1, 1024);
    for chat in 0..4 {
        let prompt = [system.clone(), keys(100_000 * (chat + 1), 512)].concat();
        for chunk in bench.toy.chunks(&prompt) {
            offer(&tiers, chunk, StoreWhy::Idle, Some("ann")).expect("there is room");
        }
    }
    tiers.close(SOON);
    let chunks = bench.ssd.len();
    assert_eq!(chunks, 4 + 4 * 2, "four have one beginning");
    let reads = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reads);
    bench.ssd.set_faults(move |call| match call {
        "load" => {
            count.fetch_add(1, Ordering::SeqCst);
            Fault::Slow(Duration::from_millis(2))
        }
        _ => Fault::None,
    });
    let tiers = open();
    // Somebody types, and the window says so with each letter.
    for _ in 0..30 {
        tiers.prefetch_owner(&Owner::new("ann").expect("short"));
    }
    let began = std::time::Instant::now();
    let jobs = || tiers.inner.lock().jobs.len();
    while jobs() > 0 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tiers.status().places[0].chunks, chunks, "all of it came up");
    // A few are read by two at the same time.
    let read = reads.load(Ordering::SeqCst) as usize;
    assert!(read <= 2 * chunks, "{read} reads for {chunks} chunks");
}
