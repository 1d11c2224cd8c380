//! Alternating updates (Baykal et al., arXiv 2301.13310), as in Gemma 3n: a row has several residual streams, and each layer computes
//! only one of them, the active one. Before the layer, all streams are predicted as mixtures of each other. Behind it, the error of the
//! active one's prediction corrects them all. A router of each layer computes the factors from the active stream.
//!
//! `altup.num_inputs` is the number of streams, and `altup.active_idx` the active one.

use cairn_tensor::{BufferId, HeadPart, Op, Projection, Rows};

use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// More than in any model, which have four.
const MAX_STREAMS: u32 = 16;

/// Parameters and buffers of a model's residual streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AltUp {
    count: usize,
    active: usize,
    width: usize,
    streams: BufferId,    // [rows, count * embedding]
    predicted: BufferId,  // [rows, count * embedding]
    routed: BufferId,     // [rows, embedding]
    modalities: BufferId, // [rows, count]
    mixing: BufferId,     // [rows, count * count]
    correcting: BufferId, // [rows, count]
    error: BufferId,      // [rows, embedding]
}

/// The whole of a row, or what follows its first elements.
fn from(buffer: BufferId, first: usize) -> HeadPart {
    HeadPart { buffer, heads: 1, first }
}

impl AltUp {
    /// Reads the number of streams.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let count = keys.count("altup.num_inputs", Some(4), MAX_STREAMS)?;
        let active = keys.u32("altup.active_idx")?.unwrap_or(0) as usize;
        if count < 2 || active >= count {
            return Err(
                keys.invalid("altup.active_idx", format!("there is no stream {active} beside others of {count}"))
            );
        }
        let width = hparams.embedding_length;
        let [streams, predicted] = [count * width; 2].map(|width| b.buffer(width));
        let [routed, error] = [width; 2].map(|width| b.buffer(width));
        let [modalities, mixing, correcting] = [count, count * count, count].map(|width| b.buffer(width));
        Ok(Self { count, active, width, streams, predicted, routed, modalities, mixing, correcting, error })
    }

    /// Fills the streams: the first has the embeddings, the others projections of them with the same length.
    pub(crate) fn fill(&self, b: &mut Builder<'_>, embedded: BufferId) {
        let &Self { count, width, streams, .. } = self;
        let others = b.buffer((count - 1) * width);
        let weight = b.reshaped("altup_proj.weight", &[width, width, count - 1], (count - 1) * width, width);
        b.push(Op::MatMul { x: embedded, projections: vec![Projection { weight, bias: None, out: others }] });
        b.push(Op::MatchLength { x: others, like: embedded });
        b.push(Op::CopyHeads { from: from(embedded, 0), to: from(streams, 0), width });
        b.push(Op::CopyHeads { from: from(others, 0), to: from(streams, width), width: (count - 1) * width });
    }

    /// Predicts the streams of a layer. `active` gets the active one's prediction.
    pub(crate) fn predict(&self, b: &mut Builder<'_>, hparams: &Hparams, active: BufferId, layer: usize) {
        let &Self { count, width, streams, predicted, modalities, mixing, .. } = self;
        self.copy_active(b, streams, active);
        self.route(b, hparams, active, layer);
        let projections = vec![b.projection(&format!("blk.{layer}.altup_predict_coef"), count, mixing)];
        b.push(Op::MatMul { x: modalities, projections });
        b.push(Op::CopyHeads { from: from(streams, 0), to: from(predicted, 0), width: count * width });
        b.push(Op::AddMixed { x: streams, factors: mixing, width, out: predicted });
        self.copy_active(b, predicted, active);
    }

    /// Corrects the streams by the active one's output of a layer. `corrected` gets the corrected active one, scaled by element.
    pub(crate) fn correct(
        &self,
        b: &mut Builder<'_>,
        hparams: &Hparams,
        [activated, corrected]: [BufferId; 2],
        layer: usize,
    ) {
        let &Self { count, width, streams, predicted, modalities, correcting, error, .. } = self;
        self.route(b, hparams, activated, layer);
        let mut projection = b.projection(&format!("blk.{layer}.altup_correct_coef"), count, correcting);
        projection.bias = Some(b.ones(count));
        b.push(Op::MatMul { x: modalities, projections: vec![projection] });
        self.copy_active(b, predicted, error);
        b.push(Op::Scale { x: error, factor: -1.0 });
        b.push(Op::Add { x: error, y: activated });
        b.push(Op::CopyHeads { from: from(predicted, 0), to: from(streams, 0), width: count * width });
        b.push(Op::AddMixed { x: error, factors: correcting, width, out: streams });
        self.copy_active(b, streams, corrected);
        let weight = b.vector(&format!("blk.{layer}.altup_correct_scale.weight"), width);
        b.push(Op::MulWeight { x: corrected, weight });
    }

    /// Adds a branch to all streams but the first.
    pub(crate) fn add_to_others(&self, b: &mut Builder<'_>, branch: BufferId) {
        for stream in 1..self.count {
            let to = from(self.streams, stream * self.width);
            b.push(Op::AddHeads { from: from(branch, 0), to, width: self.width });
        }
    }

    /// Gathers the rows with requested output and returns the mean of their streams. Those behind the first are projected, with the
    /// length of the active one.
    pub(crate) fn merge(&self, b: &mut Builder<'_>) -> BufferId {
        let &Self { count, width, streams, .. } = self;
        let widths = [count * width, width, (count - 1) * width, (count - 1) * width, width];
        let [all, active, others, projected, mean] = widths.map(|width| b.plan.buffer(Rows::Logits, width));
        b.push(Op::Gather { x: streams, out: all });
        self.copy_active(b, all, active);
        b.push(Op::CopyHeads { from: from(all, width), to: from(others, 0), width: (count - 1) * width });
        let weight = b.reshaped("altup_unembd_proj.weight", &[width, width, count - 1], (count - 1) * width, width);
        let part = |buffer| HeadPart { buffer, heads: count - 1, first: 0 };
        b.push(Op::MatMulHeads { from: part(others), weight, to: part(projected) });
        b.push(Op::MatchLength { x: projected, like: active });
        b.push(Op::CopyHeads { from: from(all, 0), to: from(mean, 0), width });
        for stream in 0..count - 1 {
            b.push(Op::AddHeads { from: from(projected, stream * width), to: from(mean, 0), width });
        }
        b.push(Op::Scale { x: mean, factor: 1.0 / count as f32 });
        mean
    }

    /// Copies the active one of some streams.
    fn copy_active(&self, b: &mut Builder<'_>, streams: BufferId, out: BufferId) {
        let active = from(streams, self.active * self.width);
        b.push(Op::CopyHeads { from: active, to: from(out, 0), width: self.width });
    }

    /// Computes the router's output from a row of the active stream.
    fn route(&self, b: &mut Builder<'_>, hparams: &Hparams, x: BufferId, layer: usize) {
        let &Self { width, routed, modalities, .. } = self;
        let weight = b.vector(&format!("blk.{layer}.altup_router_norm.weight"), width);
        b.push(Op::RmsNorm { x, weight, eps: hparams.epsilon, group: width, out: routed });
        b.push(Op::Scale { x: routed, factor: 1.0 / width as f32 });
        let projections = vec![b.projection(&format!("blk.{layer}.altup_router"), width, modalities)];
        b.push(Op::MatMul { x: routed, projections });
        // The hyperbolic tangent.
        b.push(Op::Softcap { x: modalities, cap: 1.0 });
    }
}
