//! Tests of the remote tier over a folder and over a bucket: stored chunks load, everything else is a miss.

mod damage;
mod foreign;
mod hang;
mod s3;

use std::sync::atomic::{AtomicU8, Ordering};

use tempfile::TempDir;

use super::*;
use crate::format::tests::{Sequence, wanted};
use crate::tiers::tests::fake::ManualClock;

/// Storage that several machines share.
pub(super) struct TestFolder {
    pub(super) folder: TempDir,
    pub(super) clock: Arc<ManualClock>,
}

/// Implementation of [`FileStore`] under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Folder,
    Bucket,
}

pub(super) const BACKENDS: [Backend; 2] = [Backend::Folder, Backend::Bucket];

impl TestFolder {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("cannot create a temporary folder"), clock: Arc::default() }
    }

    pub(super) fn files(&self, backend: Backend) -> Arc<dyn FileStore> {
        let root = self.folder.path();
        match backend {
            Backend::Folder => Arc::new(SharedFolder::new(root)),
            Backend::Bucket => {
                let store = object_store::local::LocalFileSystem::new_with_prefix(root).expect("the folder exists");
                Arc::new(Bucket::over(Arc::new(store), "".into()).expect("threads can be created"))
            }
        }
    }

    pub(super) fn open(&self, backend: Backend) -> RemoteTier {
        self.open_over(self.files(backend), shared())
    }

    pub(super) fn open_over(&self, files: Arc<dyn FileStore>, keys: FileKeys) -> RemoteTier {
        self.open_with_timeout(files, keys, Duration::from_millis(300))
    }

    /// Opens a tier with this response timeout.
    pub(super) fn open_with_timeout(&self, files: Arc<dyn FileStore>, keys: FileKeys, answer: Duration) -> RemoteTier {
        let options = RemoteOptions { response_timeout: answer, list_timeout: 2 * answer, ..RemoteOptions::default() };
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        RemoteTier::open(files, keys, options, clock, nonce()).expect("threads can be created")
    }

    pub(super) fn file(&self, chunk: &Chunk) -> std::path::PathBuf {
        self.folder.path().join(ChunkFileName::of(&chunk.head.id).path())
    }
}

/// Returns nonces that are unique in this process.
pub(super) fn nonce() -> impl Fn() -> [u8; NONCE_BYTES] {
    static MACHINES: AtomicU8 = AtomicU8::new(0);
    let (machine, count) = (MACHINES.fetch_add(1, Ordering::Relaxed), AtomicU8::new(0));
    move || {
        let mut nonce = [machine; NONCE_BYTES];
        nonce[0] = count.fetch_add(1, Ordering::Relaxed);
        nonce
    }
}

pub(super) fn shared() -> FileKeys {
    RemoteTier::keys(&Namespace::new(b"a secret that machines share", "place"))
}

pub(super) fn chunks(seed: u64) -> Vec<Chunk> {
    let mut sequence = Sequence::new("me", 1, seed);
    vec![sequence.chunk(256), sequence.chunk(256), sequence.chunk(77)]
}

pub(super) fn scanned(remote: &RemoteTier) -> Vec<StoredChunk> {
    let mut all = Vec::new();
    remote.scan(&mut |stored| all.push(stored)).expect("the folder can be listed");
    all.sort_by_key(|stored| stored.first_position);
    all
}

pub(super) fn assert_loads(remote: &RemoteTier, chunk: &Chunk, why: &str) {
    let loaded = remote.load(&wanted(chunk)).unwrap_or_else(|miss| panic!("{why}: {miss}"));
    assert!(loaded.head == chunk.head && loaded.payload == chunk.payload, "{why}: the chunk is unchanged");
}

/// Tests all operations between two machines.
pub(super) fn check_shared(one: &RemoteTier, other: &RemoteTier, what: &str) {
    let chunks = chunks(7);
    for chunk in &chunks {
        assert_eq!(other.load(&wanted(chunk)).err(), Some(Miss::Absent), "{what}: nothing is stored yet");
        assert!(!other.may_contain(&chunk.head.id), "{what}: nothing is listed yet");
    }
    let saved: Vec<StoredChunk> = chunks.iter().map(|chunk| one.save(chunk).expect("the chunks are written")).collect();
    assert_eq!(scanned(one), saved, "{what}: a scan reports what `save` returned");
    assert_eq!(scanned(other), saved, "{what}: another machine finds all chunks, with keys");
    for chunk in &chunks {
        assert!(
            one.may_contain(&chunk.head.id) && other.may_contain(&chunk.head.id),
            "{what}: both have the names listed"
        );
        assert_loads(one, chunk, what);
        assert_loads(other, chunk, what);
    }
    assert_eq!(other.save(&chunks[0]).expect("the chunk is stored"), saved[0], "{what}: a stored chunk is kept");
    one.remove(&chunks[2].head.id).expect("the chunk is removed");
    one.remove(&chunks[2].head.id).expect("removing a missing chunk succeeds");
    assert_eq!(other.load(&wanted(&chunks[2])).err(), Some(Miss::Absent), "{what}: the chunk is gone for all machines");
    assert!(!other.may_contain(&chunks[2].head.id), "{what}: the listing is updated");
    assert_eq!(scanned(other), saved[..2], "{what}: the other chunks stay");
}

