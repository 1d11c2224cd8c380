//! What the shell knows at this moment: the daemon's state as its events tell it, and its user's choices.

use cairn_wire::app::{DesktopServer, Download, TierName};

use crate::choices::{Choices, Closing};
use crate::words::Language;

/// All that the tray shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) daemon: Daemon,
    /// All of this daemon's life, those that are done among them, in the order in which they run.
    pub(crate) downloads: Vec<Download>,
    pub(crate) models: Vec<LoadedModel>,
    /// Bytes that each tier of the cache holds, nearest first.
    pub(crate) kept: Vec<(TierName, u64)>,
    /// Whether this app starts with a login.
    pub(crate) autostart: bool,
    /// What the daemon's settings say of the window, and what was chosen since.
    pub(crate) choices: Choices,
    /// What was chosen and the daemon has not heard of yet.
    pub(crate) unsent: Option<Closing>,
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
            kept: Vec::new(),
            autostart: false,
            choices: Choices::default(),
            unsent: None,
            language,
        }
    }
}
