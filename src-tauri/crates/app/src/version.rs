//! The version of this program.

/// `x.y.z`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
