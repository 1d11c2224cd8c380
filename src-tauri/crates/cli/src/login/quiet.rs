//! A terminal that does not show what is typed.

#[cfg(unix)]
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

/// While this is there, what is typed is not shown.
#[cfg(unix)]
pub(super) struct Quiet {
    /// As the terminal was before.
    before: Termios,
}

#[cfg(unix)]
impl Quiet {
    pub(super) fn begin() -> anyhow::Result<Self> {
        let before = termios::tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        // The end of the line is seen, so that what is printed next begins a new one.
        quiet.local_modes.insert(LocalModes::ECHONL);
        termios::tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self { before })
    }
}

#[cfg(unix)]
impl Drop for Quiet {
    fn drop(&mut self) {
        // Nobody can be told when this fails; the terminal is gone then.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// There is none on this system: a password that would be seen is not asked for.
#[cfg(not(unix))]
pub(super) struct Quiet;

#[cfg(not(unix))]
impl Quiet {
    pub(super) fn begin() -> anyhow::Result<Self> {
        anyhow::bail!("this terminal would show the password; pipe it in: cairn login HOST --username NAME < FILE")
    }
}
