//! Mixtures of experts: routing, products with the experts that rows have chosen, and their weighted sum.
//!
//! The rows of a batch are grouped by expert, so that an expert's weights are read and unpacked once for all its rows:
//! their columns are gathered and multiplied together, and the results go to the rows' own slots. Every thread
//! computes its part of every expert's weight rows. A result is one weight row times one column, independent of other
//! columns, so grouping changes no bit. A row's experts are added in the order of its routes.
use std::ops::Range;

use cairn_kernels::{Columns, Format};

use super::expert_groups::ExpertScratch;
use super::schedule::{GROUP, STRIP, grouped_part};
use super::step::{Scratch, Step};
use crate::plan::{BufferId, Op};
use crate::team::Worker;
use crate::weight::Weight;

impl Step<'_> {
    /// Chooses and weighs the experts of this thread's rows.
    pub(super) fn route(&self, worker: &Worker<'_>, scratch: &mut ExpertScratch, op: &Op) {
        let Op::Route { logits, router, out } = *op else {
            unreachable!("called for routing only");
        };
        let [bias, scales] =
            [router.choice_bias, router.expert_scales].map(|id| id.map(|id| &self.vectors[id.0 as usize][..]));
        for row in self.own_rows(worker, logits) {
            let from = self.buffer(logits).read(worker, self.row(logits, row));
            let mut to = self.buffer(out).write(worker, self.row(out, row));
            let (ids, weights) = to.split_at_mut(router.used);
            scratch.router.route(self.variant, &router, &from, bias, [ids, weights]);
            if let Some(scales) = scales {
                weights.iter_mut().zip(ids).for_each(|(weight, id)| *weight *= scales[*id as usize]);
            }
        }
    }

    /// Multiplies this thread's rows of every expert's weights with the columns that have chosen it.
    pub(super) fn multiply_experts(&self, worker: &Worker<'_>, scratch: &mut Scratch, op: &Op) {
        let Op::MatMulId { x, routes, experts, ref projections } = *op else {
            unreachable!("called for experts only");
        };
        let mut own = std::mem::take(&mut scratch.experts);
        let used = self.width(routes) / 2;
        let (rows, width) = (self.rows(x), 2 * used);
        let routed = self.buffer(routes).read(worker, rows.start * width..rows.end * width);
        own.groups.read(&routed, rows.start, used, experts);
        for expert in (0..experts).filter(|expert| !own.groups.of(*expert).is_empty()) {
            let mut gathered = None;
            for projection in projections {
                let weight = &self.weights[projection.weight.0 as usize];
                let format = Format::of(weight.dtype);
                if gathered != Some(format) {
                    self.gather(worker, x, own.groups.of(expert), (format, weight.cols), &mut own.gathered);
                    gathered = Some(format);
                }
                let bias = projection.bias.map(|bias| {
                    let (bias, width) = (&self.weights[bias.0 as usize], weight.rows / experts);
                    (self.variant.decode_row)(bias.dtype, bias.row_bytes(expert..expert + 1), &mut own.bias[..width]);
                    &own.bias[..width]
                });
                let choices = own.groups.of(expert);
                let bytes = &own.gathered[..choices.len() * format.column_bytes(weight.cols)];
                let columns = Columns { format, k: weight.cols, bytes, count: choices.len() };
                let rows = expert * weight.rows / experts..(expert + 1) * weight.rows / experts;
                self.multiply_expert(worker, scratch, (weight, rows), columns, bias, (projection.out, choices));
            }
        }
        scratch.experts = own;
    }

    /// Copies the columns of some choices to one place.
    fn gather(
        &self,
        worker: &Worker<'_>,
        x: BufferId,
        choices: &[(usize, usize)],
        (format, k): (Format, usize),
        to: &mut [u8],
    ) {
        // One part for all slots, or one for each.
        let (bytes, parts) = (format.column_bytes(k), self.width(x) / k);
        let Range { start, end } = self.rows(x);
        let from = self.columns(format).read(worker, start * parts * bytes..end * parts * bytes);
        for ((row, slot), to) in choices.iter().zip(to.chunks_mut(bytes)) {
            to.copy_from_slice(&from[((row - start) * parts + slot % parts) * bytes..][..bytes]);
        }
    }

    /// Multiplies this thread's part of an expert's rows, and puts the results where the choices have their slots.
    fn multiply_expert(
        &self,
        worker: &Worker<'_>,
        scratch: &mut Scratch,
        (weight, rows): (&Weight, Range<usize>),
        columns: Columns<'_>,
        bias: Option<&[f32]>,
        (out, choices): (BufferId, &[(usize, usize)]),
    ) {
        let own = grouped_part(rows.len(), GROUP, worker.threads(), worker.index());
        if own.is_empty() {
            return;
        }
        let of_weight = |part: &Range<usize>| (weight, rows.start + part.start..rows.start + part.end);
        let of_bias = |part: &Range<usize>| bias.map(|bias| &bias[part.clone()]);
        let of_out = |&(row, slot): &(usize, usize), part: &Range<usize>| {
            let start = self.row(out, row).start + slot * rows.len();
            self.buffer(out).write(worker, start + part.start..start + part.end)
        };
        if let [choice] = choices {
            let mut to = of_out(choice, &own);
            self.multiply_rows(&mut scratch.product, of_weight(&own), columns, of_bias(&own), &mut to);
            return;
        }
        for start in own.clone().step_by(STRIP) {
            let strip = start..(start + STRIP).min(own.end);
            let tile = &mut scratch.tile[..choices.len() * strip.len()];
            self.multiply_rows(&mut scratch.product, of_weight(&strip), columns, of_bias(&strip), tile);
            for (choice, results) in choices.iter().zip(tile.chunks(strip.len())) {
                of_out(choice, &strip).copy_from_slice(results);
            }
        }
    }

    /// Multiplies the inputs of this thread's rows by the weights of their experts.
    pub(super) fn weigh_inputs(&self, worker: &Worker<'_>, [x, routes, out]: [BufferId; 3]) {
        let width = self.width(x);
        for row in self.own_rows(worker, out) {
            let from = self.buffer(x).read(worker, self.row(x, row));
            let mut routes = self.buffer(routes).write(worker, self.row(routes, row));
            let mut to = self.buffer(out).write(worker, self.row(out, row));
            let used = routes.len() / 2;
            for (to, weight) in to.chunks_mut(width).zip(&mut routes[used..]) {
                to.copy_from_slice(&from);
                (self.variant.scale)(to, *weight);
                *weight = 1.0;
            }
        }
    }

    /// Adds up the experts' results of this thread's rows.
    pub(super) fn combine(&self, worker: &Worker<'_>, [x, routes, out]: [BufferId; 3]) {
        let width = self.width(out);
        for row in self.own_rows(worker, out) {
            let from = self.buffer(x).read(worker, self.row(x, row));
            let routes = self.buffer(routes).read(worker, self.row(routes, row));
            let mut to = self.buffer(out).write(worker, self.row(out, row));
            to.fill(0.0);
            for (from, weight) in from.chunks(width).zip(&routes[routes.len() / 2..]) {
                (self.variant.add_scaled)(&mut to, from, *weight);
            }
        }
    }
}
