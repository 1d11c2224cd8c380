//! The folder: whatever happens to its files, a chunk is the right one or a miss.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use cairn_disk::RealDisk;
use tempfile::TempDir;

use super::*;
use crate::format::tests::{Sequence, keys, wanted};

struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn open(&self) -> Ssd {
        self.open_on(RealDisk, SsdOptions::default())
    }

    fn open_on(&self, disk: impl Disk + 'static, options: SsdOptions) -> Ssd {
        let count = AtomicU8::new(0);
        let nonce = move || [count.fetch_add(1, Ordering::Relaxed); NONCE_BYTES];
        Ssd::open(Arc::new(disk), &self.root(), keys(), options, nonce).expect("the folder is writable")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("kv")
    }

    fn file(&self, chunk: &Chunk) -> PathBuf {
        Layout::new(&self.root()).file(&chunk.head.id)
    }
}

fn scanned(ssd: &Ssd) -> Vec<Stored> {
    let mut all = Vec::new();
    ssd.scan(&mut |stored| all.push(stored)).expect("it can be listed");
    all.sort_by_key(|stored| stored.first_position);
    all
}

fn comes_back(ssd: &Ssd, chunk: &Chunk) {
    let loaded = ssd.load(&wanted(chunk)).expect("it was saved");
    assert!(loaded.head == chunk.head && loaded.payload == chunk.payload, "it is what was saved");
}

/// Chunks of many sections, of long ones, and of the end of a sequence.
fn several() -> Vec<Chunk> {
    let mut sequence = Sequence::new("me", 1, 1);
    let few = sequence.chunk(256);
    (sequence.layers, sequence.section_bytes) = (130, 30_000);
    let many = sequence.chunk(256);
    (sequence.layers, sequence.section_bytes) = (1, 3 << 20);
    vec![few, many, sequence.chunk(17)]
}

#[test]
fn what_is_saved_is_loaded_now_and_after_a_restart() {
    let home = Home::new();
    let chunks = several();
    let ssd = home.open();
    assert!(matches!(ssd.load(&wanted(&chunks[0])), Err(Miss::Absent)), "nothing is there yet");
    let saved: Vec<_> = chunks.iter().map(|chunk| ssd.save(chunk).expect("there is room")).collect();
    chunks.iter().for_each(|chunk| comes_back(&ssd, chunk));
    assert_eq!(scanned(&ssd), saved, "a scan tells what saving told");
    assert!(saved.iter().all(|stored| stored.bytes >= 4096 && stored.bytes.is_multiple_of(512)), "in whole blocks");
    drop(ssd);
    let ssd = home.open_on(RealDisk, SsdOptions { threads: 1, ..SsdOptions::default() });
    chunks.iter().for_each(|chunk| comes_back(&ssd, chunk));
    assert_eq!(scanned(&ssd), saved, "a restart changes nothing");
    ssd.remove(&chunks[1].head.id).expect("it can be removed");
    ssd.remove(&chunks[1].head.id).expect("one that is not there is as good");
    assert!(matches!(ssd.load(&wanted(&chunks[1])), Err(Miss::Absent)), "it is gone");
    assert_eq!(scanned(&ssd).len(), 2, "the others are not");
    ssd.clear().expect("it can be cleared");
    assert_eq!(scanned(&ssd), [], "nothing is left");
}

#[cfg(unix)]
#[test]
fn nobody_else_can_look() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let chunk = &several()[0];
    home.open().save(chunk).expect("there is room");
    let mut path = home.file(chunk);
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600, "the file is this user's");
    while path.pop() && path != home.folder.path() {
        assert_eq!(mode(&path), 0o700, "{} is this user's", path.display());
    }
}
