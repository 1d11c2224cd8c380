//! Values of Ollama's environment variables that mean something else here.

use super::reader::{Slot, is_true};

/// The kernel variant. `OLLAMA_LLM_LIBRARY` has the name of one of Ollama's libraries, which must not stop the daemon.
pub(super) fn kernel(slot: &mut Slot<'_>) -> Option<String> {
    slot.text().filter(|name| !slot.is_fallback() || is_kernel(name)).map(str::to_owned)
}

/// Whether a kernel variant of this build has the name.
pub(super) fn is_kernel(name: &str) -> bool {
    cairn_runtime::kernel_names().any(|kernel| kernel == name)
}

/// The filter of the log. `OLLAMA_DEBUG` is a switch, or 2 for more.
pub(super) fn log_filter(slot: &mut Slot<'_>) -> String {
    match slot.text() {
        Some("2") if slot.is_fallback() => "trace".to_owned(),
        Some(switch) if slot.is_fallback() && is_true(switch) => "debug".to_owned(),
        Some(filter) if !slot.is_fallback() => filter.to_owned(),
        _ => slot.default(|text| Some(text.to_owned())),
    }
}
