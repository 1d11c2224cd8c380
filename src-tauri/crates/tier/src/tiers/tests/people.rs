//! Owners, pins, clearing, expiry, and what is told of misses.

use super::*;
use crate::tiers::{Deleted, Gone, PinError, Why};
use crate::{Owner, tiers::Event};

fn store_for(bench: &Bench, tiers: &Tiers, keys: &[Key], owner: Option<&str>) {
    for chunk in bench.toy.chunks(keys) {
        offer(tiers, chunk, StoreWhy::Idle, owner).expect("there is room");
    }
}

#[test]
fn deleting_by_owner_leaves_what_others_share() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let system = keys(1, 512);
    let sequence = |first, count| [system.clone(), keys(first, count)].concat();
    let (ann, bob, none) = (sequence(10_000, 600), sequence(20_000, 600), sequence(10_000, 900));
    store_for(&bench, &tiers, &ann, Some("ann"));
    store_for(&bench, &tiers, &bob, Some("bob"));
    // Somebody without a name went on where Ann had been.
    store_for(&bench, &tiers, &none, None);
    assert!(tiers.settle(SOON), "all is written");
    assert_eq!(bench.ssd.len(), 5 + 3 + 2, "two chunks in common, and what follows");
    let deleted = tiers.forget_owner(&Owner::new("ann").expect("short"), SOON);
    assert_eq!(deleted, Deleted { chunks: 5, left: 0 }, "Ann's three, and what nobody could reach any more");
    assert_eq!(bench.ssd.len(), 5, "all of it is gone from the disk");
    for (asked, tokens, whose) in [(&ann, 512, "Ann's"), (&none, 512, "nobody's"), (&bob, bob.len(), "Bob's")] {
        assert_eq!(bench.find(&tiers, asked).tokens(), tokens, "what is left of {whose}");
    }
    assert_eq!(tiers.forget_owner(&Owner::new("cy").expect("short"), SOON).chunks, 0, "a stranger has nothing");
}

#[test]
fn clearing_removes_everything_even_what_is_being_written() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    bench.ssd.set_faults(|call| match call {
        "save" => super::fake::Fault::Slow(Duration::from_millis(20)),
        _ => super::fake::Fault::None,
    });
    let prompt = keys(1, 2048);
    let events = tiers.events();
    store_for(&bench, &tiers, &prompt, Some("ann"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(tiers.clear(SOON), Deleted { chunks: 8, left: 0 }, "all of it");
    assert_eq!(bench.ssd.len(), 0, "nothing is left on the disk");
    assert!(tiers.settle(SOON), "and nothing comes after");
    assert_eq!(bench.ssd.len(), 0, "nothing is left on the disk");
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "nothing is found");
    assert!(events.try_iter().any(|event| event == Event::Cleared), "and that is told");
    tiers.close(SOON);
    let tiers = bench.open(bench.config());
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "nor after a restart");
}

#[test]
fn a_restore_gives_nothing_that_was_deleted_meanwhile() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let prompt = keys(1, 1024);
    store_for(&bench, &tiers, &prompt, None);
    let coverage = bench.find(&tiers, &prompt);
    let mut restoring = tiers.restore(&coverage, 0..1024, SOON);
    assert!(matches!(restoring.try_next(), Next::Ready(_)), "RAM has it");
    tiers.clear(SOON);
    assert!(
        matches!(restoring.try_next(), Next::Ended(End::Missed(crate::Miss::Absent))),
        "what was deleted is not handed out"
    );
}

