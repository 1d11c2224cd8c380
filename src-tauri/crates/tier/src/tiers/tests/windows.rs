//! Tests of window layers: rows that the reader has, and window chunks that follow their full-attention chunks.

use super::*;
use crate::{Owner, ResidentRows};

/// An environment whose model has window layers.
fn env() -> TestEnv {
    let mut env = TestEnv::new();
    env.model.groups = Groups { window_tokens: Some(300), ..Groups::FULL };
    env
}

/// Stores the chunks for which `wanted(group, first_position)` is true.
fn store(env: &TestEnv, tiers: &Tiers, keys: &[Key], wanted: impl Fn(Group, u64) -> bool) {
    for chunk in env.model.chunks(keys) {
        if wanted(chunk.head.id.group, chunk.head.first_position) {
            offer(tiers, chunk, StoreReason::Idle, Some("ann")).expect("the chunk is stored");
        }
    }
}

#[test]
fn rows_of_the_reader_need_not_be_stored() {
    let env = env();
    let prompt = keys(10, 2000);
    let check =
        |held: ResidentRows, stored: &dyn Fn(Group, u64) -> bool, tokens: usize, steps: &[(Group, u64)], why: &str| {
            let tiers = env.open(env.config());
            store(&env, &tiers, &prompt, stored);
            let coverage = tiers.lookup_after(&env.model.prefix(&prompt), held.clone());
            assert_eq!(coverage.tokens(), tokens, "{why}");
            let from = held.tokens.min(tokens);
            let read: Vec<_> = coverage.steps(from..tokens).iter().map(|s| (s.id.group, s.first_position)).collect();
            assert_eq!(read, steps, "{why}");
            tiers.clear(SOON);
        };
    let (full, window) = (Group::Full, Group::Window);
    let held = |tokens, window| ResidentRows { tokens, window };
    check(
        held(1536, 1200..1536),
        &|group, at| group == full || at >= 1536,
        2000,
        &[(window, 1536), (full, 1536), (window, 1792), (full, 1792)],
        "the reader has the start of the window",
    );
    check(
        held(1536, 0..0),
        &|group, at| group == window && at < 1024,
        1024,
        &[(window, 512), (window, 768)],
        "the reader has the full-attention rows beyond the stored window",
    );
    check(held(1000, 0..1000), &|group, _| group == full, 1000, &[], "no stored chunk is useful");
    check(
        held(1600, 1000..1600),
        &|group, at| group == window && at >= 1536,
        1600,
        &[],
        "rows that the reader has are not read again",
    );
}

#[test]
fn window_chunks_without_prefix_are_evicted_first() {
    let env = env();
    let tiers = env.open(Config { ssd: None, ..Config::new(40 * 4096) });
    let (old, alone) = (keys(10, 2048), keys(5000, 2048));
    store(&env, &tiers, &old, |group, _| group == Group::Full);
    // Used later, but useless.
    store(&env, &tiers, &alone, |group, _| group == Group::Window);
    let mut next = 10_000;
    while tiers.status().tiers[0].counters.evicted_chunks == 0 {
        for chunk in env.model.chunks(&keys(next, 256)).into_iter().filter(|chunk| chunk.head.id.group == Group::Full) {
            // A full tier refuses chunks until its thread has evicted others.
            let _ = offer(&tiers, chunk, StoreReason::Idle, Some("ann"));
        }
        next += 1000;
        std::thread::sleep(Duration::from_millis(1));
    }
    let only_full = Prefix { groups: Groups::FULL, ..env.model.prefix(&old) };
    assert_eq!(tiers.lookup(&only_full).tokens(), 2048, "the least recently used prefix is still stored");
}

#[test]
fn window_chunks_are_deleted_with_their_prefix() {
    let env = env();
    let tiers = env.open(env.config());
    let prompt = keys(10, 1000);
    store(&env, &tiers, &prompt, |_, _| true);
    let contexts = tiers.stored_prefixes(9);
    let [context] = &contexts[..] else { panic!("window chunks are not listed as prefixes: {contexts:?}") };
    assert_eq!((context.tokens, context.bytes), (1000, 8 * 4096), "the size includes all layers");
    tiers.set_pinned(&context.last, true).expect("the chunk is stored");
    tiers.set_pinned(&context.last, false).expect("the prefix is stored");
    assert_eq!(tiers.forget(&context.last, SOON).chunks, 8, "the chunks of all layers are deleted");
    assert!(tiers.wait_idle(SOON), "the removals are done");
    assert_eq!(env.ssd.len(), 0, "no file is left on disk");

    store(&env, &tiers, &prompt, |_, _| true);
    assert_eq!(tiers.forget_owner(&Owner::new("ann").expect("the name is short"), SOON).chunks, 8, "by owner");
}
