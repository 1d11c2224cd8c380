//! The supported model families: one file and one row each.

mod command_r;
mod deepseek2;
mod dots1;
mod ernie4_5_moe;
mod exaone4;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4moe;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod granite;
mod hunyuan_dense;
mod lfm2;
mod llama;
mod llama4;
mod nemotron_h;
mod olmo2;
mod olmoe;
mod phi2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod qwen3next;
mod seed_oss;
mod smollm3;
mod stablelm;
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

    /// The other plans of a family with an encoder and a decoder, of which [`Architecture::build`] adds the decoder.
    fn encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        None
    }
}

/// A family of models with an encoder and a decoder. [`Architecture::build`] adds the decoder.
pub trait EncoderDecoder: Architecture {
    /// Adds the forward pass of the encoder. All rows have logits, which are the encoder's output.
    ///
    /// # Errors
    /// As [`Architecture::build`].
    fn build_encoder(&self, b: &mut Builder<'_>) -> Result<(), LoadError>;

    /// Adds what stores keys and values of the encoder's rows, which are the batch's embedding rows.
    ///
    /// # Errors
    /// As [`Architecture::build`].
    fn build_store(&self, b: &mut Builder<'_>) -> Result<(), LoadError>;
}

/// Refuses models with a separate norm for each head of queries and keys.
fn refuse_head_norms(b: &Builder<'_>) -> Result<(), LoadError> {
    if b.has_tensor("blk.0.attn_q_norm.weight") {
        return Err(LoadError::Unsupported { what: "a model with a separate norm for each query head".to_owned() });
    }
    Ok(())
}

/// All supported families of decoders: models that generate text, and embedding models made from them.
// rustfmt would put them all in one line, which causes merge conflicts.
#[rustfmt::skip]
pub const ARCHITECTURES: &[&dyn Architecture] = &[
    &command_r::CommandR,
    &deepseek2::DeepSeek2,
    &dots1::Dots1,
    &ernie4_5_moe::Ernie45Moe,
    &exaone4::Exaone4,
    &falcon::Falcon,
    &gemma::Gemma,
    &gemma2::Gemma2,
    &gemma3::Gemma3,
    &gemma3n::Gemma3n,
    &gemma4::Gemma4,
    &glm4::Glm4,
    &glm4moe::Glm4Moe,
    &gpt2::Gpt2,
    &gpt_oss::GptOss,
    &gptneox::GptNeoX,
    &granite::Granite,
    &hunyuan_dense::HunyuanDense,
    &lfm2::Lfm2,
    &llama::Llama,
    &llama4::Llama4,
    &nemotron_h::NemotronH,
    &olmo2::Olmo2,
    &olmoe::Olmoe,
    &phi2::Phi2,
    &phi3::Phi3,
    &qwen2::Qwen2,
    &qwen2moe::Qwen2Moe,
    &qwen3::Qwen3,
    &qwen3moe::Qwen3Moe,
    &qwen3next::Qwen3Next,
    &seed_oss::SeedOss,
    &smollm3::SmolLm3,
    &stablelm::StableLm,
    &starcoder2::StarCoder2,
];
