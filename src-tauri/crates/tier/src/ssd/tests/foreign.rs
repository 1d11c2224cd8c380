//! Tests with two installations on one folder: each uses only its own files.

use std::sync::atomic::AtomicUsize;

use cairn_testkit::{DiskOperation, HookedDisk};

use super::*;
use crate::Namespace;

/// Keys of an installation with this secret.
fn keys_of(dir: &str) -> FileKeys {
    FileKeys::new(&Namespace::new(dir.as_bytes(), "disk"))
}

fn open_as(dir: &TestFolder, who: &str) -> SsdTier {
    let opened =
        SsdTier::open(Arc::new(RealDisk), &dir.root(), keys_of(who), SsdOptions::default(), || [6; NONCE_BYTES]);
    opened.expect("the folder is writable")
}

fn saved(ssd: &SsdTier, who: &str, seed: u64) -> Vec<Chunk> {
    let mut sequence = Sequence::new(who, 1, seed);
    let chunks = vec![sequence.chunk(256), sequence.chunk(256), sequence.chunk(9)];
    chunks.iter().for_each(|chunk| drop(ssd.save(chunk).expect("the chunk is stored")));
    chunks
}

#[test]
fn files_of_another_installation_are_ignored() {
    let dir = TestFolder::new();
    let theirs = saved(&open_as(&dir, "one"), "one", 31);
    let ssd = open_as(&dir, "two");
    assert!(ssd.is_owner(), "the other process has ended");
    let all_there = |when: &str| {
        theirs.iter().for_each(|chunk| assert!(dir.file(chunk).exists(), "{when}: the foreign files stay"));
        assert!(ssd.quarantined_files().is_empty(), "{when}: no file is quarantined");
    };
    assert_eq!(ssd.used_bytes().expect("the folder can be listed"), 0, "foreign files do not count towards the budget");
    all_there("after counting");
    assert_eq!(scanned(&ssd), [], "a scan does not report foreign files");
    all_there("after a scan");
    let ours = saved(&ssd, "two", 32);
    let reported = scanned(&ssd);
    assert_eq!(reported.len(), ours.len(), "a scan reports own files");
    let bytes: u64 = reported.iter().map(|stored| stored.bytes).sum();
    assert_eq!(ssd.used_bytes().expect("the folder can be listed"), bytes, "own files count");
    let torn = dir.file(&theirs[1]).with_file_name("00112233445566778899aabbccddeeff.full.kvc");
    std::fs::write(&torn, vec![0; 8192]).expect("the file is writable");
    let report = ssd.fsck(true).expect("the folder can be repaired");
    assert_eq!((report.whole, report.orphans.len(), report.foreign), (3, 0, 3), "{report:?}");
    assert_eq!(report.damaged.len(), 1, "a file without a header is damaged: {report:?}");
    assert!(!torn.exists(), "the damaged file is removed");
    all_there("after a repair");
    ours.iter().for_each(|chunk| assert_loads(&ssd, chunk));
    ssd.clear().expect("the folder can be cleared");
    all_there("after clearing own files");
    assert_eq!(scanned(&ssd), [], "own files are gone");
    drop(ssd);
    let ssd = open_as(&dir, "one");
    theirs.iter().for_each(|chunk| assert_loads(&ssd, chunk));
}

#[test]
fn file_of_other_installation_is_a_miss_and_not_quarantined() {
    let dir = TestFolder::new();
    let ssd = open_as(&dir, "two");
    let ours = saved(&ssd, "two", 33);
    let theirs = crate::format::encode(&ours[0], Packing::Raw, &keys_of("one"), [0; NONCE_BYTES]);
    std::fs::write(dir.file(&ours[0]), theirs.expect("the chunk is valid").to_vec()).expect("the file is writable");
    let missed = ssd.load(&wanted(&ours[0]));
    assert!(matches!(missed, Err(Miss::Foreign)), "the foreign file is neither served nor damaged: {missed:?}");
    assert!(dir.file(&ours[0]).exists() && ssd.quarantined_files().is_empty(), "the foreign file stays");
    ssd.save(&ours[0]).expect("the own name may be overwritten");
    assert_loads(&ssd, &ours[0]);
}

#[test]
fn non_owner_process_rewrites_file_with_damaged_rows() {
    let check = |load_first: bool| {
        let dir = TestFolder::new();
        let (owner, guest) = (dir.open(), dir.open());
        let chunk = Sequence::new("me", 1, 34).chunk(256);
        owner.save(&chunk).expect("the chunk is stored");
        let mut file = std::fs::read(dir.file(&chunk)).expect("it exists");
        let at = file.len() - 2 * 4096;
        file[at] ^= 1;
        std::fs::write(dir.file(&chunk), file).expect("the file is writable");
        if load_first {
            assert!(matches!(guest.load(&wanted(&chunk)), Err(Miss::Damaged(_))), "the guest detects the damage");
            assert_eq!(scanned(&guest), [], "a scan does not report the damaged file");
        }
        guest.save(&chunk).expect("the chunk is stored");
        assert_loads(&guest, &chunk);
        assert_eq!(scanned(&guest).len(), 1, "a scan reports the rewritten file");
    };
    check(false);
    check(true);
}

#[test]
fn counting_used_bytes_opens_each_file_once() {
    let dir = TestFolder::new();
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let disk = HookedDisk::new(move |change, _| {
        count.fetch_add(usize::from(change == DiskOperation::Open), Ordering::Relaxed);
    });
    let ssd = dir.open_on(disk, SsdOptions::default());
    let theirs = saved(&open_as(&dir, "one"), "one", 35);
    let ours = saved(&ssd, "me", 36);
    let taken = ssd.used_bytes().expect("the folder can be listed");
    let before = opened.load(Ordering::Relaxed);
    assert_eq!(ssd.used_bytes().expect("the folder can be listed"), taken, "nothing changed");
    assert_eq!(opened.load(Ordering::Relaxed), before, "a counted file is not opened again");
    let bytes: u64 = scanned(&ssd).iter().map(|stored| stored.bytes).sum();
    assert_eq!(taken, bytes, "the count equals the scan's");
    std::fs::remove_file(dir.file(&ours[2])).expect("it exists");
    std::fs::rename(dir.file(&ours[1]), dir.file(&theirs[1])).expect("both exist");
    let taken = ssd.used_bytes().expect("the folder can be listed");
    let left: u64 = [&ours[0], &theirs[1]]
        .map(|chunk| {
            RealDisk.open_blocks(&dir.file(chunk)).and_then(|blocks| blocks.allocated_bytes()).expect("it exists")
        })
        .iter()
        .sum();
    assert_eq!(taken, left, "removed and replaced files are noticed");
}
