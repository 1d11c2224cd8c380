//! Qwen 3 Next and Qwen 3.5, dense and with experts: three of four layers have linear attention by the gated delta rule (arXiv
//! 2412.06464), the others have attention with an output that is multiplied by a gate (arXiv 2505.06708) and a rotation of a part of each head.
//! Experts include a shared one, and each row weighs its output. <https://qwen.ai/blog?id=4074cca80393150c248e508aa62983f9cb7d27cd>

use cairn_tensor::{KeySharing, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::stream::Part;
use crate::block::{
    Attention, DeltaNet, Experts, GatedMlp, LayerKinds, QueryKeyNorm, SharedExpert, Stream, embed, logits,
};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

pub(super) struct Qwen3Next;

/// Dense; its files have other tensors than those with experts.
const DENSE: &str = "qwen35";
/// Its heads with linear attention are in the order of the published weights, and two factors are one tensor.
const NEXT: &str = "qwen3next";

impl Architecture for Qwen3Next {
    fn names(&self) -> &'static [&'static str] {
        &["qwen3next", "qwen35", "qwen35moe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let listed = LayerKinds::read(&keys)?;
        let mut hparams = Hparams::read_with_heads(b, NormKind::Rms, listed.kv_heads)?;
        let kinds = listed.or_interval(&keys, hparams.layers)?;
        if hparams.embedding.is_some() {
            // A text of an embedding model is computed in both directions, which states of earlier rows are not.
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let is_next = hparams.architecture == NEXT;
        // llama.cpp's and Ollama's converters put the heads of Qwen 3.5 that share a key apart.
        let sharing = match is_next || keys.bool("ssm.v_head_reordered")? == Some(false) {
            true => KeySharing::Adjacent,
            false => KeySharing::Tiled,
        };
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Head).gated(b);
        let linear = DeltaNet::new(b, sharing)?;
        let linear = if is_next { linear.paired(b) } else { linear };
        let mlp = GatedMlp::new(b, &hparams).part(Part::MLP_AFTER_ATTENTION);
        let experts = if hparams.architecture == DENSE { None } else { Some(experts(b, &hparams)?) };
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            if kinds.has_attention(layer) {
                attention.push(b, &hparams, &stream, layer);
            } else {
                linear.push(b, &hparams, &stream, layer);
            }
            match &experts {
                Some(experts) => experts.push(b, &hparams, &stream, layer),
                None => mlp.push(b, &hparams, &stream, layer),
            }
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}

fn experts(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Experts, LoadError> {
    let shared = SharedExpert::new(b, hparams, Some(hparams.feed_forward_length))?;
    let shared = shared.map(|shared| shared.weighted(b));
    let experts = Experts::new(b, hparams, None)?.scale_of_file(b)?;
    Ok(experts.part(Part::MLP_AFTER_ATTENTION).shared(shared))
}
