//! The policy against traces: hit rates beside those of the best that could be done, and what is written for them.

use std::sync::Arc;
use std::time::Duration;

use super::trace::{self, Trace};
use super::{Aged, replay};
use crate::{Facts, LeastRecent, Worth};

/// Replays a trace at each of the capacities and compares with recency alone, and with the future.
fn check(name: &str, trace: &Trace, capacities: &[u64], of_best: f64) {
    let percent = |chunks| replay::percent(trace, chunks);
    println!("{name}: at most {:.2} %", percent(replay::best(trace, u64::MAX)));
    for &capacity in capacities {
        let ours = replay::kept(trace, capacity, Arc::new(Aged));
        let recent = replay::kept(trace, capacity, Arc::new(LeastRecent));
        let best = replay::best(trace, capacity);
        println!(
            "{capacity:6} chunks: {:.2} %, recency {:.2} %, best {:.2} %",
            percent(ours),
            percent(recent),
            percent(best)
        );
        assert!(ours >= recent, "{name}, {capacity} chunks: recency alone has more, {recent} instead of {ours}");
        let part = ours as f64 / best as f64;
        assert!(part >= of_best, "{name}, {capacity} chunks: {part:.3} of what is possible");
    }
}

/// Chunks in so many GiB of a desktop's folder.
const fn gib(gib: u64) -> u64 {
    (gib << 30) / replay::CHUNK_BYTES
}

/// What may be written each day before it has come back.
const EARLY_GIB: u64 = 8;

/// Different chunks that are asked for.
fn unique(trace: &Trace) -> u64 {
    let chunks = trace.requests.iter().flat_map(|request| &request.chunks);
    chunks.collect::<std::collections::HashSet<_>>().len() as u64
}

#[test]
fn one_person_gets_nearly_all_that_is_possible() {
    check("desktop", &trace::desktop(1), &[2, 4, 8, 16].map(gib), 0.95);
}

#[test]
fn many_people_who_talk_get_no_less_than_by_recency() {
    let trace = trace::conversation(1);
    let unique = unique(&trace);
    check("conversation", &trace, &[20, 10, 4].map(|part| unique / part), 0.0);
}

#[test]
fn many_people_who_ask_about_documents_get_no_less_than_by_recency() {
    let trace = trace::documents(1);
    let unique = unique(&trace);
    check("documents", &trace, &[20, 10, 4].map(|part| unique / part), 0.0);
}

#[test]
fn traces_are_as_they_are_meant_to_be() {
    let desktop = trace::desktop(1);
    assert!((900..1200).contains(&desktop.requests.len()), "{} prompts in two weeks", desktop.requests.len());
    assert!((18_000_000..23_000_000).contains(&desktop.tokens()), "{} tokens in two weeks", desktop.tokens());
    let again = trace::desktop(1);
    assert!(desktop.requests.iter().zip(&again.requests).all(|(a, b)| a.chunks == b.chunks), "a seed is a trace");
    assert_ne!(trace::desktop(2).requests.len(), 0, "another seed is another trace");
    assert_eq!(trace::conversation(1).requests.len() / 100, 120, "about 12,031 prompts");
}

#[test]
fn the_future_is_used_as_well_as_can_be() {
    // One place, two chunks by turns: one of them stays.
    let mut by_turns = trace::desktop(1);
    by_turns.requests.truncate(6);
    for (at, request) in by_turns.requests.iter_mut().enumerate() {
        request.chunks = vec![(at % 2) as u32];
    }
    assert_eq!(replay::best(&by_turns, 1), 2, "with the best, a chunk is there whenever it comes back");
    assert_eq!(replay::kept(&by_turns, 1, Arc::new(LeastRecent)), 0, "by recency, it has always just left");
    assert_eq!(replay::best(&by_turns, 2), 4, "with room for both, only the first uses miss");
}

fn facts() -> Facts {
    Facts {
        last_use: 10_000,
        last_use_at: Duration::from_secs(60),
        hits: 0,
        returns: 0,
        warmth: 0.0,
        kept: 1000,
        bytes: 32 << 20,
        recompute: Duration::from_millis(2560),
        owned: false,
        pinned: false,
    }
}

#[test]
fn worth_counts_a_little_and_recency_much() {
    let plain = facts();
    let later = |facts: Facts| Aged.rank(&facts) > Aged.rank(&plain);
    assert!(later(Facts { hits: 1, warmth: 1.0, ..plain }), "what was used again stays longer");
    assert!(later(Facts { recompute: plain.recompute * 2, ..plain }), "what takes longer to compute stays longer");
    assert!(!later(Facts { bytes: plain.bytes * 2, ..plain }), "what takes more room stays less long");
    assert!(
        !later(Facts { warmth: 100.0, last_use: plain.last_use - 1000, ..plain }),
        "a turnover ago is too long ago"
    );
    assert_eq!(
        Aged.rank(&Facts { recompute: Duration::ZERO, ..plain }),
        plain.last_use,
        "what is unknown is the usual"
    );
    let few = Facts { kept: 50, warmth: 9.0, ..plain };
    assert_eq!(Aged.rank(&few), plain.last_use, "in a small cache only recency counts");
    let old = Facts { last_use: 0, recompute: Duration::from_nanos(1), kept: usize::MAX, warmth: f64::MAX, ..plain };
    assert_eq!(Aged.rank(&Facts { warmth: 0.0, ..old }), 0, "no rank is below the lowest");
}

#[test]
fn a_folder_is_written_little_for_what_it_gives() {
    let trace = trace::desktop(1);
    let percent = |chunks| replay::percent(&trace, chunks);
    let none = replay::Folder { ram: 0, ssd: gib(8), nightly: None, through: false, early: 0 };
    let (alone, through) = replay::written(&trace, replay::Folder { through: true, ..none }, Arc::new(LeastRecent));
    let shown = |chunks: u64| (chunks * replay::CHUNK_BYTES) >> 30;
    println!("all at once, a folder of 8 GiB alone: {} GiB written, {:.2} %", shown(through), percent(alone));
    // Each night all of RAM is lost but 2 GiB that can still be written, or nothing is.
    let nights = [None, Some(gib(2) as usize)];
    for (ram, nightly) in [4, 6, 8].into_iter().flat_map(|ram| nights.map(|nightly| (ram, nightly))) {
        let folder = replay::Folder { ram: gib(ram), nightly, early: gib(EARLY_GIB), ..none };
        let (kept, written) = replay::written(&trace, folder, Arc::new(Aged));
        println!(
            "with {ram} GiB of RAM, {}: {} GiB written ({:.0} %), {:.2} %",
            if nightly.is_some() { "lost each night" } else { "always on" },
            shown(written),
            100.0 * written as f64 / through as f64,
            percent(kept)
        );
        assert!(written * 10 <= through * 6, "{written} chunks were written instead of {through}");
        assert!(percent(kept) >= percent(alone) - 1.0, "{kept} chunks were there instead of {alone}");
    }
}
