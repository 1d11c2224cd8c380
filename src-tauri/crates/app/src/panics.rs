//! Conversion of panics in long tasks to errors. Without it, a waiting client would wait until the daemon restarts.
//!
//! The panic hook of the daemon writes the panic to the log.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Error of a task that panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("internal error: the task was aborted")]
pub struct Panicked;

/// Runs work until it completes or panics. The work is dropped after a panic, so its state is not used again.
///
/// # Errors
/// If the work panics.
pub async fn catch<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
