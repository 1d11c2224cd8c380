//! Rows of inner layers of a vision tower, which are added behind the first layers of a text model: DeepStack (Meng et al., arXiv
//! 2406.04334). The embedding row of a part of a picture has the input of the first layer, and then a summand for each of these layers.

use cairn_tensor::Op;

use super::Stream;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

const LAYERS: &str = "n_deepstack_layers";

/// Returns the number of layers that are followed by such an addition.
pub(crate) fn deepstack_layers(keys: &Keys<'_>) -> Result<usize, LoadError> {
    Ok(keys.u32(LAYERS)?.map_or(0, |layers| layers as usize))
}

/// The additions behind the first layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deepstack {
    layers: usize,
}

impl Deepstack {
    pub(crate) fn read(b: &Builder<'_>, hparams: &Hparams) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let layers = deepstack_layers(&keys)?;
        if layers > hparams.layers {
            return Err(keys.invalid(LAYERS, format!("{layers} of {} layers", hparams.layers)));
        }
        Ok(Self { layers })
    }

    /// Adds what belongs behind a layer.
    pub(crate) fn push(self, b: &mut Builder<'_>, stream: &Stream, layer: usize) {
        if layer < self.layers {
            let width = b.plan.buffers[stream.residual.0 as usize].width;
            b.push(Op::AddInput { x: stream.residual, first: (layer + 1) * width });
        }
    }
}
