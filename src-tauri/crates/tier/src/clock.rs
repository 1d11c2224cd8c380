//! Injected time, so that tests control it.

use std::time::Duration;

/// Source of time. Both methods are cheap and never block.
pub trait Clock: Send + Sync {
    /// Time since a fixed moment. Monotonic.
    fn now(&self) -> Duration;

    /// Wall-clock seconds since 1970. May jump, so it is used only for expiry and for the current day.
    fn unix_s(&self) -> u64;
}
