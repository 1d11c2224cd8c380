//! Tests of owners, pins, deletion, expiry, prefetch and miss reasons.

use super::*;
use crate::tiers::{Deletion, MissReason, PinError, RemovalReason};
use crate::{Owner, tiers::Event};

fn store_for(env: &TestEnv, tiers: &Tiers, keys: &[Key], owner: Option<&str>) {
    for chunk in env.model.chunks(keys) {
        offer(tiers, chunk, StoreReason::Idle, owner).expect("the chunk is stored");
    }
}

#[test]
fn forget_owner_keeps_shared_chunks() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let system = keys(1, 512);
    let sequence = |first, count| [system.clone(), keys(first, count)].concat();
    let (ann, bob, none) = (sequence(10_000, 600), sequence(20_000, 600), sequence(10_000, 900));
    store_for(&env, &tiers, &ann, Some("ann"));
    store_for(&env, &tiers, &bob, Some("bob"));
    // A sequence without owner continues Ann's.
    store_for(&env, &tiers, &none, None);
    assert!(tiers.wait_idle(SOON), "all chunks are written");
    assert_eq!(env.ssd.len(), 5 + 3 + 2, "two shared chunks, and the rest");
    let deleted = tiers.forget_owner(&Owner::new("ann").expect("the name is short"), SOON);
    assert_eq!(
        deleted,
        Deletion { chunks: 5, pending: 0 },
        "Ann's three chunks, and their continuations without owner"
    );
    assert_eq!(env.ssd.len(), 5, "the files are gone");
    for (requested, tokens, owner) in [(&ann, 512, "Ann's"), (&none, 512, "unowned"), (&bob, bob.len(), "Bob's")] {
        assert_eq!(env.find(&tiers, requested).tokens(), tokens, "{owner} prefix");
    }
    assert_eq!(
        tiers.forget_owner(&Owner::new("cy").expect("the name is short"), SOON).chunks,
        0,
        "an unknown owner has nothing"
    );
}

#[test]
fn clear_removes_chunks_that_are_being_written() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    env.ssd.set_faults(|call| match call {
        "save" => super::fake::Fault::Slow(Duration::from_millis(20)),
        _ => super::fake::Fault::None,
    });
    let prompt = keys(1, 2048);
    let events = tiers.events();
    store_for(&env, &tiers, &prompt, Some("ann"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(tiers.clear(SOON), Deletion { chunks: 8, pending: 0 }, "all chunks are deleted");
    assert_eq!(env.ssd.len(), 0, "no file is left on disk");
    assert!(tiers.wait_idle(SOON), "no write follows");
    assert_eq!(env.ssd.len(), 0, "no file is left on disk");
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "no chunk is found");
    assert!(events.try_iter().any(|event| event == Event::Cleared), "an event is emitted");
    tiers.close(SOON);
    let tiers = env.open(env.config());
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "no chunk is found after a restart");
}

#[test]
fn restore_yields_no_deleted_chunks() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let prompt = keys(1, 1024);
    store_for(&env, &tiers, &prompt, None);
    let coverage = env.find(&tiers, &prompt);
    let mut restoring = tiers.restore(&coverage, 0..1024, SOON);
    assert!(matches!(restoring.try_next(), RestorePoll::Ready(_)), "RAM has the chunk");
    tiers.clear(SOON);
    assert!(
        matches!(restoring.try_next(), RestorePoll::Ended(RestoreEnd::Missed(crate::Miss::Absent))),
        "a deleted chunk is not returned"
    );
}

