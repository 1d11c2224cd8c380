//! Access rights of files.

use std::fs::{File, OpenOptions};
use std::io;

/// Which users may read a file. On Windows, files inherit the rights of their folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only this user (0600): keys, tokens, chats.
    Private,
    /// All users (0644): models and their descriptions.
    Shared,
}

impl Mode {
    /// Unix permission bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Shared => 0o644,
        }
    }

    /// Sets the mode that a created file gets. The process's umask still applies, see [`Mode::set`].
    pub(crate) fn set_on_create(self, options: &mut OpenOptions) {
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(options, self.bits());
        #[cfg(not(unix))]
        let _ = options;
    }

    /// Sets the mode of an open file, without the umask.
    pub(crate) fn set(self, file: &File) -> io::Result<()> {
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(self.bits()))?;
        #[cfg(not(unix))]
        let _ = file;
        Ok(())
    }
}
