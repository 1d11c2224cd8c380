//! The fast backend: kernels of one variant on all threads of a team.
//!
//! Weights are used in place, in the file's own blocks; only vectors (norms, biases) are copied, as f32. A prepared
//! plan owns all memory that a batch within its limits needs. A run is one region of the [`Team`]: every thread runs
//! the same phases, does its part of each, and waits at the schedule's barriers.
//!
//! | module | what |
//! |---|---|
//! | `schedule` | ops to phases, barriers, how work is split |
//! | `step` | one run on one thread: the ops that work row by row |
//! | `elements` | activations, element by element |
//! | `product` | matrix products |
//! | `experts` | routing, and the products of each expert with the rows that chose it |
//! | `expert_groups` | rows grouped by expert |
//! | `attention` | attention by spans |
//! | `heads` | latent attention: products, copies and stores by head |
//! | `blocks` | blocks of rows for attention |
//! | `conv` | convolutions along the tokens of a sequence |
//! | `prepared` | a plan with the memory for its batches |
//! | `pool` | pages |
//! | `snapshots` | snapshots of recurrent states |
//! | `taps` | weights of convolutions |
//! | `squares`, `add_squares` | sums of squared inputs, for importance matrices |
//! | `rates` | measured speed of products |
//! | `select` | which variants this machine can run |
//!
//! **Invariant:** work is split only between independent parts: weight rows, batch rows, elements, or spans of 256
//! positions that are merged in ascending order. So the bits of a row are independent of the other rows, the cuts of a
//! prompt and the number of threads.

mod add_squares;
mod attention;
mod blocks;
mod conv;
mod delta;
mod delta_scratch;
mod elements;
mod expert_groups;
mod experts;
mod heads;
mod mixing;
mod pictures;
mod pool;
mod prepared;
mod product;
mod rates;
mod router;
mod scan_scratch;
mod schedule;
mod select;
mod snapshots;
mod squares;
mod state_space;
mod step;
mod taps;

use std::ops::Range;
use std::sync::Arc;

use cairn_gguf::DType;
use cairn_kernels::Variant;
use parking_lot::Mutex;

use crate::backend::{Backend, BackendError, Caps, Limits};
use crate::batch::Batch;
use crate::check::{self, PoolSizes};
use crate::page::{Kv, PageId};
use crate::plan::{BufferId, Op, Plan, PlanId};
use crate::snapshot::SnapshotId;
use crate::state::{RecurrentId, StateId};
use crate::team::{Team, Worker};
use crate::weight::{Weight, WeightId};

use pool::Pool;
use prepared::PreparedPlan;
pub use rates::{ProductRates, RateWeights, measure_products};
pub use select::{VariantError, variants};
use snapshots::Snapshots;
use squares::OpSquares;
pub use squares::{InputSquares, MatrixSquares};
use step::{Run, Scratch, Step};

/// Incremented when this module, not a kernel, changes a bit of any result: angles, the order of merges.
const NUMERICS_REV: u32 = 1;

/// Up to this many rows, the ops of a step are so short that threads which wait for each other determine its time.
const SHORT_STEP_ROWS: usize = 16;

/// A model's weights, plans and pages on the CPU.
#[derive(Debug)]
pub struct Cpu {
    variant: &'static Variant,
    team: Arc<Team>,
    /// Type of keys and values in pages.
    kv_type: DType,
    weights: Vec<Weight>,
    /// By weight: the elements of vectors, `None` for matrices.
    vectors: Vec<Vec<f32>>,
    plans: Vec<PreparedPlan>,
    pool: Option<Pool>,
    snapshots: Snapshots,
    /// By thread. Locked by that thread for a run, so never contended.
    scratch: Vec<Mutex<Scratch>>,
}

impl Cpu {
    /// Creates a backend without weights, with pages in f16. The processor must be able to run `variant`: see
    /// [`variants`].
    pub fn new(variant: &'static Variant, team: Arc<Team>) -> Self {
        let scratch = (0..team.threads()).map(|_| Mutex::default()).collect();
        let kv_type = DType::F16;
        Self {
            variant,
            team,
            kv_type,
            weights: Vec::new(),
            vectors: Vec::new(),
            plans: Vec::new(),
            pool: None,
            snapshots: Snapshots::default(),
            scratch,
        }
    }

    /// Sets the type of pages, one of [`cairn_kernels::KV_TYPES`].
    ///
    /// # Panics
    /// For any other type, or after a plan was prepared, which fixes the layout of pages.
    #[must_use]
    pub fn with_kv_type(self, kv_type: DType) -> Self {
        assert!(cairn_kernels::KV_TYPES.contains(&kv_type), "{kv_type} is not a type of keys and values");
        assert!(self.pool.is_none(), "the layout of pages is fixed");
        Self { kv_type, ..self }
    }

    /// Starts to add up the squared inputs of all matrix products.
    pub fn collect_squares(&mut self) {
        self.scratch.iter_mut().for_each(|scratch| scratch.get_mut().squares = Some(OpSquares::new()));
    }

    /// Returns the sums of the weights of a plan, which were collected in its runs, and ends the collection.
    pub fn take_squares(&mut self, plan: PlanId) -> Vec<InputSquares> {
        let threads = self.scratch.iter_mut().filter_map(|scratch| scratch.get_mut().squares.take());
        let mut found: Vec<InputSquares> = Vec::new();
        for (op, matrices) in squares::join(threads) {
            let weights: Vec<WeightId> = match &self.plans[plan.0 as usize].plan.ops[op] {
                Op::MatMulHeads { weight, .. } => vec![*weight],
                op => op.product().into_iter().flat_map(|(_, projections)| projections).map(|one| one.weight).collect(),
            };
            for weight in weights {
                let name = &self.weights[weight.0 as usize].name;
                // Several weights can be parts of one tensor, with the same inputs.
                if found.iter().all(|squares| squares.name != *name) {
                    found.push(InputSquares { name: name.clone(), matrices: matrices.clone() });
                }
            }
        }
        found
    }
}

