//! Limits of the stored tools.

/// Maximum number of servers.
pub const MAX_SERVERS: usize = 64;
/// Maximum length of the file, below that of [`PrivateFile`](crate::private_file::PrivateFile).
pub(super) const MAX_FILE_BYTES: usize = 1 << 20;
