//! Layered prefill (Lee et al., arXiv 2510.08055): rows that go through the layers in several runs.
//!
//! A step that computes answers has little time for a prompt. Few prompt rows through all layers would read every weight, and all
//! earlier keys and values, for these few. A slice takes many rows through few layers instead, and the next runs take them through the
//! others. Rows that are not in the slice go through all layers of each run.
//!
//! Results of the slice's rows stay in the plan's buffers between the runs, so only one slice can be in progress.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::batch::{Batch, Row, Tile};
use crate::plan::Plan;
use crate::snapshot::SnapshotTable;

/// How far the slice of the last run has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceProgress {
    /// Hash of the rows of the slice.
    rows: u64,
    /// The next layer of the slice; 0 if the last run completed its slice, or had none.
    next_layer: usize,
    /// The last run's tile, if it had one, and the hash of its batch's rows.
    tile: Option<(Tile, u64)>,
}

impl SliceProgress {
    /// Checks the tile or the slice of a batch, and records the run.
    ///
    /// # Errors
    /// The reason why the tile or the slice is impossible.
    pub(crate) fn begin_part(&mut self, batch: &Batch, plan: &Plan) -> Result<(), String> {
        let Some(tile) = &batch.tile else { return self.begin_run(batch, plan.layers()) };
        let hash = std::mem::take(self).check_tile(batch, tile, plan)?;
        self.tile = Some((tile.clone(), hash));
        Ok(())
    }

    /// Checks the slice of a batch without a tile, for a plan with this many layers, and records the run.
    ///
    /// # Errors
    /// The reason why the slice is impossible.
    pub fn begin_run(&mut self, batch: &Batch, layers: usize) -> Result<(), String> {
        let before = std::mem::take(self);
        let Some(slice) = &batch.slice else { return Ok(()) };
        let Some((inside, outside)) = batch.rows.split_at_checked(slice.rows) else {
            return Err(format!("the slice has {} rows, the batch has {}", slice.rows, batch.rows.len()));
        };
        if slice.layers.is_empty() || slice.layers.end > layers {
            return Err(format!("the slice has the layers {:?} of {layers}", slice.layers));
        }
        let rows = hash(inside, &batch.snapshots);
        if slice.layers.start > 0 && (rows, slice.layers.start) != (before.rows, before.next_layer) {
            return Err(format!("{slice:?} does not continue the slice of the last run"));
        }
        let last = inside.iter().map(|row| row.seq).max();
        if let Some(row) = outside.iter().find(|row| Some(row.seq) <= last) {
            return Err(format!(
                "a row of sequence {} is behind the slice, which has sequences up to {last:?}",
                row.seq
            ));
        }
        let is_complete = slice.layers.end == layers;
        if !is_complete && inside.iter().any(|row| row.want_logits) {
            return Err(format!("logits of the slice are wanted before its last layer: {slice:?} of {layers}"));
        }
        if !is_complete {
            *self = Self { rows, next_layer: slice.layers.end, tile: None };
        }
        Ok(())
    }

    /// Checks that a tile continues the last run. Returns the hash of the batch's rows.
    fn check_tile(self, batch: &Batch, tile: &Tile, plan: &Plan) -> Result<u64, String> {
        let (rows, stages) = (batch.rows.len(), plan.stages());
        let Tile { rows: inside, stage } = tile;
        if inside.is_empty() || inside.end > rows || *stage >= stages || batch.slice.is_some() {
            return Err(format!("{tile:?} is no part of {rows} rows in {stages} stages without a slice"));
        }
        if *inside != (0..rows) && !plan.has_alternating_states() {
            return Err("a tile has some of the rows, but adjacent layers share keys and values".to_owned());
        }
        if !plan.recurrent.is_empty() {
            return Err("a tile of a plan with recurrent states would skip the rows before it".to_owned());
        }
        let mut hasher = DefaultHasher::new();
        batch.rows.hash(&mut hasher);
        let hash = hasher.finish();
        let is_next = match self.tile {
            _ if (*stage, inside.start) == (0, 0) => true,
            Some((before, same)) if before.rows.end < rows => {
                (hash, *stage, inside.start) == (same, before.stage, before.rows.end)
            }
            Some((before, same)) => (hash, *stage, inside.start) == (same, before.stage + 1, 0),
            None => false,
        };
        if !is_next {
            return Err(format!("{tile:?} does not continue the tile of the last run"));
        }
        // Otherwise a group of rows would be in two runs.
        let has_split_group = |start: usize| start > 0 && !batch.rows[start - 1].want_logits;
        if *stage + 1 == stages && has_split_group(inside.start) {
            return Err(format!("{tile:?} begins behind a row without logits in the last stage"));
        }
        Ok(hash)
    }
}

/// Hash of rows and of their snapshots. Logits of the rows are wanted in the last run of a slice only.
fn hash(rows: &[Row], snapshots: &[SnapshotTable]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let sequences = rows.iter().map(|row| row.seq as usize + 1).max().unwrap_or(0);
    snapshots[..sequences.min(snapshots.len())].hash(&mut hasher);
    rows.iter().for_each(|row| Row { want_logits: false, ..*row }.hash(&mut hasher));
    hasher.finish()
}
