//! Timeouts of the tests.

use std::time::Duration;

use cairn_mcp::limits::Timeouts;

/// Long enough for every test, so that a timeout is a failure.
pub(crate) const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(60),
    list: Duration::from_secs(60),
    call: Duration::from_secs(60),
    idle: Duration::from_secs(600),
};
/// For servers that never answer.
pub(crate) const IMPATIENT: Duration = Duration::from_millis(300);
