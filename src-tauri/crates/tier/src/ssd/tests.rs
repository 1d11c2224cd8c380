//! Tests of the SSD tier: whatever happens to its files, a load returns the right chunk or a miss.

mod crash;
mod damage;
mod foreign;
mod newer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use cairn_disk::RealDisk;
use tempfile::TempDir;

use super::*;
use crate::chunk::{ChunkHead, NumericClass};
use crate::format::tests::{Sequence, keys, wanted};

struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("cannot create a temporary folder") }
    }

    fn open(&self) -> SsdTier {
        self.open_on(RealDisk, SsdOptions::default())
    }

    fn open_on(&self, disk: impl Disk + 'static, options: SsdOptions) -> SsdTier {
        let count = AtomicU8::new(0);
        let nonce = move || [count.fetch_add(1, Ordering::Relaxed); NONCE_BYTES];
        SsdTier::open(Arc::new(disk), &self.root(), keys(), options, nonce).expect("the folder is writable")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("kv")
    }

    fn file(&self, chunk: &Chunk) -> PathBuf {
        Layout::new(&self.root()).file(&chunk.head.id)
    }
}

fn scanned(ssd: &SsdTier) -> Vec<StoredChunk> {
    let mut all = Vec::new();
    ssd.scan(&mut |stored| all.push(stored)).expect("the folder can be listed");
    all.sort_by_key(|stored| stored.first_position);
    all
}

fn assert_loads(ssd: &SsdTier, chunk: &Chunk) {
    let loaded = ssd.load(&wanted(chunk)).expect("the chunk was saved");
    assert!(loaded.head == chunk.head && loaded.payload == chunk.payload, "the chunk is unchanged");
}

/// Chunks with many sections, with large sections, and a tail.
fn several() -> Vec<Chunk> {
    let mut sequence = Sequence::new("me", 1, 1);
    let few = sequence.chunk(256);
    (sequence.layers, sequence.section_bytes) = (130, 30_000);
    let many = sequence.chunk(256);
    (sequence.layers, sequence.section_bytes) = (1, 3 << 20);
    vec![few, many, sequence.chunk(17)]
}

#[test]
fn saved_chunk_loads_before_and_after_restart() {
    let dir = TestFolder::new();
    let chunks = several();
    let ssd = dir.open();
    assert!(matches!(ssd.load(&wanted(&chunks[0])), Err(Miss::Absent)), "nothing is stored yet");
    let saved: Vec<_> = chunks.iter().map(|chunk| ssd.save(chunk).expect("the chunk is stored")).collect();
    chunks.iter().for_each(|chunk| assert_loads(&ssd, chunk));
    assert_eq!(scanned(&ssd), saved, "a scan reports what `save` returned");
    assert!(
        saved.iter().all(|stored| stored.bytes >= 4096 && stored.bytes.is_multiple_of(512)),
        "sizes are whole blocks"
    );
    drop(ssd);
    let ssd = dir.open_on(RealDisk, SsdOptions { threads: 1, ..SsdOptions::default() });
    chunks.iter().for_each(|chunk| assert_loads(&ssd, chunk));
    assert_eq!(scanned(&ssd), saved, "a restart changes nothing");
    ssd.remove(&chunks[1].head.id).expect("the chunk can be removed");
    ssd.remove(&chunks[1].head.id).expect("removing a missing chunk succeeds");
    assert!(matches!(ssd.load(&wanted(&chunks[1])), Err(Miss::Absent)), "the chunk is gone");
    assert_eq!(scanned(&ssd).len(), 2, "the others are not");
    ssd.clear().expect("the folder can be cleared");
    assert_eq!(scanned(&ssd), [], "nothing is left");
}

#[cfg(unix)]
#[test]
fn files_and_folders_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestFolder::new();
    let chunk = &several()[0];
    dir.open().save(chunk).expect("the chunk is stored");
    let mut path = dir.file(chunk);
    let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600, "the file is private");
    while path.pop() && path != dir.folder.path() {
        assert_eq!(mode(&path), 0o700, "{} is private", path.display());
    }
}

