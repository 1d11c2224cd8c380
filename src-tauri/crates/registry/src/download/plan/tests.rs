//! Tests of the plan with simulated streams.

use proptest::prelude::*;

use super::*;

const CONFIG: PlanConfig = PlanConfig {
    segment_bytes: 100,
    split_bytes: 10,
    lease_duration: Duration::from_secs(4),
    steal_after: Duration::from_secs(1),
    slow_after: Duration::from_secs(10),
    streams: 1,
};

/// A stream whose leases are limited only by the segment size.
const FAST: IdleStream = IdleStream { source: 0, whole: false, bytes_per_s: Some(1_000_000) };
const WHOLE: IdleStream = IdleStream { whole: true, ..FAST };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn plan(size_bytes: u64, held: &[Range<u64>]) -> Plan {
    Plan::new(size_bytes, held.iter().cloned().collect(), CONFIG)
}

/// Leases all ranges and returns them.
fn all(plan: &mut Plan, now: Duration) -> Vec<Range<u64>> {
    std::iter::from_fn(|| plan.lease(now, FAST).map(|(_, range)| range)).take(200).collect()
}

#[test]
fn missing_ranges_are_leased_in_order_with_decreasing_size() {
    let mut plan = plan(350, &[0..20, 150..160]);
    let ranges = all(&mut plan, seconds(0));
    assert_eq!(
        ranges[..4],
        [20..100, 100..150, 160..183, 183..196],
        "a quarter of the unassigned bytes, around received ranges"
    );
    assert!(ranges.is_sorted_by_key(|range| range.start), "in order: {ranges:?}");
    assert_eq!(ranges.last().map(|range| range.end), Some(350), "to the end");
    assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), 320, "each byte once: {ranges:?}");
    assert!(plan.lease(seconds(100), FAST).is_some(), "a slow lease is taken over");
}

#[test]
fn lease_size_follows_speed() {
    let check = |bytes_per_s: Option<u64>, expected: u64| {
        let (_, range) =
            plan(1_000_000, &[]).lease(seconds(0), IdleStream { bytes_per_s, ..FAST }).expect("the blob is missing");
        assert_eq!(range.end - range.start, expected, "at {bytes_per_s:?}");
    };
    check(None, 2);
    check(Some(0), 2);
    check(Some(7), 28);
    check(Some(25), 100);
    check(Some(26), 100);
}

/// Creates a plan with a lease of the complete blob for one stream.
fn lagging(size_bytes: u64) -> (Plan, LeaseId) {
    let mut plan = Plan::new(size_bytes, Ranges::new(), PlanConfig { segment_bytes: 1000, ..CONFIG });
    let (slow, range) = plan.lease(seconds(0), WHOLE).expect("the blob is missing");
    assert_eq!(range, 0..size_bytes, "all of it");
    (plan, slow)
}

#[test]
fn range_of_healthy_stream_is_not_taken_over() {
    let (mut plan, slow) = lagging(1000);
    let idle = |bytes_per_s| IdleStream { bytes_per_s: Some(bytes_per_s), ..FAST };
    for second in 1..50 {
        plan.take(slow, 10 * (second - 1), 10, seconds(second));
        if second == 1 {
            continue;
        }
        assert_eq!(plan.lease(seconds(second), idle(80)), None, "a stream four times slower keeps its range");
    }
    assert_eq!(
        plan.lease(seconds(49), IdleStream { bytes_per_s: None, ..FAST }),
        None,
        "a stream of unknown speed takes over nothing"
    );
    assert!(plan.lease(seconds(49), idle(90)).is_some(), "a stream more than four times faster takes over");
}

