//! The remote tier over a folder and over a bucket: what is there comes back, whatever else lies there is a miss.

mod damage;
mod foreign;
mod hang;
mod s3;

use std::sync::atomic::{AtomicU8, Ordering};

use tempfile::TempDir;

use super::*;
use crate::format::tests::{Sequence, wanted};
use crate::tiers::tests::fake::HandClock;

/// The place of a test, which several machines share.
pub(super) struct Home {
    pub(super) folder: TempDir,
    pub(super) clock: Arc<HandClock>,
}

/// Through which door a test goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Folder,
    Bucket,
}

pub(super) const DOORS: [Door; 2] = [Door::Folder, Door::Bucket];

impl Home {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), clock: Arc::default() }
    }

    pub(super) fn files(&self, door: Door) -> Arc<dyn Files> {
        let root = self.folder.path();
        match door {
            Door::Folder => Arc::new(Folder::new(root)),
            Door::Bucket => {
                let store = object_store::local::LocalFileSystem::new_with_prefix(root).expect("the folder is there");
                Arc::new(Bucket::over(Arc::new(store), "".into()).expect("threads are to be had"))
            }
        }
    }

    pub(super) fn open(&self, door: Door) -> Remote {
        self.open_over(self.files(door), shared())
    }

    pub(super) fn open_over(&self, files: Arc<dyn Files>, keys: FileKeys) -> Remote {
        self.open_waiting(files, keys, Duration::from_millis(300))
    }

    /// One whose calls may take so long.
    pub(super) fn open_waiting(&self, files: Arc<dyn Files>, keys: FileKeys, answer: Duration) -> Remote {
        let options = RemoteOptions { answer, list: 2 * answer, ..RemoteOptions::default() };
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        Remote::open(files, keys, options, clock, nonce()).expect("threads are to be had")
    }

    pub(super) fn file(&self, chunk: &Chunk) -> std::path::PathBuf {
        self.folder.path().join(Name::of(&chunk.head.id).path())
    }
}

/// Bytes that no other call in this process has.
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
    Remote::keys(&Namespace::new(b"a secret that machines share", "place"))
}

pub(super) fn chunks(seed: u64) -> Vec<Chunk> {
    let mut sequence = Sequence::new("me", 1, seed);
    vec![sequence.chunk(256), sequence.chunk(256), sequence.chunk(77)]
}

pub(super) fn scanned(remote: &Remote) -> Vec<Stored> {
    let mut all = Vec::new();
    remote.scan(&mut |stored| all.push(stored)).expect("it can be listed");
    all.sort_by_key(|stored| stored.first_position);
    all
}

pub(super) fn comes_back(remote: &Remote, chunk: &Chunk, why: &str) {
    let loaded = remote.load(&wanted(chunk)).unwrap_or_else(|miss| panic!("{why}: {miss}"));
    assert!(loaded.head == chunk.head && loaded.payload == chunk.payload, "{why}: it is what was saved");
}

/// All that a place is for, between two machines.
pub(super) fn serves(one: &Remote, other: &Remote, what: &str) {
    let chunks = chunks(7);
    for chunk in &chunks {
        assert_eq!(other.load(&wanted(chunk)).err(), Some(Miss::Absent), "{what}: nothing is there yet");
        assert!(!other.may_hold(&chunk.head.id), "{what}: and nothing is thought to be");
    }
    let saved: Vec<Stored> = chunks.iter().map(|chunk| one.save(chunk).expect("it is written")).collect();
    assert_eq!(scanned(one), saved, "{what}: a scan tells what saves told");
    assert_eq!(scanned(other), saved, "{what}: another machine finds all, with the tokens");
    for chunk in &chunks {
        assert!(one.may_hold(&chunk.head.id) && other.may_hold(&chunk.head.id), "{what}: both know their names");
        comes_back(one, chunk, what);
        comes_back(other, chunk, what);
    }
    assert_eq!(other.save(&chunks[0]).expect("it is there"), saved[0], "{what}: what is there stays");
    one.remove(&chunks[2].head.id).expect("it is removed");
    one.remove(&chunks[2].head.id).expect("what is not there is as good as removed");
    assert_eq!(other.load(&wanted(&chunks[2])).err(), Some(Miss::Absent), "{what}: it is gone for all");
    assert!(!other.may_hold(&chunks[2].head.id), "{what}: and that is known now");
    assert_eq!(scanned(other), saved[..2], "{what}: the rest stays");
}