#[test]
fn pins_stay_when_all_else_goes_and_have_a_quota() {
    let bench = Bench::new();
    let mut config = bench.config();
    config.ram_bytes = 40 * 4096;
    config.ssd = None;
    let tiers = bench.open(config);
    let pinned = keys(1, 1024);
    store_for(&bench, &tiers, &pinned, None);
    let last = tiers.contexts(1)[0].clone();
    assert_eq!((last.tokens, last.pinned, &last.places[..]), (1024, false, &[Place::Ram][..]), "the only one");
    tiers.pin(&last.last, true).expect("there is room for pins");
    for prompt in 0..100 {
        for chunk in bench.toy.chunks(&keys(10_000 + prompt * 2000, 1024)) {
            let began = std::time::Instant::now();
            while offer(&tiers, chunk.clone(), StoreWhy::Idle, None).is_err() && began.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    assert_eq!(bench.restore(&tiers, &pinned).0, 1024, "pinned chunks stay");
    bench.clock.pass(Duration::from_secs(40 * 24 * 3600));
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(bench.find(&tiers, &pinned).tokens(), 1024, "for longer than others are kept");
    assert_eq!(tiers.contexts(100).len(), 1, "the others have expired");
    let large = keys(900_000, 256 * 12);
    store_for(&bench, &tiers, &large, None);
    let context = tiers.contexts(1)[0].clone();
    assert_eq!(tiers.pin(&context.last, true), Err(PinError::Quota), "pins take a quarter at most");
    assert!(!tiers.contexts(1)[0].pinned, "and what does not fit is as before");
    tiers.pin(&last.last, false).expect("it is kept");
    assert_eq!(tiers.forget(&last.last, SOON).chunks, 4, "a context can be dropped");
    assert_eq!(tiers.pin(&last.last, true), Err(PinError::Absent), "and is then no more");
}

#[test]
fn a_miss_says_why() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let prompt = keys(1000, 1024);
    store_for(&bench, &tiers, &prompt, None);
    let check = |asked: &[Key], tokens: usize, why: Why| {
        let trace = tiers.trace(&bench.toy.prefix(asked));
        assert_eq!((trace.coverage.tokens(), trace.why), (tokens, why), "what is told of {} tokens", asked.len());
    };
    check(&prompt, 1024, Why::Whole);
    let mut changed = prompt.clone();
    changed[412] = Key::token(7);
    check(&changed, 412, Why::Changed { at: 412, kept: Some(prompt[412]), asked: Key::token(7) });
    changed = prompt.clone();
    changed[0] = Key::token(7);
    check(&changed, 0, Why::Changed { at: 0, kept: Some(prompt[0]), asked: Key::token(7) });
    changed = prompt.clone();
    changed[512] = Key::token(7);
    check(&changed, 512, Why::Changed { at: 512, kept: Some(prompt[512]), asked: Key::token(7) });
    check(&[prompt.clone(), keys(9, 5)].concat(), 1024, Why::NeverStored);
    let mut other = bench.toy.clone();
    other.class = NumericClass::new("gpu/wgpu/1").expect("short");
    let trace = tiers.trace(&other.prefix(&prompt));
    assert_eq!(trace.why, Why::OtherArithmetic(bench.toy.class.clone()), "rows are there, but of another kind");
    let last = tiers.contexts(1)[0].last;
    tiers.forget(&last, SOON);
    check(&prompt, 0, Why::Gone(Gone::Deleted));
}

#[test]
fn owners_and_pins_outlive_a_restart_and_so_does_a_deletion() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let bench = Bench::new();
    let open = || bench.open(Config { index: Some(home.path().join("index.redb")), ..bench.config() });
    let (ann, bob) = (keys(1, 1024), keys(50_000, 1024));
    let tiers = open();
    store_for(&bench, &tiers, &ann, Some("ann"));
    store_for(&bench, &tiers, &bob, Some("bob"));
    let bobs = tiers.contexts(1)[0].last;
    tiers.pin(&bobs, true).expect("there is room for pins");
    tiers.close(SOON);

    let tiers = open();
    let pinned = tiers.contexts(2).into_iter().find(|context| context.last == bobs).expect("it is kept");
    assert!(pinned.pinned && pinned.owners.contains("bob"), "pins and owners are remembered: {pinned:?}");
    bench.ssd.set_faults(|call| if call == "remove" { super::fake::Fault::Fail } else { super::fake::Fault::None });
    let deleted = tiers.forget_owner(&Owner::new("ann").expect("short"), SOON);
    assert_eq!(deleted, Deleted { chunks: 4, left: 4 }, "what could not be removed is told");
    assert_eq!(bench.find(&tiers, &ann).tokens(), 0, "but is found no more");
    tiers.close(SOON);

    bench.ssd.set_faults(|_| super::fake::Fault::None);
    let tiers = open();
    assert!(tiers.settle(SOON), "removals are done");
    assert_eq!((bench.find(&tiers, &ann).tokens(), bench.ssd.len()), (0, 4), "the next start removes the rest");
    assert_eq!(bench.find(&tiers, &bob).tokens(), 1024, "and nothing else");
}

