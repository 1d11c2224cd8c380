//! Summary of a model, for lists and `show`.

use std::time::SystemTime;

use cairn_convert::FileType;
use cairn_gguf::{DType, Gguf, Metadata};
use cairn_store::Config;

/// A model in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Name of the model, in its shortest form.
    pub name: String,
    /// Digest of the manifest or file: 64 lower-case hex digits.
    pub digest: String,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Time of the last change.
    pub modified_at: SystemTime,
    /// Details of the model.
    pub details: Details,
    /// Capabilities that the daemon supports.
    pub capabilities: Vec<String>,
    /// Origin, if it is not a library.
    pub origin: Option<&'static str>,
}

/// Details of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// `gguf`, mostly.
    pub format: String,
    /// Architecture.
    pub family: String,
    /// All architectures of the model.
    pub families: Vec<String>,
    /// Number of parameters as a text, for example `3.2B`.
    pub parameter_size: String,
    /// Quantization, for example `Q4_K_M`.
    pub quantization: String,
    /// Trained context size in tokens.
    pub context_length: Option<u64>,
    /// Width of the embeddings.
    pub embedding_length: Option<u64>,
}

impl Details {
    /// Details from a file's head.
    pub(crate) fn of_file(gguf: &Gguf) -> Self {
        let metadata = gguf.metadata();
        let family = text(metadata, "general.architecture").unwrap_or_default();
        let number = |key: &str| metadata.u64(&format!("{family}.{key}")).ok().flatten();
        Self {
            format: "gguf".to_owned(),
            families: if family.is_empty() { Vec::new() } else { vec![family.to_owned()] },
            parameter_size: crate::values::human_count(parameter_count(gguf)),
            quantization: quantization(gguf),
            context_length: number("context_length"),
            embedding_length: number("embedding_length"),
            family: family.to_owned(),
        }
    }

    /// Details from a library's config.
    pub(crate) fn of_config(config: &Config) -> Self {
        Self {
            format: config.model_format.clone(),
            family: config.model_family.clone(),
            families: config.model_families.clone().unwrap_or_default(),
            parameter_size: config.model_type.clone(),
            quantization: config.file_type.clone(),
            context_length: config.context_length,
            embedding_length: config.embedding_length,
        }
    }
}

/// Capabilities that the daemon implements for all models that have them. Whether it can compute a vision tower depends on the
/// tower's head.
const SUPPORTED: [&str; 5] = ["completion", "tools", "insert", "thinking", "embedding"];

/// Name of the capability to read images.
pub(crate) const VISION: &str = "vision";

/// Returns the capabilities of a model, from its metadata and template.
pub(crate) fn capabilities(metadata: &Metadata, template: cairn_prompt::Capabilities) -> Vec<String> {
    let embeds = cairn_runtime::is_embedding_model(metadata);
    // The chat template of an embedding model is that of the model from which it was made.
    let rows = [
        (embeds, "embedding"),
        (!embeds, "completion"),
        (!embeds && template.tools, "tools"),
        (!embeds && template.insert, "insert"),
        (!embeds && template.thinking, "thinking"),
    ];
    rows.into_iter().filter(|(can, _)| *can).map(|(_, name)| name.to_owned()).collect()
}

/// The capabilities of a library's config, without those that the daemon does not implement. Ollama's configs do not name
/// encoders.
pub(crate) fn stored_capabilities(config: &Config) -> Vec<String> {
    let mut names = config.capabilities.clone().unwrap_or_default();
    names.retain(|name| SUPPORTED.contains(&name.as_str()));
    if names.is_empty() && cairn_runtime::is_encoder(&config.model_family) {
        names.push("embedding".to_owned());
    }
    names
}

/// Elements of all tensors together.
pub(crate) fn parameter_count(gguf: &Gguf) -> u64 {
    gguf.tensors().iter().fold(0, |sum, tensor| sum.saturating_add(tensor.elements()))
}

fn text<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    metadata.str(key).ok().flatten()
}

/// The file type by name, or the type of most of the bytes if the file does not state a type that has a name here.
fn quantization(gguf: &Gguf) -> String {
    if let Some(name) = gguf.metadata().u32("general.file_type").ok().flatten().and_then(file_type_name) {
        return name.to_owned();
    }
    let mut bytes_by_type: Vec<(String, u64)> = Vec::new();
    for tensor in gguf.tensors() {
        let name = tensor.dtype.to_string().to_ascii_uppercase();
        match bytes_by_type.iter_mut().find(|(other, _)| *other == name) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(tensor.bytes),
            None => bytes_by_type.push((name, tensor.bytes)),
        }
    }
    bytes_by_type.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("unknown".to_owned(), |(name, _)| name)
}

/// The name of the file type with this number in `general.file_type` (llama.cpp's `llama_ftype`).
fn file_type_name(number: u32) -> Option<&'static str> {
    match number {
        // Types that Cairn cannot quantize to.
        21 => Some("Q2_K_S"),
        22 => Some("IQ3_XS"),
        29 => Some("IQ2_M"),
        // IQ4_NL, IQ4_XS and MXFP4_MOE are shown as the type of most of the bytes.
        25 | 30 | 38 => None,
        _ => FileType::from_number(number)
            .map(FileType::name)
            .or_else(|| DType::all().find(|dtype| dtype.file_type() == Some(number)).map(DType::name)),
    }
}

#[cfg(test)]
mod tests {
    use cairn_gguf::Pooling;

    use super::*;

    #[test]
    fn capabilities_exclude_unsupported_ones() {
        let template = cairn_prompt::Template::jinja("{{ tools }}<think></think>").unwrap();
        let head = crate::library::pebble::head();
        assert_eq!(capabilities(head.gguf.metadata(), template.capabilities()), ["completion", "tools", "thinking"]);
        let stored = ["completion", "tools", "insert", "vision", "embedding", "thinking"].map(str::to_owned);
        let config = Config { capabilities: Some(stored.to_vec()), ..Config::default() };
        let supported = ["completion", "tools", "insert", "embedding", "thinking"];
        assert_eq!(stored_capabilities(&config), supported, "without images");
        let encoder = Config { model_family: "bert".to_owned(), ..Config::default() };
        assert_eq!(stored_capabilities(&encoder), ["embedding"], "by its family");
        let mut metadata = head.gguf.metadata().clone();
        metadata.set(format!("{}.{}", Details::of_file(&head.gguf).family, Pooling::KEY), Pooling::Last);
        assert_eq!(capabilities(&metadata, template.capabilities()), ["embedding"], "instead of all others");
    }

    #[test]
    fn built_in_model_has_details() {
        let details = Details::of_file(&crate::library::pebble::head().gguf);
        assert_eq!(details.format, "gguf", "the format");
        assert!(!details.family.is_empty() && details.families == [details.family.clone()], "{details:?}");
    }
}