#[test]
fn save_replaces_stored_chunk_only_if_new_one_serves_better() {
    let dir = TestFolder::new();
    let ssd = dir.open();
    let chunk = several().remove(0);
    let with = |change: fn(&mut ChunkHead)| {
        let mut head = (*chunk.head).clone();
        change(&mut head);
        Chunk { head: Arc::new(head), payload: Arc::clone(&chunk.payload) }
    };
    let written = || std::fs::metadata(dir.file(&chunk)).and_then(|found| found.modified()).expect("it exists");
    let check = |saved: &Chunk, replaces: bool, why: &str| {
        let before = written();
        std::thread::sleep(std::time::Duration::from_millis(20));
        ssd.save(saved).expect("the chunk is stored");
        assert_eq!(written() != before, replaces, "{why}");
    };
    ssd.save(&with(|head| head.flags.lossy = true)).expect("the chunk is stored");
    assert!(matches!(ssd.load(&wanted(&chunk)), Err(Miss::Mismatch(_))), "rounded rows are rejected by default");
    check(&with(|head| head.flags.lossy = true), false, "the same chunk is kept");
    check(&chunk, true, "exact rows replace rounded ones");
    check(&with(|head| head.flags.lossy = true), false, "rounded rows do not replace exact ones");
    check(&with(|head| head.created_unix_s += 9), false, "the same rows with another time are kept");
    assert_loads(&ssd, &chunk);
    let other = with(|head| head.class = NumericClass::new("gpu/1").expect("the name is short"));
    check(&other, true, "the class in use replaces another");
    assert_loads(&ssd, &other);
    std::fs::write(dir.file(&chunk), "x").expect("the file is writable");
    check(&chunk, true, "a damaged file is replaced");
    assert_loads(&ssd, &chunk);
}

#[test]
fn first_process_owns_folder_and_guests_only_add() {
    let dir = TestFolder::new();
    let chunks = several();
    let (owner, guest) = (dir.open(), dir.open());
    assert!(owner.is_owner() && !guest.is_owner(), "one of two is the owner");
    guest.save(&chunks[0]).expect("a guest may add chunks");
    assert_loads(&owner, &chunks[0]);
    owner.save(&chunks[1]).expect("the chunk is stored");
    assert_loads(&guest, &chunks[1]);
    assert!(guest.remove(&chunks[1].head.id).is_err() && guest.clear().is_err(), "a guest removes nothing");
    assert!(guest.fsck(true).is_err() && guest.fsck(false).is_ok(), "a guest repairs nothing");
    std::fs::write(dir.file(&chunks[0]), "x").expect("the file is writable");
    assert!(matches!(guest.load(&wanted(&chunks[0])), Err(Miss::Damaged(_))), "a guest detects damage");
    assert!(dir.file(&chunks[0]).exists(), "the file is left to the owner");
    assert!(!guest.try_acquire_ownership(), "the owner is running");
    drop(owner);
    assert!(guest.try_acquire_ownership(), "the guest takes over");
    assert_eq!(scanned(&guest).len(), 1, "the new owner finds the valid chunk");
    assert_eq!(
        (guest.quarantined_files().len(), dir.file(&chunks[0]).exists()),
        (1, false),
        "the damaged file was quarantined"
    );
}

#[test]
fn compressed_and_encrypted_chunks_load() {
    let dir = TestFolder::new();
    let mut sequence = Sequence::new("me", 1, 8);
    sequence.section_bytes = 1 << 17;
    let chunks: Vec<_> = (0..3).map(|_| sequence.chunk(256)).collect();
    let options = SsdOptions { durable: true, ..SsdOptions::default() };
    let ssd =
        SsdTier::open(Arc::new(RealDisk), &dir.root(), keys().with_encryption([3; 32]), options, || [5; NONCE_BYTES])
            .expect("the folder is writable");
    let raw = ssd.save(&chunks[0]).expect("the chunk is stored");
    ssd.set_packing(Packing::Lossless);
    let lossless = ssd.save(&chunks[1]).expect("the chunk is stored");
    ssd.set_packing(Packing::Compact);
    let compact = ssd.save(&chunks[2]).expect("the chunk is stored");
    assert!(
        raw.bytes > lossless.bytes && lossless.bytes > compact.bytes,
        "each packing is smaller than the one before"
    );
    assert_loads(&ssd, &chunks[0]);
    assert_loads(&ssd, &chunks[1]);
    assert!(compact.flags.lossy && !lossless.flags.lossy, "rounded chunks are marked as lossy");
    assert!(matches!(ssd.load(&wanted(&chunks[2])), Err(Miss::Mismatch(_))), "rounded rows are rejected by default");
    let rounded = ssd
        .load(&ChunkRequest { allow_lossy: true, ..wanted(&chunks[2]) })
        .expect("rounded rows are accepted on request");
    assert!(
        rounded.head.flags.lossy && rounded.payload.len() == chunks[2].payload.len(),
        "the chunk is marked as lossy"
    );
    // Without the key nothing is read, and nothing is deleted.
    drop(ssd);
    let ssd = dir.open();
    let reported = scanned(&ssd);
    assert!(
        reported.len() == 3 && reported.iter().all(|stored| stored.keys.is_none()),
        "encrypted files are reported without keys: {reported:?}"
    );
    let unopened = ssd.load(&wanted(&chunks[0]));
    assert!(matches!(unopened, Err(Miss::Mismatch(_))), "the file is encrypted: {unopened:?}");
    assert!(dir.file(&chunks[0]).exists(), "the file stays");
}

