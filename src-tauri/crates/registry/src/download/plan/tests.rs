//! Plans, with streams that are numbers.

use proptest::prelude::*;

use super::*;

const RULES: Rules = Rules {
    segment_bytes: 100,
    split_bytes: 10,
    steal_after: Duration::from_secs(1),
    slow_after: Duration::from_secs(10),
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn plan(size_bytes: u64, held: &[Range<u64>]) -> Plan {
    Plan::new(size_bytes, held.iter().cloned().collect(), RULES)
}

/// Leases until there is no more, and returns the ranges.
fn all(plan: &mut Plan, now: Duration) -> Vec<Range<u64>> {
    std::iter::from_fn(|| plan.lease(now, false).map(|(_, range)| range)).take(20).collect()
}

#[test]
fn fetches_what_is_missing_from_the_front() {
    let mut plan = plan(350, &[0..20, 150..160]);
    assert_eq!(all(&mut plan, seconds(0)), [20..120, 120..150, 160..260, 260..350], "segments, around what is there");
    assert!(!plan.has_work(seconds(0)), "nobody has had time to be slow");
}

#[test]
fn an_idle_stream_halves_the_slowest() {
    let mut plan = plan(200, &[]);
    let (first, _) = plan.lease(seconds(0), false).expect("all is missing");
    let (second, _) = plan.lease(seconds(0), false).expect("the second segment is missing");
    plan.take(first, 0, 40, seconds(2));
    plan.take(second, 100, 80, seconds(2));
    let (third, range) = plan.lease(seconds(2), false).expect("the first would take three more seconds");
    assert_eq!(range, 70..100, "half of what the slowest had left");
    assert_eq!(
        plan.take(first, 40, 60, seconds(3)),
        Taken::Write { skip: 0, len: 30, at: 40, finished: true },
        "the slow one gives up what was taken from it"
    );
    plan.release(first);
    assert_eq!(plan.take(first, 70, 30, seconds(3)), Taken::Gone, "its lease is over");
    plan.take(third, 70, 30, seconds(3));
    plan.take(second, 180, 20, seconds(3));
    assert!(plan.is_complete(), "all came, by three streams");
}

#[test]
fn a_tail_is_taken_over_whole_and_ever_more_patiently() {
    let mut plan = plan(15, &[]);
    let (first, _) = plan.lease(seconds(0), false).expect("all is missing");
    assert_eq!(plan.lease(seconds(0), false), None, "it has only just begun");
    plan.take(first, 0, 1, seconds(1));
    let (second, range) = plan.lease(seconds(1), false).expect("fourteen more seconds are too long");
    assert_eq!(range, 1..15, "too little to split");
    assert_eq!(plan.take(first, 1, 1, seconds(1)), Taken::Gone, "the slow one lost it");
    assert_eq!(plan.lease(seconds(2), false), None, "the second has a second more");
    assert!(plan.lease(seconds(3), false).is_some_and(|(_, range)| range == (1..15)), "it was silent for two");
    assert_eq!(plan.take(second, 1, 1, seconds(3)), Taken::Gone, "so it lost it too");
}

#[test]
fn a_source_that_sends_everything_is_skipped_along() {
    let mut plan = plan(400, &[0..50, 200..300]);
    let (id, range) = plan.lease(seconds(0), true).expect("some is missing");
    assert_eq!(range, 50..200, "no segment, the whole gap");
    assert_eq!(plan.take(id, 0, 40, seconds(0)), Taken::Before, "nothing of it is wanted");
    let expected = Taken::Write { skip: 10, len: 150, at: 50, finished: true };
    assert_eq!(plan.take(id, 40, 260, seconds(0)), expected, "only what is missing");
    assert!(plan.extend(id), "there is more to come behind");
    assert_eq!(
        plan.take(id, 300, 200, seconds(0)),
        Taken::Write { skip: 0, len: 100, at: 300, finished: true },
        "the end"
    );
    assert!(!plan.extend(id) && plan.is_complete(), "that was all");
}

#[test]
fn bytes_from_beyond_are_refused() {
    let mut plan = plan(100, &[]);
    let (id, _) = plan.lease(seconds(0), false).expect("all is missing");
    assert_eq!(plan.take(id, 1, 10, seconds(0)), Taken::Beyond { asked: 0 }, "a byte would be missing");
    assert_eq!(plan.received_bytes(), 0, "nothing was taken");
}

#[test]
fn a_slow_stream_shows_against_the_others() {
    let mut plan = plan(300, &[]);
    let ids: Vec<_> = (0..3).map(|_| plan.lease(seconds(0), false).expect("three segments").0).collect();
    for second in 1..=12 {
        plan.take(ids[0], 8 * (second - 1), 8, seconds(second));
        plan.take(ids[1], 100 + 8 * (second - 1), 8, seconds(second));
        let slow = ids.iter().map(|id| plan.is_slow(*id, seconds(second))).collect::<Vec<_>>();
        assert_eq!(slow, [false, false, second >= 10], "after {second} seconds");
    }
}

/// What a stream of the simulation does next.
#[derive(Debug, Clone)]
enum Event {
    Lease { whole: bool },
    Bytes { stream: usize, back: u64, len: usize },
    End { stream: usize },
    Wait { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => any::<bool>().prop_map(|whole| Event::Lease { whole }),
        6 => (0..8_usize, 0..4_u64, 0..60_usize).prop_map(|(stream, back, len)| Event::Bytes { stream, back, len }),
        1 => (0..8_usize).prop_map(|stream| Event::End { stream }),
        1 => (0..3000_u64).prop_map(|ms| Event::Wait { ms }),
    ]
}

proptest! {
    /// Whatever streams do: no byte is written twice, none without having been leased to its stream, and once they behave
    /// the blob is whole.
    #[test]
    fn every_byte_once(
        size in 0..600_u64,
        held in prop::collection::vec((0..600_u64, 0..80_u64), 0..4),
        events in prop::collection::vec(event(), 0..120),
    ) {
        let held: Ranges = held.into_iter().map(|(start, len)| start.min(size)..(start + len).min(size)).collect();
        let mut seen: Vec<u32> = (0..size).map(|at| u32::from(!held.is_disjoint(&(at..at + 1)))).collect();
        let mut plan = Plan::new(size, held, RULES);
        let mut streams: Vec<(LeaseId, u64)> = Vec::new();
        let mut now = Duration::ZERO;
        for event in events {
            match event {
                Event::Lease { whole } => {
                    let work = plan.has_work(now);
                    let lease = plan.lease(now, whole);
                    prop_assert_eq!(lease.is_some(), work, "what is promised is given");
                    streams.extend(lease.map(|(id, range)| (id, range.start)));
                }
                Event::Bytes { stream, back, len } => {
                    let Some((id, at)) = streams.get_mut(stream) else { continue };
                    let offset = at.saturating_sub(back);
                    if let Taken::Write { skip, len: fresh, at: place, finished } = plan.take(*id, offset, len, now) {
                        prop_assert!(skip + fresh <= len && offset + skip as u64 == place, "they are bytes that came");
                        (place..place + fresh as u64).for_each(|at| seen[at as usize] += 1);
                        *at = place + fresh as u64;
                        if finished && !plan.extend(*id) {
                            plan.release(*id);
                        }
                    }
                }
                Event::End { stream } if stream < streams.len() => plan.release(streams.swap_remove(stream).0),
                Event::End { .. } => {}
                Event::Wait { ms } => now += Duration::from_millis(ms),
            }
            prop_assert!(seen.iter().all(|count| *count <= 1), "a byte came twice");
            let total = seen.iter().map(|count| u64::from(*count)).sum::<u64>();
            prop_assert_eq!(plan.received_bytes(), total, "the count is that of the bytes");
        }
        streams.iter().for_each(|(id, _)| plan.release(*id));
        while let Some((id, range)) = plan.lease(now, false) {
            let len = (range.end - range.start) as usize;
            let all = Taken::Write { skip: 0, len, at: range.start, finished: true };
            prop_assert_eq!(plan.take(id, range.start, len, now), all, "a good stream brings all it was asked for");
            (range.start..range.end).for_each(|at| seen[at as usize] += 1);
            plan.release(id);
        }
        prop_assert!(plan.is_complete() && seen.iter().all(|count| *count == 1), "every byte came once: {:?}", seen);
    }
}

#[test]
fn a_little_is_fetched_from_where_a_reader_waits() {
    const SIZE_BYTES: u64 = 100 << 20;
    let rules = Rules { segment_bytes: 8 << 20, ..RULES };
    let mut held = Ranges::new();
    held.insert(50 << 20..51 << 20);
    let mut plan = Plan::new(SIZE_BYTES, held, rules);
    // One is there, one is beyond the end, one waits at the front.
    plan.wish([90 << 20, 50 << 20, SIZE_BYTES, 99 << 20, 0].into());
    let ranges: Vec<Range<u64>> = all(&mut plan, seconds(0)).into_iter().take(5).collect();
    let mib = |range: Range<u64>| range.start << 20..range.end << 20;
    let expected = [90..92, 99..100, 0..2, 2..10, 10..18].map(mib);
    assert_eq!(ranges, expected, "in the order of asking, and then what is next");
    plan.wish([91 << 20].into());
    let next = plan.lease(seconds(0), false).map(|(_, range)| range);
    assert_ne!(next.map(|range| range.start), Some(91 << 20), "what is on its way is asked for once");
}