#[test]
fn half_of_much_slower_stream_is_taken_over() {
    let (mut plan, slow) = lagging(200);
    plan.take(slow, 0, 40, seconds(2));
    plan.take(slow, 40, 1, seconds(4));
    let (fast, range) = plan.lease(seconds(4), FAST).expect("the slow stream needs three more minutes");
    assert_eq!(range, 120..200, "the second half of its remaining range");
    let rest = Received::Write { skip: 0, len: 79, at: 41, finished: true };
    assert_eq!(plan.take(slow, 41, 159, seconds(5)), rest, "the slow stream keeps the first half");
    plan.release(slow, seconds(5));
    assert_eq!(plan.take(slow, 120, 30, seconds(5)), Received::Reassigned, "its lease has ended");
    plan.take(fast, 120, 80, seconds(5));
    assert!(plan.is_complete(), "all bytes are received");
    assert_eq!(plan.release(fast, seconds(6)), Some(40), "80 bytes in two seconds");
}

#[test]
fn range_of_source_without_ranges_is_shared_with_other_source() {
    let (mut plan, whole) = lagging(1000);
    plan.take(whole, 0, 100, seconds(2));
    assert_eq!(
        plan.lease(seconds(2), IdleStream { bytes_per_s: Some(1), ..FAST }),
        None,
        "the same source would send the bytes again"
    );
    let other = IdleStream { source: 1, whole: false, bytes_per_s: Some(1) };
    assert_eq!(plan.lease(seconds(2), other).map(|(_, range)| range), Some(550..1000), "another source of any speed");
    assert_eq!(
        plan.lease(seconds(2), IdleStream { whole: true, ..other }),
        None,
        "but not another source without ranges"
    );
}

#[test]
fn short_tail_is_taken_over_with_growing_delay() {
    let (mut plan, first) = lagging(15);
    assert_eq!(plan.lease(seconds(0), FAST), None, "the lease has just started");
    plan.take(first, 0, 1, seconds(1));
    let (second, range) = plan.lease(seconds(1), FAST).expect("the slow stream needs fourteen more seconds");
    assert_eq!(range, 1..15, "a short range is not split");
    assert_eq!(plan.take(first, 1, 1, seconds(1)), Received::Reassigned, "the slow stream lost its lease");
    assert_eq!(plan.lease(seconds(2), FAST), None, "the second stream has one more second");
    assert!(plan.lease(seconds(3), FAST).is_some_and(|(_, range)| range == (1..15)), "a silent stream loses its lease");
    assert_eq!(plan.take(second, 1, 1, seconds(3)), Received::Reassigned, "the second stream lost its lease");
}

#[test]
fn lease_of_source_without_ranges_is_extended() {
    let mut plan = plan(400, &[0..50, 200..300]);
    let (id, range) = plan.lease(seconds(0), WHOLE).expect("there is a gap");
    assert_eq!(range, 50..200, "the whole gap");
    assert_eq!(plan.take(id, 0, 40, seconds(0)), Received::Duplicate, "all bytes are duplicates");
    let expected = Received::Write { skip: 10, len: 150, at: 50, finished: true };
    assert_eq!(plan.take(id, 40, 260, seconds(0)), expected, "only the missing bytes");
    assert!(plan.extend(id), "there is another gap");
    assert_eq!(
        plan.take(id, 300, 200, seconds(0)),
        Received::Write { skip: 0, len: 100, at: 300, finished: true },
        "the last gap"
    );
    assert!(!plan.extend(id) && plan.is_complete(), "the blob is complete");
}

#[test]
fn bytes_after_gap_are_refused() {
    let mut plan = plan(100, &[]);
    let (id, _) = plan.lease(seconds(0), FAST).expect("the blob is missing");
    assert_eq!(plan.take(id, 1, 10, seconds(0)), Received::Gap { expected: 0 }, "a byte is missing before them");
    assert_eq!(plan.received_bytes(), 0, "no bytes are received");
}

#[test]
fn slow_stream_is_found_by_comparison_within_its_source() {
    let mut plan = Plan::new(30_000, Ranges::new(), CONFIG);
    let mut begin = |source| plan.lease(seconds(0), IdleStream { source, ..FAST }).expect("bytes are missing").0;
    let ids = [begin(0), begin(0), begin(0), begin(1)];
    for second in 1..=12 {
        plan.take(ids[0], 8 * (second - 1), 8, seconds(second));
        plan.take(ids[1], 100 + 8 * (second - 1), 8, seconds(second));
        let slow = ids.map(|id| plan.is_slow(id, seconds(second)));
        assert_eq!(slow, [false, false, second >= 10, false], "after {second} seconds");
    }
}

