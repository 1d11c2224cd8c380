//! What was deleted stays deleted, whatever a place was doing at that moment.

use std::sync::atomic::{AtomicBool, Ordering};

use super::fake::Fault;
use super::*;
use crate::tiers::{Deleted, Health};
use crate::{ChunkId, Miss, Owner, Stored, Tier, TierError, Wanted};

fn owner(name: &str) -> Owner {
    Owner::new(name).expect("a short name")
}

/// Stores a sequence for somebody, as one that is idle.
fn store_for(bench: &Bench, tiers: &Tiers, keys: &[Key], name: &str) {
    for chunk in bench.toy.chunks(keys) {
        offer(tiers, chunk, StoreWhy::Idle, Some(name)).expect("there is room");
    }
}

#[test]
fn what_a_place_has_not_told_of_yet_is_deleted_when_it_does() {
    let check = |delete: &dyn Fn(&Tiers) -> Deleted, ends_first: bool, stays: usize, why: &str| {
        let (bench, home) = (Bench::new(), tempfile::tempdir().expect("a temporary folder"));
        let config = || Config { index: Some(home.path().join("index.redb")), ..bench.config() };
        let tiers = bench.open(config());
        store_for(&bench, &tiers, &keys(1, 1024), "ann");
        store_for(&bench, &tiers, &keys(50_000, 512), "bob");
        tiers.close(SOON);
        assert_eq!(bench.ssd.len(), 6, "{why}: all of it is written");

        bench.ssd.set_faults(|call| if call == "scan" { Fault::Hang } else { Fault::None });
        let open = || Tiers::open(config(), Arc::clone(&bench.clock) as _).expect("threads are to be had");
        let mut tiers = open();
        assert!(delete(&tiers).left > 0, "{why}: that it is not done is told");
        if ends_first {
            tiers.close(Duration::ZERO);
            bench.ssd.release();
            let began = std::time::Instant::now();
            while crate::index::Index::open(&home.path().join("index.redb")).is_err() && began.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(5));
            }
            tiers = open();
        }
        bench.ssd.release();
        assert!(tiers.settle(SOON), "{why}: it is looked through, and what is to go goes");
        assert_eq!(bench.ssd.len(), stays, "{why}");
        assert_eq!(bench.find(&tiers, &keys(50_000, 512)).tokens(), 256 * stays, "{why}: the rest is found");
        let told = delete(&tiers);
        assert_eq!(told.left, 0, "{why}: and then it is done: {told:?}");
    };
    let within = Duration::from_millis(20);
    check(&|tiers| tiers.clear(within), false, 0, "everything");
    check(&|tiers| tiers.clear(within), true, 0, "everything, by a daemon that ends then");
    check(&|tiers| tiers.forget_owner(&owner("ann"), within), false, 2, "what only she has");
    check(&|tiers| tiers.forget_owner(&owner("ann"), within), true, 2, "what only she has, by a daemon that ends then");
}

/// A remote place that writes a file after it was given up, and is asked for what nobody listed.
struct Late(Arc<FakePlace>);

impl Tier for Late {
    fn place(&self) -> Place {
        Place::Remote
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        self.0.scan(each)
    }

    fn may_hold(&self, id: &ChunkId) -> bool {
        self.0.files.lock().unwrap().contains_key(id)
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        self.0.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        self.0.save(chunk)?;
        Err(TierError::Away("no answer in time".to_owned()))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.0.remove(id)
    }
}

#[test]
fn a_write_that_comes_late_does_not_bring_back_what_was_deleted() {
    let bench = Bench::new();
    let far = FakePlace::new(Place::Remote);
    let lower = Lower::new(Arc::new(Late(Arc::clone(&far))), 1 << 30);
    let tiers = bench.open(Config { ssd: None, remote: Some(lower), ..bench.config() });
    let (saves, begun) = (Arc::new(AtomicBool::new(false)), std::time::Instant::now());
    let is_saving = Arc::clone(&saves);
    far.set_faults(move |call| {
        is_saving.fetch_or(call == "save", Ordering::SeqCst);
        if call == "save" { Fault::Hang } else { Fault::None }
    });
    let prompt = keys(1, 1024);
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    while !saves.load(Ordering::SeqCst) && begun.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(1));
    }
    let told = tiers.clear(Duration::from_millis(20));
    assert!(told.left > 0, "what is being written cannot be removed yet: {told:?}");
    far.release();
    assert!(tiers.settle(SOON), "it is written after all, and removed");
    assert_eq!(far.len(), 0, "nothing of it stays");
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "nor is it found");
}

