//! Errors of the cache of computed prefixes.

use cairn_tier::tiers::PinError;

use crate::settings::SettingProblem;
use crate::values::excerpt;

/// Why an operation on the cache failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings disable all tiers.
    #[error("the cache has no tiers: the settings disable them; set CAIRN_KV_RAM or OLLAMA_KV_TIERING")]
    Off,
    /// No context has this id.
    #[error("no cached context has the id {:?}; `cairn cache top` lists them", excerpt(.0))]
    NoContext(String),
    /// The ids of several contexts begin with this prefix.
    #[error("several cached contexts have ids that begin with {:?}; give more characters", excerpt(.0))]
    Ambiguous(String),
    /// The pin would not leave enough space for other contexts.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// An invalid limit.
    #[error(transparent)]
    Limit(#[from] SettingProblem),
    /// The folder cannot be checked.
    #[error("{0}")]
    Folder(String),
}
