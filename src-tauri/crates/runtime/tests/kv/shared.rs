//! Two processes share a folder: no row is wrong, and the folder exceeds its budget by at most one chunk of the guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::crash::{error_output, small, spawn};
use crate::scale;
use crate::workload::{Tally, Workload};
use crate::world::{CHUNK_FILE_BYTES, TIMEOUT, World, disk_bytes};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shared_folder_gives_no_wrong_token() {
    let rounds = scale::runs(4);
    let home = TempDir::new().expect("a temporary folder");
    let world = World::new(home.path());
    let workload = Workload::new(&world, 0);
    let settings = small();
    let most = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let watch = {
        let (most, done, kept) = (Arc::clone(&most), Arc::clone(&done), world.chunk_folder());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(disk_bytes(&cairn_testkit::chunk_files(&kept)), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let life = Arc::new(world.start(settings));
    assert!(life.tiers.wait_idle(TIMEOUT), "the empty folder is scanned");
    let (mut tally, began) = (Tally::default(), Instant::now());
    for round in rounds.clone() {
        let mut guest = spawn(home.path(), round, true);
        tally.add(workload.run(&life, 2 * round, 12).await);
        // Both processes rescan the folder.
        life.clock.forward(Duration::from_secs(31));
        tally.add(workload.run(&life, 2 * round + 1, 12).await);
        assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "round {round}: {tally:#?}");
        if guest.try_wait().expect("a child process").is_some() {
            panic!("the guest of round {round} ended: {}", error_output(guest));
        }
        guest.kill().expect("a child process");
        guest.wait().expect("a child process");
    }
    done.store(true, Ordering::Relaxed);
    watch.join().expect("the watch thread does not panic");
    let up = rounds.clone().filter(|round| home.path().join(format!("up.{round}")).exists()).count();
    let most = most.load(Ordering::Relaxed);
    println!(
        "{} rounds, {up} with a running guest, {} answers, {:.1} % with rows from SSD, the folder held {most} bytes of {} at most, {:.0} s",
        rounds.count(),
        tally.answers,
        tally.percent(tally.from_ssd),
        settings.ssd_bytes,
        began.elapsed().as_secs_f64()
    );
    assert!(up > 0 && tally.from_ssd > 0, "the processes must share chunks: {tally:?}");
    assert!(most <= settings.ssd_bytes + CHUNK_FILE_BYTES, "the folder held {most} bytes of {}", settings.ssd_bytes);
    Arc::into_inner(life).expect("no client is left").end(Duration::from_secs(2)).await;
}
