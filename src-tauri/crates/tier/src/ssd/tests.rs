//! The folder: whatever happens to its files, a chunk is the right one or a miss.

mod crash;
mod damage;
mod foreign;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use cairn_disk::RealDisk;
use tempfile::TempDir;

use super::*;
use crate::chunk::{ChunkHead, NumericClass};
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

#[test]
fn what_is_there_stays_unless_the_new_one_serves_better() {
    let home = Home::new();
    let ssd = home.open();
    let chunk = several().remove(0);
    let with = |change: fn(&mut ChunkHead)| {
        let mut head = (*chunk.head).clone();
        change(&mut head);
        Chunk { head: Arc::new(head), payload: Arc::clone(&chunk.payload) }
    };
    let written = || std::fs::metadata(home.file(&chunk)).and_then(|found| found.modified()).expect("it is there");
    let check = |saved: &Chunk, replaces: bool, why: &str| {
        let before = written();
        std::thread::sleep(std::time::Duration::from_millis(20));
        ssd.save(saved).expect("there is room");
        assert_eq!(written() != before, replaces, "{why}");
    };
    ssd.save(&with(|head| head.flags.lossy = true)).expect("there is room");
    assert!(matches!(ssd.load(&wanted(&chunk)), Err(Miss::Other(_))), "rounded rows do not serve everybody");
    check(&with(|head| head.flags.lossy = true), false, "the same again");
    check(&chunk, true, "exact rows replace rounded ones");
    check(&with(|head| head.flags.lossy = true), false, "rounded rows do not replace exact ones");
    check(&with(|head| head.created_unix_s += 9), false, "the same rows of another time");
    comes_back(&ssd, &chunk);
    let other = with(|head| head.class = NumericClass::new("gpu/1").expect("a short name"));
    check(&other, true, "the arithmetic in use replaces another");
    comes_back(&ssd, &other);
    std::fs::write(home.file(&chunk), "x").expect("it can be written");
    check(&chunk, true, "a damaged file is replaced");
    comes_back(&ssd, &chunk);
}

#[test]
fn the_first_is_the_owner_and_others_add() {
    let home = Home::new();
    let chunks = several();
    let (owner, guest) = (home.open(), home.open());
    assert!(owner.is_owner() && !guest.is_owner(), "one of two is the owner");
    guest.save(&chunks[0]).expect("a guest may add");
    comes_back(&owner, &chunks[0]);
    owner.save(&chunks[1]).expect("there is room");
    comes_back(&guest, &chunks[1]);
    assert!(guest.remove(&chunks[1].head.id).is_err() && guest.clear().is_err(), "a guest removes nothing");
    assert!(guest.fsck(true).is_err() && guest.fsck(false).is_ok(), "and repairs nothing");
    std::fs::write(home.file(&chunks[0]), "x").expect("it can be written");
    assert!(matches!(guest.load(&wanted(&chunks[0])), Err(Miss::Damaged(_))), "a guest sees damage");
    assert!(home.file(&chunks[0]).exists(), "and leaves it to the owner");
    assert!(!guest.try_own(), "the owner lives");
    drop(owner);
    assert!(guest.try_own(), "the guest takes over");
    assert_eq!(scanned(&guest).len(), 1, "and sees what is whole");
    assert_eq!((guest.aside().len(), home.file(&chunks[0]).exists()), (1, false), "what is not was put aside");
}

