//! Tests of the budgets: one-shot prompts stay within them and are not written to disk.

use std::sync::atomic::Ordering;

use super::*;

const ONE_SHOTS: u32 = 10_000;

#[test]
fn one_shot_prompts_stay_in_budget_and_off_the_disk() {
    let env = TestEnv::new();
    let mut config = env.config();
    let (ram_bytes, ssd_bytes) = (2 << 20, 4 << 20);
    config.ram_bytes = ram_bytes;
    config.queue_bytes = ram_bytes / 4;
    let tier: Arc<dyn crate::Tier> = Arc::clone(&env.ssd) as _;
    config.ssd = Some(LowerTier::new(tier, ssd_bytes));
    let tiers = env.open(config);
    let conversation = keys(1, 1024);
    let (mut offered_bytes, mut most_ram_bytes) = (0, 0);
    for prompt in 0..ONE_SHOTS {
        for chunk in env.model.chunks(&keys(10_000 + prompt * 700, 600)) {
            offered_bytes += chunk.payload.len() as u64;
            // A computing thread does not wait, so a chunk without room is dropped.
            let _ = offer(&tiers, chunk, StoreReason::Evicted, None);
        }
        if prompt % 100 == 0 {
            for chunk in env.model.chunks(&conversation) {
                let _ = offer(&tiers, chunk, StoreReason::Reused, None);
            }
            tiers.touch(&env.find(&tiers, &conversation));
        }
        let ram = tiers.status().tiers.remove(0);
        most_ram_bytes = most_ram_bytes.max(ram.used_bytes);
    }
    assert!(most_ram_bytes <= ram_bytes, "RAM held {most_ram_bytes} of {ram_bytes} bytes");
    assert!(most_ram_bytes > ram_bytes / 2, "RAM is used: {most_ram_bytes}");
    assert!(tiers.wait_idle(SOON), "all due chunks are written");
    let most = env.ssd.most_bytes.load(Ordering::Relaxed);
    assert!(most <= ssd_bytes, "the disk held {most} bytes");
    let written = env.ssd.written_bytes.load(Ordering::Relaxed);
    assert!(written * 20 <= offered_bytes, "{written} of {offered_bytes} bytes were written");
    assert!(written > 0, "the reused conversation was written");
    assert_eq!(env.restore(&tiers, &conversation).0, 1024, "the reused conversation was not evicted");
}

#[test]
fn full_disk_keeps_whole_prefixes_of_the_most_recent_prompts() {
    let env = TestEnv::new();
    let mut config = env.config();
    let tier: Arc<dyn crate::Tier> = Arc::clone(&env.ssd) as _;
    config.ssd = Some(LowerTier::new(tier, 400 << 10));
    let tiers = env.open(config);
    for prompt in 0..30 {
        env.store(&tiers, &keys(10_000 * (1 + prompt), 1024), StoreReason::Idle);
        assert!(tiers.wait_idle(SOON), "the chunks are written");
    }
    tiers.close(SOON);
    assert!(env.ssd.most_bytes.load(Ordering::Relaxed) <= 400 << 10, "the budget is kept");
    let tiers = env.open(env.config());
    let found: Vec<usize> =
        (0..30).map(|prompt| env.find(&tiers, &keys(10_000 * (1 + prompt), 1024)).tokens()).collect();
    assert_eq!(found.iter().sum::<usize>(), env.ssd.len() * 256, "no unreachable chunk is stored: {found:?}");
    assert!(found.is_sorted(), "the least recently used prompts were evicted first: {found:?}");
    assert_eq!(found[29], 1024, "the last prompt is complete");
}

#[test]
fn daily_write_limit_and_free_space_floor_are_kept() {
    let check = |change: &dyn Fn(&mut LowerTier), written: usize, why: &str| {
        let env = TestEnv::new();
        let mut config = env.config();
        config.ssd.iter_mut().for_each(change);
        let tiers = env.open(config);
        env.store(&tiers, &keys(1, 2048), StoreReason::Idle);
        assert!(tiers.wait_idle(SOON), "{why}");
        assert_eq!(env.ssd.len(), written, "{why}");
        tiers
    };
    check(&|_| {}, 8, "without limits");
    // A chunk takes 12 KiB; 72 KiB are reserved before its size is known.
    let tiers = check(&|lower| lower.daily_write_bytes = Some(100 << 10), 3, "a daily limit");
    let dropped = tiers.status().dropped;
    assert!(dropped.daily_cap > 0 && dropped.no_room == 0, "chunks beyond the daily limit are counted: {dropped:?}");
    let floor = |free| crate::MinFreeSpace { bytes: 1 << 30, free: Arc::new(move || free) };
    check(&|lower| lower.min_free = Some(floor(Some(1 << 30))), 0, "no free space above the minimum");
    check(&|lower| lower.min_free = Some(floor(None)), 0, "unknown free space");
    check(&|lower| lower.min_free = Some(floor(Some(2 << 30))), 8, "enough free space");
}

#[test]
fn chunks_go_to_disk_without_a_ram_budget() {
    let env = TestEnv::new();
    let config = Config { ram_bytes: 0, queue_bytes: 1 << 20, ..env.config() };
    let tiers = env.open(config);
    env.store(&tiers, &keys(1, 1024), StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    let waited = std::time::Instant::now();
    while tiers.status().tiers[0].used_bytes > 0 && waited.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tiers.status().tiers[0].used_bytes, 0, "written chunks leave RAM");
    assert_eq!(
        env.restore(&tiers, &keys(1, 1024)),
        (1024, vec![TierKind::Ssd; 4], RestoreEnd::Complete),
        "they are restored from disk"
    );
}

#[test]
fn smaller_budget_is_applied_soon() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    env.store(&tiers, &keys(1, 256 * 200), StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    assert_eq!(tiers.status().tiers[0].used_bytes, 200 * 4096, "RAM has all chunks");
    assert!(tiers.has_room(4096) && !tiers.has_room(8 << 20), "one more chunk fits, a huge one does not");
    tiers.set_budget(TierKind::Ram, 50 * 4096);
    let waited = std::time::Instant::now();
    while tiers.status().tiers[0].used_bytes > 50 * 4096 && waited.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ram = tiers.status().tiers.remove(0);
    assert!((30 * 4096..=50 * 4096).contains(&ram.used_bytes), "RAM is within the new budget: {}", ram.used_bytes);
    assert_eq!(env.find(&tiers, &keys(1, 256 * 200)).tokens(), 256 * 200, "no chunk is lost");
}
