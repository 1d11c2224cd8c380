//! Deletion tests: deleted chunks stay deleted, whatever the tier was doing.

use std::sync::atomic::{AtomicBool, Ordering};

use super::fake::Fault;
use super::*;
use crate::tiers::{Deletion, Health};
use crate::{ChunkId, ChunkRequest, Miss, Owner, StoredChunk, Tier, TierError};

fn owner(name: &str) -> Owner {
    Owner::new(name).expect("the name is short")
}

/// Stores a sequence for an owner.
fn store_for(env: &TestEnv, tiers: &Tiers, keys: &[Key], name: &str) {
    for chunk in env.model.chunks(keys) {
        offer(tiers, chunk, StoreReason::Idle, Some(name)).expect("the chunk is stored");
    }
}

#[test]
fn chunks_found_by_a_later_scan_are_deleted() {
    let check = |delete: &dyn Fn(&Tiers) -> Deletion, ends_first: bool, stays: usize, why: &str| {
        let (env, home) = (TestEnv::new(), tempfile::tempdir().expect("cannot create a temporary folder"));
        let config = || Config { index_path: Some(home.path().join("index.redb")), ..env.config() };
        let tiers = env.open(config());
        store_for(&env, &tiers, &keys(1, 1024), "ann");
        store_for(&env, &tiers, &keys(50_000, 512), "bob");
        tiers.close(SOON);
        assert_eq!(env.ssd.len(), 6, "{why}: all chunks are written");

        env.ssd.set_faults(|call| if call == "scan" { Fault::Hang } else { Fault::None });
        let open = || Tiers::open(config(), Arc::clone(&env.clock) as _).expect("threads can be created");
        let mut tiers = open();
        assert!(delete(&tiers).pending > 0, "{why}: the pending deletion is reported");
        if ends_first {
            tiers.close(Duration::ZERO);
            env.ssd.release();
            let began = std::time::Instant::now();
            while crate::index::Index::open(&home.path().join("index.redb")).is_err() && began.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(5));
            }
            tiers = open();
        }
        env.ssd.release();
        assert!(tiers.wait_idle(SOON), "{why}: the scan and the deletion complete");
        assert_eq!(env.ssd.len(), stays, "{why}");
        assert_eq!(env.find(&tiers, &keys(50_000, 512)).tokens(), 256 * stays, "{why}: the rest is found");
        let reported = delete(&tiers);
        assert_eq!(reported.pending, 0, "{why}: nothing is pending: {reported:?}");
    };
    let within = Duration::from_millis(20);
    check(&|tiers| tiers.clear(within), false, 0, "everything");
    check(&|tiers| tiers.clear(within), true, 0, "everything, with a restart");
    check(&|tiers| tiers.forget_owner(&owner("ann"), within), false, 2, "an owner");
    check(&|tiers| tiers.forget_owner(&owner("ann"), within), true, 2, "an owner, with a restart");
}

/// A remote tier that writes a file after the timeout, and does not list its files.
struct LateTier(Arc<FakeTier>);

impl Tier for LateTier {
    fn kind(&self) -> TierKind {
        TierKind::Remote
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        self.0.scan(each)
    }

    fn may_contain(&self, id: &ChunkId) -> bool {
        self.0.files.lock().contains_key(id)
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        self.0.load(wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        self.0.save(chunk)?;
        Err(TierError::Unavailable("no answer in time".to_owned()))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.0.remove(id)
    }
}

#[test]
fn late_write_does_not_restore_deleted_chunks() {
    let env = TestEnv::new();
    let remote_tier = FakeTier::new(TierKind::Remote);
    let lower = LowerTier::new(Arc::new(LateTier(Arc::clone(&remote_tier))), 1 << 30);
    let tiers = env.open(Config { ssd: None, remote: Some(lower), ..env.config() });
    let (saves, begun) = (Arc::new(AtomicBool::new(false)), std::time::Instant::now());
    let is_saving = Arc::clone(&saves);
    remote_tier.set_faults(move |call| {
        is_saving.fetch_or(call == "save", Ordering::SeqCst);
        if call == "save" { Fault::Hang } else { Fault::None }
    });
    let prompt = keys(1, 1024);
    env.store(&tiers, &prompt, StoreReason::Idle);
    while !saves.load(Ordering::SeqCst) && begun.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(1));
    }
    let reported = tiers.clear(Duration::from_millis(20));
    assert!(reported.pending > 0, "a running write is pending: {reported:?}");
    remote_tier.release();
    assert!(tiers.wait_idle(SOON), "the file is written late and removed");
    assert_eq!(remote_tier.len(), 0, "no file is left");
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "no chunk is found");
}

