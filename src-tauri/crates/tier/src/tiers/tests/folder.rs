//! Tests over real files: persistence, and two daemons on one folder.

use cairn_disk::RealDisk;
use cairn_testkit::random::Random;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::{FileKeys, SsdOptions, SsdTier};

const BUDGET_BYTES: u64 = 3 << 20;
/// Maximum size of a file.
const MOST_FILE_BYTES: u64 = 64 << 10;

fn ssd(root: &std::path::Path) -> Arc<SsdTier> {
    let keys = FileKeys::new(&crate::Namespace::new(&[9; 32], "files"));
    Arc::new(
        SsdTier::open(Arc::new(RealDisk), root, keys, SsdOptions::default(), || [0; 24])
            .expect("the folder is writable"),
    )
}

fn config(ssd: &Arc<SsdTier>) -> Config {
    let lower = LowerTier { rescan_interval: Some(Duration::from_millis(50)), ..LowerTier::ssd(ssd, BUDGET_BYTES, 0) };
    Config { ssd: Some(lower), min_recompute: Duration::ZERO, ..Config::new(256 << 10) }
}

#[test]
fn prefix_survives_restart_on_a_real_disk() {
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let env = TestEnv::new();
    let prompt = keys(10, 1100);
    let tiers = env.open(config(&ssd(home.path())));
    env.store(&tiers, &prompt, StoreReason::Idle);
    tiers.close(SOON);
    let tiers = env.open(config(&ssd(home.path())));
    assert_eq!(
        env.restore(&tiers, &prompt),
        (1100, vec![TierKind::Ssd; 5], RestoreEnd::Complete),
        "all chunks are restored"
    );
    let changed = [&prompt[..1050], &keys(70_000, 50)].concat();
    assert_eq!(env.restore(&tiers, &changed).0, 1050, "keys are known after a restart");
    assert_eq!(tiers.clear(SOON).pending, 0, "all files are removed");
    tiers.close(SOON);
    let tiers = env.open(config(&ssd(home.path())));
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "the deletion is permanent");
}

#[test]
fn owner_and_guest_share_a_folder_without_wrong_rows() {
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let env = TestEnv::new();
    let (owners, guests) = (ssd(home.path()), ssd(home.path()));
    assert!(owners.is_owner() && !guests.is_owner(), "the first process is the owner");
    let clock: Arc<super::fake::WallClock> = Arc::new(super::fake::WallClock(std::time::Instant::now()));
    let both = [&owners, &guests].map(|ssd| {
        let clock: Arc<dyn crate::Clock> = Arc::clone(&clock) as _;
        Tiers::open(config(ssd), clock).expect("threads can be created")
    });
    let prompts: Vec<Vec<Key>> = (0..24).map(|prompt| keys(1 + prompt * 5000, 700 + 20 * prompt as usize)).collect();
    let tokens = [AtomicU64::new(0), AtomicU64::new(0)];
    let most = AtomicU64::new(0);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for (who, tiers) in both.iter().enumerate() {
            let (env, prompts, tokens, most, home) = (&env, &prompts, &tokens, &most, home.path());
            scope.spawn(move || {
                let mut random = Random::new(who as u64);
                // A slow disk has stored little at first.
                let enough = |turn| turn >= 400 && tokens[who].load(Ordering::Relaxed) > 10_000;
                for turn in (0..).take_while(|&turn| !enough(turn) && began.elapsed() < 6 * SOON) {
                    let prompt = &prompts[random.below(prompts.len() as u64) as usize];
                    let (restored, places, _) = env.restore(tiers, prompt);
                    if places.contains(&TierKind::Ssd) {
                        tokens[who].fetch_add(restored as u64, Ordering::Relaxed);
                    }
                    if restored < prompt.len() {
                        for chunk in env.model.chunks(prompt) {
                            let _ = offer(tiers, chunk, StoreReason::Idle, None);
                        }
                    }
                    if turn % 10 == 0 {
                        most.fetch_max(folder_bytes(home), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let [by_owner, by_guest] = tokens.map(AtomicU64::into_inner);
    assert!(
        by_owner > 10_000 && by_guest > 10_000,
        "both daemons restore from files: {by_owner} and {by_guest} tokens"
    );
    let most = most.into_inner();
    // Both may start to write when there is space for one file.
    assert!(most <= BUDGET_BYTES + MOST_FILE_BYTES, "the folder held {most} bytes");
    let [owner, guest] = both;
    guest.close(SOON);
    drop(guests);
    assert!(owner.wait_idle(SOON), "all chunks are written");
    std::thread::sleep(Duration::from_millis(200));
    assert!(owner.wait_idle(SOON), "the owner finds the guest's files");
    let used = owner.status().tiers[1].used_bytes;
    assert!(used <= BUDGET_BYTES, "the owner keeps the budget: {used}");
}

/// Returns the disk space of all chunk files below a folder.
fn folder_bytes(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            // Drafts are not chunks yet.
            Ok(found) if entry.path().extension().is_some_and(|end| end == "kvc") => {
                std::os::unix::fs::MetadataExt::blocks(&found) * 512
            }
            _ => 0,
        })
        .sum()
}
