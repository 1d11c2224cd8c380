//! Errors of the cache of computed prefixes.

use std::path::PathBuf;

use cairn_tier::tiers::PinError;

/// Why something about kept prefixes cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is kept.
    #[error("nothing is kept here: the settings leave the tiers out (CAIRN_KV_RAM, OLLAMA_KV_TIERING)")]
    Off,
    /// No context of that id.
    #[error("no kept context has the id {0:?}; `cairn cache top` lists them")]
    NoContext(String),
    /// Several contexts' ids begin so.
    #[error("several kept contexts have ids that begin with {0:?}; give more of it")]
    Ambiguous(String),
    /// It would not leave enough room to others.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A limit that cannot be.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The folder cannot be checked.
    #[error("{0}")]
    Folder(String),
}

/// Why a limit cannot be.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The environment says otherwise.
    #[error("{0} is set in the daemon's environment, which goes before what is set here")]
    Environment(&'static str),
    /// An implausible number.
    #[error("{what} cannot be {bytes} bytes: it must be {rule}")]
    Bytes {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        bytes: u64,
        /// What it must be.
        rule: String,
    },
    /// A folder that cannot be used.
    #[error("{} cannot be the folder: {why}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It cannot be remembered.
    #[error("the change could not be remembered: {0}")]
    Unwritten(String),
}
