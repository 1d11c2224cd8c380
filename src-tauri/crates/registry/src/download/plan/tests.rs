//! Plans, with streams that are numbers.

use proptest::prelude::*;

use super::*;

const RULES: Rules = Rules {
    segment_bytes: 100,
    split_bytes: 10,
    lease_for: Duration::from_secs(4),
    steal_after: Duration::from_secs(1),
    slow_after: Duration::from_secs(10),
    streams: 1,
};

/// A stream that would get all that it may have at once.
const FAST: Idle = Idle { source: 0, whole: false, bytes_per_s: Some(1_000_000) };
const WHOLE: Idle = Idle { whole: true, ..FAST };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn plan(size_bytes: u64, held: &[Range<u64>]) -> Plan {
    Plan::new(size_bytes, held.iter().cloned().collect(), RULES)
}

/// Leases until there is no more, and returns the ranges.
fn all(plan: &mut Plan, now: Duration) -> Vec<Range<u64>> {
    std::iter::from_fn(|| plan.lease(now, FAST).map(|(_, range)| range)).take(200).collect()
}

#[test]
fn fetches_what_is_missing_from_the_front_and_ever_less_at_once() {
    let mut plan = plan(350, &[0..20, 150..160]);
    let ranges = all(&mut plan, seconds(0));
    assert_eq!(
        ranges[..4],
        [20..100, 100..150, 160..183, 183..196],
        "a quarter of what nobody has begun, around the rest"
    );
    assert!(ranges.is_sorted_by_key(|range| range.start), "from the front: {ranges:?}");
    assert_eq!(ranges.last().map(|range| range.end), Some(350), "to the end");
    assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), 320, "each byte once: {ranges:?}");
    assert!(plan.lease(seconds(100), FAST).is_some(), "by now all of them would be slow");
}

#[test]
fn nobody_is_asked_for_more_than_it_can_send_in_a_few_seconds() {
    let check = |bytes_per_s: Option<u64>, expected: u64| {
        let (_, range) = plan(1_000_000, &[]).lease(seconds(0), Idle { bytes_per_s, ..FAST }).expect("all is missing");
        assert_eq!(range.end - range.start, expected, "at {bytes_per_s:?}");
    };
    check(None, 2);
    check(Some(0), 2);
    check(Some(7), 28);
    check(Some(25), 100);
    check(Some(26), 100);
}

/// A blob of two leases, of which the first is at a twentieth of the pace of who asks for more.
fn lagging(size_bytes: u64) -> (Plan, LeaseId) {
    let mut plan = Plan::new(size_bytes, Ranges::new(), Rules { segment_bytes: 1000, ..RULES });
    let (slow, range) = plan.lease(seconds(0), WHOLE).expect("all is missing");
    assert_eq!(range, 0..size_bytes, "all of it");
    (plan, slow)
}

#[test]
fn what_a_healthy_stream_was_asked_for_is_asked_of_nobody_else() {
    let (mut plan, slow) = lagging(1000);
    let beside = |bytes_per_s| Idle { bytes_per_s: Some(bytes_per_s), ..FAST };
    for second in 1..50 {
        plan.take(slow, 10 * (second - 1), 10, seconds(second));
        if second == 1 {
            continue;
        }
        assert_eq!(plan.lease(seconds(second), beside(80)), None, "it sends, a quarter as fast as the one who asks");
    }
    assert_eq!(
        plan.lease(seconds(49), Idle { bytes_per_s: None, ..FAST }),
        None,
        "nobody knows whether that is faster"
    );
    assert!(plan.lease(seconds(49), beside(90)).is_some(), "that one is more than four times faster");
}

#[test]
fn half_is_taken_from_who_is_far_slower() {
    let (mut plan, slow) = lagging(200);
    plan.take(slow, 0, 40, seconds(2));
    plan.take(slow, 40, 1, seconds(4));
    let (fast, range) = plan.lease(seconds(4), FAST).expect("it would take three more minutes");
    assert_eq!(range, 120..200, "half of what it had left, from the end");
    let rest = Taken::Write { skip: 0, len: 79, at: 41, finished: true };
    assert_eq!(plan.take(slow, 41, 159, seconds(5)), rest, "the slow one gives up what was taken from it");
    plan.release(slow, seconds(5));
    assert_eq!(plan.take(slow, 120, 30, seconds(5)), Taken::Gone, "its lease is over");
    plan.take(fast, 120, 80, seconds(5));
    assert!(plan.is_complete(), "all came, by two streams");
    assert_eq!(plan.release(fast, seconds(6)), Some(40), "80 bytes in two seconds");
}

