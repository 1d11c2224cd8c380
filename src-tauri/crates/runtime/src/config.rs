//! What an engine is told: at its start, and with each request for a model.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_hardware::Machine;
use cairn_tier::{Namespace, Tiers, WeightsDigest};

use crate::keep_alive::KeepAlive;

/// A model's identity: requests with the same one share a loaded model.
pub type ModelId = String;

/// Where a model's bytes are.
#[derive(Clone, Debug)]
pub enum Source {
    /// A GGUF file.
    File(PathBuf),
    /// Part of this program.
    Builtin {
        /// What errors call it.
        name: &'static str,
        /// A whole GGUF file, aligned to 64 bytes.
        bytes: &'static [u8],
    },
}

/// What an engine is set up with.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What this machine has.
    pub machine: Machine,
    /// Forces a kernel variant by name; otherwise the best usable one.
    pub kernel: Option<String>,
    /// Bytes that KV pages of all models may take; otherwise a quarter of the memory.
    pub kv_budget_bytes: Option<u64>,
    /// Requests that one model computes at once; zero counts as one.
    pub parallel: usize,
    /// Models that may be loaded at once; zero counts as one.
    pub max_loaded: usize,
    /// Requests that may wait for one model.
    pub max_queue: usize,
    /// For requests that name none.
    pub keep_alive: KeepAlive,
    /// Source of the seeds of requests that name none.
    pub seed: u64,
    /// Where computed state is kept beyond a model's stay, if anywhere.
    pub kept: Option<Kept>,
}

/// Where computed state is kept, and whose it is.
#[derive(Clone)]
pub struct Kept {
    /// Where.
    pub tiers: Arc<Tiers>,
    /// Whose.
    pub namespace: Namespace,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What a request asks of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Tokens that prompt and answer may have together; at most what the model was trained for.
    pub context_tokens: Option<u32>,
    /// Compute threads, at most one per usable core; that many where nothing is asked for.
    pub threads: Option<usize>,
    /// Load even if memory looks too small.
    pub force: bool,
    /// What the file's contents are, where that is known. Without it nothing is kept beyond the model's stay.
    pub weights: Option<WeightsDigest>,
}
