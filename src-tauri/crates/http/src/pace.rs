//! The turns of cheap reads, such as lists of models: a flood of them leaves the processor to running answers. Requests beyond the
//! rate wait in their order and are not refused. Algorithm: generic cell rate (ITU-T I.371).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::error::{ApiError, blocking};

/// Requests per second. A list takes about 0.1 ms of a core.
const RATE: u32 = 500;
/// Number of requests that need not wait after a quiet time.
const BURST: u32 = 250;
/// Number of models and lists that are read from the disk at once.
const READERS: usize = 2;

/// The turns of a daemon's cheap reads.
pub(crate) struct Pace {
    /// Time at which the requests so far are served at [`RATE`]. Locked while the next request waits, so that the others wait for
    /// it, and a request that is dropped leaves the queue.
    served_at: Mutex<Option<Instant>>,
    readers: Arc<Semaphore>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { served_at: Mutex::default(), readers: Arc::new(Semaphore::new(READERS)) }
    }
}

impl Pace {
    /// Waits until the next request may be served.
    pub(crate) async fn wait_for_turn(&self) {
        let interval = Duration::from_secs(1) / RATE;
        let mut served_at = self.served_at.lock().await;
        if let Some(start) = served_at.and_then(|served_at| served_at.checked_sub(interval * BURST)) {
            sleep_until(start).await;
        }
        let now = Instant::now();
        *served_at = Some(served_at.map_or(now, |served_at| served_at.max(now)) + interval);
    }

    /// Reads from the disk in turn with other requests, like [`blocking`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.wait_for_turn().await;
        let reader = Arc::clone(&self.readers).acquire_owned().await.expect("the semaphore is never closed");
        blocking(move || {
            // A request that is dropped does not end its read.
            let _reader = reader;
            work()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn time_of(pace: &Pace, requests: u32) -> Duration {
        let began = Instant::now();
        for _ in 0..requests {
            pace.wait_for_turn().await;
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_the_rate() {
        let pace = Pace::default();
        assert_eq!(time_of(&pace, BURST).await, Duration::ZERO, "a burst is served at once");
        let later = time_of(&pace, RATE).await;
        assert!((Duration::from_millis(990)..Duration::from_millis(1010)).contains(&later), "then the rate: {later:?}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(time_of(&pace, BURST).await, Duration::ZERO, "a quiet time allows a new burst");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_requests_leave_the_queue() {
        let pace = Pace::default();
        time_of(&pace, BURST).await;
        for _ in 0..1000 {
            // Less than the wait of one request.
            let _ = tokio::time::timeout(Duration::from_nanos(1), pace.wait_for_turn()).await;
        }
        let wait = time_of(&pace, 1).await;
        assert!(wait < Duration::from_millis(20), "others do not wait for requests that are gone: {wait:?}");
    }
}
