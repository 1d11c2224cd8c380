//! Two processes over one folder: no row is wrong, and the folder stays within its budget but for one chunk of the guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::crash::{last_words, small, spawn};
use crate::scale;
use crate::talk::{Talks, Tally};
use crate::world::{CHUNK_FILE_BYTES, SOON, World, room_bytes};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shared_folder_gives_no_wrong_token() {
    let rounds = scale::runs(4);
    let home = TempDir::new().expect("a temporary folder can be made");
    let world = World::new(home.path());
    let talks = Talks::new(&world, 0);
    let setting = small();
    let most = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let watch = {
        let (most, done, kept) = (Arc::clone(&most), Arc::clone(&done), world.kept());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(room_bytes(&cairn_testkit::chunk_files(&kept)), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let life = Arc::new(world.live(setting));
    assert!(life.tiers.settle(SOON), "an empty folder is soon read");
    let (mut tally, began) = (Tally::default(), Instant::now());
    for round in rounds.clone() {
        let mut guest = spawn(home.path(), round, true);
        tally.add(talks.go_on(&life, 2 * round, 12).await);
        // Both look what the other has done.
        life.clock.forward(Duration::from_secs(31));
        tally.add(talks.go_on(&life, 2 * round + 1, 12).await);
        assert_eq!((tally.wrong, tally.failed.len()), (0, 0), "round {round}: {tally:#?}");
        if guest.try_wait().expect("it is ours").is_some() {
            panic!("the guest of round {round} ended by itself: {}", last_words(guest));
        }
        guest.kill().expect("it is ours");
        guest.wait().expect("it is ours");
    }
    done.store(true, Ordering::Relaxed);
    watch.join().expect("looking does not panic");
    let up = rounds.clone().filter(|round| home.path().join(format!("up.{round}")).exists()).count();
    let most = most.load(Ordering::Relaxed);
    println!(
        "{} rounds, {up} with a guest that lived, {} answers, {:.1} % with rows from SSD, the folder held {most} bytes of {} at most, {:.0} s",
        rounds.count(),
        tally.answers,
        tally.percent(tally.from_ssd),
        setting.ssd_bytes,
        began.elapsed().as_secs_f64()
    );
    assert!(up > 0 && tally.from_ssd > 0, "two processes were to share: {tally:?}");
    assert!(most <= setting.ssd_bytes + CHUNK_FILE_BYTES, "the folder held {most} bytes of {}", setting.ssd_bytes);
    Arc::into_inner(life).expect("everybody has left").end(Duration::from_secs(2)).await;
}
