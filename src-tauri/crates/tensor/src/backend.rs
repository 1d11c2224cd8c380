//! The interface between models and devices.

use std::ops::Range;

use cairn_gguf::DType;

use crate::batch::Batch;
use crate::page::{Kv, PageId};
use crate::plan::{BufferId, Plan, PlanId};
use crate::snapshot::SnapshotId;
use crate::state::{RecurrentId, StateId};
use crate::weight::{Weight, WeightId};

/// Properties of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// "cpu" or "reference".
    pub backend: &'static str,
    /// The kernel variant in use, such as "avx512-vnni".
    pub variant: &'static str,
    /// Revision of the arithmetic. Rows of another (backend, variant, revision) are never mixed in.
    pub numerics_rev: u32,
    /// Type of keys and values in pages.
    pub kv_type: DType,
}

/// Largest batch of a prepared plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows.
    pub rows: usize,
    /// Rows whose logits are computed.
    pub logit_rows: usize,
}

/// Why a backend refused a call.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The size of a weight differs from its shape.
    #[error("{name}: {rows} x {cols} of {dtype} needs {need} bytes, but has {have}")]
    WeightSize {
        /// Tensor name.
        name: String,
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Type name.
        dtype: &'static str,
        /// Bytes that the shape needs.
        need: usize,
        /// Bytes given.
        have: usize,
    },
    /// A step does not fit its buffers or weights.
    #[error("step {step} of the plan: {why}")]
    Plan {
        /// Index of the op.
        step: usize,
        /// The reason.
        why: String,
    },
    /// A batch exceeds the limits, the pages or the vocabulary.
    #[error("batch: {0}")]
    Batch(String),
    /// An allocation for pages or buffers failed.
    #[error("cannot allocate {need_bytes} bytes for {what}")]
    Memory {
        /// Purpose of the memory.
        what: &'static str,
        /// Bytes requested.
        need_bytes: u64,
    },
}

/// A device, or a way of computing, that runs plans. One instance serves one loaded model; host slices exist only
/// behind [`Backend::upload`], [`Backend::read`] and the page copies.
pub trait Backend: Send + Sync {
    /// Returns the properties of this backend.
    fn caps(&self) -> Caps;

    /// Uploads a weight. Host-memory backends keep a reference to its bytes and copy only vectors.
    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError>;

    /// Checks a plan against the uploaded weights and sets up its buffers for batches within `limits`, so that a run
    /// allocates nothing. The plan's states fix the page layout; the pool starts empty.
    fn prepare(&mut self, plan: Plan, limits: Limits) -> Result<PlanId, BackendError>;

    /// Grows the page pool to at least this size. New pages get the next ids.
    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError>;

    /// Runs a prepared plan.
    fn run(&mut self, plan: PlanId, batch: &Batch) -> Result<(), BackendError>;

    /// Reads rows of a buffer after a run: `out` receives `[rows.len(), width]`. Several threads may read at the same time.
    fn read(&self, plan: PlanId, buffer: BufferId, rows: Range<usize>, out: &mut [f32]);

    /// Copies the first `tokens` slots of a page to another, in all layers.
    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize);

    /// Reads a state's keys, or values, in a page: the bytes of [`crate::PageLayout::section`].
    fn read_section(&self, page: PageId, state: StateId, kv: Kv, out: &mut [u8]);

    /// Writes a state's keys, or values, in a page, in one copy where the pages are in this machine's memory.
    fn write_section(&mut self, page: PageId, state: StateId, kv: Kv, bytes: &[u8]);

    /// Reads a page's bytes in the order of [`crate::PageLayout`].
    fn read_page(&self, page: PageId, out: &mut [u8]);

    /// Writes a page's bytes in the order of [`crate::PageLayout`].
    fn write_page(&mut self, page: PageId, bytes: &[u8]);

    /// Grows the pool of snapshots to at least this number. New snapshots get the next ids.
    fn grow_snapshots(&mut self, snapshots: usize) -> Result<(), BackendError>;

    /// Reads one state of a snapshot: the bytes of its section, see [`crate::SnapshotLayout`].
    fn read_snapshot(&self, snapshot: SnapshotId, state: RecurrentId, out: &mut [u8]);

    /// Writes one state of a snapshot.
    fn write_snapshot(&mut self, snapshot: SnapshotId, state: RecurrentId, bytes: &[u8]);

    /// Returns the bytes available for weights and pages.
    fn free_memory(&self) -> u64;
}
