//! Whole downloads, from sources that misbehave in every way we know of.

mod faults;

use std::ops::Range;
use std::path::Path;

use cairn_disk::{Disk, RealDisk};
use cairn_testkit::Random;

use super::*;
use crate::fake::{Answer, Fake, Then, broken};
use crate::{Downloads, FetchBlob, Priority, SourceError};

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Everything a thousandth of what it is.
pub(crate) fn config() -> Config {
    Config {
        streams: 4,
        at_once: 3,
        segment_bytes: 128 << 10,
        split_bytes: 4 << 10,
        unkept_bytes: 128 << 10,
        stall: ms(150),
        stall_tries: 4,
        slow_after: ms(200),
        lease_for: ms(500),
        steal_after: ms(50),
        tries: 6,
        backoff: ms(2),
        longest_backoff: ms(10),
        patience: ms(1000),
        poll: ms(10),
        reserve_bytes: 0,
        cap_bytes_per_s: None,
        seed: 1,
    }
}

pub(crate) fn contents(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// A library in a folder of its own.
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

    pub(crate) fn downloads(&self, disk: impl Disk + 'static, config: Config) -> Downloads {
        Downloads::new(&self.library(), Arc::new(disk), config).unwrap()
    }

    /// Names of all files that are kept, without digests.
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

pub(crate) fn wanted(contents: &[u8], sources: &[&Arc<Fake>]) -> FetchBlob {
    FetchBlob {
        digest: Digest::of(contents),
        size_bytes: contents.len() as u64,
        sources: sources.iter().map(|source| Arc::clone(source) as Arc<dyn BlobSource>).collect(),
        priority: Priority::Normal,
        label: "a model".to_owned(),
    }
}

/// Downloads to the end, and holds progress to going forwards only.
pub(crate) async fn run(downloads: &Downloads, blob: FetchBlob) -> Result<Ready, DownloadError> {
    let mut subscription = downloads.fetch(blob);
    let mut progress = subscription.progress();
    let watching = tokio::spawn(async move {
        let mut last = (1, 0);
        while progress.changed().await.is_ok() {
            let now = progress.borrow_and_update().clone();
            assert!((now.attempt, now.held_bytes) >= last, "it went back from {last:?} to {now:?}");
            assert!(now.held_bytes <= now.size_bytes, "more than there is: {now:?}");
            last = (now.attempt, now.held_bytes);
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(60), subscription.done()).await;
    let ended = ended.expect("a download ends");
    drop(subscription);
    watching.await.expect("progress goes forwards");
    ended
}

/// Downloads `contents` from `sources` and checks what is on the disk then.
async fn check(what: &str, contents: &[u8], sources: &[&Arc<Fake>]) {
    let home = Home::new();
    let ready = run(&home.downloads(RealDisk, config()), wanted(contents, sources)).await;
    let ready = ready.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(std::fs::read(&ready.path).unwrap() == contents, "{what}: other bytes");
    assert_eq!(home.files(), ["ready/blob"], "{what}: one file, and nothing beside it");
}

fn host(sources: &[&Arc<Fake>]) -> String {
    sources.iter().map(|source| source.opened().to_string()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_of_all_kinds_arrive() {
    for len in [0, 1, 100, 4096, 65_537, 1 << 20, 3_000_001] {
        let contents = contents(len, len as u64);
        let source = Fake::good("nas", &contents);
        check(&format!("{len} bytes"), &contents, &[&source]).await;
        assert_eq!(source.sent_bytes(), len as u64, "{len} bytes: each was fetched once");
        assert!(len < 1 << 20 || source.opened() > 4, "{len} bytes: in parallel ranges ({})", host(&[&source]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_here_is_not_fetched() {
    let (home, contents) = (Home::new(), contents(100_000, 1));
    let downloads = home.downloads(RealDisk, config());
    let source = Fake::good("nas", &contents);
    let first = run(&downloads, wanted(&contents, &[&source])).await.expect("it is fetched");
    let opened = source.opened();
    let second = run(&downloads, wanted(&contents, &[&source])).await.expect("it is there");
    assert_eq!((source.opened(), first.present, second.present), (opened, false, true), "nobody was asked");
    std::fs::create_dir_all(home.library().blob_path(&first.digest).parent().unwrap()).unwrap();
    std::fs::rename(&first.path, home.library().blob_path(&first.digest)).unwrap();
    let third = run(&downloads, wanted(&contents, &[&source])).await.expect("it is in the library");
    assert_eq!((source.opened(), third.path), (opened, home.library().blob_path(&first.digest)), "nobody was asked");
    assert_eq!(home.files(), ["blobs/blob"], "nothing was begun");
}

/// A disk that fails at any of its steps, then one that does not: nothing is lost but what was on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_step_it_goes_on() {
    let contents = contents(400_000, 7);
    let (mut steps, mut kills) = (3, 0);
    loop {
        let home = Home::new();
        drop(home.downloads(RealDisk, config()));
        let source = Fake::good("nas", &contents);
        let disk = cairn_testkit::FaultyDisk::after(steps);
        let first = run(&home.downloads(disk.clone(), config()), wanted(&contents, &[&source])).await;
        let finished = first.is_ok();
        disk.cut_power();
        assert!(finished || home.files().iter().all(|name| name != "blobs/blob"), "nothing is published");
        let ready = run(&home.downloads(RealDisk, config()), wanted(&contents, &[&source])).await;
        let ready = ready.unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        assert!(std::fs::read(&ready.path).unwrap() == contents, "after {steps} steps: other bytes");
        let twice = source.sent_bytes() - contents.len() as u64;
        let most = u64::from(config().unkept_bytes) + 4 * (16 << 10);
        assert!(twice <= most, "after {steps} steps: {twice} bytes were fetched twice, {most} are allowed");
        if finished {
            break;
        }
        assert_eq!(home.files(), ["ready/blob"], "after {steps} steps: nothing else stays");
        kills += 1;
        steps += 1;
    }
    assert!(kills > 10, "the disk was asked for {kills} steps only");
}

/// What was kept before and is damaged now is nobody's fault: it is thrown away, and all is fetched again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_partial_is_fetched_again() {
    let (home, contents) = (Home::new(), contents(600_000, 8));
    let downloads = home.downloads(RealDisk, config());
    let half = Fake::scripted("half", &contents, |number, asked| match number {
        0..3 => Ok(Answer::good(asked)),
        _ => Err(SourceError::Refused { host: "half".to_owned(), status: None, reason: "enough".to_owned() }),
    });
    run(&downloads, wanted(&contents, &[&half])).await.expect_err("it gives half of it");
    let path = downloads.staging().partial_path(&Digest::of(&contents));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let source = Fake::good("nas", &contents);
    let mut subscription = downloads.fetch(wanted(&contents, &[&source]));
    let ready = subscription.done().await.expect("it is fetched again");
    assert_eq!(subscription.progress().borrow().attempt, 2, "once more from the beginning");
    assert!(ready.wrong_hosts.is_empty(), "the source is not to blame: {:?}", ready.wrong_hosts);
    assert!(std::fs::read(&ready.path).unwrap() == contents, "the right bytes");
}
