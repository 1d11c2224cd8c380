//! The supported model families: one file and one row each.

mod dots1;
mod ernie4_5_moe;
mod gemma2;
mod gemma3;
mod glm4moe;
mod gpt_oss;
mod granite;
mod llama;
mod olmo2;
mod olmoe;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod starcoder2;

#[cfg(test)]
mod tests;

use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

/// Model family: converts metadata and tensors to a forward pass.
pub trait Architecture: Sync {
    /// Values of `general.architecture` of this family.
    fn names(&self) -> &'static [&'static str];

    /// Reads the metadata and adds the forward pass to the builder. The builder collects missing and mis-shaped
    /// tensors, so only metadata can cause an error here.
    ///
    /// # Errors
    /// When metadata is missing, inconsistent, or requires an unsupported feature.
    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError>;
}

/// All supported families of decoders: models that generate text, and embedding models made from them.
// rustfmt would put them all in one line, which causes merge conflicts.
#[rustfmt::skip]
pub const ARCHITECTURES: &[&dyn Architecture] = &[
    &dots1::Dots1,
    &ernie4_5_moe::Ernie45Moe,
    &gemma2::Gemma2,
    &gemma3::Gemma3,
    &glm4moe::Glm4Moe,
    &gpt_oss::GptOss,
    &granite::Granite,
    &llama::Llama,
    &olmo2::Olmo2,
    &olmoe::Olmoe,
    &phi3::Phi3,
    &qwen2::Qwen2,
    &qwen2moe::Qwen2Moe,
    &qwen3::Qwen3,
    &qwen3moe::Qwen3Moe,
    &starcoder2::StarCoder2,
];
