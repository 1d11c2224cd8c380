//! Gemma 3, text (arXiv 2503.19786): like Gemma 2, but heads of queries and keys are normalised instead of caps, and
//! five of six layers have a sliding window with a separate rotation.

use cairn_tensor::Op;

use super::Architecture;
use crate::block::gemma::gemma3_layers;
use crate::block::logits;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Layers of the model of 27 billion weights.
const LAYERS_OF_27B: usize = 62;

pub(super) struct Gemma3;

impl Architecture for Gemma3 {
    fn names(&self) -> &'static [&'static str] {
        &["gemma3"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let keys = Keys::new(b.metadata())?;
        let stream = gemma3_layers(b, &mut hparams, Some(LAYERS_OF_27B))?;
        let x = logits(b, &hparams, &stream);
        if let (Some(x), Some(cap)) = (x, keys.positive("final_logit_softcapping")?) {
            b.push(Op::Softcap { x, cap });
        }
        Ok(hparams)
    }
}