#[test]
fn what_is_to_be_removed_is_not_asked_for_by_its_name() {
    let bench = Bench::new();
    let far = FakePlace::new(Place::Remote);
    let tiers = {
        let lower = Lower::new(Arc::clone(&far) as Arc<dyn Tier>, 1 << 30);
        bench.open(Config { ssd: None, remote: Some(lower), ..bench.config() })
    };
    let prompt = keys(1, 1024);
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    // It lists nothing, and knows the names all the same.
    far.unlisted.store(true, Ordering::SeqCst);
    far.set_faults(|call| if call == "remove" { Fault::Fail } else { Fault::None });
    assert_eq!(tiers.clear(SOON), Deleted { chunks: 4, left: 4 }, "it cannot be removed now");
    assert_eq!(far.len(), 4, "and lies there");
    far.set_faults(|call| if call == "remove" { Fault::Hang } else { Fault::None });
    bench.clock.pass(Duration::from_secs(61));
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "but nobody finds what was deleted");
    assert_eq!(tiers.trace(&bench.toy.prefix(&prompt)).coverage.tokens(), 0, "nor is it told of");
    far.release();
}

#[test]
fn a_guest_who_may_not_remove_still_reads() {
    use crate::{FileKeys, Ssd, SsdOptions};
    let home = tempfile::tempdir().expect("a temporary folder");
    let ssd = || {
        let keys = FileKeys::new(&crate::Namespace::new(&[9; 32], "files"));
        let disk = Arc::new(cairn_disk::RealDisk);
        Arc::new(Ssd::open(disk, home.path(), keys, SsdOptions::default(), || [0; 24]).expect("it is writable"))
    };
    let config = |ssd: &Arc<Ssd>| {
        let lower = Lower { rescan: Some(Duration::from_secs(30)), ..Lower::ssd(ssd, 8 << 20, 0) };
        Config { ssd: Some(lower), ram_bytes: 0, min_recompute: Duration::ZERO, ..Config::new(8 << 20) }
    };
    let bench = Bench::new();
    let owner_of_it = ssd();
    let guest = bench.open(config(&ssd()));
    let (kept, gone) = (keys(1, 1024), keys(50_000, 1280));
    bench.store(&guest, &kept, StoreWhy::Idle);
    bench.store(&guest, &gone, StoreWhy::Idle);
    assert!(guest.settle(SOON), "a guest adds");
    let last = guest.contexts(9).into_iter().find(|context| context.tokens == 1280).expect("it is kept").last;
    let began = std::time::Instant::now();
    assert_eq!(guest.forget(&last, SOON), Deleted { chunks: 5, left: 5 }, "a guest removes nothing, and says so");
    assert!(began.elapsed() < SOON / 2, "nor does it wait for what will not be: {:?}", began.elapsed());
    for minute in 0..3 {
        let status = guest.status().places.remove(1);
        assert_eq!(
            status.health,
            Health::Up,
            "minute {minute}: nothing is wrong with the folder: {:?}",
            status.trouble
        );
        assert_eq!(bench.restore(&guest, &kept).0, 1024, "minute {minute}: and it is read");
        assert_eq!(bench.find(&guest, &gone).tokens(), 0, "minute {minute}: but for what was deleted");
        bench.clock.pass(Duration::from_secs(61));
        std::thread::sleep(Duration::from_millis(250));
    }
    drop(owner_of_it);
    bench.clock.pass(Duration::from_secs(61));
    let began = std::time::Instant::now();
    let files = || walk(home.path());
    while files() > 4 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(files(), 4, "as soon as the folder is its own, it removes what was deleted");
}

/// Files of chunks below a folder.
fn walk(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .map(|path| if path.is_dir() { walk(&path) } else { usize::from(path.extension().is_some_and(|e| e == "kvc")) })
        .sum()
}
