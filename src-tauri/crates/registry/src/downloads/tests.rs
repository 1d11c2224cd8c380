//! Shared, ordered, paused and resumed downloads.

use std::time::Duration;

use cairn_disk::RealDisk;
use cairn_testkit::HookedDisk;

use super::*;
use crate::download::tests::{Home, blob_request, config, contents, ms, run};
use crate::tests::fake_source::{FakeResponse, FakeSource};

mod limited;

const LEN: usize = 600_000;

/// A source that needs about half a second for the whole blob.
fn slow(contents: &[u8]) -> Arc<FakeSource> {
    FakeSource::scripted("nas", contents, |_, requested| {
        Ok(FakeResponse { chunk: 4 << 10, pace: ms(10), ..FakeResponse::good(requested) })
    })
}

/// Waits until a download has received this many bytes.
async fn wait_for_bytes(subscription: &Subscription, bytes: u64) {
    let mut progress = subscription.progress();
    let enough = progress.wait_for(|progress| progress.held_bytes >= bytes);
    drop(
        tokio::time::timeout(Duration::from_secs(20), enough)
            .await
            .expect("bytes arrive in time")
            .expect("the download exists"),
    );
}

async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("timeout: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_one_digest_share_download() {
    let (home, contents) = (Home::new(), contents(LEN, 1));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let mut shares: Vec<_> = (0..50).map(|_| downloads.fetch(blob_request(&contents, &[&source]))).collect();
    assert_eq!(downloads.list().len(), 1, "one download");
    assert_eq!(downloads.list()[0].subscriptions, 50, "all subscriptions");
    // Dropped subscriptions do not affect the others.
    shares.truncate(3);
    for share in &mut shares {
        share.wait().await.expect("the download succeeds");
    }
    assert_eq!(source.sent_bytes(), LEN as u64, "each byte was sent once");
    assert!(downloads.list().is_empty(), "the list is empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_last_subscription_cancels_and_keeps_partial_data() {
    let (home, contents) = (Home::new(), contents(LEN, 2));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let (first, second) =
        (downloads.fetch(blob_request(&contents, &[&source])), downloads.fetch(blob_request(&contents, &[&source])));
    wait_for_bytes(&first, 100_000).await;
    drop(first);
    tokio::time::sleep(ms(50)).await;
    assert_eq!(downloads.list().len(), 1, "one subscription is left");
    let held = second.progress().borrow().held_bytes;
    drop(second);
    wait_until("the download is cancelled", || downloads.list().is_empty()).await;
    wait_until("the lock file is removed", || home.files() == ["partials/blob", "partials/blob.journal"]).await;
    let kept = downloads.staging().list().expect("the staging area can be listed")[0].durable_bytes;
    assert!(kept >= held, "{kept} bytes are stored, {held} were reported");
    run(&downloads, blob_request(&contents, &[&source])).await.expect("the download resumes");
    assert!(source.sent_bytes() <= LEN as u64 + 4 * (4 << 10), "stored bytes are not downloaded again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_download_continues() {
    let (home, contents) = (Home::new(), contents(LEN, 3));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let share = downloads.fetch(blob_request(&contents, &[&source]));
    share.detach();
    drop(share);
    assert!(downloads.list()[0].detached, "the list shows that it is detached");
    wait_until("the download completes", || downloads.list().is_empty()).await;
    assert_eq!(home.files(), ["ready/blob"], "the download exists");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_can_be_paused_resumed_cancelled_and_discarded() {
    let (home, contents) = (Home::new(), contents(LEN, 4));
    let (downloads, source) = (home.downloads(RealDisk, config()), slow(&contents));
    let mut share = downloads.fetch(blob_request(&contents, &[&source]));
    let mut events = downloads.events();
    let id = share.id();
    wait_for_bytes(&share, 50_000).await;
    assert!(downloads.pause(id), "the download exists");
    wait_until("the download is paused", || downloads.list()[0].progress.phase == Phase::Paused).await;
    let (held, sent) = (share.progress().borrow().held_bytes, source.sent_bytes());
    tokio::time::sleep(ms(100)).await;
    assert_eq!(source.sent_bytes(), sent, "no bytes are sent while paused");
    assert_eq!(downloads.staging().list().unwrap()[0].durable_bytes, held, "the reported bytes are on the disk");
    assert!(downloads.resume(id), "the download can be resumed");
    wait_for_bytes(&share, held + 50_000).await;
    assert!(downloads.pause(id) && downloads.resume(id), "a pause is revoked before the download stops");
    wait_for_bytes(&share, held + 100_000).await;
    assert!(downloads.cancel(id), "the download can be cancelled");
    assert!(matches!(share.wait().await, Err(DownloadError::Cancelled)), "the subscription ends");
    assert!(downloads.staging().list().unwrap()[0].durable_bytes >= held, "partial data is kept");

    let mut share = downloads.fetch(blob_request(&contents, &[&source]));
    assert_ne!(share.id(), id, "a new download");
    wait_for_bytes(&share, held).await;
    assert!(downloads.discard(share.id()), "the download can be discarded");
    assert!(matches!(share.wait().await, Err(DownloadError::Cancelled)), "the subscription ends");
    assert_eq!(home.files(), [""; 0], "no files are left");
    assert!(!downloads.pause(id) && !downloads.discard(id), "the download does not exist any more");
    let mut kinds = Vec::new();
    while let Ok(event) = events.try_recv() {
        if event.id == id {
            kinds.push(format!("{:?}", event.kind));
        }
    }
    assert_eq!(kinds[..3], ["Paused", "Queued", "Started"].map(String::from), "events");
    // The revoked pause may have emitted its events, only a part of them, or none.
    let (last, between) = kinds[3..].split_last().expect("there is a last event");
    assert_eq!(last, "Cancelled", "events: {kinds:?}");
    let revoked_pause = ["Paused", "Queued", "Started"];
    assert!(
        between.len() <= 3 && between.iter().all(|kind| revoked_pause.contains(&kind.as_str())),
        "events: {kinds:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_is_reported_and_download_resumes() {
    let (home, contents) = (Home::new(), contents(LEN, 5));
    drop(home.downloads(RealDisk, config()));
    let disk = HookedDisk::with_free_bytes(200_000);
    let downloads = home.downloads(disk.clone(), DownloadConfig { reserve_bytes: 50_000, ..config() });
    let source = FakeSource::good("nas", &contents);
    let error = run(&downloads, blob_request(&contents, &[&source])).await.expect_err("the disk is full");
    let DownloadError::NoSpace { need_bytes, free_bytes, .. } = error else { panic!("{error}") };
    assert_eq!((need_bytes, free_bytes), (LEN as u64 + 50_000, 200_000), "needed and free bytes");
    assert_eq!(source.opened(), 0, "no request was sent");

    // Another process fills the disk.
    disk.set_free_bytes(800_000);
    let filled = disk.clone();
    let source = FakeSource::scripted("nas", &contents, move |number, requested| {
        if number == 2 {
            filled.set_free_bytes(40_000);
        }
        Ok(FakeResponse { chunk: 4 << 10, pace: ms(5), ..FakeResponse::good(requested) })
    });
    let mut share = downloads.fetch(blob_request(&contents, &[&source]));
    share.detach();
    let error = share.wait().await.expect_err("the disk is full");
    assert!(matches!(error, DownloadError::NoSpace { .. }), "{error}");
    let row = &downloads.list()[0];
    assert!(
        matches!(row.error, Some(DownloadError::NoSpace { .. })) && row.progress.phase == Phase::Failed,
        "the list shows the error"
    );
    disk.set_free_bytes(1_000_000);
    let sent = source.sent_bytes();
    assert!(sent > 0 && downloads.resume(share.id()), "the download can be resumed");
    share.wait().await.expect("there is enough space");
    assert!(source.sent_bytes() - sent < LEN as u64, "the stored bytes are reused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_order_and_priorities_are_respected() {
    let home = Home::new();
    let downloads = home.downloads(RealDisk, DownloadConfig { max_parallel: 1, ..config() });
    let blobs: Vec<Vec<u8>> = (0..5).map(|seed| contents(100_000, 10 + seed)).collect();
    let sources: Vec<Arc<FakeSource>> = blobs.iter().map(|blob| slow(blob)).collect();
    let mut events = downloads.events();
    let fetch = |index: usize, priority| {
        downloads.fetch(BlobRequest { priority, ..blob_request(&blobs[index], &[&sources[index]]) })
    };
    let shares = [
        fetch(0, Priority::Normal),
        fetch(1, Priority::Background),
        fetch(2, Priority::Normal),
        fetch(3, Priority::Normal),
        fetch(4, Priority::Now),
    ];
    assert!(downloads.reorder(shares[3].id(), 1), "position 1, after the running download");
    for mut share in shares {
        share.wait().await.expect("the download succeeds");
    }
    let mut started = Vec::new();
    while let Ok(event) = events.try_recv() {
        if matches!(event.kind, DownloadEventKind::Started) {
            started.push(event.id.0);
        }
    }
    assert_eq!(started, [1, 5, 4, 3, 2], "immediate first, then as reordered, background last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_waits_for_other_process() {
    let (home, contents) = (Home::new(), contents(LEN, 6));
    let source = slow(&contents);
    let (here, there) = (home.downloads(RealDisk, config()), home.downloads(RealDisk, config()));
    let mut first = there.fetch(blob_request(&contents, &[&source]));
    wait_for_bytes(&first, 50_000).await;
    let mut second = here.fetch(blob_request(&contents, &[&source]));
    let mut progress = second.progress();
    progress.wait_for(|progress| progress.phase == Phase::OtherProcess).await.expect("the phase is reported");
    first.wait().await.expect("the first process downloads it");
    let ready = second.wait().await.expect("the second finds it");
    assert!(ready.present && source.sent_bytes() == LEN as u64, "no byte is downloaded twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_loses_no_bytes() {
    let (home, contents) = (Home::new(), contents(LEN, 8));
    let source = slow(&contents);
    let downloads = home.downloads(RealDisk, config());
    let share = downloads.fetch(blob_request(&contents, &[&source]));
    wait_for_bytes(&share, 100_000).await;
    downloads.shut_down().await;
    let held = share.progress().borrow().held_bytes;
    assert_eq!(downloads.staging().list().unwrap()[0].durable_bytes, held, "the reported bytes are on the disk");
    let again = home.downloads(RealDisk, config());
    let progress = again.fetch(blob_request(&contents, &[&source]));
    wait_for_bytes(&progress, held).await;
    let sent = source.sent_bytes();
    assert!(sent <= held + 8 * (4 << 10), "{held} bytes were stored, and {sent} sent in total");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_limit_applies_to_all_downloads() {
    let home = Home::new();
    let downloads = home.downloads(RealDisk, DownloadConfig { limit_bytes_per_s: Some(1_000_000), ..config() });
    let blobs: Vec<Vec<u8>> = (0..2).map(|seed| contents(500_000, 20 + seed)).collect();
    let sources: Vec<Arc<FakeSource>> = blobs.iter().map(|blob| FakeSource::good("nas", blob)).collect();
    let started = std::time::Instant::now();
    let mut shares = [
        downloads.fetch(blob_request(&blobs[0], &[&sources[0]])),
        downloads.fetch(blob_request(&blobs[1], &[&sources[1]])),
    ];
    for share in &mut shares {
        share.wait().await.expect("the download succeeds");
    }
    assert!(started.elapsed() >= ms(850), "a megabyte took {:?}", started.elapsed());
}

/// Bytes that a failing disk lost are downloaded again, but the reported progress does not decrease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_does_not_decrease_after_resume() {
    let (home, contents) = (Home::new(), contents(LEN, 40));
    let disk = cairn_testkit::FaultyDisk::fail_after(20);
    let downloads = home.downloads(disk.clone(), config());
    let mut share = downloads.fetch(blob_request(&contents, &[&slow(&contents)]));
    share.detach();
    let mut progress = share.progress();
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        while progress.changed().await.is_ok() {
            seen.push(progress.borrow_and_update().held_bytes);
        }
        seen
    });
    share.wait().await.expect_err("the disk fails");
    let shown = downloads.list()[0].progress.held_bytes;
    let kept = downloads.staging().list().expect("the staging area can be listed")[0].durable_bytes;
    assert!(kept < shown, "bytes were lost: {kept} stored, {shown} reported");
    disk.stop_failing();
    assert!(downloads.resume(share.id()), "the download can be resumed");
    share.wait().await.expect("the disk works again");
    drop((share, downloads));
    let seen = watching.await.expect("the watcher does not panic");
    assert!(seen.is_sorted(), "progress decreased: {seen:?}");
}

/// The write budget is released however a download ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_budget_is_released_at_end() {
    let contents = contents(300_000, 30);
    for steps in (3..40).step_by(3) {
        let home = Home::new();
        drop(home.downloads(RealDisk, config()));
        let downloads = home.downloads(cairn_testkit::FaultyDisk::fail_after(steps), config());
        let share = downloads.fetch(blob_request(&contents, &[&slow(&contents)]));
        tokio::time::sleep(ms(10 * steps as u64)).await;
        drop(share);
        wait_until("the list is empty", || downloads.list().is_empty()).await;
        let left = downloads.inner.context.write_budget.left();
        assert_eq!(left, config().max_unsynced_bytes as usize, "after {steps} steps");
    }
}

/// The runtime is dropped during a download, as if the process ended.
#[test]
fn download_resumes_after_runtime_shutdown() {
    let (home, contents) = (Home::new(), contents(LEN, 31));
    let source = slow(&contents);
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for bytes in [50_000, 200_000, 400_000] {
        let first = runtime();
        first.block_on(async {
            let share = home.downloads(RealDisk, config()).fetch(blob_request(&contents, &[&source]));
            wait_for_bytes(&share, bytes).await;
            std::mem::forget(share);
        });
        first.shutdown_background();
    }
    let ready = runtime()
        .block_on(async { run(&home.downloads(RealDisk, config()), blob_request(&contents, &[&source])).await });
    let ready = ready.expect("the download resumes");
    assert!(std::fs::read(&ready.path).unwrap() == contents, "the correct bytes");
    let most = 3 * (u64::from(config().max_unsynced_bytes) + 4 * (4 << 10));
    let twice = source.sent_bytes() - LEN as u64;
    assert!(twice <= most, "{twice} bytes were downloaded twice, limit {most}");
    assert_eq!(home.files(), ["ready/blob"], "one file only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prioritized_position_is_downloaded_early() {
    let (home, contents) = (Home::new(), contents(LEN, 9));
    // In sequential order, the last bytes would arrive after ten seconds.
    let source = FakeSource::scripted("nas", &contents, |_, requested| {
        Ok(FakeResponse { chunk: 1 << 10, pace: ms(16), ..FakeResponse::good(requested) })
    });
    let config = DownloadConfig { streams: 1, segment_bytes: 16 << 10, ..config() };
    let downloads = home.downloads(RealDisk, config);
    let share = downloads.fetch(blob_request(&contents, &[&source]));
    wait_for_bytes(&share, 20_000).await;
    let late = LEN as u64 - 50_000;
    share.prioritize(late);
    let mut progress = share.progress();
    let there = progress.wait_for(|progress| progress.written.iter().any(|range| range.contains(&late)));
    let seen = tokio::time::timeout(Duration::from_secs(5), there).await.expect("the prioritized bytes arrive early");
    let seen = seen.expect("the download continues");
    assert!(seen.prefix_bytes < LEN as u64 / 2, "bytes before it are still missing: {} bytes", seen.prefix_bytes);
}
