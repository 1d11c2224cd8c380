//! A rate limit of cheap requests, so that a flood of them leaves the processor to running answers. Requests beyond the rate wait
//! and are not refused. Algorithm: generic cell rate (ITU-T I.371).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Requests per second. One takes about 0.1 ms of a core.
const RATE: u32 = 500;
/// Number of requests that need not wait after a quiet time.
const BURST: u32 = 250;

/// Time at which the requests so far are served at [`RATE`].
static SERVED_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// Waits until the next request may be served.
pub(crate) async fn wait_for_turn() {
    let start = reserve(&mut SERVED_AT.lock(), Instant::now());
    if let Some(start) = start {
        sleep_until(start).await;
    }
}

/// Reserves time for a request. Returns when it begins, if not at once.
fn reserve(served_at: &mut Option<Instant>, now: Instant) -> Option<Instant> {
    let interval = Duration::from_secs(1) / RATE;
    let earliest = served_at.map_or(now, |served_at| served_at.max(now));
    *served_at = Some(earliest + interval);
    let start = earliest.checked_sub(interval * BURST)?;
    (start > now).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_beyond_the_burst_wait_for_the_rate() {
        let (mut served_at, now) = (None, Instant::now());
        let starts: Vec<_> = (0..BURST + 3).map(|_| reserve(&mut served_at, now)).collect();
        assert!(starts[..=BURST as usize].iter().all(Option::is_none), "a burst is served at once");
        let waits: Vec<_> = starts[BURST as usize + 1..].iter().flatten().map(|start| *start - now).collect();
        assert_eq!(waits, [Duration::from_millis(2), Duration::from_millis(4)], "then 500 requests a second");
        let later = now + Duration::from_secs(10);
        assert_eq!(reserve(&mut served_at, later), None, "a quiet time allows a new burst");
        assert_eq!(served_at, Some(later + Duration::from_millis(2)), "of the same length");
    }
}
