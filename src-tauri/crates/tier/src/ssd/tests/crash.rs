//! Crash tests: after any crash loaded chunks are right, and removed chunks stay removed.

use std::time::{Duration, Instant};

use cairn_testkit::FaultyDisk;
use cairn_testkit::random::Random;

use super::*;

/// Returns the disk space of all files below a folder.
fn room(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed").flatten();
    entries.map(|entry| if entry.path().is_dir() { room(&entry.path()) } else { physical(&entry.path()) }).sum()
}

fn physical(path: &Path) -> u64 {
    RealDisk.open_blocks(path).and_then(|blocks| blocks.allocated_bytes()).expect("it exists")
}

/// Waits for the ownership: a process that another test starts has this process's locks until its `exec`.
fn become_owner(ssd: &SsdTier, what: &str) {
    let began = Instant::now();
    while !ssd.try_acquire_ownership() && began.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    assert!(ssd.is_owner(), "{what}: a dead process is not the owner");
}

/// After a crash every load returns the right chunk or a miss, all used space is reported, and the folder is usable.
fn check_recovers(dir: &TestFolder, chunks: &[Chunk], removed: &[ChunkId], what: &str) {
    let ssd = dir.open();
    become_owner(&ssd, what);
    scanned(&ssd);
    for chunk in chunks {
        match ssd.load(&wanted(chunk)) {
            Ok(loaded) => {
                assert!(loaded.payload == chunk.payload, "{what}: wrong rows");
                assert!(!removed.contains(&chunk.head.id), "{what}: the chunk was removed");
            }
            Err(Miss::Absent | Miss::Damaged(_)) => {}
            Err(miss) => panic!("{what}: {miss}"),
        }
    }
    let reported: u64 = scanned(&ssd).iter().map(|stored| stored.bytes).sum();
    let aside: u64 = ssd.quarantined_files().iter().map(|path| physical(path)).sum();
    assert_eq!(
        reported + aside,
        room(&dir.root()) - physical(&dir.root().join("owner.lock")),
        "{what}: all used space is reported"
    );
    let first = &chunks[0];
    ssd.save(first).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_loads(&ssd, first);
}

/// The disk fails at each step in turn and loses power there.
#[test]
fn folder_recovers_from_crash_at_any_step() {
    let mut sequence = Sequence::new("me", 1, 21);
    let chunks: Vec<_> = (0..4).map(|_| sequence.chunk(256)).collect();
    let mut step = 0;
    loop {
        let dir = TestFolder::new();
        let disk = FaultyDisk::fail_after(step);
        let count = AtomicU8::new(0);
        let nonce = move || [count.fetch_add(1, Ordering::Relaxed); NONCE_BYTES];
        let opened = SsdTier::open(Arc::new(disk.clone()), &dir.root(), keys(), SsdOptions::default(), nonce);
        let mut removed = Vec::new();
        if let Ok(ssd) = opened {
            for chunk in &chunks {
                if ssd.save(chunk).is_err() {
                    break;
                }
            }
            if ssd.remove(&chunks[1].head.id).is_ok() {
                removed.push(chunks[1].head.id);
            }
        }
        let all_done = disk.steps_left() > 0;
        disk.cut_power();
        check_recovers(&dir, &chunks, &removed, &format!("step {step}"));
        if all_done {
            break;
        }
        step += 1;
    }
    assert!(step > 15, "only {step} steps for four chunks");
}

/// Repeated crashes of one folder, at random steps.
#[test]
fn folder_recovers_from_many_crashes() {
    const LIVES: u64 = 150;
    let dir = TestFolder::new();
    let mut sequence = Sequence::new("me", 1, 22);
    let chunks: Vec<_> = (0..12).map(|_| sequence.chunk(256)).collect();
    let mut random = Random::new(23);
    let mut hits = 0;
    for life in 0..LIVES {
        let disk = FaultyDisk::fail_after(2 + random.below(60) as usize);
        let options = SsdOptions { durable: life % 3 == 0, ..SsdOptions::default() };
        let mut removed = Vec::new();
        if let Ok(ssd) = SsdTier::open(Arc::new(disk.clone()), &dir.root(), keys(), options, || [1; NONCE_BYTES]) {
            // A guest removes nothing: with all chunks stored it would change the disk no more, and not end.
            become_owner(&ssd, &format!("life {life}"));
            while disk.steps_left() > 0 {
                let chunk = &chunks[random.below(chunks.len() as u64) as usize];
                let id = chunk.head.id;
                match random.below(4) {
                    0 if ssd.remove(&id).is_ok() => removed.push(id),
                    1 | 2 => {
                        // A save that failed may have written the file.
                        removed.retain(|other| *other != id);
                        let _ = ssd.save(chunk);
                    }
                    _ => match ssd.load(&wanted(chunk)) {
                        Ok(loaded) => {
                            assert!(loaded.payload == chunk.payload, "life {life}: wrong rows");
                            hits += 1;
                        }
                        Err(Miss::Absent | Miss::Damaged(_)) => {}
                        Err(miss) => panic!("life {life}: {miss}"),
                    },
                }
            }
        }
        disk.cut_power();
        check_recovers(&dir, &chunks, &removed, &format!("life {life}"));
    }
    assert!(hits > LIVES, "only {hits} hits in {LIVES} lives");
}

/// Files of a killed process: drafts without locks, and a lock file without holder.
#[test]
fn open_removes_drafts_of_dead_processes() {
    let dir = TestFolder::new();
    drop(dir.open());
    let drafts = dir.root().join("v1/drafts");
    for name in [".draft.1-1.tmp", ".draft.99999999-1.tmp"] {
        std::fs::write(drafts.join(name), vec![1; 9000]).expect("the file is writable");
    }
    let living = RealDisk.create_temp_file(&drafts, cairn_disk::Mode::Private).expect("the draft is created");
    assert!(dir.open().is_owner(), "no process holds the lock");
    assert_eq!(scan::files_in(&drafts), [living.path()], "the draft of a running process stays");
}