#[test]
fn packed_and_sealed_chunks_come_back() {
    let home = Home::new();
    let mut sequence = Sequence::new("me", 1, 8);
    sequence.section_bytes = 1 << 17;
    let chunks: Vec<_> = (0..3).map(|_| sequence.chunk(256)).collect();
    let options = SsdOptions { durable: true, ..SsdOptions::default() };
    let ssd = Ssd::open(Arc::new(RealDisk), &home.root(), keys().sealed([3; 32]), options, || [5; NONCE_BYTES])
        .expect("the folder is writable");
    let raw = ssd.save(&chunks[0]).expect("there is room");
    ssd.set_packing(Packing::Lossless);
    let lossless = ssd.save(&chunks[1]).expect("there is room");
    ssd.set_packing(Packing::Compact);
    let compact = ssd.save(&chunks[2]).expect("there is room");
    assert!(raw.bytes > lossless.bytes && lossless.bytes > compact.bytes, "each takes less room than the one before");
    comes_back(&ssd, &chunks[0]);
    comes_back(&ssd, &chunks[1]);
    assert!(compact.flags.lossy && !lossless.flags.lossy, "what was rounded is marked");
    assert!(matches!(ssd.load(&wanted(&chunks[2])), Err(Miss::Other(_))), "and is for those only who allow it");
    let rounded = ssd.load(&Wanted { lossy: true, ..wanted(&chunks[2]) }).expect("it is allowed");
    assert!(rounded.head.flags.lossy && rounded.payload.len() == chunks[2].payload.len(), "it says so itself");
    // Without the key nothing is read, and nothing is lost either.
    drop(ssd);
    let ssd = home.open();
    let told = scanned(&ssd);
    assert!(
        told.len() == 3 && told.iter().all(|stored| stored.keys.is_none()),
        "that it is there can be told: {told:?}"
    );
    let unopened = ssd.load(&wanted(&chunks[0]));
    assert!(matches!(unopened, Err(Miss::Other(_))), "it is sealed: {unopened:?}");
    assert!(home.file(&chunks[0]).exists(), "it stays for those who have the key");
}

#[test]
fn a_check_tells_whole_damaged_and_useless_files_apart() {
    let home = Home::new();
    let ssd = home.open();
    let mut sequence = Sequence::new("me", 1, 9);
    let chunks: Vec<_> = (0..6).map(|_| sequence.chunk(256)).collect();
    let bytes: Vec<u64> = chunks.iter().map(|chunk| ssd.save(chunk).expect("there is room").bytes).collect();
    let report = ssd.fsck(false).expect("it can be listed");
    assert_eq!((report.whole, report.whole_bytes), (6, bytes.iter().sum()), "all are whole: {report:?}");
    assert!(report.damaged.is_empty() && report.orphans.is_empty(), "and of use: {report:?}");

    // A header that is right does not make the rows right.
    let hurt = home.file(&chunks[3]);
    let mut file = std::fs::read(&hurt).expect("it is there");
    // The last section has two blocks, and the trailer one.
    let at = file.len() - 3 * 4096 + 10;
    file[at] ^= 1;
    std::fs::write(&hurt, file).expect("it can be written");
    let draft = home.root().join("v1/drafts/.draft.1-2.tmp");
    std::fs::write(&draft, "half").expect("it can be written");
    let report = ssd.fsck(false).expect("it can be listed");
    assert_eq!(report.damaged, [(hurt.clone(), "a section is not what was written")], "the damage is found");
    let mut lost = [chunks[4].head.id, chunks[5].head.id];
    lost.sort();
    assert_eq!(report.orphans, lost, "what follows it is of no use");
    assert!(hurt.exists() && draft.exists(), "looking changes nothing");

    ssd.fsck(true).expect("it can be repaired");
    assert!(!hurt.exists() && !draft.exists(), "what is damaged or dead is gone");
    let report = ssd.fsck(true).expect("it can be listed");
    assert_eq!((report.whole, report.damaged.len(), report.orphans.len()), (3, 0, 0), "what is left is fine");
    chunks[..3].iter().for_each(|chunk| comes_back(&ssd, chunk));
}

#[test]
fn a_scan_reads_what_is_new_only() {
    let home = Home::new();
    let (ssd, chunks) = (home.open(), several());
    chunks.iter().for_each(|chunk| drop(ssd.save(chunk).expect("there is room")));
    assert_eq!(scanned(&ssd).len(), chunks.len(), "all of it is read once");
    let path = home.file(&chunks[0]);
    let file = std::fs::File::options().write(true).open(&path).expect("it is there");
    let then = file.metadata().and_then(|found| found.modified()).expect("files have times");
    std::io::Write::write_all(&mut &file, b"another head").expect("it is writable");
    file.set_modified(then).expect("a file's time can be set");
    assert_eq!(scanned(&ssd).len(), chunks.len(), "what is as it was is not read again");
    file.set_modified(then + std::time::Duration::from_secs(1)).expect("as before");
    assert_eq!(scanned(&ssd).len(), chunks.len() - 1, "what was touched is");
    ssd.save(&Sequence::new("me", 1, 77).chunk(256)).expect("there is room");
    assert_eq!(scanned(&ssd).len(), chunks.len(), "and so is what is new");
}