#[test]
fn pinned_prefix_is_not_evicted_and_pins_have_a_quota() {
    let env = TestEnv::new();
    let mut config = env.config();
    config.ram_bytes = 40 * 4096;
    config.ssd = None;
    let tiers = env.open(config);
    let pinned = keys(1, 1024);
    store_for(&env, &tiers, &pinned, None);
    let last = tiers.stored_prefixes(1)[0].clone();
    assert_eq!(
        (last.tokens, last.pinned, &last.complete_in[..]),
        (1024, false, &[TierKind::Ram][..]),
        "the only prefix"
    );
    tiers.set_pinned(&last.last, true).expect("the pin quota suffices");
    for prompt in 0..100 {
        for chunk in env.model.chunks(&keys(10_000 + prompt * 2000, 1024)) {
            let began = std::time::Instant::now();
            while offer(&tiers, chunk.clone(), StoreReason::Idle, None).is_err() && began.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    assert_eq!(env.restore(&tiers, &pinned).0, 1024, "pinned chunks stay");
    env.clock.pass(Duration::from_secs(40 * 24 * 3600));
    tiers.check_clock();
    let began = std::time::Instant::now();
    while tiers.stored_prefixes(100).len() > 1 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(tiers.stored_prefixes(100).len(), 1, "the other prefixes have expired");
    assert_eq!(env.find(&tiers, &pinned).tokens(), 1024, "pinned chunks do not expire");
    let large = keys(900_000, 256 * 12);
    store_for(&env, &tiers, &large, None);
    let context = tiers.stored_prefixes(1)[0].clone();
    assert_eq!(tiers.set_pinned(&context.last, true), Err(PinError::Quota), "pins may use a quarter at most");
    assert!(!tiers.stored_prefixes(1)[0].pinned, "a rejected pin changes nothing");
    tiers.set_pinned(&last.last, false).expect("the prefix is stored");
    assert_eq!(tiers.forget(&last.last, SOON).chunks, 4, "the prefix is deleted");
    assert_eq!(tiers.set_pinned(&last.last, true), Err(PinError::Absent), "a deleted prefix cannot be pinned");
}

#[test]
fn trace_reports_miss_reason() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let prompt = keys(1000, 1024);
    store_for(&env, &tiers, &prompt, None);
    let check = |requested: &[Key], tokens: usize, why: MissReason| {
        let trace = tiers.trace(&env.model.prefix(requested));
        assert_eq!((trace.coverage.tokens(), trace.reason), (tokens, why), "trace of {} tokens", requested.len());
    };
    check(&prompt, 1024, MissReason::FullHit);
    let mut changed = prompt.clone();
    changed[412] = Key::token(7);
    check(&changed, 412, MissReason::Diverged { position: 412, stored: Some(prompt[412]), requested: Key::token(7) });
    changed = prompt.clone();
    changed[0] = Key::token(7);
    check(&changed, 0, MissReason::Diverged { position: 0, stored: Some(prompt[0]), requested: Key::token(7) });
    changed = prompt.clone();
    changed[512] = Key::token(7);
    check(&changed, 512, MissReason::Diverged { position: 512, stored: Some(prompt[512]), requested: Key::token(7) });
    check(&[prompt.clone(), keys(9, 5)].concat(), 1024, MissReason::NeverStored);
    let mut other = env.model.clone();
    other.class = NumericClass::new("gpu/wgpu/1").expect("the name is short");
    let trace = tiers.trace(&other.prefix(&prompt));
    assert_eq!(trace.reason, MissReason::NumericClass(env.model.class.clone()), "rows of another class are stored");
    let last = tiers.stored_prefixes(1)[0].last;
    tiers.forget(&last, SOON);
    check(&prompt, 0, MissReason::Removed(RemovalReason::Deleted));
}

#[test]
fn owners_pins_and_deletions_survive_restart() {
    let home = tempfile::tempdir().expect("cannot create a temporary folder");
    let env = TestEnv::new();
    let open = || env.open(Config { index_path: Some(home.path().join("index.redb")), ..env.config() });
    let (ann, bob) = (keys(1, 1024), keys(50_000, 1024));
    let tiers = open();
    store_for(&env, &tiers, &ann, Some("ann"));
    store_for(&env, &tiers, &bob, Some("bob"));
    let bobs = tiers.stored_prefixes(1)[0].last;
    tiers.set_pinned(&bobs, true).expect("the pin quota suffices");
    tiers.close(SOON);

    let tiers = open();
    let pinned =
        tiers.stored_prefixes(2).into_iter().find(|context| context.last == bobs).expect("the prefix is stored");
    assert!(pinned.pinned && pinned.owners.contains("bob"), "pins and owners are restored: {pinned:?}");
    env.ssd.set_faults(|call| if call == "remove" { super::fake::Fault::Fail } else { super::fake::Fault::None });
    let deleted = tiers.forget_owner(&Owner::new("ann").expect("the name is short"), SOON);
    assert_eq!(deleted, Deletion { chunks: 4, pending: 4 }, "failed removals are pending");
    assert_eq!(env.find(&tiers, &ann).tokens(), 0, "deleted chunks are not found");
    tiers.close(SOON);

    env.ssd.set_faults(|_| super::fake::Fault::None);
    let tiers = open();
    assert!(tiers.wait_idle(SOON), "the removals are done");
    assert_eq!((env.find(&tiers, &ann).tokens(), env.ssd.len()), (0, 4), "the next start removes the rest");
    assert_eq!(env.find(&tiers, &bob).tokens(), 1024, "other chunks stay");
}

#[test]
fn prefetch_loads_prefix_into_ram() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let prompt = keys(1, 3000);
    store_for(&env, &tiers, &prompt, Some("ann"));
    tiers.close(SOON);
    let tiers = env.open(env.config());
    let last = tiers.stored_prefixes(1)[0].last;
    tiers.prefetch(&last);
    let began = std::time::Instant::now();
    while tiers.status().tiers[0].chunks < 12 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(
        env.restore(&tiers, &prompt),
        (3000, vec![TierKind::Ram; 12], RestoreEnd::Complete),
        "all chunks are in RAM"
    );
    tiers.prefetch(&last);
    assert_eq!(tiers.forget(&last, SOON).chunks, 12, "prefetched chunks can be deleted");
    assert_eq!(env.ssd.len(), 0, "the files are gone");
}

