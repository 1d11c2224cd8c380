//! Tests of the policy on traces: hit rates compared with the optimum, and amounts of data written.

mod replay;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use self::trace::Trace;
use super::WeightedLru;
use crate::{ChunkStats, EvictionPolicy, LeastRecentlyUsed};

/// Replays a trace with several capacities and compares the policy with plain LRU and with the optimum.
fn check(name: &str, trace: &Trace, capacities: &[u64], of_best: f64) {
    let percent = |chunks| replay::percent(trace, chunks);
    println!("{name}: unlimited cache {:.2} %", percent(replay::best(trace, u64::MAX)));
    for &capacity in capacities {
        let ours = replay::kept(trace, capacity, Arc::new(WeightedLru));
        let recent = replay::kept(trace, capacity, Arc::new(LeastRecentlyUsed));
        let best = replay::best(trace, capacity);
        println!(
            "{capacity:6} chunks: {:.2} %, LRU {:.2} %, optimum {:.2} %",
            percent(ours),
            percent(recent),
            percent(best)
        );
        assert!(ours >= recent, "{name}, {capacity} chunks: LRU hits {recent} chunks, the policy only {ours}");
        let part = ours as f64 / best as f64;
        assert!(part >= of_best, "{name}, {capacity} chunks: {part:.3} of the optimum");
    }
}

/// Number of chunks in this many GiB.
const fn gib(gib: u64) -> u64 {
    (gib << 30) / replay::CHUNK_BYTES
}

/// Daily allowance for writing chunks before they were reused.
const EARLY_GIB: u64 = 8;

/// Number of distinct chunks in a trace.
fn unique(trace: &Trace) -> u64 {
    let chunks = trace.requests.iter().flat_map(|request| &request.chunks);
    chunks.collect::<std::collections::HashSet<_>>().len() as u64
}

#[test]
fn policy_is_nearly_optimal_for_one_user() {
    check("desktop", &trace::desktop(1), &[2, 4, 8, 16].map(gib), 0.95);
}

#[test]
fn policy_is_no_worse_than_lru_for_many_conversations() {
    let trace = trace::conversation(1);
    let unique = unique(&trace);
    check("conversation", &trace, &[20, 10, 4].map(|part| unique / part), 0.0);
}

#[test]
fn policy_is_no_worse_than_lru_for_document_questions() {
    let trace = trace::documents(1);
    let unique = unique(&trace);
    check("documents", &trace, &[20, 10, 4].map(|part| unique / part), 0.0);
}

#[test]
fn traces_have_the_intended_size() {
    let desktop = trace::desktop(1);
    assert!((900..1200).contains(&desktop.requests.len()), "{} prompts in two weeks", desktop.requests.len());
    assert!((18_000_000..23_000_000).contains(&desktop.tokens()), "{} tokens in two weeks", desktop.tokens());
    let again = trace::desktop(1);
    assert!(
        desktop.requests.iter().zip(&again.requests).all(|(a, b)| a.chunks == b.chunks),
        "equal seeds give equal traces"
    );
    assert_ne!(trace::desktop(2).requests.len(), 0, "another seed gives a trace too");
    assert_eq!(trace::conversation(1).requests.len() / 100, 120, "about 12,031 prompts");
}

#[test]
fn optimal_replay_knows_the_future() {
    // One tier, two alternating chunks: the optimum keeps one of them.
    let mut by_turns = trace::desktop(1);
    by_turns.requests.truncate(6);
    for (at, request) in by_turns.requests.iter_mut().enumerate() {
        request.chunks = vec![(at % 2) as u32];
    }
    assert_eq!(replay::best(&by_turns, 1), 2, "the optimum hits the kept chunk each time");
    assert_eq!(
        replay::kept(&by_turns, 1, Arc::new(LeastRecentlyUsed)),
        0,
        "LRU always evicts the chunk that is needed next"
    );
    assert_eq!(replay::best(&by_turns, 2), 4, "with room for both chunks, only the first uses miss");
}

fn stats() -> ChunkStats {
    ChunkStats {
        last_use: 10_000,
        last_use_at: Duration::from_secs(60),
        hits: 0,
        returns: 0,
        warmth: 0.0,
        stored_chunks: 1000,
        bytes: 32 << 20,
        recompute: Duration::from_millis(2560),
        owned: false,
        pinned: false,
    }
}

#[test]
fn rank_weighs_value_little_and_recency_much() {
    let plain = stats();
    let later = |stats: ChunkStats| WeightedLru.rank(&stats) > WeightedLru.rank(&plain);
    assert!(later(ChunkStats { hits: 1, warmth: 1.0, ..plain }), "a reused chunk ranks higher");
    assert!(
        later(ChunkStats { recompute: plain.recompute * 2, ..plain }),
        "a chunk that is slower to compute ranks higher"
    );
    assert!(!later(ChunkStats { bytes: plain.bytes * 2, ..plain }), "a larger chunk does not rank higher");
    assert!(
        !later(ChunkStats { warmth: 100.0, last_use: plain.last_use - 1000, ..plain }),
        "hits do not outweigh a whole turnover of recency"
    );
    assert_eq!(
        WeightedLru.rank(&ChunkStats { recompute: Duration::ZERO, ..plain }),
        plain.last_use,
        "an unknown recompute time counts as typical"
    );
    let few = ChunkStats { stored_chunks: 50, warmth: 9.0, ..plain };
    assert_eq!(WeightedLru.rank(&few), plain.last_use, "in a small cache only recency counts");
    let old = ChunkStats {
        last_use: 0,
        recompute: Duration::from_nanos(1),
        stored_chunks: usize::MAX,
        warmth: f64::MAX,
        ..plain
    };
    assert_eq!(WeightedLru.rank(&ChunkStats { warmth: 0.0, ..old }), 0, "the rank saturates at zero");
}

#[test]
fn policy_writes_little_for_its_hit_rate() {
    let trace = trace::desktop(1);
    let percent = |chunks| replay::percent(&trace, chunks);
    let none = replay::WriteTarget { ram: 0, ssd: gib(8), nightly: None, through: false, early: 0 };
    let (alone, through) =
        replay::written(&trace, replay::WriteTarget { through: true, ..none }, Arc::new(LeastRecentlyUsed));
    let shown = |chunks: u64| (chunks * replay::CHUNK_BYTES) >> 30;
    println!("write-through, a disk of 8 GiB alone: {} GiB written, {:.2} %", shown(through), percent(alone));
    // Each night RAM is lost except for 2 GiB that can still be written, or RAM is never lost.
    let nights = [None, Some(gib(2) as usize)];
    for (ram, nightly) in [4, 6, 8].into_iter().flat_map(|ram| nights.map(|nightly| (ram, nightly))) {
        let folder = replay::WriteTarget { ram: gib(ram), nightly, early: gib(EARLY_GIB), ..none };
        let (kept, written) = replay::written(&trace, folder, Arc::new(WeightedLru));
        println!(
            "with {ram} GiB of RAM, {}: {} GiB written ({:.0} %), {:.2} %",
            if nightly.is_some() { "lost each night" } else { "always on" },
            shown(written),
            100.0 * written as f64 / through as f64,
            percent(kept)
        );
        assert!(written * 10 <= through * 6, "{written} chunks were written, compared with {through}");
        assert!(percent(kept) >= percent(alone) - 1.0, "{kept} chunks were hits, compared with {alone}");
    }
}
