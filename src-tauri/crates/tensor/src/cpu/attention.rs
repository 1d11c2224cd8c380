//! Attention over pages: blocks of rows against one key/value head, by spans of 256 absolute positions.
//!
//! A task is a block of rows of one sequence with one key/value head, so a page is read once for all query heads of
//! the group and all rows of the block. A task processes its spans in ascending order, computes each from scratch and
//! merges it into the total. With fewer tasks than threads, for example when one long sequence decodes, several
//! threads compute the spans of a task and merge them after a barrier: the same spans, in the same order, by the same
//! function (Milakov & Gimelshein, arXiv 1805.02867).
use std::array;
use std::ops::Range;

use cairn_kernels::{AttendSpan, PAGE_POSITIONS, SPAN_POSITIONS, Softmax};

use super::blocks::{self, Block, TASKS_PER_THREAD, VisibleSlots};
use super::pool::Section;
use super::schedule::part;
use super::step::{Scratch, Step};
use crate::page::Kv;
use crate::part_attention::{BY_DISTANCE, DistanceBias, FARTHEST, PartAttention};
use crate::plan::{BufferId, Op};
use crate::state::{State, StateId, Values};
use crate::team::Worker;
use crate::weight::WeightId;

/// Pages of a span.
const SPAN_PAGES: usize = SPAN_POSITIONS / PAGE_POSITIONS;

/// One attention op.
struct Attention {
    state: StateId,
    q: BufferId,
    out: BufferId,
    /// Groups of query heads: a task has one of them.
    groups: usize,
    /// Groups that share a key/value head.
    groups_per_kv_head: usize,
    /// Query heads of a group.
    group_heads: usize,
    head_dim: usize,
    value_dim: usize,
    /// Bytes from one value to the next.
    value_stride: usize,
    seen: VisibleSlots,
    scale: f32,
    softcap: f32,
    sinks: Option<WeightId>,
    bias: Option<DistanceBias>,
}

impl Attention {
    /// Returns the range of spans that contain positions which rows of `block` attend to.
    fn spans(&self, block: &Block) -> Range<usize> {
        let visible = block.visible(self.seen);
        visible.start as usize / SPAN_POSITIONS..(visible.end as usize).div_ceil(SPAN_POSITIONS)
    }

    /// Elements of a group's queries in a row.
    fn columns(&self, group: usize) -> Range<usize> {
        let width = self.group_heads * self.head_dim;
        group * width..(group + 1) * width
    }

    /// Elements of a group's results in a row.
    fn out_columns(&self, group: usize) -> Range<usize> {
        let width = self.group_heads * self.value_dim;
        group * width..(group + 1) * width
    }
}

/// Splits `memory` into the softmax state of `queries` queries: maxima, sums and accumulators.
fn softmax(memory: &mut [f32], queries: usize) -> Softmax<'_> {
    let (max, rest) = memory.split_at_mut(queries);
    let (sum, acc) = rest.split_at_mut(queries);
    Softmax { max, sum, acc }
}

