//! What an engine is told: at its start, and with each request for a model.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::KV_TYPES;
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
    /// Type of keys and values in those pages for requests that name none: see [`kv_type`].
    pub kv_type: DType,
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
    /// Type of keys and values: see [`kv_type`]. A model whose heads are no whole blocks of it keeps them in f16, and says so.
    pub kv_type: Option<DType>,
    /// Load even if memory looks too small.
    pub force: bool,
    /// What the file's contents are, where that is known. Without it nothing is kept beyond the model's stay.
    pub weights: Option<WeightsDigest>,
}

/// No type of keys and values has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown type of the KV cache {0:?}: it must be f16, bf16, q8_0 or q4_0")]
pub struct UnknownKvType(pub String);

/// The type of keys and values that has this name, in small letters or capitals: f16, bf16, q8_0 or q4_0.
///
/// # Errors
/// For any other name.
pub fn kv_type(name: &str) -> Result<DType, UnknownKvType> {
    let known = KV_TYPES.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name));
    known.ok_or_else(|| UnknownKvType(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_keys_and_values_have_names() {
        for (name, dtype) in [("f16", DType::F16), ("BF16", DType::BF16), ("q8_0", DType::Q8_0), ("Q4_0", DType::Q4_0)]
        {
            assert_eq!(kv_type(name), Ok(dtype), "{name}");
        }
        for name in ["", "q5_0", "f32", "q8"] {
            let error = kv_type(name).expect_err("it is none of them").to_string();
            assert!(error.contains(name) && error.contains("f16, bf16, q8_0 or q4_0"), "{error}");
        }
    }
}
