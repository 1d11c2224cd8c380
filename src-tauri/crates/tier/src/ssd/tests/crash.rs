//! Crashes: whatever of a write reached the disk, what is loaded afterwards is right, and what was removed stays away.

use cairn_testkit::FaultyDisk;
use cairn_testkit::random::Random;

use super::*;

/// Bytes that the files under the root take.
fn room(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("it can be listed").flatten();
    entries.map(|entry| if entry.path().is_dir() { room(&entry.path()) } else { physical(&entry.path()) }).sum()
}

fn physical(path: &Path) -> u64 {
    RealDisk.open_blocks(path).and_then(|blocks| blocks.room_bytes()).expect("it is there")
}

/// After a crash: everything loads or is a miss, nothing takes room that a scan does not tell of, and the folder works.
fn check_recovers(home: &Home, chunks: &[Chunk], removed: &[ChunkId], what: &str) {
    let ssd = home.open();
    assert!(ssd.is_owner(), "{what}: a dead owner is none");
    scanned(&ssd);
    for chunk in chunks {
        match ssd.load(&wanted(chunk)) {
            Ok(loaded) => {
                assert!(loaded.payload == chunk.payload, "{what}: wrong rows");
                assert!(!removed.contains(&chunk.head.id), "{what}: it was removed");
            }
            Err(Miss::Absent | Miss::Damaged(_)) => {}
            Err(miss) => panic!("{what}: {miss}"),
        }
    }
    let told: u64 = scanned(&ssd).iter().map(|stored| stored.bytes).sum();
    let aside: u64 = ssd.aside().iter().map(|path| physical(path)).sum();
    assert_eq!(told + aside, room(&home.root()) - physical(&home.root().join("owner.lock")), "{what}: room is counted");
    let first = &chunks[0];
    ssd.save(first).unwrap_or_else(|error| panic!("{what}: {error}"));
    comes_back(&ssd, first);
}

/// A disk that fails at each step in turn, and loses power there.
#[test]
fn any_step_may_be_the_last() {
    let mut sequence = Sequence::new("me", 1, 21);
    let chunks: Vec<_> = (0..4).map(|_| sequence.chunk(256)).collect();
    let mut step = 0;
    loop {
        let home = Home::new();
        let disk = FaultyDisk::after(step);
        let count = AtomicU8::new(0);
        let nonce = move || [count.fetch_add(1, Ordering::Relaxed); NONCE_BYTES];
        let opened = Ssd::open(Arc::new(disk.clone()), &home.root(), keys(), SsdOptions::default(), nonce);
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
        let all_done = disk.left() > 0;
        disk.cut_power();
        check_recovers(&home, &chunks, &removed, &format!("step {step}"));
        if all_done {
            break;
        }
        step += 1;
    }
    assert!(step > 15, "{step} steps are less than four chunks take");
}

/// Many lives of one folder, each of which ends at some point.
#[test]
fn a_folder_lives_through_many_crashes() {
    const LIVES: u64 = 150;
    let home = Home::new();
    let mut sequence = Sequence::new("me", 1, 22);
    let chunks: Vec<_> = (0..12).map(|_| sequence.chunk(256)).collect();
    let mut random = Random::new(23);
    let mut hits = 0;
    for life in 0..LIVES {
        let disk = FaultyDisk::after(2 + random.below(60) as usize);
        let options = SsdOptions { durable: life % 3 == 0, ..SsdOptions::default() };
        let mut removed = Vec::new();
        if let Ok(ssd) = Ssd::open(Arc::new(disk.clone()), &home.root(), keys(), options, || [1; NONCE_BYTES]) {
            while disk.left() > 0 {
                let chunk = &chunks[random.below(chunks.len() as u64) as usize];
                let id = chunk.head.id;
                match random.below(4) {
                    0 if ssd.remove(&id).is_ok() => removed.push(id),
                    1 | 2 => {
                        // Even one that failed may be there by now.
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
        check_recovers(&home, &chunks, &removed, &format!("life {life}"));
    }
    assert!(hits > LIVES, "{hits} hits in {LIVES} lives show nothing");
}

/// What a killed process leaves: a draft without its lock, a lock file without its holder.
#[test]
fn a_start_clears_up_after_the_dead() {
    let home = Home::new();
    drop(home.open());
    let drafts = home.root().join("v1/drafts");
    for name in [".draft.1-1.tmp", ".draft.99999999-1.tmp"] {
        std::fs::write(drafts.join(name), vec![1; 9000]).expect("it can be written");
    }
    let living = RealDisk.draft(&drafts, cairn_disk::Mode::Private).expect("it can be begun");
    assert!(home.open().is_owner(), "nobody holds the lock");
    assert_eq!(scan::files_in(&drafts), [living.path()], "what a living process writes stays");
}
