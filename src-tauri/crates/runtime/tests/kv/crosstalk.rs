//! Cross-talk: concurrent conversations with too few pages, too little RAM and too small a folder, with restarts and damaged files. Every
//! token follows from its history. And every injected cache fault is detected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_testkit::Random;
use tempfile::TempDir;

use crate::faults::CacheFault;
use crate::scale;
use crate::workload::{Tally, Workload};
use crate::world::{Settings, World};

/// Instances of one run, with a restart between two of them, and requests of each of the eight users of an instance.
const LIVES: u64 = 4;
const REQUESTS: u64 = 32;

/// One run: about a thousand requests and three restarts.
async fn run(seed: u64, settings: Settings) -> Tally {
    let folder = TempDir::new().expect("a temporary folder");
    let world = World::new(folder.path());
    let workload = Workload::new(&world, seed);
    let mut dice = Random::from_name(seed, "lives");
    let mut tally = Tally::default();
    for part in 0..LIVES {
        let life = Arc::new(world.start(settings));
        tally.add(workload.run(&life, 2 * part, REQUESTS / 2).await);
        // All users pause until their prefixes are idle and flushed.
        life.clock.forward(Duration::from_secs(31));
        tokio::time::sleep(Duration::from_millis(50)).await;
        tally.add(workload.run(&life, 2 * part + 1, REQUESTS / 2).await);
        let life = Arc::into_inner(life).expect("no client is left");
        // One instance in four has no time to write.
        life.end(if dice.below(4) == 0 { Duration::ZERO } else { Duration::from_secs(2) }).await;
        if settings.fault.is_none() && dice.below(3) == 0 {
            damage(&world, &mut dice);
        }
    }
    tally
}

/// Damages a few files.
fn damage(world: &World, dice: &mut Random) {
    let files = cairn_testkit::chunk_files(&world.chunk_folder());
    for _ in 0..2.min(files.len()) {
        let path = &files[dice.below(files.len() as u64) as usize];
        let Ok(mut bytes) = std::fs::read(path) else { continue };
        if dice.below(4) == 0 {
            bytes.truncate(dice.below(bytes.len() as u64) as usize);
        } else {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice.below(8);
        }
        std::fs::write(path, bytes).expect("the folder is writable");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crosstalk_gives_no_wrong_token() {
    let runs = scale::runs(4);
    let (mut tally, began) = (Tally::default(), Instant::now());
    for seed in runs.clone() {
        let one = run(seed, Settings::default()).await;
        assert_eq!(one.wrong, 0, "run {seed}: {:#?}", one.wrong_examples);
        assert!(one.failed.is_empty(), "run {seed}: {:#?}", one.failed);
        tally.add(one);
        if seed % 10 == 9 || seed + 1 == runs.end {
            println!(
                "runs {}..={seed}: {} requests, {} cancelled, {} restarts, {:.1} % from RAM, {:.1} % from SSD, {:.1} % from \
                 pages, {:.1} % of prompt tokens not computed, {} wrong, {:.0} s",
                runs.start,
                tally.requests(),
                tally.cancelled,
                (seed + 1 - runs.start) * (LIVES - 1),
                tally.percent(tally.from_ram),
                tally.percent(tally.from_ssd),
                tally.percent(tally.from_pages),
                tally.cached_tokens as f64 * 100.0 / tally.prompt_tokens as f64,
                tally.wrong,
                began.elapsed().as_secs_f64()
            );
        }
    }
    // The variance is smaller at full scale.
    let [ram, ssd] = if scale::is_full() { [30.0, 20.0] } else { [25.0, 15.0] };
    assert!(tally.percent(tally.from_ram) >= ram, "too few answers had rows from RAM: {tally:?}");
    assert!(tally.percent(tally.from_ssd) >= ssd, "too few answers had rows from the disk: {tally:?}");
    assert!(tally.from_pages * 10 > tally.answers, "too few answers had rows from pages: {tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crosstalk_detects_every_fault() {
    for fault in CacheFault::ALL {
        let tally = run(7, Settings { fault: Some(fault), ..Settings::default() }).await;
        println!("{fault:?}: {} of {} answers are wrong", tally.wrong, tally.answers);
        assert!(tally.wrong > 0, "{fault:?} is not detected: {tally:?}");
    }
}
