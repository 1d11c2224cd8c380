//! Downloads that are shared, ordered, stopped and resumed.

use std::time::Duration;

use cairn_disk::RealDisk;
use cairn_testkit::HookedDisk;

use super::*;
use crate::download::tests::{Home, config, contents, ms, run, wanted};
use crate::fake::{Answer, Fake};

const LEN: usize = 600_000;

/// A source that takes about half a second for the whole.
fn slow(contents: &[u8]) -> Arc<Fake> {
    Fake::scripted("nas", contents, |_, asked| Ok(Answer { chunk: 4 << 10, pace: ms(10), ..Answer::good(asked) }))
}

/// Waits until a download holds some bytes.
async fn some(subscription: &Subscription, bytes: u64) {
    let mut progress = subscription.progress();
    let enough = progress.wait_for(|progress| progress.held_bytes >= bytes);
    drop(tokio::time::timeout(Duration::from_secs(20), enough).await.expect("bytes come").expect("it is there"));
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_ask_share_one_download() {
    let (home, contents) = (Home::new(), contents(LEN, 1));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let mut shares: Vec<_> = (0..50).map(|_| downloads.fetch(wanted(&contents, &[&source]))).collect();
    assert_eq!(downloads.list().len(), 1, "one download");
    assert_eq!(downloads.list()[0].subscriptions, 50, "for all");
    // Whoever leaves takes nobody else's away.
    shares.truncate(3);
    for share in &mut shares {
        share.done().await.expect("it is fetched");
    }
    assert_eq!(source.sent_bytes(), LEN as u64, "each byte came once");
    assert!(downloads.list().is_empty(), "it is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_to_leave_cancels_and_what_came_is_kept() {
    let (home, contents) = (Home::new(), contents(LEN, 2));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let (first, second) =
        (downloads.fetch(wanted(&contents, &[&source])), downloads.fetch(wanted(&contents, &[&source])));
    some(&first, 100_000).await;
    drop(first);
    tokio::time::sleep(ms(50)).await;
    assert_eq!(downloads.list().len(), 1, "one is still waiting");
    let held = second.progress().borrow().held_bytes;
    drop(second);
    until("it is cancelled", || downloads.list().is_empty()).await;
    until("its lock is gone", || home.files() == ["partials/blob", "partials/blob.journal"]).await;
    let kept = downloads.staging().list().expect("it can be listed")[0].held_bytes;
    assert!(kept >= held, "{kept} bytes are kept where {held} were shown");
    run(&downloads, wanted(&contents, &[&source])).await.expect("it goes on");
    assert!(source.sent_bytes() <= LEN as u64 + 4 * (4 << 10), "what was kept was not fetched again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_one_goes_on() {
    let (home, contents) = (Home::new(), contents(LEN, 3));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let share = downloads.fetch(wanted(&contents, &[&source]));
    share.detach();
    drop(share);
    assert!(downloads.list()[0].detached, "the list says so");
    until("it is ready", || downloads.list().is_empty()).await;
    assert_eq!(home.files(), ["ready/blob"], "it is there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_resume_cancel_discard() {
    let (home, contents) = (Home::new(), contents(LEN, 4));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let mut share = downloads.fetch(wanted(&contents, &[&source]));
    let mut events = downloads.events();
    let id = share.id();
    some(&share, 50_000).await;
    assert!(downloads.pause(id), "there is such a download");
    until("it is paused", || downloads.list()[0].progress.phase == Phase::Paused).await;
    let (held, sent) = (share.progress().borrow().held_bytes, source.sent_bytes());
    tokio::time::sleep(ms(100)).await;
    assert_eq!(source.sent_bytes(), sent, "nothing comes");
    assert_eq!(downloads.staging().list().unwrap()[0].held_bytes, held, "what is shown is on the disk");
    assert!(downloads.resume(id), "it can go on");
    some(&share, held + 50_000).await;
    assert!(downloads.pause(id) && downloads.resume(id), "and back, before it has stopped");
    some(&share, held + 100_000).await;
    assert!(downloads.cancel(id), "it can be cancelled");
    assert!(matches!(share.done().await, Err(DownloadError::Cancelled)), "whoever waits is told");
    assert!(downloads.staging().list().unwrap()[0].held_bytes >= held, "what came is kept");

    let mut share = downloads.fetch(wanted(&contents, &[&source]));
    assert_ne!(share.id(), id, "it is another download");
    some(&share, held).await;
    assert!(downloads.discard(share.id()), "it can be discarded");
    assert!(matches!(share.done().await, Err(DownloadError::Cancelled)), "whoever waits is told");
    assert_eq!(home.files(), [""; 0], "nothing is kept");
    assert!(!downloads.pause(id) && !downloads.discard(id), "there is no such download any more");
    let mut kinds = Vec::new();
    while let Ok(event) = events.try_recv() {
        if event.id == id {
            kinds.push(format!("{:?}", event.kind));
        }
    }
    assert_eq!(kinds[..3], ["Paused", "Queued", "Started"].map(String::from), "events");
    // The pause that was taken back before it had stopped anything: it is told, or only that it was taken back, or nothing.
    let (last, between) = kinds[3..].split_last().expect("the end is told");
    assert_eq!(last, "Cancelled", "events: {kinds:?}");
    let taken_back = ["Paused", "Queued", "Started"];
    assert!(between.len() <= 3 && between.iter().all(|kind| taken_back.contains(&kind.as_str())), "events: {kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_one_is_resumed_and_a_full_disk_says_what_is_needed() {
    let (home, contents) = (Home::new(), contents(LEN, 5));
    drop(home.downloads(RealDisk, config()));
    let disk = HookedDisk::small(200_000);
    let downloads = home.downloads(disk.clone(), Config { reserve_bytes: 50_000, ..config() });
    let source = Fake::good("nas", &contents);
    let error = run(&downloads, wanted(&contents, &[&source])).await.expect_err("there is no room");
    let DownloadError::NoSpace { need_bytes, free_bytes, .. } = error else { panic!("{error}") };
    assert_eq!((need_bytes, free_bytes), (LEN as u64 + 50_000, 200_000), "what is needed, and what there is");
    assert_eq!(source.opened(), 0, "nothing was begun");

    // Somebody else fills the disk meanwhile.
    disk.set_free(800_000);
    let filled = disk.clone();
    let source = Fake::scripted("nas", &contents, move |number, asked| {
        if number == 2 {
            filled.set_free(40_000);
        }
        Ok(Answer { chunk: 4 << 10, pace: ms(5), ..Answer::good(asked) })
    });
    let mut share = downloads.fetch(wanted(&contents, &[&source]));
    share.detach();
    let error = share.done().await.expect_err("there is no room");
    assert!(matches!(error, DownloadError::NoSpace { .. }), "{error}");
    let row = &downloads.list()[0];
    assert!(
        matches!(row.error, Some(DownloadError::NoSpace { .. })) && row.progress.phase == Phase::Failed,
        "it says so"
    );
    disk.set_free(1_000_000);
    let sent = source.sent_bytes();
    assert!(sent > 0 && downloads.resume(share.id()), "it can go on");
    share.done().await.expect("there is room now");
    assert!(source.sent_bytes() - sent < LEN as u64, "with what was there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_runs_in_order_and_what_is_urgent_at_once() {
    let home = Home::new();
    let downloads = home.downloads(RealDisk, Config { at_once: 1, ..config() });
    let blobs: Vec<Vec<u8>> = (0..5).map(|seed| contents(100_000, 10 + seed)).collect();
    let sources: Vec<Arc<Fake>> = blobs.iter().map(|blob| slow(blob)).collect();
    let mut events = downloads.events();
    let fetch =
        |index: usize, priority| downloads.fetch(FetchBlob { priority, ..wanted(&blobs[index], &[&sources[index]]) });
    let shares = [
        fetch(0, Priority::Normal),
        fetch(1, Priority::Background),
        fetch(2, Priority::Normal),
        fetch(3, Priority::Normal),
        fetch(4, Priority::Now),
    ];
    assert!(downloads.reorder(shares[3].id(), 1), "before the third, after the first, which runs");
    for mut share in shares {
        share.done().await.expect("it is fetched");
    }
    let mut started = Vec::new();
    while let Ok(event) = events.try_recv() {
        if matches!(event.kind, EventKind::Started) {
            started.push(event.id.0);
        }
    }
    assert_eq!(started, [1, 5, 4, 3, 2], "urgent at once, then as reordered, the background last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_is_waited_for() {
    let (home, contents) = (Home::new(), contents(LEN, 6));
    let source = slow(&contents);
    let (here, there) = (home.downloads(RealDisk, config()), home.downloads(RealDisk, config()));
    let mut first = there.fetch(wanted(&contents, &[&source]));
    some(&first, 50_000).await;
    let mut second = here.fetch(wanted(&contents, &[&source]));
    let mut progress = second.progress();
    progress.wait_for(|progress| progress.phase == Phase::Elsewhere).await.expect("it is told");
    first.done().await.expect("the first fetches it");
    let ready = second.done().await.expect("so the second has it");
    assert!(ready.present && source.sent_bytes() == LEN as u64, "without fetching a byte");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutting_down_loses_nothing() {
    let (home, contents) = (Home::new(), contents(LEN, 8));
    let source = slow(&contents);
    let downloads = home.downloads(RealDisk, config());
    let share = downloads.fetch(wanted(&contents, &[&source]));
    some(&share, 100_000).await;
    downloads.shut_down().await;
    let held = share.progress().borrow().held_bytes;
    assert_eq!(downloads.staging().list().unwrap()[0].held_bytes, held, "what was shown is on the disk");
    let again = home.downloads(RealDisk, config());
    let progress = again.fetch(wanted(&contents, &[&source]));
    some(&progress, held).await;
    let sent = source.sent_bytes();
    assert!(sent <= held + 8 * (4 << 10), "{held} bytes were there, and {sent} came in all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_counts_for_all_together() {
    let home = Home::new();
    let downloads = home.downloads(RealDisk, Config { cap_bytes_per_s: Some(1_000_000), ..config() });
    let blobs: Vec<Vec<u8>> = (0..2).map(|seed| contents(500_000, 20 + seed)).collect();
    let sources: Vec<Arc<Fake>> = blobs.iter().map(|blob| Fake::good("nas", blob)).collect();
    let started = std::time::Instant::now();
    let mut shares =
        [downloads.fetch(wanted(&blobs[0], &[&sources[0]])), downloads.fetch(wanted(&blobs[1], &[&sources[1]]))];
    for share in &mut shares {
        share.done().await.expect("it is fetched");
    }
    assert!(started.elapsed() >= ms(850), "a megabyte took {:?}", started.elapsed());
}

/// What a failing disk did not keep is fetched again, but nobody sees the bar go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_does_not_go_back_when_a_failed_one_goes_on() {
    let (home, contents) = (Home::new(), contents(LEN, 40));
    let disk = cairn_testkit::FaultyDisk::after(20);
    let downloads = home.downloads(disk.clone(), config());
    let mut share = downloads.fetch(wanted(&contents, &[&slow(&contents)]));
    share.detach();
    let mut progress = share.progress();
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        while progress.changed().await.is_ok() {
            seen.push(progress.borrow_and_update().held_bytes);
        }
        seen
    });
    share.done().await.expect_err("the disk fails");
    let shown = downloads.list()[0].progress.held_bytes;
    let kept = downloads.staging().list().expect("it can be listed")[0].held_bytes;
    assert!(kept < shown, "something was lost: {kept} bytes are kept where {shown} were shown");
    disk.mend();
    assert!(downloads.resume(share.id()), "it can go on");
    share.done().await.expect("the disk is well");
    drop((share, downloads));
    let seen = watching.await.expect("it only watches");
    assert!(seen.is_sorted(), "it went back: {seen:?}");
}

/// However downloads end, what they may have on their way to the disk is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_come_back() {
    let contents = contents(300_000, 30);
    for steps in (3..40).step_by(3) {
        let home = Home::new();
        drop(home.downloads(RealDisk, config()));
        let downloads = home.downloads(cairn_testkit::FaultyDisk::after(steps), config());
        let share = downloads.fetch(wanted(&contents, &[&slow(&contents)]));
        tokio::time::sleep(ms(10 * steps as u64)).await;
        drop(share);
        until("it is over", || downloads.list().is_empty()).await;
        let left = downloads.hub.place.credits.left();
        assert_eq!(left, config().unkept_bytes as usize, "after {steps} steps");
    }
}

/// The runtime goes away in the middle, with everything in it, as in a program that ends without asking.
#[test]
fn a_runtime_that_goes_away_leaves_what_can_be_resumed() {
    let (home, contents) = (Home::new(), contents(LEN, 31));
    let source = slow(&contents);
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for bytes in [50_000, 200_000, 400_000] {
        let first = runtime();
        first.block_on(async {
            let share = home.downloads(RealDisk, config()).fetch(wanted(&contents, &[&source]));
            some(&share, bytes).await;
            std::mem::forget(share);
        });
        first.shutdown_background();
    }
    let ready =
        runtime().block_on(async { run(&home.downloads(RealDisk, config()), wanted(&contents, &[&source])).await });
    let ready = ready.expect("it goes on");
    assert!(std::fs::read(&ready.path).unwrap() == contents, "the right bytes");
    let most = 3 * (u64::from(config().unkept_bytes) + 4 * (4 << 10));
    let twice = source.sent_bytes() - LEN as u64;
    assert!(twice <= most, "{twice} bytes were fetched twice, {most} are allowed");
    assert_eq!(home.files(), ["ready/blob"], "one file, and nothing beside it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_far_behind_gets_something_soon() {
    let (home, contents) = (Home::new(), contents(LEN, 9));
    // In order, the last bytes would come after ten seconds.
    let source =
        Fake::scripted("nas", &contents, |_, asked| Ok(Answer { chunk: 1 << 10, pace: ms(16), ..Answer::good(asked) }));
    let config = Config { streams: 1, segment_bytes: 16 << 10, ..config() };
    let downloads = home.downloads(RealDisk, config);
    let share = downloads.fetch(wanted(&contents, &[&source]));
    some(&share, 20_000).await;
    let late = LEN as u64 - 50_000;
    share.want(late);
    let mut progress = share.progress();
    let there = progress.wait_for(|progress| progress.written.iter().any(|range| range.contains(&late)));
    let seen = tokio::time::timeout(Duration::from_secs(5), there).await.expect("it comes before its turn");
    let seen = seen.expect("the download goes on");
    assert!(seen.prefix_bytes < LEN as u64 / 2, "what is before it is still missing: {} bytes", seen.prefix_bytes);
}
