//! Many prompts that come once: they stay within the budgets and wear no disk.

use std::sync::atomic::Ordering;

use super::*;

const ONE_SHOTS: u32 = 10_000;

#[test]
fn prompts_that_come_once_stay_in_budget_and_off_the_disk() {
    let bench = Bench::new();
    let mut config = bench.config();
    let (ram_bytes, ssd_bytes) = (2 << 20, 4 << 20);
    config.ram_bytes = ram_bytes;
    config.queue_bytes = ram_bytes / 4;
    let tier: Arc<dyn crate::Tier> = Arc::clone(&bench.ssd) as _;
    config.ssd = Some(Lower::new(tier, ssd_bytes));
    let tiers = bench.open(config);
    let conversation = keys(1, 1024);
    let (mut offered_bytes, mut most_ram_bytes) = (0, 0);
    for prompt in 0..ONE_SHOTS {
        for chunk in bench.toy.chunks(&keys(10_000 + prompt * 700, 600)) {
            offered_bytes += chunk.payload.len() as u64;
            // Who computes does not wait: an offer that finds no room is dropped.
            let _ = offer(&tiers, chunk, StoreWhy::Evicted, None);
        }
        if prompt % 100 == 0 {
            for chunk in bench.toy.chunks(&conversation) {
                let _ = offer(&tiers, chunk, StoreWhy::Reused, None);
            }
            tiers.touch(&bench.find(&tiers, &conversation));
        }
        let ram = tiers.status().places.remove(0);
        most_ram_bytes = most_ram_bytes.max(ram.used_bytes);
    }
    assert!(most_ram_bytes <= ram_bytes, "RAM held {most_ram_bytes} of {ram_bytes} bytes");
    assert!(most_ram_bytes > ram_bytes / 2, "RAM is used: {most_ram_bytes}");
    assert!(tiers.settle(SOON), "all is written that will be");
    let most = bench.ssd.most_bytes.load(Ordering::Relaxed);
    assert!(most <= ssd_bytes, "the disk held {most} bytes");
    let written = bench.ssd.written_bytes.load(Ordering::Relaxed);
    assert!(written * 20 <= offered_bytes, "{written} of {offered_bytes} bytes were written");
    assert!(written > 0, "the conversation that came back was written");
    assert_eq!(bench.restore(&tiers, &conversation).0, 1024, "and nothing pushed it out");
}

#[test]
fn a_full_disk_holds_whole_prefixes_of_what_was_used_last() {
    let bench = Bench::new();
    let mut config = bench.config();
    let tier: Arc<dyn crate::Tier> = Arc::clone(&bench.ssd) as _;
    config.ssd = Some(Lower::new(tier, 400 << 10));
    let tiers = bench.open(config);
    for prompt in 0..30 {
        bench.store(&tiers, &keys(10_000 * (1 + prompt), 1024), StoreWhy::Idle);
        assert!(tiers.settle(SOON), "it is written");
    }
    tiers.close(SOON);
    assert!(bench.ssd.most_bytes.load(Ordering::Relaxed) <= 400 << 10, "the budget holds");
    let tiers = bench.open(bench.config());
    let found: Vec<usize> =
        (0..30).map(|prompt| bench.find(&tiers, &keys(10_000 * (1 + prompt), 1024)).tokens()).collect();
    assert_eq!(found.iter().sum::<usize>(), bench.ssd.len() * 256, "nothing is kept that cannot be reached: {found:?}");
    assert!(found.is_sorted(), "what was used longest ago went first: {found:?}");
    assert_eq!(found[29], 1024, "the last is whole");
}

#[test]
fn the_daily_cap_and_the_floor_hold() {
    let check = |change: &dyn Fn(&mut Lower), written: usize, why: &str| {
        let bench = Bench::new();
        let mut config = bench.config();
        config.ssd.iter_mut().for_each(change);
        let tiers = bench.open(config);
        bench.store(&tiers, &keys(1, 2048), StoreWhy::Idle);
        assert!(tiers.settle(SOON), "{why}");
        assert_eq!(bench.ssd.len(), written, "{why}");
        tiers
    };
    check(&|_| {}, 8, "without limits");
    // A chunk takes 12 KiB, and 72 KiB are set aside before that is known.
    let tiers = check(&|lower| lower.daily_bytes = Some(100 << 10), 3, "a daily cap");
    let dropped = tiers.status().dropped;
    assert!(dropped.daily_cap > 0 && dropped.no_room == 0, "what the cap kept out is counted: {dropped:?}");
    let floor = |free| crate::Floor { bytes: 1 << 30, free: Arc::new(move || free) };
    check(&|lower| lower.floor = Some(floor(Some(1 << 30))), 0, "nothing is free above the floor");
    check(&|lower| lower.floor = Some(floor(None)), 0, "what is free cannot be told");
    check(&|lower| lower.floor = Some(floor(Some(2 << 30))), 8, "enough is free");
}

#[test]
fn without_a_ram_tier_chunks_go_straight_down() {
    let bench = Bench::new();
    let config = Config { ram_bytes: 0, queue_bytes: 1 << 20, ..bench.config() };
    let tiers = bench.open(config);
    bench.store(&tiers, &keys(1, 1024), StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    let waited = std::time::Instant::now();
    while tiers.status().places[0].used_bytes > 0 && waited.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tiers.status().places[0].used_bytes, 0, "what is written leaves RAM");
    assert_eq!(bench.restore(&tiers, &keys(1, 1024)), (1024, vec![Place::Ssd; 4], End::Complete), "and comes back");
}

#[test]
fn a_smaller_budget_is_soon_kept() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &keys(1, 256 * 200), StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    assert_eq!(tiers.status().places[0].used_bytes, 200 * 4096, "RAM has it all");
    assert!(tiers.has_room(4096) && !tiers.has_room(8 << 20), "and room for more, but not for that");
    tiers.set_budget(Place::Ram, 50 * 4096);
    let waited = std::time::Instant::now();
    while tiers.status().places[0].used_bytes > 50 * 4096 && waited.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ram = tiers.status().places.remove(0);
    assert!((30 * 4096..=50 * 4096).contains(&ram.used_bytes), "RAM is as large as it may be: {}", ram.used_bytes);
    assert_eq!(bench.find(&tiers, &keys(1, 256 * 200)).tokens(), 256 * 200, "nothing is lost");
}
