//! Layers with a sliding window, which several families list in the same keys.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::super::config::{CONFIG, Config, MAX_LAYERS};
use super::super::error::{ConvertError, invalid};

/// Name in `layer_types` of layers with a window.
const WINDOW: &str = "sliding_attention";

/// Adds which layers have a window: a flag for each from `layer_types` or from a pattern as text ("LLLG"), or a period.
pub(super) fn add_pattern(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    const KEY: &str = "sliding_window_pattern";
    let name = format!("{architecture}.attention.{KEY}");
    if let Some(kinds) = config.layer_kinds("layer_types")? {
        metadata.set(name, kinds.into_iter().map(|kind| kind == WINDOW).collect::<Vec<bool>>());
        return Ok(());
    }
    match config.value(KEY) {
        Value::Null => {}
        Value::String(pattern) if !pattern.is_empty() && pattern.bytes().all(|kind| matches!(kind, b'L' | b'G')) => {
            let layers = config.count("num_hidden_layers", MAX_LAYERS)? as usize;
            let kinds = pattern.bytes().cycle().take(layers);
            metadata.set(name, kinds.map(|kind| kind == b'L').collect::<Vec<bool>>());
        }
        Value::String(pattern) => return Err(invalid(CONFIG, format!("{KEY} {pattern:?} has not only L and G"))),
        _ => {
            metadata.set(name, config.count(KEY, MAX_LAYERS)?);
        }
    }
    Ok(())
}