#[test]
fn from_who_sends_everything_another_source_takes_what_lies_ahead() {
    let (mut plan, whole) = lagging(1000);
    plan.take(whole, 0, 100, seconds(2));
    assert_eq!(
        plan.lease(seconds(2), Idle { bytes_per_s: Some(1), ..FAST }),
        None,
        "the same source would send it again"
    );
    let other = Idle { source: 1, whole: false, bytes_per_s: Some(1) };
    assert_eq!(plan.lease(seconds(2), other).map(|(_, range)| range), Some(550..1000), "however slow that one is");
    assert_eq!(plan.lease(seconds(2), Idle { whole: true, ..other }), None, "but not another of its kind");
}

#[test]
fn a_tail_is_taken_over_whole_and_ever_more_patiently() {
    let (mut plan, first) = lagging(15);
    assert_eq!(plan.lease(seconds(0), FAST), None, "it has only just begun");
    plan.take(first, 0, 1, seconds(1));
    let (second, range) = plan.lease(seconds(1), FAST).expect("fourteen more seconds are too long");
    assert_eq!(range, 1..15, "too little to split");
    assert_eq!(plan.take(first, 1, 1, seconds(1)), Taken::Gone, "the slow one lost it");
    assert_eq!(plan.lease(seconds(2), FAST), None, "the second has a second more");
    assert!(plan.lease(seconds(3), FAST).is_some_and(|(_, range)| range == (1..15)), "it was silent for two");
    assert_eq!(plan.take(second, 1, 1, seconds(3)), Taken::Gone, "so it lost it too");
}

#[test]
fn a_source_that_sends_everything_is_skipped_along() {
    let mut plan = plan(400, &[0..50, 200..300]);
    let (id, range) = plan.lease(seconds(0), WHOLE).expect("some is missing");
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
    let (id, _) = plan.lease(seconds(0), FAST).expect("all is missing");
    assert_eq!(plan.take(id, 1, 10, seconds(0)), Taken::Beyond { asked: 0 }, "a byte would be missing");
    assert_eq!(plan.received_bytes(), 0, "nothing was taken");
}

#[test]
fn a_slow_stream_shows_against_the_others_from_its_source() {
    let mut plan = Plan::new(30_000, Ranges::new(), RULES);
    let mut begin = |source| plan.lease(seconds(0), Idle { source, ..FAST }).expect("much is missing").0;
    let ids = [begin(0), begin(0), begin(0), begin(1)];
    for second in 1..=12 {
        plan.take(ids[0], 8 * (second - 1), 8, seconds(second));
        plan.take(ids[1], 100 + 8 * (second - 1), 8, seconds(second));
        let slow = ids.map(|id| plan.is_slow(id, seconds(second)));
        assert_eq!(slow, [false, false, second >= 10, false], "after {second} seconds");
    }
}

/// What a stream of the simulation does next.
#[derive(Debug, Clone)]
enum Event {
    Lease { source: usize, whole: bool },
    Bytes { stream: usize, back: u64, len: usize },
    End { stream: usize },
    Wait { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..2_usize, any::<bool>()).prop_map(|(source, whole)| Event::Lease { source, whole }),
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
                Event::Lease { source, whole } => {
                    let lease = plan.lease(now, Idle { source, whole, ..FAST });
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
                            plan.release(*id, now);
                        }
                    }
                }
                Event::End { stream } if stream < streams.len() => {
                    plan.release(streams.swap_remove(stream).0, now);
                }
                Event::End { .. } => {}
                Event::Wait { ms } => now += Duration::from_millis(ms),
            }
            prop_assert!(seen.iter().all(|count| *count <= 1), "a byte came twice");
            let total = seen.iter().map(|count| u64::from(*count)).sum::<u64>();
            prop_assert_eq!(plan.received_bytes(), total, "the count is that of the bytes");
        }
        for (id, _) in &streams {
            plan.release(*id, now);
        }
        while let Some((id, range)) = plan.lease(now, FAST) {
            let len = (range.end - range.start) as usize;
            let all = Taken::Write { skip: 0, len, at: range.start, finished: true };
            prop_assert_eq!(plan.take(id, range.start, len, now), all, "a good stream brings all it was asked for");
            (range.start..range.end).for_each(|at| seen[at as usize] += 1);
            plan.release(id, now);
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
    let ranges: Vec<Range<u64>> = all(&mut plan, seconds(0)).into_iter().take(4).collect();
    let mib = |range: Range<u64>| range.start << 20..range.end << 20;
    assert_eq!(ranges[..3], [90..92, 99..100, 0..2].map(mib), "in the order of asking");
    assert_eq!(ranges[3].start, 2 << 20, "and then what is next");
    plan.wish([91 << 20].into());
    let next = plan.lease(seconds(0), FAST).map(|(_, range)| range);
    assert_ne!(next.map(|range| range.start), Some(91 << 20), "what is on its way is asked for once");
}