impl Step<'_> {
    /// This thread's part of an attention op.
    pub(super) fn attention(&self, worker: &Worker<'_>, scratch: &mut Scratch, phase: usize, op: &Op) {
        let (state, q, heads, scale, out) = match *op {
            Op::Attention { state, q, heads, scale, out, .. } => (state, q, heads, scale, out),
            Op::PartAttention(PartAttention { state, q, heads, scale, out, .. }) => (state, q, heads, scale, out),
            _ => unreachable!("called for attention only"),
        };
        let State { kind, kv_heads, head_dim, values } = self.state(state);
        let (seen, softcap, sinks, bias) = match *op {
            Op::Attention { softcap, sinks, .. } => (VisibleSlots::Kind(kind), softcap, sinks, None),
            Op::PartAttention(PartAttention { part, bias, .. }) => (VisibleSlots::Part(part), None, None, bias),
            _ => unreachable!("called for attention only"),
        };
        let softcap = softcap.unwrap_or(0.0);
        let group_heads = blocks::task_heads(heads / kv_heads);
        let row_bytes = self.pool.layout().row_bytes[state.0 as usize];
        let (value_dim, value_stride) = match values {
            Values::Rows(elements) => (elements, row_bytes[Kv::Values as usize]),
            Values::InKeys(elements) => (elements, row_bytes[Kv::Keys as usize]),
        };
        let op = Attention {
            state,
            q,
            out,
            groups: heads / group_heads,
            groups_per_kv_head: heads / kv_heads / group_heads,
            group_heads,
            head_dim,
            value_dim,
            value_stride,
            seen,
            scale,
            softcap,
            sinks,
            bias,
        };
        let blocks = &self.rows.blocks;
        let tasks = blocks.len() * op.groups;
        let spans = blocks.iter().map(|block| op.spans(block).len()).max().unwrap_or(0);
        // The batch alone decides, so all threads agree. All of them must reach the barriers of a split.
        if worker.threads() == 1 || spans < 2 || tasks >= TASKS_PER_THREAD * worker.threads() {
            self.whole_tasks(worker, scratch, phase, &op);
        } else {
            self.split_tasks(worker, scratch, &op, spans);
        }
    }

    /// Takes tasks dynamically, each from its first span to its last.
    fn whole_tasks(&self, worker: &Worker<'_>, scratch: &mut Scratch, phase: usize, op: &Attention) {
        let blocks = &self.rows.blocks;
        while let Some(task) = self.prepared.take(phase, blocks.len() * op.groups) {
            // The last rows of a prompt see most positions, so their task is first: as the last task, it would delay
            // all threads.
            let (block, group) = (&blocks[blocks.len() - 1 - task / op.groups], task % op.groups);
            let queries = block.rows.len() * op.group_heads;
            let elements = queries * (op.value_dim + 2);
            self.load(worker, scratch, op, block, group);
            let (mut total, mut span) = (std::mem::take(&mut scratch.total), std::mem::take(&mut scratch.span));
            self.start(op, group, softmax(&mut total[..elements], queries));
            for index in op.spans(block) {
                self.span(worker, scratch, op, block, group, index, softmax(&mut span[..elements], queries));
                let before = softmax(&mut total[..elements], queries);
                (self.variant.merge)(before, &softmax(&mut span[..elements], queries));
            }
            self.finish(worker, op, block, group, softmax(&mut total[..elements], queries));
            (scratch.total, scratch.span) = (total, span);
        }
    }

    /// Splits the spans of few tasks over all threads, as many spans at a time as there is memory for.
    fn split_tasks(&self, worker: &Worker<'_>, scratch: &mut Scratch, op: &Attention, spans: usize) {
        let (blocks, partials) = (&self.rows.blocks, &self.prepared.partials);
        let tasks = blocks.len() * op.groups;
        let most_rows = blocks.iter().map(|block| block.rows.len()).max().unwrap_or(0);
        let slot_len = most_rows * op.group_heads * (op.value_dim + 2);
        // Each task has one slot for its total and, behind it, one for each span of a round.
        let round_len = (partials.len() / (tasks * slot_len) - 1).min(spans);
        let (threads, index) = (worker.threads(), worker.index());
        let slot = |task: usize, slot: usize, len: usize| {
            let start = (task * (round_len + 1) + slot) * slot_len;
            start..start + len
        };
        for round in (0..spans).step_by(round_len) {
            if round > 0 {
                worker.barrier();
            }
            let mut loaded = None;
            for item in part(tasks * round_len, threads, index) {
                let (task, nth) = (item / round_len, item % round_len);
                let (block, group) = (&blocks[task / op.groups], task % op.groups);
                let span = op.spans(block).start + round + nth;
                if span >= op.spans(block).end {
                    continue;
                }
                if loaded != Some(task) {
                    self.load(worker, scratch, op, block, group);
                    loaded = Some(task);
                }
                let queries = block.rows.len() * op.group_heads;
                let mut memory = partials.write(worker, slot(task, 1 + nth, queries * (op.value_dim + 2)));
                self.span(worker, scratch, op, block, group, span, softmax(&mut memory, queries));
            }
            worker.barrier();
            for task in part(tasks, threads, index) {
                let (block, group) = (&blocks[task / op.groups], task % op.groups);
                let queries = block.rows.len() * op.group_heads;
                let elements = queries * (op.value_dim + 2);
                let mut total = partials.write(worker, slot(task, 0, elements));
                if round == 0 {
                    self.start(op, group, softmax(&mut total, queries));
                }
                for nth in 0..round_len.min(op.spans(block).len().saturating_sub(round)) {
                    let mut memory = partials.write(worker, slot(task, 1 + nth, elements));
                    (self.variant.merge)(softmax(&mut total, queries), &softmax(&mut memory, queries));
                }
                if round + round_len >= spans {
                    self.finish(worker, op, block, group, softmax(&mut total, queries));
                }
            }
        }
    }

    /// Initial softmax of the merge: empty, or each query head's sink. A sink is a score without a value, so its weight
    /// relative to itself is `exp(0)`.
    fn start(&self, op: &Attention, group: usize, mut total: Softmax<'_>) {
        total.clear();
        if let Some(sinks) = op.sinks {
            let sinks = &self.vectors[sinks.0 as usize][group * op.group_heads..(group + 1) * op.group_heads];
            total.max.chunks_mut(op.group_heads).for_each(|max| max.copy_from_slice(sinks));
            total.sum.fill(1.0);
        }
    }

    /// Gathers a task's queries, and for each query the range of positions that it attends to.
    fn load(&self, worker: &Worker<'_>, scratch: &mut Scratch, op: &Attention, block: &Block, group: usize) {
        let (columns, heads) = (op.columns(group), op.group_heads);
        for (nth, index) in block.rows.clone().enumerate() {
            let start = self.row(op.q, index).start;
            let from = self.buffer(op.q).read(worker, start + columns.start..start + columns.end);
            scratch.q[nth * columns.len()..(nth + 1) * columns.len()].copy_from_slice(&from);
            let visible = op.seen.visible(&self.batch.rows[index]);
            scratch.first[nth * heads..(nth + 1) * heads].fill(visible.start);
            scratch.until[nth * heads..(nth + 1) * heads].fill(visible.end);
        }
    }

    /// Computes one span of a loaded task.
    #[expect(clippy::too_many_arguments, reason = "a span is named by its op, its task and its index")]
    fn span(
        &self,
        worker: &Worker<'_>,
        scratch: &mut Scratch,
        op: &Attention,
        block: &Block,
        group: usize,
        index: usize,
        to: Softmax<'_>,
    ) {
        let queries = block.rows.len() * op.group_heads;
        self.fill_bias(scratch, op, block, group, index);
        let bias = if op.bias.is_some() { &scratch.bias[..queries] } else { &[] };
        let (table, seen) = (&self.batch.tables[block.seq as usize], block.visible(op.seen));
        let section = |page: usize| {
            let visible =
                page * PAGE_POSITIONS < seen.end as usize && (page + 1) * PAGE_POSITIONS > seen.start as usize;
            visible.then(|| self.pool.read(worker, table[page], op.state, group / op.groups_per_kv_head))
        };
        let sections: [Option<Section<'_>>; SPAN_PAGES] = array::from_fn(|nth| section(index * SPAN_PAGES + nth));
        // The next call is most often for the next span.
        let next = section((index + 1) * SPAN_PAGES);
        (self.variant.attend)(AttendSpan {
            q: &scratch.q[..queries * op.head_dim],
            head_dim: op.head_dim,
            value_dim: op.value_dim,
            queries,
            first: &scratch.first[..queries],
            until: &scratch.until[..queries],
            span_start: (index * SPAN_POSITIONS) as u32,
            dtype: self.pool.layout().dtype,
            k: sections.each_ref().map(|section| section.as_ref().map_or(&[][..], Section::keys)),
            v: sections.each_ref().map(|section| section.as_ref().map_or(&[][..], Section::values)),
            value_stride: op.value_stride,
            next: next.as_ref().map_or(&[][..], Section::keys),
            scale: op.scale,
            softcap: op.softcap,
            bias,
            scratch: &mut scratch.attend,
            max: to.max,
            sum: to.sum,
            acc: to.acc,
        });
    }

    /// Fills the biases of one span of a task: far slots before, near ones, and far slots behind each row.
    fn fill_bias(&self, scratch: &mut Scratch, op: &Attention, block: &Block, group: usize, span: usize) {
        let Some(bias) = op.bias else { return };
        let biases = self.prepared.biases(bias);
        let (far, start) = (i64::from(FARTHEST), (span * SPAN_POSITIONS) as i64);
        for (nth, index) in block.rows.clone().enumerate() {
            // Distances of the slots of the span begin with this one.
            let first = start - i64::from(self.batch.rows[index].slot);
            let at = |distance: i64| (distance - first).clamp(0, SPAN_POSITIONS as i64) as usize;
            let near = at(-far)..at(far + 1);
            for head in 0..op.group_heads {
                let of_head = &biases[(group * op.group_heads + head) * BY_DISTANCE..][..BY_DISTANCE];
                let to = &mut scratch.bias[nth * op.group_heads + head];
                to[..near.start].fill(of_head[0]);
                to[near.end..].fill(of_head[BY_DISTANCE - 1]);
                if !near.is_empty() {
                    let from = (first + near.start as i64 + far) as usize;
                    to[near.clone()].copy_from_slice(&of_head[from..from + near.len()]);
                }
            }
        }
    }

    /// Divides a task's total and writes it out.
    fn finish(&self, worker: &Worker<'_>, op: &Attention, block: &Block, group: usize, total: Softmax<'_>) {
        (self.variant.finish)(total.sum, total.acc);
        let columns = op.out_columns(group);
        for (index, from) in block.rows.clone().zip(total.acc.chunks(columns.len())) {
            let start = self.row(op.out, index).start;
            let to = start + columns.start..start + columns.end;
            self.buffer(op.out).write(worker, to).copy_from_slice(from);
        }
    }
}