/// An event of the simulation.
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
    /// For any behavior of streams: no byte is written twice, only leased bytes are written, and correct streams then
    /// complete the blob.
    #[test]
    fn every_byte_is_received_once(
        size in 0..600_u64,
        held in prop::collection::vec((0..600_u64, 0..80_u64), 0..4),
        events in prop::collection::vec(event(), 0..120),
    ) {
        let held: Ranges = held.into_iter().map(|(start, len)| start.min(size)..(start + len).min(size)).collect();
        let mut seen: Vec<u32> = (0..size).map(|at| u32::from(!held.is_disjoint(&(at..at + 1)))).collect();
        let mut plan = Plan::new(size, held, CONFIG);
        let mut streams: Vec<(LeaseId, u64)> = Vec::new();
        let mut now = Duration::ZERO;
        for event in events {
            match event {
                Event::Lease { source, whole } => {
                    let lease = plan.lease(now, IdleStream { source, whole, ..FAST });
                    streams.extend(lease.map(|(id, range)| (id, range.start)));
                }
                Event::Bytes { stream, back, len } => {
                    let Some((id, at)) = streams.get_mut(stream) else { continue };
                    let offset = at.saturating_sub(back);
                    if let Received::Write { skip, len: fresh, at: written_at, finished } = plan.take(*id, offset, len, now) {
                        prop_assert!(skip + fresh <= len && offset + skip as u64 == written_at, "the written bytes were received");
                        (written_at..written_at + fresh as u64).for_each(|at| seen[at as usize] += 1);
                        *at = written_at + fresh as u64;
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
            prop_assert!(seen.iter().all(|count| *count <= 1), "a byte was received twice");
            let total = seen.iter().map(|count| u64::from(*count)).sum::<u64>();
            prop_assert_eq!(plan.received_bytes(), total, "the count of received bytes");
        }
        for (id, _) in &streams {
            plan.release(*id, now);
        }
        while let Some((id, range)) = plan.lease(now, FAST) {
            let len = (range.end - range.start) as usize;
            let all = Received::Write { skip: 0, len, at: range.start, finished: true };
            prop_assert_eq!(plan.take(id, range.start, len, now), all, "a correct stream receives its whole range");
            (range.start..range.end).for_each(|at| seen[at as usize] += 1);
            plan.release(id, now);
        }
        prop_assert!(plan.is_complete() && seen.iter().all(|count| *count == 1), "every byte was received once: {:?}", seen);
    }
}

#[test]
fn requested_positions_are_leased_first() {
    const SIZE_BYTES: u64 = 100 << 20;
    let rules = PlanConfig { segment_bytes: 8 << 20, ..CONFIG };
    let mut held = Ranges::new();
    held.insert(50 << 20..51 << 20);
    let mut plan = Plan::new(SIZE_BYTES, held, rules);
    // One is received, one is beyond the end, one is at the start.
    plan.request_positions([90 << 20, 50 << 20, SIZE_BYTES, 99 << 20, 0].into());
    let ranges: Vec<Range<u64>> = all(&mut plan, seconds(0)).into_iter().take(4).collect();
    let mib = |range: Range<u64>| range.start << 20..range.end << 20;
    assert_eq!(ranges[..3], [90..92, 99..100, 0..2].map(mib), "in the order of the requests");
    assert_eq!(ranges[3].start, 2 << 20, "then the next missing range");
    plan.request_positions([91 << 20].into());
    let next = plan.lease(seconds(0), FAST).map(|(_, range)| range);
    assert_ne!(next.map(|range| range.start), Some(91 << 20), "a leased position is not leased again");
}
