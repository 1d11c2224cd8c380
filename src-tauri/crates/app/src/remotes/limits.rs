//! Limits of the remotes of a user.

/// Maximum number of remotes.
pub const MAX_REMOTES: usize = 128;
/// Maximum length of a remote's name.
pub(super) const MAX_NAME_BYTES: usize = 64;
