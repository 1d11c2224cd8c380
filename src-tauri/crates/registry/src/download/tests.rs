//! Complete downloads, with interruptions and disk faults.

mod faults;

use std::ops::Range;
use std::path::Path;

use cairn_disk::{Disk, RealDisk};
use cairn_testkit::Random;

use super::*;
use crate::tests::fake_source::{Ending, FakeResponse, FakeSource, broken};
use crate::{BlobRequest, Downloads, Priority, SourceError};

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The default settings, scaled down.
pub(crate) fn config() -> DownloadConfig {
    DownloadConfig {
        streams: 4,
        max_parallel: 3,
        segment_bytes: 128 << 10,
        split_bytes: 4 << 10,
        max_unsynced_bytes: 128 << 10,
        stall_timeout: ms(150),
        max_stalls: 4,
        slow_after: ms(200),
        lease_duration: ms(500),
        steal_after: ms(50),
        max_attempts: 6,
        backoff: ms(2),
        max_backoff: ms(10),
        max_retry_after: ms(1000),
        poll_interval: ms(10),
        reserve_bytes: 0,
        limit_bytes_per_s: None,
        seed: 1,
    }
}

pub(crate) fn contents(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// A library in a temporary folder.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn library(&self) -> Library {
        Library::new(self.folder.path().join("models"))
    }

    pub(crate) fn downloads(&self, disk: impl Disk + 'static, config: DownloadConfig) -> Downloads {
        Downloads::new(&self.library(), Arc::new(disk), config).unwrap()
    }

    /// Names of all files in the folder, without digests.
    pub(crate) fn files(&self) -> Vec<String> {
        fn walk(folder: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    walk(&entry.path(), found);
                } else {
                    let folder = folder.file_name().unwrap().to_str().unwrap();
                    let name = entry.file_name().into_string().unwrap();
                    let end = name.split_once('.').map_or(String::new(), |(_, end)| format!(".{end}"));
                    found.push(format!("{folder}/blob{end}"));
                }
            }
        }
        let mut found = Vec::new();
        walk(self.folder.path(), &mut found);
        found.sort();
        found
    }
}

pub(crate) fn blob_request(contents: &[u8], sources: &[&Arc<FakeSource>]) -> BlobRequest {
    BlobRequest {
        digest: Digest::of(contents),
        size_bytes: contents.len() as u64,
        sources: sources.iter().map(|source| Arc::clone(source) as Arc<dyn BlobSource>).collect(),
        priority: Priority::Normal,
        label: "a model".to_owned(),
        limit_bytes: None,
    }
}

