//! What the shell knows at this moment: the daemon's state as its events tell it, and its user's choices.

use cairn_wire::app::{DesktopServer, Download};

use crate::words::Language;

/// All that the tray shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) daemon: Daemon,
    /// All of this daemon's life, those that are done among them, in the order in which they run.
    pub(crate) downloads: Vec<Download>,
    pub(crate) models: Vec<LoadedModel>,
    /// Whether this app starts with a login.
    pub(crate) autostart: bool,
    /// Whether a closed window leaves the tray icon.
    pub(crate) close_to_tray: bool,
    pub(crate) language: Language,
}

/// How it is with the daemon.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Daemon {
    /// It is looked for, or started.
    Starting,
    /// It answers.
    Here(DesktopServer),
    /// There is none, for this reason. It is looked for again after a while.
    Gone(String),
}

/// A model in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadedModel {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
}

impl Seen {
    /// At the start, when nothing has been asked yet.
    pub(crate) fn at_start(language: Language) -> Self {
        Self {
            daemon: Daemon::Starting,
            downloads: Vec::new(),
            models: Vec::new(),
            autostart: false,
            close_to_tray: true,
            language,
        }
    }
}
