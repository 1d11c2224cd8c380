//! Plans of forward passes, and the backends that run them.
//!
//! A family's `forward` writes its steps once into a [`Plan`] over [`BufferId`]s; a [`Backend`] uploads the weights,
//! prepares the plan and runs it for one [`Batch`] of rows after another. There are two backends: the fast CPU one and
//! [`mod@reference`], a scalar oracle in f64 that shares no code with it.
//!
//! **Invariant:** a row's result is independent of the other rows, the cuts of a prompt into batches, and
//! the number of threads. Caches rely on this when they restore rows.

pub mod backend;
pub mod batch;
mod buffer;
mod check;
pub mod cpu;
pub mod delta;
mod grid;
mod op;
pub mod page;
pub mod part_attention;
pub mod plan;
pub mod reference;
pub mod rope;
mod router;
pub mod slice;
pub mod snapshot;
pub mod state;
pub mod state_space;
pub mod team;
pub mod weight;

pub use backend::{Backend, BackendError, Caps, Limits};
pub use batch::{AdapterUse, Batch, Input, Row, Slice, Tile};
pub use check::check_plan;
pub use cpu::Cpu;
pub use delta::{DeltaRule, KeySharing};
pub use page::{Kv, PAGE_TOKENS, PageId, PageLayout, UnevenHead};
pub use part_attention::{DistanceBias, Part, PartAttention};
pub use plan::{BufferId, Glu, Growth, HeadPart, Op, Plan, PlanId, Projection, Rope, RopeStyle, Rows};
pub use reference::Reference;
pub use router::{ExpertGroups, Gating, Router};
pub use slice::SliceProgress;
pub use snapshot::{SnapshotId, SnapshotLayout, SnapshotTable};
pub use state::{Recurrent, RecurrentId, State, StateId, StateKind, Values};
pub use state_space::StateSpace;
pub use team::{Team, Worker};
pub use weight::{Bytes, Weight, WeightId};
