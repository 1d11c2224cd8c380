//! A plan of an encoder on a backend of its own, which computes one batch in parts that fit the time of the scheduler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_models::ModelFile;
use cairn_tensor::{Backend, BackendError, Batch, BufferId, Limits, Plan, PlanId, Tile};

use crate::error::LoadError;
use crate::request::GenerateError;

/// Least rows of a tile. Fewer would read the weights too often.
const MIN_ROWS: usize = 64;
/// Weight of the newest measurement of the cost of a row.
const NEWEST: f64 = 0.25;

/// A prepared plan and its backend.
pub(crate) struct TiledPlan {
    file: Arc<ModelFile>,
    backend: Box<dyn Backend>,
    plan: PlanId,
    output: BufferId,
    stages: usize,
    /// Rows that are in one tile.
    group: usize,
    /// Nanoseconds for each row of a stage, once it was measured.
    row_cost: Option<f64>,
    /// Pages of the backend.
    pages: usize,
}

/// A batch in progress.
pub(crate) struct TiledJob {
    batch: Batch,
    stage: usize,
    /// Rows that have gone through the stage.
    done: usize,
}

impl TiledJob {
    /// Begins a batch.
    pub(crate) fn new(batch: Batch) -> Self {
        Self { batch, stage: 0, done: 0 }
    }
}

/// The error of a run.
fn failed(error: BackendError) -> GenerateError {
    GenerateError::Backend(error.to_string())
}

impl TiledPlan {
    /// Prepares a plan with output rows as its logits. Each `group` rows are in one tile.
    pub(crate) fn new(
        file: Arc<ModelFile>,
        mut backend: Box<dyn Backend>,
        plan: Plan,
        limits: Limits,
        group: usize,
    ) -> Result<Self, LoadError> {
        let (stages, output) = (plan.stages(), plan.logits.expect("every encoder has an output"));
        let plan = backend.prepare(plan, limits)?;
        Ok(Self { file, backend, plan, output, stages, group, row_cost: None, pages: 0 })
    }

    /// Grows the memory for keys and values to at least this number of pages.
    pub(crate) fn grow_pages(&mut self, pages: usize) -> Result<(), GenerateError> {
        if pages > self.pages {
            self.backend.grow_pages(pages).map_err(failed)?;
            self.pages = pages;
        }
        Ok(())
    }

    /// Computes the next tile, in about this time. Returns whether the batch is complete.
    pub(crate) fn run_tile(&mut self, job: &mut TiledJob, time: Duration) -> Result<bool, GenerateError> {
        let all = job.batch.rows.len();
        let possible = self.row_cost.map_or(MIN_ROWS, |cost| (time.as_nanos() as f64 / cost) as usize);
        let count = possible.max(MIN_ROWS).next_multiple_of(self.group);
        let rows = job.done..all.min(job.done + count);
        let tile = Tile { rows: rows.clone(), stage: job.stage };
        tracing::trace!(?tile, "encoding");
        job.batch.tile = Some(tile);
        let began = Instant::now();
        self.backend.run(self.plan, &job.batch).map_err(failed)?;
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        let cost = began.elapsed().as_nanos() as f64 / rows.len() as f64;
        self.row_cost = Some(self.row_cost.map_or(cost, |before| before + NEWEST * (cost - before)).max(1.0));
        (job.stage, job.done) = if rows.end == all { (job.stage + 1, 0) } else { (job.stage, rows.end) };
        Ok(job.stage == self.stages)
    }

    /// Reads the output of the last batch: `rows` rows.
    pub(crate) fn read(&self, rows: usize, out: &mut [f32]) {
        self.backend.read(self.plan, self.output, 0..rows, out);
    }
}