#[test]
fn machines_share_chunks_over_folder_and_bucket() {
    for (mine, theirs) in BACKENDS.into_iter().flat_map(|mine| BACKENDS.map(|theirs| (mine, theirs))) {
        let dir = TestFolder::new();
        check_shared(&dir.open(mine), &dir.open(theirs), &format!("{mine:?} and {theirs:?}"));
    }
}

#[test]
fn listing_is_refreshed_after_interval() {
    for backend in BACKENDS {
        let dir = TestFolder::new();
        let (one, other) = (dir.open(backend), dir.open(backend));
        assert_eq!(scanned(&other), [], "{backend:?}: nothing is stored yet");
        let chunk = &chunks(1)[0];
        let saved = one.save(chunk).expect("the chunks are written");
        assert_eq!(scanned(&other), [], "{backend:?}: the next scan uses the old listing");
        assert_loads(&other, chunk, "an unlisted chunk loads on request");
        dir.clock.pass(Duration::from_secs(301));
        assert_eq!(scanned(&other), [saved], "{backend:?}: a later scan lists again");
    }
}

#[test]
fn unmounted_share_is_unavailable_not_empty() {
    let dir = TestFolder::new();
    let (mount, unscanned_rows) = (dir.folder.path().join("mount"), dir.folder.path().join("ours/share"));
    let (server, empty) = (dir.folder.path().join("server"), dir.folder.path().join("empty"));
    std::fs::create_dir(&mount).expect("the folder is writable");
    let open = || {
        let folder = SharedFolder::new(&mount).remembered_in(unscanned_rows.clone());
        dir.open_over(Arc::new(folder), shared())
    };
    let chunk = &chunks(1)[0];
    assert_eq!(scanned(&open()), [], "a new share is empty");
    let remote = open();
    remote.save(chunk).expect("the chunks are written");
    assert_loads(&open(), chunk, "a restarted daemon recognises the share");

    // The share is unmounted, and its mount point is visible.
    let swap = |from: &std::path::Path, to: &std::path::Path| std::fs::rename(from, to).expect("both exist");
    swap(&mount, &server);
    std::fs::create_dir(&mount).expect("the folder is writable");
    for remote in [remote, open()] {
        let missed = remote.load(&wanted(chunk)).expect_err("the chunk is missing");
        assert!(matches!(missed, Miss::Tier(TierError::Unavailable(_))), "{missed:?} is not an absent chunk");
        let refused = remote.save(&chunks(2)[0]).expect_err("nothing is written into the mount point");
        assert!(refused.to_string().contains("not mounted"), "{refused}");
        assert!(remote.scan(&mut |_| {}).is_err(), "a scan fails, so the chunks are not lost");
    }
    assert_eq!(std::fs::read_dir(&mount).expect("the mount point exists").count(), 0, "the mount point stays empty");

    // A share with another marker is rejected too.
    std::fs::write(mount.join("cairn-kv-share"), "another").expect("the folder is writable");
    let missed = open().load(&wanted(chunk)).expect_err("the chunk is missing");
    assert!(matches!(missed, Miss::Tier(TierError::Unavailable(_))), "{missed:?}");
    swap(&mount, &empty);
    swap(&server, &mount);
    assert_loads(&open(), chunk, "the share is mounted again");
}

#[test]
fn file_names_match_ssd_tier_and_other_names_are_rejected() {
    let chunk = &chunks(1)[0];
    let dir = TestFolder::new();
    dir.open(Backend::Folder).save(chunk).expect("the chunks are written");
    let options = crate::ssd::SsdOptions::default();
    let root = dir.folder.path();
    let ssd = crate::SsdTier::open(Arc::new(cairn_disk::RealDisk), root, shared(), options, || [9; NONCE_BYTES]);
    let loaded = ssd.expect("the folder is writable").load(&wanted(chunk)).expect("the SSD tier reads the same file");
    assert!(loaded.payload == chunk.payload, "the rows are equal");
    let path = ChunkFileName::of(&chunk.head.id).path();
    assert_eq!(ChunkFileName::parse(&path), Some(ChunkFileName::of(&chunk.head.id)), "a path parses to its name");
    for other in [
        "",
        "v1",
        "v1/drafts/x",
        &path.replace("v1", "v2"),
        &path[1..],
        &path[..path.len() - 1],
        &path.to_uppercase(),
        &path.replace("full", "half"),
    ] {
        assert_eq!(ChunkFileName::parse(other), None, "{other:?} is not a chunk's path");
    }
}
