//! Configuration of an engine, and options of a load.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::KV_TYPES;
use cairn_tier::{Namespace, Tiers, WeightsDigest};

use crate::adapters::AdapterSource;
use crate::keep_alive::KeepAlive;

/// A model's id. Requests with the same id share a loaded model.
pub type ModelId = String;

/// Source of a model's bytes.
#[derive(Clone, Debug)]
pub enum Source {
    /// A GGUF file.
    File(PathBuf),
    /// A model that is part of this program.
    Builtin {
        /// Name in error messages.
        name: &'static str,
        /// A complete GGUF file, aligned to 64 bytes.
        bytes: &'static [u8],
    },
}

/// Configuration of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Hardware of this machine.
    pub machine: Machine,
    /// Name of the kernel variant to use; the best usable one if none.
    pub kernel: Option<String>,
    /// Budget for the KV pages of all models; a quarter of the memory if none.
    pub kv_budget_bytes: Option<u64>,
    /// Type of keys and values for requests that do not set one: see [`parse_kv_type`].
    pub kv_type: DType,
    /// Requests that one model computes at the same time; 0 counts as 1.
    pub parallel: usize,
    /// Maximum number of loaded models; 0 counts as 1.
    pub max_loaded: usize,
    /// Maximum number of requests that wait for one model.
    pub max_queue: usize,
    /// Keep-alive time for requests that do not set one.
    pub keep_alive: KeepAlive,
    /// Limits of the time that a load waits.
    pub load_timeouts: LoadTimeouts,
    /// Seed of the seeds for requests without one.
    pub seed: u64,
    /// Tiers for computed rows, if any.
    pub cache_tiers: Option<CacheTiers>,
}

/// Limits of the time that a load waits for other models. They bound the delay that clients of one model can cause
/// for requests for another model, by not reading or by steady requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadTimeouts {
    /// A drained model ends an answer after its client has read nothing for this time.
    pub unread: Duration,
    /// A drained model ends all its answers after this time.
    pub drain: Duration,
    /// A request fails if the loads before it take longer than this.
    pub queue: Duration,
}

impl Default for LoadTimeouts {
    /// A client with a slow connection reads something every ten seconds. Most answers are complete after ten minutes. The
    /// queue's limit is longer than a drain, so that one drain does not fail the requests behind it.
    fn default() -> Self {
        Self { unread: Duration::from_secs(10), drain: Duration::from_secs(600), queue: Duration::from_secs(900) }
    }
}

/// The tiers that store computed rows, and the namespace of their chunks.
#[derive(Clone)]
pub struct CacheTiers {
    /// The tiers.
    pub tiers: Arc<Tiers>,
    /// The namespace.
    pub namespace: Namespace,
}

impl std::fmt::Debug for CacheTiers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheTiers").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// A file with the vision tower of a model.
#[derive(Clone, Debug)]
pub struct Projector {
    /// The file.
    pub source: Source,
    /// Digest of the tower's weights, if available. Without it, rows of pictures are found only until the model is unloaded.
    pub weights: Option<WeightsDigest>,
}

/// Options of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Context size; at most the size that the model was trained for.
    pub context_tokens: Option<u32>,
    /// Number of compute threads; at most, and by default, one per usable core.
    pub threads: Option<usize>,
    /// Type of keys and values: see [`parse_kv_type`]. A model whose heads are not a multiple of its block size uses f16.
    pub kv_type: Option<DType>,
    /// Keep-alive time until a request sets one; by default that of the configuration.
    pub default_keep_alive: Option<KeepAlive>,
    /// Load even if the memory seems too small.
    pub force: bool,
    /// Digest of the weights, if known. Without it, no tier stores the model's rows.
    pub weights: Option<WeightsDigest>,
    /// LoRA adapters. A model's id must differ for other adapters.
    pub adapters: Vec<AdapterSource>,
    /// The vision tower, if it is not in the model's file.
    pub projector: Option<Projector>,
}

/// An unknown type of keys and values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown type of the KV cache {0:?}: it must be f16, bf16, q8_0 or q4_0")]
pub struct UnknownKvType(pub String);

/// Parses a type of keys and values: f16, bf16, q8_0 or q4_0, case-insensitive.
///
/// # Errors
/// For any other name.
pub fn parse_kv_type(name: &str) -> Result<DType, UnknownKvType> {
    let found = KV_TYPES.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| UnknownKvType(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kv_type_names_are_parsed() {
        for (name, dtype) in [("f16", DType::F16), ("BF16", DType::BF16), ("q8_0", DType::Q8_0), ("Q4_0", DType::Q4_0)]
        {
            assert_eq!(parse_kv_type(name), Ok(dtype), "{name}");
        }
        for name in ["", "q5_0", "f32", "q8"] {
            let error = parse_kv_type(name).expect_err("an unknown type").to_string();
            assert!(error.contains(name) && error.contains("f16, bf16, q8_0 or q4_0"), "{error}");
        }
    }
}
