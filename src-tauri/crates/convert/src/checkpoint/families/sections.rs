//! Positions with three components, of time, height and width: M-RoPE (arXiv 2409.12191).

use cairn_gguf::Metadata;
use serde_json::Value;

use super::super::config::{CONFIG, Config};
use super::super::error::{ConvertError, invalid};

/// Adds the numbers of pairs that turn by each component of a position. `default` are those of published models, for
/// configs without the key.
pub(super) fn add_sections(
    config: &Config,
    architecture: &str,
    default: Option<[i32; 3]>,
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    const KEY: &str = "mrope_section";
    let refused = || invalid(CONFIG, format!("{KEY} is not a list of three counts"));
    let mut sections = match config.rotation(KEY) {
        Value::Null => default.ok_or_else(refused)?.to_vec(),
        Value::Array(list) if list.len() == 3 => {
            let pairs = |value: &Value| value.as_u64().and_then(|pairs| i32::try_from(pairs).ok());
            list.iter().map(pairs).collect::<Option<Vec<i32>>>().ok_or_else(refused)?
        }
        _ => return Err(refused()),
    };
    // llama.cpp has a fourth one.
    sections.push(0);
    metadata.set(format!("{architecture}.rope.dimension_sections"), sections);
    Ok(())
}
