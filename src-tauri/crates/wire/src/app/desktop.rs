//! What `cairn desktop` tells the desktop app that started it: two lines of JSON on its standard output.
//!
//! The app knows neither where this user's folders are nor how a daemon is found or started; `cairn` does.

use serde::{Deserialize, Serialize};

/// The first line, at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopPlaces {
    /// Absolute path of the folder for what the window remembers.
    pub config_folder: String,
    /// Absolute path of the daemon's log.
    pub log_file: String,
}

/// The second line, once the daemon answers, which may have to be started first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopServer {
    /// Where it is, `http://127.0.0.1:11434` for instance.
    pub address: String,
    /// What `/app` wants to see as `Authorization: Bearer`.
    pub token: String,
}
