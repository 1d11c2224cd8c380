//! Splits the ops of a plan into phases, with barriers between them.
//!
//! A phase splits its work over the threads either evenly by rows or in another way. Two phases that access the same
//! memory, one of them writing, need a barrier between them, unless both split by the same rows: then each thread only
//! accesses its own results. So a chain of norm, rotation and store over a row needs no barrier. In decode, where one
//! row belongs to one thread, the other threads go straight to the next barrier.

use std::ops::Range;

use cairn_kernels::Format;

use crate::delta::DeltaRule;
use crate::part_attention::PartAttention;
use crate::plan::{BufferId, Op, Plan, Rows};
use crate::state_space::StateSpace;
use crate::weight::Weight;

/// Work is cut at multiples of this number of weight rows.
pub(super) const GROUP: usize = 16;
/// Maximum number of weight rows that are multiplied with several columns at once.
pub(super) const STRIP: usize = 64;

/// A part of a plan without a barrier inside, except where its own work has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    /// Whether a barrier precedes it.
    pub(super) barrier: bool,
    /// Work of the phase.
    pub(super) work: Work,
}

/// Work of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Sines and cosines of a rotation for all rows.
    Angles {
        /// Index into the plan's rotations.
        rope: usize,
    },
    /// Converts the input of a product.
    Convert {
        /// Index of the op.
        op: usize,
        /// Activation format that the product needs.
        format: Format,
    },
    /// An op; for a product, all but the conversion.
    Op {
        /// Index of the op.
        op: usize,
    },
}

/// Memory that phases share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Buffer(BufferId),
    Columns(Format),
    Angles(usize),
    Pages,
    Partials,
}

/// Access of a phase to shared memory.
#[derive(Clone, Copy, Debug)]
struct Access {
    place: Place,
    writes: bool,
    /// The rows that are split evenly over the threads, if the work is split by rows.
    rows: Option<Rows>,
}

impl Access {
    fn conflicts(&self, other: &Self) -> bool {
        let ordered = self.rows.is_some() && self.rows == other.rows;
        self.place == other.place && (self.writes || other.writes) && !ordered
    }
}

/// Accesses of one phase, all split in one way.
fn accesses(rows: Option<Rows>, reads: &[Place], writes: &[Place]) -> Vec<Access> {
    let read = reads.iter().map(|place| Access { place: *place, writes: false, rows });
    let written = writes.iter().map(|place| Access { place: *place, writes: true, rows });
    read.chain(written).collect()
}

