//! Prepared plans: a schedule and the memory for its batches.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_kernels::Format;

use super::blocks::{self, Block};
use super::schedule::{self, Phase};
use super::taps::taps;
use crate::backend::{BackendError, Limits};
use crate::batch::Batch;
use crate::part_attention::{DistanceBias, PartAttention, by_distance};
use crate::plan::{Op, Plan, Rows};
use crate::slice::SliceProgress;
use crate::team::share::{OutOfMemory, Plain, Shared};
use crate::weight::Weight;

/// A plan with the memory for its batches.
#[derive(Debug)]
pub(super) struct PreparedPlan {
    pub(super) plan: Plan,
    pub(super) limits: Limits,
    pub(super) phases: Vec<Phase>,
    /// By phase: the next task that no thread has taken, if threads take tasks dynamically.
    pub(super) next: Vec<AtomicUsize>,
    /// By buffer: `[rows, width]`.
    pub(super) buffers: Vec<Shared<f32>>,
    /// Converted activations of the op in progress, one column after the other.
    pub(super) columns: Vec<(Format, Shared<u8>)>,
    /// By rotation: `[rows, cosines then sines]`.
    pub(super) angles: Vec<Shared<f32>>,
    /// By recurrent state: the weight of its convolution, `[kernel, width]`.
    pub(super) taps: Vec<Vec<f32>>,
    /// The biases of attention by head and distance.
    biases: Vec<(DistanceBias, Vec<f32>)>,
    /// Softmax over single spans, before they are merged.
    pub(super) partials: Shared<f32>,
    /// Batch rows that attention takes together, at most.
    pub(super) block_rows: usize,
    /// All rows of the current batch.
    pub(super) all_rows: BatchRows,
    /// The rows behind the slice of the current batch, for the layers in which it does not take part.
    pub(super) other_rows: BatchRows,
    pub(super) progress: SliceProgress,
}

/// Adjacent rows of a batch, as the phases need them.
#[derive(Debug, Default)]
pub(super) struct BatchRows {
    pub(super) range: Range<usize>,
    /// Number of rows with logits before the range.
    pub(super) first_logit_row: usize,
    /// Batch rows whose logits are computed.
    pub(super) logit_rows: Vec<usize>,
    /// Rows of one sequence that attention takes together.
    pub(super) blocks: Vec<Block>,
}

/// Allocates memory for a plan.
fn buffer<T: Plain>(rows: usize, width: usize, threads: usize) -> Result<Shared<T>, BackendError> {
    let refused = |OutOfMemory(need_bytes)| BackendError::Memory { what: "activations", need_bytes };
    Shared::zeroed(rows, width, threads).map_err(refused)
}

impl PreparedPlan {
    /// Schedules a checked plan and allocates its memory.
    pub(super) fn new(plan: Plan, limits: Limits, weights: &[Weight], threads: usize) -> Result<Self, BackendError> {
        let phases = schedule::phases(&plan, weights);
        let rows = |rows: Rows| match rows {
            Rows::Batch => limits.rows,
            Rows::Logits => limits.logit_rows,
        };
        let shapes = plan.buffers.iter();
        let buffers: Result<_, _> = shapes.map(|shape| buffer(rows(shape.rows), shape.width, threads)).collect();
        // Per format: the most bytes that the columns of any product have.
        let mut largest: Vec<(Format, usize)> = Vec::new();
        for op in &plan.ops {
            let (x, weight, parts) = match op {
                Op::MatMulHeads { from, weight, .. } => (from.buffer, *weight, Some(from.heads)),
                op => match op.product() {
                    Some((x, projections)) => (x, projections[0].weight, None),
                    None => continue,
                },
            };
            let (shape, k) = (plan.buffers[x.0 as usize], weights[weight.0 as usize].cols);
            let parts = parts.unwrap_or(shape.width / k);
            for format in schedule::formats(op, weights) {
                let bytes = rows(shape.rows).saturating_mul(parts).saturating_mul(format.column_bytes(k));
                match largest.iter_mut().find(|(earlier, _)| *earlier == format) {
                    Some((_, most)) => *most = bytes.max(*most),
                    None => largest.push((format, bytes)),
                }
            }
        }
        let columns = largest.into_iter().map(|(format, bytes)| Ok((format, buffer(1, bytes, threads)?)));
        let columns: Result<_, BackendError> = columns.collect();
        let ropes = plan.ropes.iter();
        let angles: Result<_, _> =
            ropes.map(|rope| buffer(limits.rows, 2 * rope.inverse_frequencies.len(), threads)).collect();
        let block_rows = blocks::block_rows(&plan);
        let partials = buffer(1, blocks::partial_elements(&plan, block_rows, threads), threads)?;
        let taps = taps(&plan, weights);
        let biases = biases(&plan, weights);
        let next = phases.iter().map(|_| AtomicUsize::new(0)).collect();
        let (buffers, columns, angles) = (buffers?, columns?, angles?);
        let [all_rows, other_rows] = [(); 2].map(|()| BatchRows::within(limits));
        let progress = SliceProgress::default();
        Ok(Self {
            plan,
            limits,
            phases,
            next,
            buffers,
            columns,
            angles,
            taps,
            biases,
            partials,
            block_rows,
            all_rows,
            other_rows,
            progress,
        })
    }

    /// The biases of an op by head and distance.
    pub(super) fn biases(&self, bias: DistanceBias) -> &[f32] {
        let found = self.biases.iter().find(|(prepared, _)| *prepared == bias);
        &found.expect("all biases of the plan are prepared").1
    }

    /// Returns the next of `count` tasks of a phase; `None` if all are taken.
    pub(super) fn take(&self, phase: usize, count: usize) -> Option<usize> {
        let task = self.next[phase].fetch_add(1, Ordering::Relaxed);
        (task < count).then_some(task)
    }
}

/// The biases of all attention ops, each table once for each direction.
fn biases(plan: &Plan, weights: &[Weight]) -> Vec<(DistanceBias, Vec<f32>)> {
    let mut all: Vec<(DistanceBias, Vec<f32>)> = Vec::new();
    for op in &plan.ops {
        let Op::PartAttention(PartAttention { bias: Some(bias), heads, .. }) = op else { continue };
        if all.iter().all(|(prepared, _)| prepared != bias) {
            let Weight { dtype, rows, cols, bytes, .. } = &weights[bias.table.0 as usize];
            let mut table = vec![0.0; rows * cols];
            dtype.decode(bytes, &mut table);
            all.push((*bias, by_distance(*bias, &table, *heads)));
        }
    }
    all
}

impl BatchRows {
    fn within(limits: Limits) -> Self {
        let (logit_rows, blocks) = (Vec::with_capacity(limits.logit_rows), Vec::with_capacity(limits.rows));
        Self { range: 0..0, first_logit_row: 0, logit_rows, blocks }
    }

    /// Reads rows of a batch. Does not allocate for a batch within the limits.
    pub(super) fn read(&mut self, batch: &Batch, range: Range<usize>, block_rows: usize) {
        self.range = range.clone();
        self.first_logit_row = batch.rows[..range.start].iter().filter(|row| row.want_logits).count();
        self.logit_rows.clear();
        self.logit_rows.extend(range.clone().filter(|row| batch.rows[*row].want_logits));
        self.blocks.clear();
        for (index, row) in range.clone().zip(&batch.rows[range]) {
            match self.blocks.last_mut() {
                Some(block) if block.seq == row.seq && block.rows.len() < block_rows => block.extend(row),
                _ => self.blocks.push(Block::new(index, row)),
            }
        }
    }
}
