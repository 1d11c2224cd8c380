//! Output of `cairn desktop` for the desktop app that started it: two lines of JSON on standard output.
//!
//! The app neither finds the user's folders nor finds or starts a daemon; `cairn` does.

use serde::{Deserialize, Serialize};

/// The first line, sent at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopPlaces {
    /// Absolute path of the folder for the window's state.
    pub config_folder: String,
    /// Absolute path of the daemon's log.
    pub log_file: String,
}

/// The second line, sent when the daemon responds. `cairn` may have to start it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopServer {
    /// Address of the daemon, for example `http://127.0.0.1:11434`.
    pub address: String,
    /// Bearer token of `/app`.
    pub token: String,
}
