//! Terminal input without echo.

#[cfg(unix)]
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

/// Turns the terminal's echo off until dropped.
#[cfg(unix)]
pub(super) struct HiddenInput {
    /// Terminal settings to restore.
    before: Termios,
}

#[cfg(unix)]
impl HiddenInput {
    pub(super) fn begin() -> anyhow::Result<Self> {
        let before = termios::tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // The line break is echoed, so that later output starts on a new line.
        hidden.local_modes.insert(LocalModes::ECHONL);
        termios::tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self { before })
    }
}

#[cfg(unix)]
impl Drop for HiddenInput {
    fn drop(&mut self) {
        // This fails only if the terminal has closed.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Not available on this system, so a password is never read with echo.
#[cfg(not(unix))]
pub(super) struct HiddenInput;

#[cfg(not(unix))]
impl HiddenInput {
    pub(super) fn begin() -> anyhow::Result<Self> {
        anyhow::bail!("this terminal would show the password; pipe it in: cairn login HOST --username NAME < FILE")
    }
}