#[test]
fn a_context_can_be_brought_up_before_it_is_wanted() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let prompt = keys(1, 3000);
    store_for(&bench, &tiers, &prompt, Some("ann"));
    tiers.close(SOON);
    let tiers = bench.open(bench.config());
    let last = tiers.contexts(1)[0].last;
    tiers.prefetch(&last);
    let began = std::time::Instant::now();
    while tiers.status().places[0].chunks < 12 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(bench.restore(&tiers, &prompt), (3000, vec![Place::Ram; 12], End::Complete), "all of it is in RAM");
    tiers.prefetch(&last);
    assert_eq!(tiers.forget(&last, SOON).chunks, 12, "and nothing holds it there");
    assert_eq!(bench.ssd.len(), 0, "when it goes");
}

#[test]
fn a_model_and_an_owner_have_theirs_brought_up() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let (ann, bob, cid) = (keys(1, 600), keys(2, 600), keys(3, 600));
    for (prompt, owner) in [(&ann, "ann"), (&bob, "bob"), (&cid, "cid")] {
        store_for(&bench, &tiers, prompt, Some(owner));
    }
    assert!(tiers.settle(SOON), "all of it is written");
    let index = tempfile::tempdir().expect("a temporary folder");
    tiers.close(SOON);
    let reopen = |name: &str| {
        let config = Config { index: Some(index.path().join(name)), ..bench.config() };
        let tiers = bench.open(config);
        // Uses say what was used last; owners and pins are not remembered without an index.
        for prompt in [&ann, &bob, &cid] {
            let coverage = bench.find(&tiers, prompt);
            tiers.touch(&coverage);
        }
        tiers
    };
    let in_ram = |tiers: &Tiers, expected: usize| {
        let began = std::time::Instant::now();
        while tiers.status().places[0].chunks < expected && began.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(2));
        }
        [&ann, &bob, &cid].map(|prompt| bench.restore(tiers, prompt).1[0])
    };

    let tiers = reopen("last");
    assert_eq!(tiers.prefetch_model(&crate::Fingerprint::new(crate::WeightsDigest([9; 32]), []), 9), 0, "not theirs");
    assert_eq!(tiers.prefetch_model(&bench.toy.fingerprint, 1), 1, "one was used last");
    assert_eq!(in_ram(&tiers, 3), [Place::Ssd, Place::Ssd, Place::Ram], "the third");
    tiers.close(SOON);

    let tiers = reopen("pinned");
    let last = bench.find(&tiers, &ann).steps(0..600).last().expect("it is kept").id;
    tiers.pin(&last, true).expect("there is room for a pin");
    assert_eq!(tiers.prefetch_model(&bench.toy.fingerprint, 0), 1, "one is pinned");
    assert_eq!(in_ram(&tiers, 3), [Place::Ram, Place::Ssd, Place::Ssd], "the first");
    tiers.close(SOON);

    let tiers = reopen("owned");
    store_for(&bench, &tiers, &bob, Some("bob"));
    assert_eq!(tiers.prefetch_owner(&Owner::new("bob").expect("short")), 1, "one is theirs");
    assert_eq!(tiers.prefetch_owner(&Owner::new("dan").expect("short")), 0, "nothing is theirs");
    assert_eq!(in_ram(&tiers, 3), [Place::Ssd, Place::Ram, Place::Ssd], "the second");
}
