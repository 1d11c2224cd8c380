//! Limits of the remotes of a user.

/// Maximum number of remotes.
pub const MAX_REMOTES: usize = 128;
