//! DeepSeek V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437), and models computed like them: Kimi K2, GLM 4.7 Flash, and
//! Mistral Large 3, with queries that grow with the position. Attention over latents, MLPs in the first layers, then
//! experts chosen by a softmax, or by sigmoids with a bias, and shared experts.
//!
//! The last `nextn_predict_layers` layers predict further tokens, and are not computed.

use super::Architecture;
use crate::block::rope::{latent_rope, original_steps, query_growth};
use crate::block::{Experts, GatedMlp, LatentAttention, LatentWidths, SharedExpert, SparseMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH, NormKind};

pub(super) struct DeepSeek2;

/// Layers and vocabulary of GLM 4.7 Flash. Its first files do not name the scores of experts, which are sigmoids.
const GLM_FLASH_LAYERS: std::ops::RangeInclusive<usize> = 47..=48;
const GLM_FLASH_VOCABULARY: usize = 154_880;

impl Architecture for DeepSeek2 {
    fn names(&self) -> &'static [&'static str] {
        &["deepseek2"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let widths = LatentWidths::read(b)?;
        let heads = keys.count("attention.head_count", None, MAX_WIDTH)?;
        let mut hparams = Hparams::read_with_shape(b, NormKind::Rms, widths.kv_heads(heads), widths.key())?;
        if hparams.embedding.is_some() {
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let rope = latent_rope(b, &mut hparams)?;
        let stream = Stream::new(b, &hparams);
        let growth = query_growth(&keys, original_steps(&keys, &hparams)?)?;
        let attention = LatentAttention::new(b, &hparams, widths, rope).growth(b, growth)?;
        let mlp = GatedMlp::new(b, &hparams);
        let is_glm_flash = GLM_FLASH_LAYERS.contains(&hparams.layers) && hparams.vocab == GLM_FLASH_VOCABULARY;
        let scores = if is_glm_flash { Experts::SIGMOID } else { Experts::SOFTMAX };
        let experts = Experts::new(b, &hparams, None)?.router_of_file_or(b, scores)?;
        let shared = SharedExpert::of_count(b, &hparams, experts.inner())?;
        let mlp = SparseMlp::new(b, &hparams, mlp, experts.shared(shared))?;
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
