//! Layered prefill (Lee et al., arXiv 2510.08055): rows that go through the layers in several runs.
//!
//! A step that computes answers has little time for a prompt. Few prompt rows through all layers would read every weight, and all
//! earlier keys and values, for these few. A slice takes many rows through few layers instead, and the next runs take them through the
//! others. Rows that are not in the slice go through all layers of each run.
//!
//! Results of the slice's rows stay in the plan's buffers between the runs, so only one slice can be in progress.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::batch::{Batch, Row};
use crate::snapshot::SnapshotTable;

/// How far the slice of the last run has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceProgress {
    /// Hash of the rows of the slice.
    rows: u64,
    /// The next layer of the slice; 0 if the last run completed its slice, or had none.
    next_layer: usize,
}

impl SliceProgress {
    /// Checks the slice of a batch for a plan with this many layers, and records the run.
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
            *self = Self { rows, next_layer: slice.layers.end };
        }
        Ok(())
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
