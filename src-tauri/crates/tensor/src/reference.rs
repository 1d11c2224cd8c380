//! The oracle: a scalar reference of every op.
//!
//! Sums, powers and trigonometry use f64. Results in buffers and pages are rounded to f32 once. Weights are decoded
//! row by row. The oracle shares no arithmetic with the CPU backend. If the two differ by more than rounding, the
//! oracle is right. It allocates freely and uses one thread, because clarity is more important than speed. Keys and
//! values are f32, unless another type is requested; then each row is encoded when it is written and decoded when it
//! is read.
//!
//! **Invariant:** a row's result depends only on its own sequence, because no sum spans two rows.

mod arithmetic;
mod conv;
mod delta;
mod experts;
mod heads;
mod mixing;
mod part_attention;
mod pictures;
mod recurrence;
mod state_space;
mod step;

use std::ops::Range;

use cairn_gguf::DType;

use self::step::Step;
use crate::backend::{Backend, BackendError, Caps, Limits};
use crate::batch::Batch;
use crate::check::{self, PoolSizes};
use crate::page::{Kv, PageId, PageLayout};
use crate::plan::{BufferId, Plan, PlanId, Rows};
use crate::slice::SliceProgress;
use crate::snapshot::SnapshotId;
use crate::state::{RecurrentId, StateId};
use crate::weight::{Weight, WeightId};

/// The scalar reference backend.
#[derive(Debug)]
pub struct Reference {
    /// Type of keys and values in pages.
    kv_type: DType,
    weights: Vec<Weight>,
    plans: Vec<PreparedPlan>,
    layout: Option<PageLayout>,
    /// `[pages]`, each in the order of the layout.
    pages: Vec<Vec<u8>>,
    /// `[snapshots]`, each in the order of the layout.
    snapshots: Vec<Vec<f32>>,
}

/// A plan and the buffers of its last run.
#[derive(Debug)]
struct PreparedPlan {
    plan: Plan,
    limits: Limits,
    /// By buffer: `[rows, width]`.
    buffers: Vec<Vec<f32>>,
    /// The same, of the rows of the slice in progress.
    slice: Vec<Vec<f32>>,
    progress: SliceProgress,
}

impl Reference {
    /// Creates an empty backend.
    pub fn new() -> Self {
        Self::with_kv_type(DType::F32)
    }

    /// Creates an empty backend with pages of this type, which must have an encoder.
    pub fn with_kv_type(kv_type: DType) -> Self {
        Self { kv_type, weights: Vec::new(), plans: Vec::new(), layout: None, pages: Vec::new(), snapshots: Vec::new() }
    }

    fn layout(&self) -> &PageLayout {
        self.layout.as_ref().expect("there are no pages before a plan")
    }
}

