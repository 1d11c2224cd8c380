//! LFM2 (arXiv 2511.23404): most layers are gated short convolutions, the others have attention with norms over each head of queries
//! and keys. With experts, the first layers have MLPs, and experts are chosen by sigmoids with a bias.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{
    Attention, Experts, GatedMlp, LayerKinds, QueryKeyNorm, ShortConv, SlidingWindows, SparseMlp, Stream, embed,
    logits_after,
};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

pub(super) struct Lfm2;

impl Architecture for Lfm2 {
    fn names(&self) -> &'static [&'static str] {
        &["lfm2", "lfm2moe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let kinds = LayerKinds::read(&keys)?;
        let mut hparams = Hparams::read_with_heads(b, NormKind::Rms, kinds.kv_heads)?;
        kinds.check(&keys, hparams.layers)?;
        if hparams.embedding.is_some() {
            // A text of an embedding model is computed in both directions, which a convolution over earlier rows is not.
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let windows = SlidingWindows::read(&keys, &hparams, None, 0)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Head).windows(windows, rope);
        let conv = ShortConv::new(b, &hparams)?;
        let mlp = GatedMlp::new(b, &hparams);
        let experts = match hparams.architecture.as_str() {
            "lfm2moe" => {
                let experts = Experts::new(b, &hparams, None)?.router_of_file(b)?.renormalised();
                Some(SparseMlp::new(b, &hparams, mlp, experts)?)
            }
            _ => None,
        };
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            if kinds.has_attention(layer) {
                attention.push(b, &hparams, &stream, layer);
            } else {
                conv.push(b, &hparams, &stream, layer);
            }
            match &experts {
                Some(experts) => experts.push(b, &hparams, &stream, layer),
                None => mlp.push(b, &hparams, &stream, layer),
            }
        }
        // Its name is that of a norm of embeddings in other families.
        logits_after(b, &hparams, &stream, "token_embd_norm");
        Ok(hparams)
    }
}