#[test]
fn prefetch_of_model_and_owner_loads_their_prefixes() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let (ann, bob, cid) = (keys(1, 600), keys(2, 600), keys(3, 600));
    for (prompt, owner) in [(&ann, "ann"), (&bob, "bob"), (&cid, "cid")] {
        store_for(&env, &tiers, prompt, Some(owner));
    }
    assert!(tiers.wait_idle(SOON), "all chunks are written");
    let index = tempfile::tempdir().expect("cannot create a temporary folder");
    tiers.close(SOON);
    let reopen = |name: &str| {
        let config = Config { index_path: Some(index.path().join(name)), ..env.config() };
        let tiers = env.open(config);
        // The touches define the order of use. Owners and pins are not restored without the index.
        for prompt in [&ann, &bob, &cid] {
            let coverage = env.find(&tiers, prompt);
            tiers.touch(&coverage);
        }
        tiers
    };
    let in_ram = |tiers: &Tiers, expected: usize| {
        let began = std::time::Instant::now();
        while tiers.status().tiers[0].chunks < expected && began.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(2));
        }
        [&ann, &bob, &cid].map(|prompt| env.restore(tiers, prompt).1[0])
    };

    let tiers = reopen("last");
    assert_eq!(
        tiers.prefetch_model(&crate::Fingerprint::new(crate::WeightsDigest([9; 32]), []), 9),
        0,
        "another model has no prefixes"
    );
    assert_eq!(tiers.prefetch_model(&env.model.fingerprint, 1), 1, "the last used prefix");
    assert_eq!(in_ram(&tiers, 3), [TierKind::Ssd, TierKind::Ssd, TierKind::Ram], "the third prefix is in RAM");
    tiers.close(SOON);

    let tiers = reopen("pinned");
    let last = env.find(&tiers, &ann).steps(0..600).last().expect("the prefix is stored").id;
    tiers.set_pinned(&last, true).expect("the pin quota suffices");
    assert_eq!(tiers.prefetch_model(&env.model.fingerprint, 0), 1, "the pinned prefix");
    assert_eq!(in_ram(&tiers, 3), [TierKind::Ram, TierKind::Ssd, TierKind::Ssd], "the first prefix is in RAM");
    tiers.close(SOON);

    let tiers = reopen("owned");
    store_for(&env, &tiers, &bob, Some("bob"));
    assert_eq!(tiers.prefetch_owner(&Owner::new("bob").expect("the name is short")), 1, "the owner's prefix");
    assert_eq!(
        tiers.prefetch_owner(&Owner::new("dan").expect("the name is short")),
        0,
        "an unknown owner has no prefixes"
    );
    assert_eq!(in_ram(&tiers, 3), [TierKind::Ssd, TierKind::Ram, TierKind::Ssd], "the second prefix is in RAM");
}
