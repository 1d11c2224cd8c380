//! The encoder of pictures: a vision tower on a backend of its own, which computes in parts.
//!
//! A tower takes as long as some thousand tokens of a prompt, so it does not compute a picture in one run: see [`TiledPlan`]. Output rows
//! of the last pictures are kept, so that a picture is not encoded again when the text before it changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cairn_models::{ModelFile, Tower, TowerHparams};
use cairn_tensor::{Backend, Batch};

use crate::error::LoadError;
use crate::picture::{PictureId, PictureRows, PromptPicture, TowerIdentity};
use crate::request::GenerateError;
use crate::tiled::{TiledJob, TiledPlan};

/// Most bytes of kept output rows: some 25 pictures of a model with 2,560 elements in a row.
const KEPT_BYTES: usize = 64 << 20;

/// Encoder of the pictures of one model.
pub(crate) struct PictureEncoder {
    tower: TiledPlan,
    hparams: TowerHparams,
    identity: TowerIdentity,
    /// The picture in progress.
    job: Option<(PictureId, TiledJob)>,
    /// Output rows of the last pictures, the latest last.
    kept: VecDeque<(PictureId, PictureRows)>,
}

impl PictureEncoder {
    /// Prepares the plan of a tower.
    pub(crate) fn new(
        file: Arc<ModelFile>,
        backend: Box<dyn Backend>,
        tower: Tower,
        identity: TowerIdentity,
    ) -> Result<Self, LoadError> {
        let Tower { plan, hparams } = tower;
        let tower = TiledPlan::new(file, backend, plan, hparams.limits(), hparams.group_patches())?;
        Ok(Self { tower, hparams, identity, job: None, kept: VecDeque::new() })
    }

    /// Shape of the tower.
    pub(crate) fn hparams(&self) -> &TowerHparams {
        &self.hparams
    }

    /// What identifies its rows.
    pub(crate) fn identity(&self) -> TowerIdentity {
        self.identity
    }

    /// The output rows of a picture, if they are kept for its scope.
    pub(crate) fn kept(&mut self, id: &PictureId) -> Option<PictureRows> {
        let id = id.shared();
        let at = self.kept.iter().position(|(kept, _)| *kept == id)?;
        let found = self.kept.remove(at)?;
        let rows = Arc::clone(&found.1);
        self.kept.push_back(found);
        Some(rows)
    }

    /// The picture in progress.
    pub(crate) fn in_progress(&self) -> Option<&PictureId> {
        self.job.as_ref().map(|(id, _)| id)
    }

    /// Keeps these output rows of a picture, unless its request leaves nothing.
    pub(crate) fn keep(&mut self, id: PictureId, rows: PictureRows) {
        if !id.can_be_kept() {
            return;
        }
        let most = (KEPT_BYTES / size_of_val(&*rows).max(1)).max(1);
        self.kept.retain(|(kept, _)| *kept != id);
        while self.kept.len() >= most {
            self.kept.pop_front();
        }
        self.kept.push_back((id, rows));
    }

    /// Drops the kept output rows and the picture in progress.
    pub(crate) fn forget(&mut self) {
        self.kept.clear();
        self.job = None;
    }

    /// Computes a part of a picture in about this time. Returns its output rows when it is complete. Another picture in progress is
    /// abandoned.
    pub(crate) fn encode_some(
        &mut self,
        picture: &PromptPicture,
        id: &PictureId,
        time: Duration,
    ) -> Result<Option<PictureRows>, GenerateError> {
        self.tower.grow_pages(self.hparams.pages())?;
        let (_, job) = match self.job.take().filter(|(of, _)| of == id) {
            Some(job) => self.job.insert(job),
            None => {
                let batch = self.hparams.batch(picture.layout().grid);
                let batch = Batch { embeddings: self.hparams.unfold(picture.pixels()), ..batch };
                self.job.insert((id.clone(), TiledJob::new(batch)))
            }
        };
        if !self.tower.run_tile(job, time)? {
            return Ok(None);
        }
        self.job = None;
        let (groups, width) = (picture.layout().grid.groups(), self.hparams.output_length);
        let mut values = vec![0.0; groups * width];
        self.tower.read(groups, &mut values);
        Ok(Some(self.hparams.in_order(&values, picture.layout()).into()))
    }
}