impl Backend for Cpu {
    fn caps(&self) -> Caps {
        Caps {
            backend: "cpu",
            variant: self.variant.name,
            numerics_rev: self.variant.numerics_rev * 1000 + NUMERICS_REV,
            kv_type: self.kv_type,
        }
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        check::weight(&weight)?;
        let mut vector = Vec::new();
        if weight.rows == 1 {
            vector.resize(weight.cols, 0.0);
            weight.dtype.decode(&weight.bytes, &mut vector);
        }
        self.vectors.push(vector);
        self.weights.push(weight);
        Ok(WeightId(self.weights.len() as u32 - 1))
    }

    fn prepare(&mut self, plan: Plan, limits: Limits) -> Result<PlanId, BackendError> {
        check::plan(&plan, &self.weights, self.kv_type)?;
        let layout = plan.page_layout(self.kv_type);
        check::layout(&plan, self.pool.as_ref().map(Pool::layout), &layout)?;
        let threads = self.team.threads();
        let prepared = PreparedPlan::new(plan, limits, &self.weights, threads)?;
        for scratch in &mut self.scratch {
            scratch.get_mut().fit(
                &prepared.plan,
                &self.weights,
                limits.rows.max(limits.logit_rows),
                prepared.block_rows,
            );
        }
        self.snapshots.set_layout(&layout.snapshot, threads);
        self.pool.get_or_insert_with(|| Pool::new(layout, threads));
        self.plans.push(prepared);
        Ok(PlanId(self.plans.len() as u32 - 1))
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        self.pool.as_mut().map_or(Ok(()), |pool| pool.grow(pages))
    }

    fn run(&mut self, plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        let Self { variant, team, weights, vectors, plans, pool, snapshots, scratch, .. } = self;
        let pool = pool.as_ref().expect("a plan was prepared, which makes the pool");
        let prepared = &mut plans[plan.0 as usize];
        let sizes = PoolSizes { pages: pool.pages(), snapshots: snapshots.len() };
        check::batch(batch, &prepared.plan, weights, prepared.limits, sizes)?;
        prepared.progress.begin_part(batch, &prepared.plan).map_err(BackendError::Batch)?;
        let (count, slice, tile) = (batch.rows.len(), batch.slice.as_ref(), batch.tile.as_ref());
        let rows = tile.map_or(0..count, |tile| tile.rows.clone());
        prepared.all_rows.read(batch, rows.clone(), prepared.block_rows);
        // Without a slice, all ops are over all rows. A tile has no rows beside it.
        prepared.other_rows.read(batch, slice.map_or(count, |slice| slice.rows)..count, prepared.block_rows);
        prepared.next.iter_mut().for_each(|next| *next.get_mut() = 0);
        let prepared = &*prepared;
        let ops = match (slice, tile) {
            (Some(slice), _) => prepared.plan.layer_ops(&slice.layers),
            (_, Some(tile)) => prepared.plan.stage_ops(tile.stage),
            _ => 0..usize::MAX,
        };
        let step = |rows| Step { variant, weights, vectors, prepared, pool, snapshots, batch, rows };
        let run = Run { all: step(&prepared.all_rows), others: step(&prepared.other_rows), slice_ops: ops };
        let work = |worker: &Worker<'_>| run.thread(worker, &scratch[worker.index()]);
        if rows.len() <= SHORT_STEP_ROWS {
            team.run_short(work)
        } else {
            team.run(work)
        }
        Ok(())
    }

    fn read(&self, plan: PlanId, buffer: BufferId, rows: Range<usize>, out: &mut [f32]) {
        let PreparedPlan { plan, buffers, .. } = &self.plans[plan.0 as usize];
        let width = plan.buffers[buffer.0 as usize].width;
        buffers[buffer.0 as usize].copy_to(rows.start * width..rows.end * width, out);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        self.pool.as_mut().expect("a page was made").copy(from, to, tokens);
    }

    fn read_section(&self, page: PageId, state: StateId, kv: Kv, out: &mut [u8]) {
        let pool = self.pool.as_ref().expect("a page was made");
        pool.read_bytes(page, pool.layout().section(state, kv), out);
    }

    fn write_section(&mut self, page: PageId, state: StateId, kv: Kv, bytes: &[u8]) {
        let pool = self.pool.as_mut().expect("a page was made");
        pool.write_bytes(page, pool.layout().section(state, kv), bytes);
    }

    fn read_page(&self, page: PageId, out: &mut [u8]) {
        let pool = self.pool.as_ref().expect("a page was made");
        pool.read_bytes(page, 0..pool.layout().page_bytes, out);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        let pool = self.pool.as_mut().expect("a page was made");
        pool.write_bytes(page, 0..pool.layout().page_bytes, bytes);
    }

    fn grow_snapshots(&mut self, snapshots: usize) -> Result<(), BackendError> {
        self.snapshots.grow(snapshots)
    }

    fn read_snapshot(&self, snapshot: SnapshotId, state: RecurrentId, out: &mut [u8]) {
        self.snapshots.read_bytes(snapshot, state, out);
    }

    fn write_snapshot(&mut self, snapshot: SnapshotId, state: RecurrentId, bytes: &[u8]) {
        self.snapshots.write_bytes(snapshot, state, bytes);
    }

    fn free_memory(&self) -> u64 {
        cairn_hardware::Machine::probe().memory.available_bytes
    }
}
