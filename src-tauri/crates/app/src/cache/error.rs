//! Errors of the cache of computed prefixes.

use std::path::PathBuf;

use cairn_tier::tiers::PinError;

/// Why an operation on the cache failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings disable all tiers.
    #[error("the cache has no tiers: the settings disable them; set CAIRN_KV_RAM or OLLAMA_KV_TIERING")]
    Off,
    /// No context has this id.
    #[error("no kept context has the id {0:?}; `cairn cache top` lists them")]
    NoContext(String),
    /// The ids of several contexts begin with this prefix.
    #[error("several kept contexts have ids that begin with {0:?}; give more characters")]
    Ambiguous(String),
    /// The pin would not leave enough space for other contexts.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// An invalid limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The folder cannot be checked.
    #[error("{0}")]
    Folder(String),
}

/// Why a limit cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The environment sets this limit.
    #[error("{0} is set in the daemon's environment, which overrides this setting")]
    Environment(&'static str),
    /// A number out of range.
    #[error("{what} cannot have {bytes} bytes: the size must be {rule}")]
    Bytes {
        /// Name of the limit.
        what: &'static str,
        /// Requested value.
        bytes: u64,
        /// Valid values.
        rule: String,
    },
    /// A folder that cannot be used.
    #[error("cannot use {} as the folder: {why}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The change cannot be written.
    #[error("cannot store the change: {0}")]
    Unwritten(String),
}