#[test]
fn machines_that_share_a_place_find_what_the_others_computed() {
    for (mine, theirs) in DOORS.into_iter().flat_map(|mine| DOORS.map(|theirs| (mine, theirs))) {
        let home = Home::new();
        serves(&home.open(mine), &home.open(theirs), &format!("{mine:?} and {theirs:?}"));
    }
}

#[test]
fn a_listing_goes_stale_and_is_made_anew() {
    for door in DOORS {
        let home = Home::new();
        let (one, other) = (home.open(door), home.open(door));
        assert_eq!(scanned(&other), [], "{door:?}: nothing yet");
        let chunk = &chunks(1)[0];
        let saved = one.save(chunk).expect("it is written");
        assert_eq!(scanned(&other), [], "{door:?}: a scan soon after asks nothing of the place");
        comes_back(&other, chunk, "what no listing told of is there for who asks");
        home.clock.pass(Duration::from_secs(301));
        assert_eq!(scanned(&other), [saved], "{door:?}: later it does");
    }
}

#[test]
fn a_share_that_is_not_mounted_is_away_and_not_empty() {
    let home = Home::new();
    let (mount, remembered) = (home.folder.path().join("mount"), home.folder.path().join("ours/share"));
    let (server, empty) = (home.folder.path().join("server"), home.folder.path().join("empty"));
    std::fs::create_dir(&mount).expect("the folder is writable");
    let open = || {
        let folder = Folder::new(&mount).remembered_in(remembered.clone());
        home.open_over(Arc::new(folder), shared())
    };
    let chunk = &chunks(1)[0];
    assert_eq!(scanned(&open()), [], "a new share is empty");
    let remote = open();
    remote.save(chunk).expect("it is written");
    comes_back(&open(), chunk, "a restarted daemon knows the share");

    // The share goes, and its mount point shows.
    let swap = |from: &std::path::Path, to: &std::path::Path| std::fs::rename(from, to).expect("both are there");
    swap(&mount, &server);
    std::fs::create_dir(&mount).expect("the folder is writable");
    for remote in [remote, open()] {
        let missed = remote.load(&wanted(chunk)).expect_err("it is not there");
        assert!(matches!(missed, Miss::Tier(TierError::Away(_))), "{missed:?} is not an absent chunk");
        let refused = remote.save(&chunks(2)[0]).expect_err("nothing is written in its place");
        assert!(refused.to_string().contains("not mounted"), "{refused}");
        assert!(remote.scan(&mut |_| {}).is_err(), "and its chunks are not lost");
    }
    assert_eq!(std::fs::read_dir(&mount).expect("it is there").count(), 0, "nothing lies in the mount point");

    // Another share in its place is not it either.
    std::fs::write(mount.join("cairn-kv-share"), "another").expect("the folder is writable");
    let missed = open().load(&wanted(chunk)).expect_err("it is not there");
    assert!(matches!(missed, Miss::Tier(TierError::Away(_))), "{missed:?}");
    swap(&mount, &empty);
    swap(&server, &mount);
    comes_back(&open(), chunk, "it is back");
}

#[test]
fn names_are_those_of_the_ssd_tier_and_nothing_else_is_one() {
    let chunk = &chunks(1)[0];
    let home = Home::new();
    home.open(Door::Folder).save(chunk).expect("it is written");
    let options = crate::ssd::SsdOptions::default();
    let root = home.folder.path();
    let ssd = crate::Ssd::open(Arc::new(cairn_disk::RealDisk), root, shared(), options, || [9; NONCE_BYTES]);
    let loaded = ssd.expect("the folder is writable").load(&wanted(chunk)).expect("it reads the same file");
    assert!(loaded.payload == chunk.payload, "with the same rows");
    let path = Name::of(&chunk.head.id).path();
    assert_eq!(Name::parse(&path), Some(Name::of(&chunk.head.id)), "a name is read as it is written");
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
        assert_eq!(Name::parse(other), None, "{other:?} is no name");
    }
}
