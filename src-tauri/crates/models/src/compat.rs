//! Files in Ollama's own layout, translated to the layout of llama.cpp when they are opened.
//!
//! Models that older versions of Ollama converted have other architecture names, keys, tensor names and vocabularies
//! than llama.cpp's files, and the tensors of a vision tower in the same file. A [`Layout`] lists the markers of such
//! files and the steps that translate the head of one. Steps change metadata and tensor table in memory; the bytes of
//! tensors are neither read nor copied. A file without markers passes unchanged. A lying file ends in an error of its
//! family, because all keys and shapes are checked after the translation. Tensors of vision towers are hidden from the text
//! model. [`tower`] translates the same head to that of the tower alone, as in llama.cpp's separate files.
//!
//! Source: Ollama's compatibility layer for llama.cpp, <https://github.com/ollama/ollama/tree/main/llama/compat>.
//! A new layout is one file or constant and one line in [`LAYOUTS`].

mod bert;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm_flash;
mod gpt_oss;
mod layout;
mod llama3;
mod llama4;
mod mistral3;
mod nemotron;
mod olmo3;
mod qwen35;
mod qwen_vl;
mod refused;
mod step;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use cairn_gguf::{Gguf, Metadata};

use crate::error::LoadError;
use layout::Layout;
pub(crate) use mistral3::ROPE_BY_HALVES;
pub(crate) use refused::model_of;

/// `general.architecture` of files of vision towers.
const TOWER: &str = "clip";

/// All layouts. The first one with a marker in a file is used.
#[rustfmt::skip]
const LAYOUTS: &[Layout] = &[
    bert::SNOWFLAKE,
    // Before Gemma 3, which has the same architecture and more markers.
    gemma3::EMBEDDING_GEMMA,
    gemma3::GEMMA3,
    gemma3n::GEMMA3N,
    gemma4::GEMMA4,
    glm_flash::GLM_FLASH,
    gpt_oss::GPT_OSS,
    llama3::LLAMA3,
    llama4::LLAMA4,
    mistral3::MISTRAL3,
    nemotron::NEMOTRON3,
    olmo3::OLMO3,
    qwen_vl::QWEN25_VL,
    qwen_vl::QWEN3_VL,
    qwen35::QWEN35,
    qwen35::QWEN3_NEXT,
];

/// Translates the head of a file in Ollama's layout. Returns all others as they are.
///
/// # Errors
/// When a key has a wrong type or value, or two tensors would get one name.
pub fn translate(gguf: Gguf) -> Result<Gguf, LoadError> {
    match layout_of(&gguf) {
        None => Ok(gguf),
        Some(layout) => {
            let in_layout = |source: LoadError| LoadError::Layout { model: layout.model, source: Box::new(source) };
            gguf.try_change(|metadata, tensors| layout.translate(metadata, tensors)).map_err(in_layout)
        }
    }
}

/// Returns the head of a file as the engine reads it. A head that cannot be translated is returned as it is.
pub fn translated(gguf: &Gguf) -> Cow<'_, Gguf> {
    match layout_of(gguf) {
        None => Cow::Borrowed(gguf),
        Some(_) => translate(gguf.clone()).map_or(Cow::Borrowed(gguf), Cow::Owned),
    }
}

/// Returns whether these are the metadata of a file of a vision tower alone.
pub(crate) fn is_tower(metadata: &Metadata) -> bool {
    metadata.str("general.architecture") == Ok(Some(TOWER))
}

/// Returns the head of the vision tower in a file of Ollama's layout. `None` if the file has none that the engine can compute.
///
/// # Errors
/// When two tensors would get one name.
pub(crate) fn tower(gguf: &Gguf) -> Result<Option<Gguf>, LoadError> {
    let has_tower = || gguf.tensors().iter().any(|tensor| tensor.name.starts_with("v."));
    let Some(layout) = layout_of(gguf).filter(|layout| !layout.tower.is_empty() && has_tower()) else {
        return Ok(None);
    };
    gguf.clone().try_change(|metadata, tensors| layout.translate_tower(metadata, tensors)).map(Some)
}

fn layout_of(gguf: &Gguf) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.matches(gguf))
}
