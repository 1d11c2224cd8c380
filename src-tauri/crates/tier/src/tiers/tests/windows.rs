//! Layers with a window: what a reader has of them, and that they share the fate of the chunks beside them.

use super::*;
use crate::{Held, Owner};

/// A bench with a model of which some layers have a window.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.toy.groups = Groups { full: true, window_tokens: Some(300) };
    bench
}

/// Stores the chunks that the closure wants, which gets their group and first position.
fn store(bench: &Bench, tiers: &Tiers, keys: &[Key], wanted: impl Fn(Group, u64) -> bool) {
    for chunk in bench.toy.chunks(keys) {
        if wanted(chunk.head.id.group, chunk.head.first_position) {
            offer(tiers, chunk, StoreWhy::Idle, Some("ann")).expect("there is room");
        }
    }
}

#[test]
fn what_a_reader_has_need_not_be_kept() {
    let bench = bench();
    let prompt = keys(10, 2000);
    let check = |held: Held, stored: &dyn Fn(Group, u64) -> bool, tokens: usize, steps: &[(Group, u64)], why: &str| {
        let tiers = bench.open(bench.config());
        store(&bench, &tiers, &prompt, stored);
        let coverage = tiers.find_after(&bench.toy.prefix(&prompt), held.clone());
        assert_eq!(coverage.tokens(), tokens, "{why}");
        let from = held.tokens.min(tokens);
        let read: Vec<_> = coverage.steps(from..tokens).iter().map(|s| (s.id.group, s.first_position)).collect();
        assert_eq!(read, steps, "{why}");
        tiers.clear(SOON);
    };
    let (full, window) = (Group::Full, Group::Window);
    let held = |tokens, window| Held { tokens, window };
    check(
        held(1536, 1200..1536),
        &|group, at| group == full || at >= 1536,
        2000,
        &[(window, 1536), (full, 1536), (window, 1792), (full, 1792)],
        "the window's beginning is with the reader",
    );
    check(
        held(1536, 0..0),
        &|group, at| group == window && at < 1024,
        1024,
        &[(window, 512), (window, 768)],
        "the reader has other layers' rows of all that it has windows of, and more",
    );
    check(held(1000, 0..1000), &|group, _| group == full, 1000, &[], "nothing is kept that the reader could use");
    check(
        held(1600, 1000..1600),
        &|group, at| group == window && at >= 1536,
        1600,
        &[],
        "nothing is read again that the reader has",
    );
}

#[test]
fn windows_without_a_prefix_leave_first() {
    let bench = bench();
    let tiers = bench.open(Config { ssd: None, ..Config::new(40 * 4096) });
    let (old, alone) = (keys(10, 2048), keys(5000, 2048));
    store(&bench, &tiers, &old, |group, _| group == Group::Full);
    // Used later, but of no use to anybody.
    store(&bench, &tiers, &alone, |group, _| group == Group::Window);
    let mut next = 10_000;
    while tiers.status().places[0].flow.evicted_chunks == 0 {
        store(&bench, &tiers, &keys(next, 256), |group, _| group == Group::Full);
        next += 1000;
        std::thread::sleep(Duration::from_millis(1));
    }
    let only_full = Prefix { groups: Groups::FULL, ..bench.toy.prefix(&old) };
    assert_eq!(tiers.find(&only_full).tokens(), 2048, "what was used longest ago is still there");
}

#[test]
fn windows_go_with_the_chunks_beside_them() {
    let bench = bench();
    let tiers = bench.open(bench.config());
    let prompt = keys(10, 1000);
    store(&bench, &tiers, &prompt, |_, _| true);
    let contexts = tiers.contexts(9);
    let [context] = &contexts[..] else { panic!("windows are no contexts: {contexts:?}") };
    assert_eq!((context.tokens, context.bytes), (1000, 8 * 4096), "its bytes are those of all layers");
    tiers.pin(&context.last, true).expect("there is room");
    tiers.pin(&context.last, false).expect("it is kept");
    assert_eq!(tiers.forget(&context.last, SOON).chunks, 8, "all layers' chunks are deleted");
    assert!(tiers.settle(SOON), "removals are done");
    assert_eq!(bench.ssd.len(), 0, "nothing of it is left on the disk");

    store(&bench, &tiers, &prompt, |_, _| true);
    assert_eq!(tiers.forget_owner(&Owner::new("ann").expect("short"), SOON).chunks, 8, "by their owner too");
}