#[test]
fn deleted_unlisted_chunk_is_not_requested() {
    let env = TestEnv::new();
    let remote_tier = FakeTier::new(TierKind::Remote);
    let tiers = {
        let lower = LowerTier::new(Arc::clone(&remote_tier) as Arc<dyn Tier>, 1 << 30);
        env.open(Config { ssd: None, remote: Some(lower), ..env.config() })
    };
    let prompt = keys(1, 1024);
    env.store(&tiers, &prompt, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    // Scans list nothing, but `may_contain` knows the names.
    remote_tier.unlisted.store(true, Ordering::SeqCst);
    remote_tier.set_faults(|call| if call == "remove" { Fault::Fail } else { Fault::None });
    assert_eq!(tiers.clear(SOON), Deletion { chunks: 4, pending: 4 }, "the removals fail");
    assert_eq!(remote_tier.len(), 4, "the files stay");
    let status = tiers.status().tiers.pop().expect("the remote tier is listed");
    assert_eq!(status.removing_chunks, 4, "the status shows the pending removals: {status:?}");
    remote_tier.set_faults(|call| if call == "remove" { Fault::Hang } else { Fault::None });
    env.clock.pass(Duration::from_secs(61));
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "deleted chunks are not found");
    assert_eq!(tiers.trace(&env.model.prefix(&prompt)).coverage.tokens(), 0, "deleted chunks are not traced");
    remote_tier.release();
}

#[test]
fn guest_that_may_not_remove_files_still_reads() {
    use crate::{FileKeys, SsdOptions, SsdTier};
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let ssd = || {
        let keys = FileKeys::new(&crate::Namespace::new(&[9; 32], "files"));
        let disk = Arc::new(cairn_disk::RealDisk);
        Arc::new(
            SsdTier::open(disk, home.path(), keys, SsdOptions::default(), || [0; 24]).expect("the folder is writable"),
        )
    };
    let config = |ssd: &Arc<SsdTier>| {
        let lower = LowerTier { rescan_interval: Some(Duration::from_secs(30)), ..LowerTier::ssd(ssd, 8 << 20, 0) };
        Config { ssd: Some(lower), ram_bytes: 0, min_recompute: Duration::ZERO, ..Config::new(8 << 20) }
    };
    let env = TestEnv::new();
    let owner_of_it = ssd();
    let guest = env.open(config(&ssd()));
    let (kept, gone) = (keys(1, 1024), keys(50_000, 1280));
    env.store(&guest, &kept, StoreReason::Idle);
    env.store(&guest, &gone, StoreReason::Idle);
    assert!(guest.wait_idle(SOON), "a guest adds chunks");
    let last =
        guest.stored_prefixes(9).into_iter().find(|context| context.tokens == 1280).expect("the prefix is stored").last;
    let began = std::time::Instant::now();
    assert_eq!(
        guest.forget(&last, SOON),
        Deletion { chunks: 5, pending: 5 },
        "a guest removes no files and reports them as pending"
    );
    assert!(began.elapsed() < SOON / 2, "it does not wait for removals that cannot happen: {:?}", began.elapsed());
    for minute in 0..3 {
        let status = guest.status().tiers.remove(1);
        assert_eq!(status.health, Health::Up, "minute {minute}: the folder is healthy: {:?}", status.last_error);
        assert_eq!(env.restore(&guest, &kept).0, 1024, "minute {minute}: the folder is read");
        assert_eq!(env.find(&guest, &gone).tokens(), 0, "minute {minute}: the deleted prefix is not found");
        env.clock.pass(Duration::from_secs(61));
        guest.check_clock();
        std::thread::sleep(Duration::from_millis(250));
    }
    drop(owner_of_it);
    env.clock.pass(Duration::from_secs(61));
    guest.check_clock();
    let began = std::time::Instant::now();
    let files = || walk(home.path());
    while files() > 4 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(files(), 4, "the new owner removes the deleted files");
}

/// Number of chunk files below a folder.
fn walk(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .map(|path| if path.is_dir() { walk(&path) } else { usize::from(path.extension().is_some_and(|e| e == "kvc")) })
        .sum()
}