/// Returns the distinct activation formats that the matrix products of an op need.
pub(super) fn formats(op: &Op, weights: &[Weight]) -> Vec<Format> {
    let mut formats = Vec::new();
    if let Op::MatMulHeads { weight, .. } = op {
        formats.push(Format::of(weights[weight.0 as usize].dtype));
    }
    if let Some((_, projections)) = op.product() {
        for projection in projections {
            let format = Format::of(weights[projection.weight.0 as usize].dtype);
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
    }
    formats
}

/// Splits a checked plan into phases.
pub(super) fn phases(plan: &Plan, weights: &[Weight]) -> Vec<Phase> {
    let mut schedule = Schedule::default();
    let batch = Some(Rows::Batch);
    for rope in 0..plan.ropes.len() {
        if plan.ops.iter().any(|op| matches!(op, Op::Rope { rope: used, .. } if *used == rope)) {
            schedule.push(Work::Angles { rope }, accesses(batch, &[], &[Place::Angles(rope)]));
        }
    }
    for (index, op) in plan.ops.iter().enumerate() {
        let own = Work::Op { op: index };
        let rows_of = |id: BufferId| Some(plan.buffers[id.0 as usize].rows);
        match op {
            Op::Embed { out, .. } | Op::EmbedTokens { out, .. } | Op::Input { out } => {
                schedule.push(own, accesses(batch, &[], &[Place::Buffer(*out)]))
            }
            Op::AddEmbedding { x, .. } | Op::AddGridEmbedding { x, .. } | Op::AddInput { x, .. } => {
                schedule.push(own, accesses(batch, &[], &[Place::Buffer(*x)]))
            }
            Op::RmsNorm { x, out, .. } | Op::LayerNorm { x, out, .. } => {
                schedule.push(own, accesses(rows_of(*x), &[Place::Buffer(*x)], &[Place::Buffer(*out)]));
            }
            Op::MatMul { x, projections }
            | Op::MatMulAdapter { x, projections, .. }
            | Op::MatMulId { x, projections, .. } => {
                let formats = formats(op, weights);
                for format in &formats {
                    let to = [Place::Columns(*format)];
                    let work = Work::Convert { op: index, format: *format };
                    schedule.push(work, accesses(rows_of(*x), &[Place::Buffer(*x)], &to));
                }
                let mut from: Vec<Place> = formats.into_iter().map(Place::Columns).collect();
                if let Op::MatMulId { routes, .. } = op {
                    from.push(Place::Buffer(*routes));
                }
                let to: Vec<Place> = projections.iter().map(|projection| Place::Buffer(projection.out)).collect();
                schedule.push(own, accesses(None, &from, &to));
            }
            Op::MatMulHeads { from, weight, to } => {
                let format = Format::of(weights[weight.0 as usize].dtype);
                let (x, columns) = (Place::Buffer(from.buffer), Place::Columns(format));
                schedule.push(Work::Convert { op: index, format }, accesses(rows_of(from.buffer), &[x], &[columns]));
                schedule.push(own, accesses(None, &[columns], &[Place::Buffer(to.buffer)]));
            }
            Op::CopyHeads { from, to, .. } | Op::AddHeads { from, to, .. } => {
                let (x, out) = (Place::Buffer(from.buffer), Place::Buffer(to.buffer));
                schedule.push(own, accesses(rows_of(to.buffer), &[x], &[out]));
            }
            Op::AddMixed { x, factors, out, .. } => {
                let from = [Place::Buffer(*x), Place::Buffer(*factors)];
                schedule.push(own, accesses(rows_of(*out), &from, &[Place::Buffer(*out)]));
            }
            Op::MatchLength { x, like } => {
                schedule.push(own, accesses(rows_of(*x), &[Place::Buffer(*like)], &[Place::Buffer(*x)]));
            }
            Op::KeepOutliers { x, .. } | Op::AddWeight { x, .. } | Op::MulWeight { x, .. } => {
                schedule.push(own, accesses(rows_of(*x), &[], &[Place::Buffer(*x)]));
            }
            Op::Route { logits, out, .. } => {
                schedule.push(own, accesses(rows_of(*logits), &[Place::Buffer(*logits)], &[Place::Buffer(*out)]));
            }
            Op::WeighInputs { x, routes, out } => {
                let to = [Place::Buffer(*out), Place::Buffer(*routes)];
                schedule.push(own, accesses(rows_of(*out), &[Place::Buffer(*x)], &to));
            }
            Op::Combine { x, routes, out } => {
                let from = [Place::Buffer(*x), Place::Buffer(*routes)];
                schedule.push(own, accesses(rows_of(*out), &from, &[Place::Buffer(*out)]));
            }
            Op::Rope { x, rope, .. } => {
                schedule.push(own, accesses(batch, &[Place::Angles(*rope)], &[Place::Buffer(*x)]));
            }
            Op::StoreKv { k, v, .. } | Op::StoreLatent { k, v, .. } => {
                schedule.push(own, accesses(batch, &[Place::Buffer(*k), Place::Buffer(*v)], &[Place::Pages]));
            }
            Op::Attention { q, out, .. } | Op::PartAttention(PartAttention { q, out, .. }) => {
                let to = [Place::Buffer(*out), Place::Partials];
                schedule.push(own, accesses(None, &[Place::Buffer(*q), Place::Pages], &to));
            }
            // No other op accesses its snapshots.
            Op::Conv { x, out, .. } => {
                schedule.push(own, accesses(None, &[Place::Buffer(*x)], &[Place::Buffer(*out)]));
            }
            // The same for its snapshots.
            Op::DeltaRule(DeltaRule { qkv, decay, beta, out, .. }) => {
                let from = [*qkv, *decay, *beta].map(Place::Buffer);
                schedule.push(own, accesses(None, &from, &[Place::Buffer(*out)]));
            }
            Op::StateSpace(StateSpace { xbc, step, decay, out, .. }) => {
                let from = [*xbc, *step, *decay].map(Place::Buffer);
                schedule.push(own, accesses(None, &from, &[Place::Buffer(*out)]));
            }
            Op::Discretise { x, decay, .. } => {
                schedule.push(own, accesses(rows_of(*x), &[], &[Place::Buffer(*x), Place::Buffer(*decay)]));
            }
            Op::Decay { x, .. } => schedule.push(own, accesses(rows_of(*x), &[], &[Place::Buffer(*x)])),
            Op::Glu { gate, up, out, .. } => {
                let from = [Place::Buffer(*gate), Place::Buffer(*up)];
                schedule.push(own, accesses(None, &from, &[Place::Buffer(*out)]));
            }
            Op::Gelu { x }
            | Op::GeluErf { x }
            | Op::Sigmoid { x }
            | Op::Silu { x }
            | Op::ReluSquared { x }
            | Op::Relu { x }
            | Op::Clamp { x, .. }
            | Op::Softcap { x, .. } => schedule.push(own, accesses(None, &[], &[Place::Buffer(*x)])),
            Op::Scale { x, .. } => schedule.push(own, accesses(rows_of(*x), &[], &[Place::Buffer(*x)])),
            Op::Add { x, y } | Op::Mul { x, y } => {
                schedule.push(own, accesses(rows_of(*x), &[Place::Buffer(*y)], &[Place::Buffer(*x)]));
            }
            Op::AddAdapter { x, y, .. } => {
                // The summand is scaled in place.
                schedule.push(own, accesses(rows_of(*x), &[], &[Place::Buffer(*x), Place::Buffer(*y)]));
            }
            Op::Gather { x, out } | Op::Mean { x, out } | Op::Join { x, out, .. } => {
                schedule.push(own, accesses(None, &[Place::Buffer(*x)], &[Place::Buffer(*out)]));
            }
        }
    }
    schedule.phases
}

/// Phases so far, and accesses since the last barrier.
#[derive(Default)]
struct Schedule {
    phases: Vec<Phase>,
    since: Vec<Access>,
}

impl Schedule {
    fn push(&mut self, work: Work, accesses: Vec<Access>) {
        let barrier = accesses.iter().any(|access| self.since.iter().any(|before| access.conflicts(before)));
        if barrier {
            self.since.clear();
        }
        self.since.extend(accesses);
        self.phases.push(Phase { barrier, work });
    }
}

/// Returns the part of `count` items of thread `index` of `threads`: contiguous, with sizes that differ by at most one.
pub(super) fn part(count: usize, threads: usize, index: usize) -> Range<usize> {
    count * index / threads..count * (index + 1) / threads
}

/// Same as [`part`], for the items of a range.
pub(super) fn part_of(items: Range<usize>, threads: usize, index: usize) -> Range<usize> {
    let part = part(items.len(), threads, index);
    items.start + part.start..items.start + part.end
}

/// Same as [`part`], in whole groups of `group` items; the last group may be incomplete.
pub(super) fn grouped_part(count: usize, group: usize, threads: usize, index: usize) -> Range<usize> {
    let groups = part(count.div_ceil(group), threads, index);
    (groups.start * group).min(count)..(groups.end * group).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Projection;
    use crate::state::{State, StateKind};
    use crate::weight::{Bytes, WeightId};
    use cairn_gguf::DType;

    /// Checks which phases of a plan over four 32-wide buffers start with a barrier.
    fn check(ops: Vec<Op>, barriers: &[bool]) {
        let mut plan = Plan { ops, ..Plan::default() };
        for _ in 0..4 {
            plan.buffer(Rows::Batch, 32);
        }
        plan.buffer(Rows::Logits, 32);
        plan.state(State::new(StateKind::Full, 1, 32));
        let bytes = Bytes::from(vec![0; 32 * 34]);
        let weights = [Weight { name: "w".into(), dtype: DType::Q8_0, rows: 32, cols: 32, bytes }];
        let found: Vec<bool> = phases(&plan, &weights).iter().map(|phase| phase.barrier).collect();
        assert_eq!(found, barriers, "{:?}", plan.ops);
    }

    fn norm(x: u32, out: u32) -> Op {
        Op::RmsNorm { x: BufferId(x), weight: WeightId(0), eps: 0.0, group: 32, out: BufferId(out) }
    }

    fn product(x: u32, out: u32) -> Op {
        let projections = vec![Projection { weight: WeightId(0), bias: None, out: BufferId(out) }];
        Op::MatMul { x: BufferId(x), projections }
    }

    #[test]
    fn ops_on_rows_of_one_thread_need_no_barrier() {
        let store = Op::StoreKv { state: crate::StateId(0), k: BufferId(1), v: BufferId(2) };
        check(vec![norm(0, 1), norm(1, 1), Op::Add { x: BufferId(2), y: BufferId(1) }, store], &[false; 4]);
    }

    #[test]
    fn matmul_waits_before_reading_and_before_overwriting_columns() {
        check(vec![norm(0, 1), product(1, 2), product(2, 3)], &[false, false, true, true, true]);
        check(vec![product(0, 1), product(0, 2)], &[false, true, true, true]);
    }

    #[test]
    fn batch_rows_and_logit_rows_are_separated_by_a_barrier() {
        let gather = Op::Gather { x: BufferId(0), out: BufferId(4) };
        check(vec![norm(0, 0), gather, norm(4, 4)], &[false, true, true]);
    }

    #[test]
    fn attention_has_a_barrier_to_the_store_before_and_after_it() {
        let store = Op::StoreKv { state: crate::StateId(0), k: BufferId(1), v: BufferId(2) };
        let (q, out, state) = (BufferId(0), BufferId(3), crate::StateId(0));
        let attention = Op::Attention { state, q, heads: 1, scale: 1.0, softcap: None, sinks: None, out };
        check(vec![store.clone(), attention, store], &[false, true, true]);
    }

    #[test]
    fn parts_cover_all_items_once() {
        for (count, group, threads) in [(0, 16, 3), (1, 16, 2), (100, 16, 3), (512, 64, 5), (7, 1, 7), (5, 1, 8)] {
            let parts: Vec<usize> = (0..threads).flat_map(|index| grouped_part(count, group, threads, index)).collect();
            assert_eq!(parts, (0..count).collect::<Vec<_>>(), "{count} in groups of {group} over {threads}");
            for index in 0..threads {
                let start = grouped_part(count, group, threads, index).start;
                assert!(start.is_multiple_of(group) || start == count, "cuts fall between groups");
            }
        }
    }
}
