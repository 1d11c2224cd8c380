//! Two installations on one folder: each has its own files, and leaves the other's alone.

use std::sync::atomic::AtomicUsize;

use cairn_testkit::{Change, HookedDisk};

use super::*;
use crate::Namespace;

/// An installation of its own: its names and its keys are its secret's.
fn keys_of(home: &str) -> FileKeys {
    FileKeys::new(&Namespace::new(home.as_bytes(), "disk"))
}

fn open_as(home: &Home, who: &str) -> Ssd {
    let opened = Ssd::open(Arc::new(RealDisk), &home.root(), keys_of(who), SsdOptions::default(), || [6; NONCE_BYTES]);
    opened.expect("the folder is writable")
}

fn saved(ssd: &Ssd, who: &str, seed: u64) -> Vec<Chunk> {
    let mut sequence = Sequence::new(who, 1, seed);
    let chunks = vec![sequence.chunk(256), sequence.chunk(256), sequence.chunk(9)];
    chunks.iter().for_each(|chunk| drop(ssd.save(chunk).expect("there is room")));
    chunks
}

#[test]
fn what_another_installation_keeps_is_left_alone() {
    let home = Home::new();
    let theirs = saved(&open_as(&home, "one"), "one", 31);
    let ssd = open_as(&home, "two");
    assert!(ssd.is_owner(), "the other has ended");
    let all_there = |when: &str| {
        theirs.iter().for_each(|chunk| assert!(home.file(chunk).exists(), "{when}: their files stay"));
        assert!(ssd.aside().is_empty(), "{when}: nothing is taken for damaged");
    };
    assert_eq!(ssd.taken_bytes().expect("it can be listed"), 0, "what others keep is not in our budget");
    all_there("after it was counted");
    assert_eq!(scanned(&ssd), [], "nor is it ours to tell of");
    all_there("after a scan");
    let ours = saved(&ssd, "two", 32);
    let told = scanned(&ssd);
    assert_eq!(told.len(), ours.len(), "our own are");
    let bytes: u64 = told.iter().map(|stored| stored.bytes).sum();
    assert_eq!(ssd.taken_bytes().expect("it can be listed"), bytes, "and count");
    let torn = home.file(&theirs[1]).with_file_name("00112233445566778899aabbccddeeff.full.kvc");
    std::fs::write(&torn, vec![0; 8192]).expect("it can be written");
    let report = ssd.fsck(true).expect("it can be repaired");
    assert_eq!((report.whole, report.orphans.len(), report.foreign), (3, 0, 3), "{report:?}");
    assert_eq!(report.damaged.len(), 1, "a file without a header is damaged, whoever wrote it: {report:?}");
    assert!(!torn.exists(), "and is removed");
    all_there("after a repair");
    ours.iter().for_each(|chunk| comes_back(&ssd, chunk));
    ssd.clear().expect("it can be cleared");
    all_there("after our own were cleared");
    assert_eq!(scanned(&ssd), [], "and those are gone");
    drop(ssd);
    let ssd = open_as(&home, "one");
    theirs.iter().for_each(|chunk| comes_back(&ssd, chunk));
}

#[test]
fn under_a_name_of_ours_their_file_is_a_miss_and_no_damage() {
    let home = Home::new();
    let ssd = open_as(&home, "two");
    let ours = saved(&ssd, "two", 33);
    let theirs = crate::format::encode(&ours[0], Packing::Raw, &keys_of("one"), [0; NONCE_BYTES]);
    std::fs::write(home.file(&ours[0]), theirs.expect("it fits").to_vec()).expect("it can be written");
    let missed = ssd.load(&wanted(&ours[0]));
    assert!(matches!(missed, Err(Miss::Foreign)), "it is neither served nor damaged: {missed:?}");
    assert!(home.file(&ours[0]).exists() && ssd.aside().is_empty(), "it stays");
    ssd.save(&ours[0]).expect("only we make that name, so it is ours to write");
    comes_back(&ssd, &ours[0]);
}

#[test]
fn a_guest_rewrites_what_is_damaged_behind_its_header() {
    let check = |load_first: bool| {
        let home = Home::new();
        let (owner, guest) = (home.open(), home.open());
        let chunk = Sequence::new("me", 1, 34).chunk(256);
        owner.save(&chunk).expect("there is room");
        let mut file = std::fs::read(home.file(&chunk)).expect("it is there");
        let at = file.len() - 2 * 4096;
        file[at] ^= 1;
        std::fs::write(home.file(&chunk), file).expect("it can be written");
        if load_first {
            assert!(matches!(guest.load(&wanted(&chunk)), Err(Miss::Damaged(_))), "the guest sees damage");
            assert_eq!(scanned(&guest), [], "and does not tell of it again");
        }
        guest.save(&chunk).expect("there is room");
        comes_back(&guest, &chunk);
        assert_eq!(scanned(&guest).len(), 1, "and tells of it now");
    };
    check(false);
    check(true);
}

#[test]
fn counting_what_is_taken_opens_no_file_twice() {
    let home = Home::new();
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let disk = HookedDisk::new(move |change, _| {
        count.fetch_add(usize::from(change == Change::Open), Ordering::Relaxed);
    });
    let ssd = home.open_on(disk, SsdOptions::default());
    let theirs = saved(&open_as(&home, "one"), "one", 35);
    let ours = saved(&ssd, "me", 36);
    let taken = ssd.taken_bytes().expect("it can be listed");
    let before = opened.load(Ordering::Relaxed);
    assert_eq!(ssd.taken_bytes().expect("it can be listed"), taken, "nothing changed");
    assert_eq!(opened.load(Ordering::Relaxed), before, "what was counted once is not opened again");
    let bytes: u64 = scanned(&ssd).iter().map(|stored| stored.bytes).sum();
    assert_eq!(taken, bytes, "as a scan counts");
    std::fs::remove_file(home.file(&ours[2])).expect("it is there");
    std::fs::rename(home.file(&ours[1]), home.file(&theirs[1])).expect("both are there");
    let taken = ssd.taken_bytes().expect("it can be listed");
    let left: u64 = [&ours[0], &theirs[1]]
        .map(|chunk| {
            RealDisk.open_blocks(&home.file(chunk)).and_then(|blocks| blocks.room_bytes()).expect("it is there")
        })
        .iter()
        .sum();
    assert_eq!(taken, left, "what went and what came in its place is noticed");
}