/// Makes a row for each row of the batch. Logits have rows of this run only; others keep their values unless the run is the first.
fn size_buffers(plan: &Plan, batch: &Batch, is_first: bool, buffers: &mut [Vec<f32>]) {
    for (buffer, shape) in buffers.iter_mut().zip(&plan.buffers) {
        let rows = match shape.rows {
            Rows::Batch => batch.rows.len(),
            Rows::Logits => batch.logit_rows(),
        };
        if is_first || shape.rows == Rows::Logits {
            buffer.clear();
        }
        buffer.resize(rows * shape.width, 0.0);
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Reference {
    fn caps(&self) -> Caps {
        Caps { backend: "reference", variant: "f64", numerics_rev: 1, kv_type: self.kv_type }
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        check::weight(&weight)?;
        self.weights.push(weight);
        Ok(WeightId(self.weights.len() as u32 - 1))
    }

    fn prepare(&mut self, plan: Plan, limits: Limits) -> Result<PlanId, BackendError> {
        check::plan(&plan, &self.weights, self.kv_type)?;
        let layout = plan.page_layout(self.kv_type);
        check::layout(&plan, self.layout.as_ref(), &layout)?;
        self.layout = Some(layout);
        let buffers = vec![Vec::new(); plan.buffers.len()];
        let (slice, progress) = (buffers.clone(), SliceProgress::default());
        self.plans.push(PreparedPlan { plan, limits, buffers, slice, progress });
        Ok(PlanId(self.plans.len() as u32 - 1))
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        let page_bytes = self.layout.as_ref().map_or(0, |layout| layout.page_bytes);
        while self.pages.len() < pages {
            let mut page = Vec::new();
            let need_bytes = ((pages - self.pages.len()) * page_bytes) as u64;
            let refused = |_| BackendError::Memory { what: "pages", need_bytes };
            page.try_reserve_exact(page_bytes).map_err(refused)?;
            page.resize(page_bytes, 0);
            self.pages.push(page);
        }
        Ok(())
    }

    fn run(&mut self, plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        let Self { weights, plans, layout, pages, snapshots, .. } = self;
        let PreparedPlan { plan, limits, buffers, slice, progress } = &mut plans[plan.0 as usize];
        let sizes = PoolSizes { pages: pages.len(), snapshots: snapshots.len() };
        check::batch(batch, plan, weights, *limits, sizes)?;
        progress.begin_part(batch, plan).map_err(BackendError::Batch)?;
        let layout = layout.as_ref().expect("prepare has set the layout");
        if let Some(tile) = &batch.tile {
            // A row depends on other rows by their keys and values only, so the rows of the tile can run alone.
            if (tile.stage, tile.rows.start) == (0, 0) {
                size_buffers(plan, batch, true, buffers);
            }
            let inside = Batch { rows: batch.rows[tile.rows.clone()].to_vec(), tile: None, ..batch.clone() };
            let first_logit_row = batch.rows[..tile.rows.start].iter().filter(|row| row.want_logits).count();
            let parts = plan.buffers.iter().map(|shape| {
                let first = if shape.rows == Rows::Batch { tile.rows.start } else { first_logit_row };
                let count = if shape.rows == Rows::Batch { inside.rows.len() } else { inside.logit_rows() };
                first * shape.width..(first + count) * shape.width
            });
            let parts: Vec<Range<usize>> = parts.collect();
            let mut own: Vec<Vec<f32>> =
                parts.iter().zip(&*buffers).map(|(part, all)| all[part.clone()].to_vec()).collect();
            let mut step = Step { plan, batch: &inside, weights, layout, pages, snapshots, buffers: &mut own };
            plan.ops[plan.stage_ops(tile.stage)].iter().for_each(|op| step.op(op));
            for ((part, all), own) in parts.into_iter().zip(buffers).zip(own) {
                all[part].copy_from_slice(&own);
            }
            return Ok(());
        }
        let mut run = |batch: &Batch, ops: Range<usize>, buffers: &mut [Vec<f32>]| {
            size_buffers(plan, batch, ops.start == 0, buffers);
            let mut step = Step { plan, batch, weights, layout, pages, snapshots, buffers };
            plan.ops[ops].iter().for_each(|op| step.op(op));
        };
        let Some(part) = &batch.slice else {
            run(batch, 0..plan.ops.len(), buffers);
            return Ok(());
        };
        // Rows depend on their own sequence only, so the slice can run alone.
        let [inside, others] = [0..part.rows, part.rows..batch.rows.len()].map(|rows| Batch {
            rows: batch.rows[rows].to_vec(),
            slice: None,
            ..batch.clone()
        });
        run(&inside, plan.layer_ops(&part.layers), slice);
        run(&others, 0..plan.ops.len(), buffers);
        for (buffer, slice) in buffers.iter_mut().zip(slice) {
            buffer.splice(0..0, slice.iter().copied());
        }
        Ok(())
    }

    fn read(&self, plan: PlanId, buffer: BufferId, rows: Range<usize>, out: &mut [f32]) {
        let PreparedPlan { plan, buffers, .. } = &self.plans[plan.0 as usize];
        let width = plan.buffers[buffer.0 as usize].width;
        out.copy_from_slice(&buffers[buffer.0 as usize][rows.start * width..rows.end * width]);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        let source = self.pages[from.0 as usize].clone();
        let target = &mut self.pages[to.0 as usize];
        let layout = self.layout.as_ref().expect("there are no pages before a plan");
        for range in layout.slots(0..tokens) {
            target[range.clone()].copy_from_slice(&source[range]);
        }
    }

    fn read_section(&self, page: PageId, state: StateId, kv: Kv, out: &mut [u8]) {
        out.copy_from_slice(&self.pages[page.0 as usize][self.layout().section(state, kv)]);
    }

    fn write_section(&mut self, page: PageId, state: StateId, kv: Kv, bytes: &[u8]) {
        let section = self.layout().section(state, kv);
        self.pages[page.0 as usize][section].copy_from_slice(bytes);
    }

    fn read_page(&self, page: PageId, out: &mut [u8]) {
        out.copy_from_slice(&self.pages[page.0 as usize]);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.pages[page.0 as usize].copy_from_slice(bytes);
    }

    fn grow_snapshots(&mut self, snapshots: usize) -> Result<(), BackendError> {
        let elements = self.layout().snapshot.bytes / size_of::<f32>();
        self.snapshots.resize(self.snapshots.len().max(snapshots), vec![0.0; elements]);
        Ok(())
    }

    fn read_snapshot(&self, snapshot: SnapshotId, state: RecurrentId, out: &mut [u8]) {
        let elements = &self.snapshots[snapshot.0 as usize][self.layout().snapshot.elements(state)];
        out.copy_from_slice(&elements.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    }

    fn write_snapshot(&mut self, snapshot: SnapshotId, state: RecurrentId, bytes: &[u8]) {
        let elements = self.layout().snapshot.elements(state);
        let values = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        self.snapshots[snapshot.0 as usize][elements].iter_mut().zip(values).for_each(|(x, value)| *x = value);
    }

    fn free_memory(&self) -> u64 {
        cairn_hardware::Machine::probe().memory.available_bytes
    }
}
