//! Settings of the tiers that keep computed prefixes.

use std::path::PathBuf;

use super::{Reader, bytes, is_true};
use crate::{Env, Places};

/// Where computed prefixes are kept when their pages or their model leave memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSettings {
    /// `CAIRN_KV_RAM`.
    pub ram_bytes: Option<u64>,
    /// `OLLAMA_KV_TIER_LOCAL`, where `OLLAMA_KV_TIERING` is on.
    pub folder: Option<PathBuf>,
    /// `OLLAMA_KV_TIER_LOCAL_GB`, in bytes.
    pub folder_bytes: Option<u64>,
    /// `CAIRN_KV_WEIGH`: whether prefixes are kept and brought back only where that is quicker than computing them.
    pub weigh: bool,
    /// What names chunks and seals them.
    pub secret_file: PathBuf,
}

impl TierSettings {
    pub(super) fn load(read: &mut Reader<'_>, env: &Env, places: &Places) -> Self {
        let folder = env.full_path("OLLAMA_KV_TIER_LOCAL");
        let on = read.text("OLLAMA_KV_TIERING").map_or(folder.is_some(), is_true);
        let gib = |text: &str| text.parse::<u64>().ok()?.checked_mul(1 << 30);
        Self {
            ram_bytes: read.parsed("CAIRN_KV_RAM", bytes),
            folder: on.then(|| folder.unwrap_or_else(|| places.cache.join("kv"))),
            folder_bytes: read.parsed("OLLAMA_KV_TIER_LOCAL_GB", gib),
            weigh: read.text("CAIRN_KV_WEIGH").is_none_or(is_true),
            secret_file: places.data.join("kv-secret"),
        }
    }
}
