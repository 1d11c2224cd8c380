//! The encoder of a model that has a decoder beside it: computes the rows of one input after the other, in parts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_models::{Encoder, ModelFile};
use cairn_tensor::{Backend, PlanId};

use crate::error::LoadError;
use crate::input::{InputId, InputRows};
use crate::request::GenerateError;
use crate::tiled::{TiledJob, TiledPlan};

/// What a scheduler needs for the inputs of its sequences.
pub(crate) struct InputStage {
    pub(crate) encoder: InputEncoder,
    /// Stores keys and values of the encoder's rows in the pages of the decoder.
    pub(crate) store: PlanId,
    /// The token with which every answer begins.
    pub(crate) start: u32,
}

/// The encoder of one model.
pub(crate) struct InputEncoder {
    plan: TiledPlan,
    /// Elements of a row.
    width: usize,
    job: Option<Job>,
}

/// An input in progress.
struct Job {
    id: InputId,
    tiles: TiledJob,
    took: Duration,
}

/// The rows of an input, and the time that their computation took.
pub(crate) struct EncodedInput {
    pub(crate) rows: InputRows,
    pub(crate) took: Duration,
}

impl InputEncoder {
    /// Prepares an encoder for inputs of up to `tokens`.
    pub(crate) fn new(
        file: Arc<ModelFile>,
        backend: Box<dyn Backend>,
        encoder: Encoder,
        tokens: usize,
    ) -> Result<Self, LoadError> {
        let Encoder { plan, width } = encoder;
        Ok(Self { plan: TiledPlan::new(file, backend, plan, Encoder::limits(tokens), 1)?, width, job: None })
    }

    /// Elements of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The input in progress.
    pub(crate) fn in_progress(&self) -> Option<&InputId> {
        self.job.as_ref().map(|job| &job.id)
    }

    /// Drops the input in progress.
    pub(crate) fn forget(&mut self) {
        self.job = None;
    }

    /// Computes a part of an input in about this time. Returns its rows when it is complete. Another input in progress is abandoned.
    pub(crate) fn encode_some(
        &mut self,
        input: &[u32],
        id: &InputId,
        time: Duration,
    ) -> Result<Option<EncodedInput>, GenerateError> {
        self.plan.grow_pages(Encoder::pages(input.len()))?;
        let job = match self.job.take().filter(|job| job.id == *id) {
            Some(job) => self.job.insert(job),
            None => {
                let tiles = TiledJob::new(Encoder::batch(input));
                self.job.insert(Job { id: id.clone(), tiles, took: Duration::ZERO })
            }
        };
        let began = Instant::now();
        // A stage of a short input takes a small part of the time.
        let is_complete = loop {
            let is_complete = self.plan.run_tile(&mut job.tiles, time.saturating_sub(began.elapsed()))?;
            if is_complete || began.elapsed() >= time {
                break is_complete;
            }
        };
        job.took += began.elapsed();
        if !is_complete {
            return Ok(None);
        }
        let took = job.took;
        self.job = None;
        let mut rows = vec![0.0; input.len() * self.width];
        self.plan.read(input.len(), &mut rows);
        Ok(Some(EncodedInput { rows: rows.into(), took }))
    }
}
