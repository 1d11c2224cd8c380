//! Time, passed in: tests turn the hands of their own clock.

use std::time::Duration;

/// Tells the time. Both readings are cheap and never block.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment. Never goes back.
    fn now(&self) -> Duration;

    /// Seconds since 1970 by the wall clock, which may jump: for expiry and for the day only.
    fn unix_s(&self) -> u64;
}
