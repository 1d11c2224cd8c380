//! Budgets: prompts that are sent once, by the thousand, fill neither RAM nor the disk beyond what these may hold, and hardly wear the
//! disk.

use std::time::{Duration, Instant};

use cairn_testkit::Random;
use cairn_testkit::toy::History;
use cairn_tier::Place;
use tempfile::TempDir;

use crate::scale;
use crate::talk::{Tally, ask};
use crate::world::{Setting, World, room_bytes};

/// What the process may grow by beyond the RAM tier, once it is warm.
const GROWTH_BYTES: u64 = 64 << 20;
/// Prompts until it is warm.
const WARM: u64 = 100;

/// Bytes of memory that this process has; none where the system does not tell so.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_hold_over_prompts_that_are_sent_once() {
    let prompts = scale::runs(300);
    let home = TempDir::new().expect("a temporary folder can be made");
    let world = World::new(home.path());
    let setting = Setting { ram_bytes: 4 << 20, ssd_bytes: 8 << 20, row_time: Duration::ZERO, ..Setting::default() };
    let life = world.live(setting);
    let (mut tally, mut chunks, began) = (Tally::default(), 0, Instant::now());
    let (mut warm_bytes, mut most_bytes) = (None, 0);
    for prompt in prompts.clone() {
        let mut dice = Random::named(prompt, "once");
        let mut history = History::new(world.shape(0, 0));
        let tokens = 520 + dice.below(700);
        (0..tokens).for_each(|_| history.push(dice.below(300) as u32));
        ask(&life, 0, 0, &mut history, &mut dice, &mut tally).await;
        chunks += tokens.div_ceil(256);
        for place in life.tiers.status().places {
            let (used, budget) = (place.used_bytes, place.budget_bytes);
            assert!(used <= budget, "prompt {prompt}: {} holds {used} bytes of {budget}", place.place);
        }
        if prompt == prompts.start + WARM {
            warm_bytes = resident_bytes();
        }
        most_bytes = most_bytes.max(resident_bytes().unwrap_or(0));
    }
    let (ram, ssd) = (life.place(Place::Ram), life.place(Place::Ssd));
    let taken = room_bytes(&cairn_testkit::chunk_files(&world.kept()));
    let written = ssd.flow.stored_chunks as f64 * 100.0 / chunks as f64;
    let grown = most_bytes.saturating_sub(warm_bytes.unwrap_or(most_bytes));
    println!(
        "{} prompts of {chunks} chunks: {} through RAM, {:.2} % written to the disk, which holds {taken} bytes; the process grew by \
         {grown} bytes, {:.0} s",
        prompts.count(),
        ram.flow.stored_chunks,
        written,
        began.elapsed().as_secs_f64()
    );
    assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "{tally:#?}");
    assert!(ram.flow.stored_chunks * 2 > chunks && ram.flow.evicted_chunks > 0, "RAM was to be filled: {ram:?}");
    assert!(taken <= setting.ssd_bytes, "the folder holds {taken} bytes");
    assert!(written <= 5.0, "{written:.2} % of what was sent once was written to the disk");
    // Where other tests run in this process too, its memory says nothing.
    assert!(!scale::is_full() || grown <= setting.ram_bytes + GROWTH_BYTES, "the process grew by {grown} bytes");
    life.end(Duration::from_secs(2)).await;
}
