//! What a model is, in short: for lists, and for the head of `show`.

use std::time::SystemTime;

use cairn_gguf::{Gguf, Metadata};
use cairn_store::Config;

/// One model of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The name to run it by, in its shortest form.
    pub name: String,
    /// Its identity: 64 lower-case hex characters.
    pub digest: String,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// When it came here.
    pub modified_at: SystemTime,
    /// What it is.
    pub details: Details,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Where it comes from, when it is not from a library.
    pub origin: Option<&'static str>,
}

/// What a model is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// `gguf`, mostly.
    pub format: String,
    /// Its architecture.
    pub family: String,
    /// All architectures in it.
    pub families: Vec<String>,
    /// Its size for people, `3.2B` for instance.
    pub parameter_size: String,
    /// Its quantisation, `Q4_K_M` for instance.
    pub quantization: String,
    /// Tokens of context that it was trained for.
    pub context_length: Option<u64>,
    /// Width of its embeddings.
    pub embedding_length: Option<u64>,
}

impl Details {
    /// What a file's head says.
    pub(crate) fn of_file(gguf: &Gguf) -> Self {
        let metadata = gguf.metadata();
        let family = text(metadata, "general.architecture").unwrap_or_default();
        let number = |key: &str| metadata.u64(&format!("{family}.{key}")).ok().flatten();
        Self {
            format: "gguf".to_owned(),
            families: if family.is_empty() { Vec::new() } else { vec![family.to_owned()] },
            parameter_size: cairn_wire::human_count(parameter_count(gguf)),
            quantization: quantization(gguf),
            context_length: number("context_length"),
            embedding_length: number("embedding_length"),
            family: family.to_owned(),
        }
    }

    /// What a library's config says.
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

/// What a model can do, as far as its file and the template of its prompts tell.
pub(crate) fn capabilities(metadata: &Metadata, template: cairn_prompt::Capabilities) -> Vec<String> {
    let architecture = text(metadata, "general.architecture").unwrap_or_default();
    let embeds = metadata.get(&format!("{architecture}.pooling_type")).is_some();
    let rows = [
        (embeds, "embedding"),
        (!embeds, "completion"),
        (template.tools, "tools"),
        (template.insert, "insert"),
        (template.thinking, "thinking"),
    ];
    rows.into_iter().filter(|(can, _)| *can).map(|(_, name)| name.to_owned()).collect()
}

/// Elements of all tensors together.
pub(crate) fn parameter_count(gguf: &Gguf) -> u64 {
    gguf.tensors().iter().fold(0, |sum, tensor| sum.saturating_add(tensor.elements()))
}

fn text<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    metadata.str(key).ok().flatten()
}

/// The name of the mix that `general.file_type` numbers (llama.cpp's `llama_ftype`), or the type of most of the bytes.
fn quantization(gguf: &Gguf) -> String {
    let known = match gguf.metadata().u32("general.file_type").ok().flatten() {
        Some(0) => Some("F32"),
        Some(1) => Some("F16"),
        Some(2) => Some("Q4_0"),
        Some(3) => Some("Q4_1"),
        Some(7) => Some("Q8_0"),
        Some(8) => Some("Q5_0"),
        Some(9) => Some("Q5_1"),
        Some(10) => Some("Q2_K"),
        Some(11) => Some("Q3_K_S"),
        Some(12) => Some("Q3_K_M"),
        Some(13) => Some("Q3_K_L"),
        Some(14) => Some("Q4_K_S"),
        Some(15) => Some("Q4_K_M"),
        Some(16) => Some("Q5_K_S"),
        Some(17) => Some("Q5_K_M"),
        Some(18) => Some("Q6_K"),
        Some(19) => Some("IQ2_XXS"),
        Some(20) => Some("IQ2_XS"),
        Some(21) => Some("Q2_K_S"),
        Some(22) => Some("IQ3_XS"),
        Some(23) => Some("IQ3_XXS"),
        Some(24) => Some("IQ1_S"),
        Some(26) => Some("IQ3_S"),
        Some(27) => Some("IQ3_M"),
        Some(28) => Some("IQ2_S"),
        Some(29) => Some("IQ2_M"),
        Some(31) => Some("IQ1_M"),
        Some(32) => Some("BF16"),
        Some(36) => Some("TQ1_0"),
        Some(37) => Some("TQ2_0"),
        Some(39) => Some("NVFP4"),
        _ => None,
    };
    if let Some(known) = known {
        return known.to_owned();
    }
    let mut bytes_by_type: Vec<(String, u64)> = Vec::new();
    for tensor in gguf.tensors() {
        let name = tensor.dtype.to_string().to_ascii_uppercase();
        match bytes_by_type.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(tensor.bytes),
            None => bytes_by_type.push((name, tensor.bytes)),
        }
    }
    bytes_by_type.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("unknown".to_owned(), |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_model_has_details() {
        let details = Details::of_file(&crate::pebble::head().gguf);
        assert_eq!(details.format, "gguf", "what it is");
        assert!(!details.family.is_empty() && details.families == [details.family.clone()], "{details:?}");
    }
}
