//! State of the shell: the daemon's state from its events, and the settings for the window.

use cairn_wire::app::{DesktopServer, Download, TierName};

use crate::choices::{CloseAction, WindowSettings};
use crate::words::Language;

/// State that the tray shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShellState {
    pub(crate) daemon: Daemon,
    /// All downloads since the daemon's start, including completed ones, in queue order.
    pub(crate) downloads: Vec<Download>,
    pub(crate) models: Vec<LoadedModel>,
    /// Used bytes of each cache tier, nearest tier first.
    pub(crate) cache_bytes: Vec<(TierName, u64)>,
    /// Whether the app starts at login.
    pub(crate) autostart: bool,
    /// The daemon's settings for the window, with the unsent choice.
    pub(crate) settings: WindowSettings,
    /// Choice that the daemon has not stored yet.
    pub(crate) unsent: Option<CloseAction>,
    pub(crate) language: Language,
}

/// State of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Daemon {
    Starting,
    Running(DesktopServer),
    /// The daemon cannot be reached or started, with the reason. The shell retries with a backoff.
    Unavailable(String),
}

/// A model in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadedModel {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
}

impl ShellState {
    /// State before the first contact with the daemon.
    pub(crate) fn new(language: Language) -> Self {
        Self {
            daemon: Daemon::Starting,
            downloads: Vec::new(),
            models: Vec::new(),
            cache_bytes: Vec::new(),
            autostart: false,
            settings: WindowSettings::default(),
            unsent: None,
            language,
        }
    }
}
