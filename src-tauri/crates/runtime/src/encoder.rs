//! The encoder of pictures: a vision tower on a backend of its own, which computes in parts.
//!
//! A tower takes as long as some thousand tokens of a prompt, so it does not compute a picture in one run. A [`Tile`] is as large as
//! the time that the scheduler has. Output rows of the last pictures are kept, so that a picture is not encoded again when the text
//! before it changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_image::PixelDigest;
use cairn_models::{ModelFile, Tower, TowerHparams};
use cairn_tensor::{Backend, BackendError, Batch, BufferId, PlanId, Tile};

use crate::error::LoadError;
use crate::picture::{PictureRows, PromptPicture, TowerIdentity};
use crate::request::GenerateError;

/// Most bytes of kept output rows: some 25 pictures of a model with 2,560 elements in a row.
const KEPT_BYTES: usize = 64 << 20;
/// Least patches of a tile. Fewer would read the weights too often.
const MIN_ROWS: usize = 64;
/// Weight of the newest measurement of the cost of a patch.
const NEWEST: f64 = 0.25;

/// Encoder of the pictures of one model.
pub(crate) struct PictureEncoder {
    file: Arc<ModelFile>,
    backend: Box<dyn Backend>,
    plan: PlanId,
    output: BufferId,
    stages: usize,
    hparams: TowerHparams,
    identity: TowerIdentity,
    /// The picture in progress.
    job: Option<Job>,
    /// Output rows of the last pictures, the latest last.
    kept: VecDeque<(PixelDigest, PictureRows)>,
    /// Nanoseconds for each patch of a stage, once it was measured.
    patch_cost: Option<f64>,
    has_pages: bool,
}

/// A picture in progress.
struct Job {
    digest: PixelDigest,
    batch: Batch,
    stage: usize,
    /// Patches that have gone through the stage.
    done: usize,
}

impl PictureEncoder {
    /// Prepares the plan of a tower.
    pub(crate) fn new(
        file: Arc<ModelFile>,
        mut backend: Box<dyn Backend>,
        tower: Tower,
        identity: TowerIdentity,
    ) -> Result<Self, LoadError> {
        let Tower { plan, hparams } = tower;
        let (stages, output) = (plan.stages(), plan.logits.expect("every tower has an output"));
        let plan = backend.prepare(plan, hparams.limits())?;
        Ok(Self {
            file,
            backend,
            plan,
            output,
            stages,
            hparams,
            identity,
            job: None,
            kept: VecDeque::new(),
            patch_cost: None,
            has_pages: false,
        })
    }

    /// Shape of the tower.
    pub(crate) fn hparams(&self) -> &TowerHparams {
        &self.hparams
    }

    /// What identifies its rows.
    pub(crate) fn identity(&self) -> &TowerIdentity {
        &self.identity
    }

    /// The output rows of a picture, if they are kept.
    pub(crate) fn kept(&mut self, digest: &PixelDigest) -> Option<PictureRows> {
        let at = self.kept.iter().position(|(kept, _)| kept == digest)?;
        let found = self.kept.remove(at)?;
        let rows = Arc::clone(&found.1);
        self.kept.push_back(found);
        Some(rows)
    }

    /// The picture in progress.
    pub(crate) fn in_progress(&self) -> Option<&PixelDigest> {
        self.job.as_ref().map(|job| &job.digest)
    }

    /// Computes a part of a picture in about this time. Returns its output rows when it is complete. Another picture in progress is
    /// abandoned.
    pub(crate) fn encode_some(
        &mut self,
        picture: &PromptPicture,
        time: Duration,
    ) -> Result<Option<PictureRows>, GenerateError> {
        let failed = |error: BackendError| GenerateError::Backend(error.to_string());
        if !self.has_pages {
            self.backend.grow_pages(self.hparams.pages()).map_err(failed)?;
            self.has_pages = true;
        }
        let job = match self.job.take().filter(|job| job.digest == picture.digest) {
            Some(job) => self.job.insert(job),
            None => {
                let batch =
                    Batch { embeddings: self.hparams.unfold(&picture.pixels), ..self.hparams.batch(picture.grid()) };
                self.job.insert(Job { digest: picture.digest, batch, stage: 0, done: 0 })
            }
        };
        let patches = job.batch.rows.len();
        let possible = self.patch_cost.map_or(MIN_ROWS, |cost| (time.as_nanos() as f64 / cost) as usize);
        // The rows of a group are in one tile.
        let group = self.hparams.group_patches();
        let count = possible.max(MIN_ROWS).next_multiple_of(group);
        let rows = job.done..patches.min(job.done + count);
        let tile = Tile { rows: rows.clone(), stage: job.stage };
        tracing::trace!(?tile, "encoding a picture");
        job.batch.tile = Some(tile);
        let began = Instant::now();
        self.backend.run(self.plan, &job.batch).map_err(failed)?;
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        let cost = began.elapsed().as_nanos() as f64 / rows.len() as f64;
        self.patch_cost = Some(self.patch_cost.map_or(cost, |before| before + NEWEST * (cost - before)).max(1.0));
        (job.stage, job.done) = if rows.end == patches { (job.stage + 1, 0) } else { (job.stage, rows.end) };
        if job.stage < self.stages {
            return Ok(None);
        }
        let digest = job.digest;
        self.job = None;
        let (rows, width) = (picture.rows(), self.hparams.output_length);
        let mut values = vec![0.0; rows * width];
        self.backend.read(self.plan, self.output, 0..rows, &mut values);
        let rows: PictureRows = self.hparams.in_order(values, picture.grid()).into();
        self.keep(digest, Arc::clone(&rows));
        Ok(Some(rows))
    }

    fn keep(&mut self, digest: PixelDigest, rows: PictureRows) {
        let most = (KEPT_BYTES / size_of_val(&*rows).max(1)).max(1);
        self.kept.retain(|(kept, _)| *kept != digest);
        while self.kept.len() >= most {
            self.kept.pop_front();
        }
        self.kept.push_back((digest, rows));
    }
}