/// Runs a download to its end and checks that the progress never decreases.
pub(crate) async fn run(downloads: &Downloads, blob: BlobRequest) -> Result<CompletedBlob, DownloadError> {
    let mut subscription = downloads.fetch(blob);
    let mut progress = subscription.progress();
    let watching = tokio::spawn(async move {
        let mut last = (1, 0);
        while progress.changed().await.is_ok() {
            let now = progress.borrow_and_update().clone();
            assert!((now.attempt, now.held_bytes) >= last, "progress decreased from {last:?} to {now:?}");
            assert!(now.held_bytes <= now.size_bytes, "more bytes than the size: {now:?}");
            last = (now.attempt, now.held_bytes);
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(60), subscription.wait()).await;
    let ended = ended.expect("the download ends in time");
    drop(subscription);
    watching.await.expect("the progress never decreases");
    ended
}

/// Downloads `contents` from `sources` and checks the resulting files.
async fn check(what: &str, contents: &[u8], sources: &[&Arc<FakeSource>]) {
    let home = Home::new();
    let ready = run(&home.downloads(RealDisk, config()), blob_request(contents, sources)).await;
    let ready = ready.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(std::fs::read(&ready.path).unwrap() == contents, "{what}: wrong bytes");
    assert_eq!(home.files(), ["ready/blob"], "{what}: one file only");
}

fn request_counts(sources: &[&Arc<FakeSource>]) -> String {
    sources.iter().map(|source| source.opened().to_string()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_of_all_sizes_are_downloaded() {
    for len in [0, 1, 100, 4096, 65_537, 1 << 20, 3_000_001] {
        let contents = contents(len, len as u64);
        let source = FakeSource::good("nas", &contents);
        check(&format!("{len} bytes"), &contents, &[&source]).await;
        assert_eq!(source.sent_bytes(), len as u64, "{len} bytes: each byte is sent once");
        assert!(
            len < 1 << 20 || source.opened() > 4,
            "{len} bytes: in parallel ranges ({})",
            request_counts(&[&source])
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn existing_blob_is_not_downloaded() {
    let (home, contents) = (Home::new(), contents(100_000, 1));
    let downloads = home.downloads(RealDisk, config());
    let source = FakeSource::good("nas", &contents);
    let first = run(&downloads, blob_request(&contents, &[&source])).await.expect("the download succeeds");
    let opened = source.opened();
    let second = run(&downloads, blob_request(&contents, &[&source])).await.expect("the blob is staged");
    assert_eq!((source.opened(), first.present, second.present), (opened, false, true), "no request was sent");
    std::fs::create_dir_all(home.library().blob_path(&first.digest).parent().unwrap()).unwrap();
    std::fs::rename(&first.path, home.library().blob_path(&first.digest)).unwrap();
    let third = run(&downloads, blob_request(&contents, &[&source])).await.expect("the blob is in the library");
    assert_eq!((source.opened(), third.path), (opened, home.library().blob_path(&first.digest)), "no request was sent");
    assert_eq!(home.files(), ["blobs/blob"], "no partial file");
}

/// Fails the disk at each of its steps, then resumes: at most the unsynced bytes are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_resumes_after_failure_at_any_disk_step() {
    let contents = contents(400_000, 7);
    let (mut steps, mut kills) = (3, 0);
    loop {
        let home = Home::new();
        drop(home.downloads(RealDisk, config()));
        let source = FakeSource::good("nas", &contents);
        let disk = cairn_testkit::FaultyDisk::fail_after(steps);
        let first = run(&home.downloads(disk.clone(), config()), blob_request(&contents, &[&source])).await;
        let finished = first.is_ok();
        disk.cut_power();
        assert!(finished || home.files().iter().all(|name| name != "blobs/blob"), "no blob is published");
        let ready = run(&home.downloads(RealDisk, config()), blob_request(&contents, &[&source])).await;
        let ready = ready.unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        assert!(std::fs::read(&ready.path).unwrap() == contents, "after {steps} steps: wrong bytes");
        let twice = source.sent_bytes() - contents.len() as u64;
        let most = u64::from(config().max_unsynced_bytes) + 4 * (16 << 10);
        assert!(twice <= most, "after {steps} steps: {twice} bytes were downloaded twice, limit {most}");
        if finished {
            break;
        }
        assert_eq!(home.files(), ["ready/blob"], "after {steps} steps: no other files");
        kills += 1;
        steps += 1;
    }
    assert!(kills > 10, "only {kills} failures were tested");
}

/// A partial file that was damaged on the disk is deleted and downloaded again, and no source is blamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_partial_file_is_downloaded_again() {
    let (home, contents) = (Home::new(), contents(600_000, 8));
    let downloads = home.downloads(RealDisk, config());
    let digest = Digest::of(&contents);
    // On a busy machine the refusal may end the download before its first part is complete.
    while downloads.staging().durable_bytes(&digest) == 0 {
        let half = FakeSource::scripted("half", &contents, |number, requested| match number {
            0..3 => Ok(FakeResponse::good(requested)),
            _ => Err(SourceError::Refused { host: "half".to_owned(), status: None, reason: "enough".to_owned() }),
        });
        run(&downloads, blob_request(&contents, &[&half])).await.expect_err("the source sends half of the blob");
    }
    let staged = downloads.staging().claim(&digest, contents.len() as u64).unwrap();
    let first = staged.durable().iter().next().expect("some bytes are durable").start as usize;
    drop(staged);
    let path = downloads.staging().partial_path(&digest);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[first] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let source = FakeSource::good("nas", &contents);
    let mut subscription = downloads.fetch(blob_request(&contents, &[&source]));
    let ready = subscription.wait().await.expect("the blob is downloaded again");
    assert_eq!(subscription.progress().borrow().attempt, 2, "a second attempt from the beginning");
    assert!(ready.wrong_hosts.is_empty(), "the source is not blamed: {:?}", ready.wrong_hosts);
    assert!(std::fs::read(&ready.path).unwrap() == contents, "the correct bytes");
}
