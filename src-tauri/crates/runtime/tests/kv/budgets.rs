//! Budgets: thousands of prompts that are sent once exceed neither the RAM nor the disk budget, and cause few disk writes.

use std::time::{Duration, Instant};

use cairn_testkit::Random;
use cairn_testkit::hash_backend::History;
use cairn_tier::TierKind;
use tempfile::TempDir;

use crate::scale;
use crate::workload::{Tally, ask};
use crate::world::{Settings, World, disk_bytes};

/// Maximum growth of the process beyond the RAM tier, after the warm-up.
const GROWTH_BYTES: u64 = 64 << 20;
/// Prompts of the warm-up.
const WARM: u64 = 100;

/// Resident memory of this process, if the system reports it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_hold_for_prompts_sent_once() {
    let prompts = scale::runs(300);
    let home = TempDir::new().expect("a temporary folder");
    let world = World::new(home.path());
    let settings = Settings { ram_bytes: 4 << 20, ssd_bytes: 8 << 20, row_time: Duration::ZERO, ..Settings::default() };
    let life = world.start(settings);
    let (mut tally, mut chunks, began) = (Tally::default(), 0, Instant::now());
    let (mut warm_bytes, mut most_bytes) = (None, 0);
    for prompt in prompts.clone() {
        let mut dice = Random::from_name(prompt, "once");
        let mut history = History::new(world.shape(0, 0));
        let tokens = 520 + dice.below(700);
        (0..tokens).for_each(|_| history.push(dice.below(300) as u32));
        ask(&life, 0, 0, &mut history, &mut dice, &mut tally).await;
        chunks += tokens.div_ceil(256);
        for status in life.tiers.status().tiers {
            let (used, budget) = (status.used_bytes, status.budget_bytes);
            assert!(used <= budget, "prompt {prompt}: {} holds {used} bytes of {budget}", status.kind);
        }
        if prompt == prompts.start + WARM {
            warm_bytes = resident_bytes();
        }
        most_bytes = most_bytes.max(resident_bytes().unwrap_or(0));
    }
    let (ram, ssd) = (life.place(TierKind::Ram), life.place(TierKind::Ssd));
    let taken = disk_bytes(&cairn_testkit::chunk_files(&world.chunk_folder()));
    // A busy machine captures fewer chunks. Those that are not in RAM are never candidates for the disk.
    let written = ssd.counters.stored_chunks as f64 * 100.0 / ram.counters.stored_chunks.max(1) as f64;
    let grown = most_bytes.saturating_sub(warm_bytes.unwrap_or(most_bytes));
    println!(
        "{} prompts of {chunks} chunks: {} through RAM, {:.2} % of these written to the disk, which holds {taken} bytes; the process grew by \
         {grown} bytes, {:.0} s",
        prompts.count(),
        ram.counters.stored_chunks,
        written,
        began.elapsed().as_secs_f64()
    );
    assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "{tally:#?}");
    assert!(ram.counters.stored_chunks > 2 * ram.chunks as u64, "RAM must be filled several times: {ram:?}");
    assert!(taken <= settings.ssd_bytes, "the folder holds {taken} bytes");
    assert!(written <= 5.0, "{written:.2} % of the chunks in RAM were written to the disk");
    // Only full scale runs this test in a process of its own.
    assert!(!scale::is_full() || grown <= settings.ram_bytes + GROWTH_BYTES, "the process grew by {grown} bytes");
    life.end(Duration::from_secs(2)).await;
}
