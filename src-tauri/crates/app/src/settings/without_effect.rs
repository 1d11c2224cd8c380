//! Environment variables of Ollama without effect. The start of the daemon names those that are set.
//!
//! Source: <https://github.com/ollama/ollama/blob/main/envconfig/config.go>.

use super::env::Env;
use super::ollama::is_kernel;
use super::reader::is_true;
use super::table::TABLE;

const GPU: &str = "models run on the processor, not on GPUs";
const CLOUD: &str = "Cairn uses no cloud";

/// Variables without effect, with the reason.
pub(super) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("OLLAMA_AUTH", CLOUD),
    ("OLLAMA_CLOUD_BASE_URL", CLOUD),
    ("OLLAMA_DEBUG_LOG_REQUESTS", "prompts and answers are never logged"),
    ("OLLAMA_EDITOR", "the chat at a terminal opens no editor"),
    (
        "OLLAMA_FLASH_ATTENTION",
        "there is one implementation of attention, and its memory does not grow with the square of the context",
    ),
    ("OLLAMA_GPU_OVERHEAD", GPU),
    ("OLLAMA_IGPU_ENABLE", GPU),
    ("OLLAMA_LLAMA_CPP_COMPAT", "Cairn contains no llama.cpp"),
    ("OLLAMA_LOAD_TIMEOUT", "Cairn has no timeout for loading a model"),
    ("OLLAMA_MAX_TRANSFER_STREAMS", "the number of connections follows from their speed"),
    ("OLLAMA_REMOTES", CLOUD),
    ("OLLAMA_SCHED_SPREAD", GPU),
    ("OLLAMA_VULKAN", GPU),
];

/// Variables that ask for what Cairn does in any case.
const IN_ANY_CASE: &[&str] = &["OLLAMA_NO_CLOUD"];

/// Prefix of the variables of Ollama's own tests.
const TESTS: &str = "OLLAMA_TEST_";

/// Returns a warning for each variable of Ollama that is set and has no effect.
pub(super) fn warnings(env: &Env) -> Vec<String> {
    let is_row = |name: &str| TABLE.iter().any(|row| [row.variable, row.fallback_variable].contains(&Some(name)));
    let warning = |name: &str| {
        let text = env.text(name)?;
        if let Some((_, reason)) = WITHOUT_EFFECT.iter().find(|(row, _)| *row == name) {
            return is_true(text).then(|| format!("{name} has no effect: {reason}"));
        }
        if name == "OLLAMA_LLM_LIBRARY" && !is_kernel(text) {
            return is_gpu(text).then(|| format!("{name}={text:?} has no effect: {GPU}"));
        }
        let has_effect = is_row(name) || IN_ANY_CASE.contains(&name) || name.starts_with(TESTS);
        (!has_effect).then(|| format!("{name} has no effect: Cairn has no such setting"))
    };
    env.names("OLLAMA_").filter_map(warning).collect()
}

/// Whether the name is a library of Ollama for GPUs. Those for processors are named `cpu`, `cpu_avx2` and so on.
fn is_gpu(name: &str) -> bool {
    !name.to_ascii_lowercase().starts_with("cpu")
}

#[cfg(test)]
mod tests;
