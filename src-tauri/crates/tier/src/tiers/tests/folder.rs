//! Over real files: what is stored survives, and two daemons share a folder.

use cairn_disk::RealDisk;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fake::Dice;
use super::*;
use crate::{FileKeys, Ssd, SsdOptions};

const BUDGET_BYTES: u64 = 3 << 20;
/// What a file takes at most.
const MOST_FILE_BYTES: u64 = 64 << 10;

fn ssd(root: &std::path::Path) -> Arc<Ssd> {
    let keys = FileKeys::new(&crate::Namespace::new(&[9; 32], "files"));
    Arc::new(Ssd::open(Arc::new(RealDisk), root, keys, SsdOptions::default(), || [0; 24]).expect("it is writable"))
}

fn config(ssd: &Arc<Ssd>) -> Config {
    let lower = Lower { rescan: Some(Duration::from_millis(50)), ..Lower::ssd(ssd, BUDGET_BYTES, 0) };
    Config { ssd: Some(lower), min_recompute: Duration::ZERO, ..Config::new(256 << 10) }
}

#[test]
fn a_prefix_survives_a_restart_on_a_real_disk() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let bench = Bench::new();
    let prompt = keys(10, 1100);
    let tiers = bench.open(config(&ssd(home.path())));
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    tiers.close(SOON);
    let tiers = bench.open(config(&ssd(home.path())));
    assert_eq!(bench.restore(&tiers, &prompt), (1100, vec![Place::Ssd; 5], End::Complete), "all of it came back");
    let changed = [&prompt[..1050], &keys(70_000, 50)].concat();
    assert_eq!(bench.restore(&tiers, &changed).0, 1050, "keys are known after a restart too");
    assert_eq!(tiers.clear(SOON).left, 0, "and it can be cleared");
    tiers.close(SOON);
    let tiers = bench.open(config(&ssd(home.path())));
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "which lasts");
}

#[test]
fn an_owner_and_a_guest_share_a_folder_without_a_wrong_row() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let bench = Bench::new();
    let (owners, guests) = (ssd(home.path()), ssd(home.path()));
    assert!(owners.is_owner() && !guests.is_owner(), "the first to come owns it");
    let clock: Arc<super::fake::WallClock> = Arc::new(super::fake::WallClock(std::time::Instant::now()));
    let both = [&owners, &guests].map(|ssd| {
        let clock: Arc<dyn crate::Clock> = Arc::clone(&clock) as _;
        Tiers::open(config(ssd), clock).expect("threads are to be had")
    });
    let prompts: Vec<Vec<Key>> = (0..24).map(|prompt| keys(1 + prompt * 5000, 700 + 20 * prompt as usize)).collect();
    let tokens = [AtomicU64::new(0), AtomicU64::new(0)];
    let most = AtomicU64::new(0);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for (who, tiers) in both.iter().enumerate() {
            let (bench, prompts, tokens, most, home) = (&bench, &prompts, &tokens, &most, home.path());
            scope.spawn(move || {
                let mut dice = Dice(who as u64);
                // A slow disk has little to give at first.
                let enough = |turn| turn >= 400 && tokens[who].load(Ordering::Relaxed) > 10_000;
                for turn in (0..).take_while(|&turn| !enough(turn) && began.elapsed() < 6 * SOON) {
                    let prompt = &prompts[dice.below(prompts.len() as u64) as usize];
                    let (restored, places, _) = bench.restore(tiers, prompt);
                    if places.contains(&Place::Ssd) {
                        tokens[who].fetch_add(restored as u64, Ordering::Relaxed);
                    }
                    if restored < prompt.len() {
                        for chunk in bench.toy.chunks(prompt) {
                            let _ = offer(tiers, chunk, StoreWhy::Idle, None);
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
    assert!(by_owner > 10_000 && by_guest > 10_000, "both read files: {by_owner} and {by_guest} tokens");
    let most = most.into_inner();
    // Both may begin to write when there is room for one.
    assert!(most <= BUDGET_BYTES + MOST_FILE_BYTES, "the folder held {most} bytes");
    let [owner, guest] = both;
    guest.close(SOON);
    drop(guests);
    assert!(owner.settle(SOON), "all is written");
    std::thread::sleep(Duration::from_millis(200));
    assert!(owner.settle(SOON), "what the guest left is adopted");
    let used = owner.status().places[1].used_bytes;
    assert!(used <= BUDGET_BYTES, "and the owner keeps it in budget: {used}");
}

/// Bytes that all files in a folder, and in those in it, take.
fn folder_bytes(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            // Half written ones have another name, and are not chunks yet.
            Ok(found) if entry.path().extension().is_some_and(|end| end == "kvc") => {
                std::os::unix::fs::MetadataExt::blocks(&found) * 512
            }
            _ => 0,
        })
        .sum()
}
