//! The families of models that can be run: one file each, one row each.

mod gemma2;
mod gemma3;
mod gpt_oss;
mod granite;
mod llama;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod starcoder2;

#[cfg(test)]
mod tests;

use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

/// A family: how its metadata and tensors become a forward pass.
pub trait Architecture: Sync {
    /// The values of `general.architecture` that mean this family.
    fn names(&self) -> &'static [&'static str];

    /// Reads the metadata and writes the forward pass. Tensors that are missing or mis-shaped are noted by the builder, so
    /// only the metadata can be an error here.
    ///
    /// # Errors
    /// Where metadata are missing or contradict each other, or ask for what is not supported.
    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError>;
}

/// All families.
// rustfmt would put them all in one line, on which every change meets every other.
#[rustfmt::skip]
pub const ALL: &[&dyn Architecture] = &[
    &gemma2::Gemma2,
    &gemma3::Gemma3,
    &gpt_oss::GptOss,
    &granite::Granite,
    &llama::Llama,
    &olmo2::Olmo2,
    &phi3::Phi3,
    &qwen2::Qwen2,
    &qwen3::Qwen3,
    &qwen3moe::Qwen3Moe,
    &starcoder2::StarCoder2,
];

/// The family of this name.
pub(crate) fn find(name: &str) -> Result<&'static dyn Architecture, LoadError> {
    let found = ALL.iter().find(|family| family.names().contains(&name)).copied();
    found.ok_or_else(|| LoadError::UnknownArchitecture {
        name: name.escape_debug().to_string(),
        supported: ALL.iter().flat_map(|family| family.names()).copied().collect(),
    })
}
