//! The machine and the daemon, for people and for monitoring: hardware, loaded models, metrics.
//!
//! [`SystemInfo`] is the handle.

mod handle;
mod hardware;
mod log;
mod metric_family;
mod metrics;
mod ps;
mod remote_metrics;

pub use handle::SystemInfo;
pub use hardware::{DiskUse, Hardware, Kernel, Stored};
pub use log::{LOG_FILES, LogEnd, last_log_lines, log_file};
pub use metric_family::{Family, FamilyKind, Sample};
pub use ps::Running;