#[test]
fn fsck_reports_damaged_files_and_orphans() {
    let dir = TestFolder::new();
    let ssd = dir.open();
    let mut sequence = Sequence::new("me", 1, 9);
    let chunks: Vec<_> = (0..6).map(|_| sequence.chunk(256)).collect();
    let bytes: Vec<u64> = chunks.iter().map(|chunk| ssd.save(chunk).expect("the chunk is stored").bytes).collect();
    let report = ssd.fsck(false).expect("the folder can be listed");
    assert_eq!((report.whole, report.whole_bytes), (6, bytes.iter().sum()), "all chunks are valid: {report:?}");
    assert!(report.damaged.is_empty() && report.orphans.is_empty(), "nothing is damaged: {report:?}");

    // Damage behind a valid header.
    let hurt = dir.file(&chunks[3]);
    let mut file = std::fs::read(&hurt).expect("it exists");
    // The last section has two blocks, and the trailer one.
    let at = file.len() - 3 * 4096 + 10;
    file[at] ^= 1;
    std::fs::write(&hurt, file).expect("the file is writable");
    let draft = dir.root().join("v1/drafts/.draft.1-2.tmp");
    std::fs::write(&draft, "half").expect("the file is writable");
    let report = ssd.fsck(false).expect("the folder can be listed");
    assert_eq!(report.damaged, [(hurt.clone(), "a section's checksum is wrong")], "the damage is found");
    let mut lost = [chunks[4].head.id, chunks[5].head.id];
    lost.sort();
    assert_eq!(report.orphans, lost, "the following chunks are orphans");
    assert!(hurt.exists() && draft.exists(), "a check without `fix` changes nothing");

    ssd.fsck(true).expect("the folder can be repaired");
    assert!(!hurt.exists() && !draft.exists(), "damaged files and abandoned drafts are removed");
    let report = ssd.fsck(true).expect("the folder can be listed");
    assert_eq!((report.whole, report.damaged.len(), report.orphans.len()), (3, 0, 0), "the rest is valid");
    chunks[..3].iter().for_each(|chunk| assert_loads(&ssd, chunk));
}

#[test]
fn scan_reads_only_new_files() {
    let dir = TestFolder::new();
    let (ssd, chunks) = (dir.open(), several());
    chunks.iter().for_each(|chunk| drop(ssd.save(chunk).expect("the chunk is stored")));
    assert_eq!(scanned(&ssd).len(), chunks.len(), "all files are read once");
    let path = dir.file(&chunks[0]);
    let file = std::fs::File::options().write(true).open(&path).expect("it exists");
    let then = file.metadata().and_then(|found| found.modified()).expect("files have modification times");
    std::io::Write::write_all(&mut &file, b"another head").expect("the folder is writable");
    file.set_modified(then).expect("the modification time can be set");
    assert_eq!(scanned(&ssd).len(), chunks.len(), "an unchanged file is not read again");
    file.set_modified(then + std::time::Duration::from_secs(1)).expect("the modification time can be set");
    assert_eq!(scanned(&ssd).len(), chunks.len() - 1, "a modified file is read again");
    ssd.save(&Sequence::new("me", 1, 77).chunk(256)).expect("the chunk is stored");
    assert_eq!(scanned(&ssd).len(), chunks.len(), "a new file is read");
}
