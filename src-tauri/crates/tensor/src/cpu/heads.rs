//! Latent attention: products with a matrix for each head, copies by head, and keys that contain their values.
//!
//! The converted columns of one head are adjacent, so that a head's matrix is multiplied with all of them without another copy. The
//! weight rows of all heads are split over the threads together.

use cairn_kernels::{Columns, Format};

use super::pool::Slot;
use super::schedule::{GROUP, STRIP, grouped_part};
use super::step::{Scratch, Step};
use crate::page::Kv;
use crate::plan::{BufferId, HeadPart, Rows};
use crate::state::StateId;
use crate::team::Worker;
use crate::weight::WeightId;

impl Step<'_> {
    /// Most rows of a buffer: the distance of two heads in the columns.
    fn most_rows(&self, id: BufferId) -> usize {
        let limits = self.prepared.limits;
        match self.prepared.plan.buffers[id.0 as usize].rows {
            Rows::Batch => limits.rows,
            Rows::Logits => limits.logit_rows,
        }
    }

    /// Converts this thread's rows of a product's input to columns `[heads, most rows]`.
    pub(super) fn convert_heads(&self, worker: &Worker<'_>, from: HeadPart, weight: WeightId, format: Format) {
        let k = self.weights[weight.0 as usize].cols;
        let (bytes, most) = (format.column_bytes(k), self.most_rows(from.buffer));
        let width = self.width(from.buffer);
        for row in self.own_rows(worker, from.buffer) {
            let x = self.buffer(from.buffer).read(worker, self.row(from.buffer, row));
            for head in 0..from.heads {
                let at = (head * most + row) * bytes;
                let mut column = self.columns(format).write(worker, at..at + bytes);
                (self.variant.convert)(format, &x[from.range(head, k, width)], &mut column);
            }
        }
    }

    /// Multiplies this thread's rows of the heads' matrices with the heads' columns.
    pub(super) fn multiply_heads(
        &self,
        worker: &Worker<'_>,
        scratch: &mut Scratch,
        [from, to]: [HeadPart; 2],
        weight: WeightId,
    ) {
        let weight = &self.weights[weight.0 as usize];
        let (rows, out_width) = (self.rows(to.buffer), weight.rows / to.heads);
        let own = grouped_part(weight.rows, GROUP, worker.threads(), worker.index());
        if rows.is_empty() || own.is_empty() {
            return;
        }
        let (format, k, count) = (Format::of(weight.dtype), weight.cols, rows.len());
        let (bytes, most) = (format.column_bytes(k), self.most_rows(from.buffer));
        for head in own.start / out_width..own.end.div_ceil(out_width) {
            let of_head = own.start.max(head * out_width)..own.end.min((head + 1) * out_width);
            let columns = (head * most + rows.start) * bytes..(head * most + rows.end) * bytes;
            let columns = self.columns(format).read(worker, columns);
            let columns = Columns { format, k, bytes: &columns, count };
            let outputs = to.range(head, out_width, self.width(to.buffer));
            for start in of_head.clone().step_by(STRIP) {
                let strip = start..(start + STRIP).min(of_head.end);
                let tile = &mut scratch.tile[..count * strip.len()];
                self.multiply_rows(&mut scratch.product, (weight, strip.clone()), columns, None, tile);
                let first = outputs.start + strip.start - head * out_width;
                for (row, results) in rows.clone().zip(tile.chunks(strip.len())) {
                    let at = self.row(to.buffer, row).start + first;
                    self.buffer(to.buffer).write(worker, at..at + strip.len()).copy_from_slice(results);
                }
            }
        }
    }

    /// Copies the heads of this thread's rows.
    pub(super) fn copy_heads(&self, worker: &Worker<'_>, parts: [HeadPart; 2], width: usize) {
        self.each_head(worker, parts, width, |out, x| out.copy_from_slice(x));
    }

    /// Adds the heads of this thread's rows.
    pub(super) fn add_heads(&self, worker: &Worker<'_>, parts: [HeadPart; 2], width: usize) {
        self.each_head(worker, parts, width, |out, x| (self.variant.add)(out, x));
    }

    /// Calls `combine` with each head of this thread's rows and its source.
    fn each_head(
        &self,
        worker: &Worker<'_>,
        [from, to]: [HeadPart; 2],
        part: usize,
        combine: impl Fn(&mut [f32], &[f32]),
    ) {
        let [width, to_width] = [from, to].map(|part| self.width(part.buffer));
        for row in self.own_rows(worker, to.buffer) {
            let x = self.buffer(from.buffer).read(worker, self.row(from.buffer, row));
            let mut out = self.buffer(to.buffer).write(worker, self.row(to.buffer, row));
            for head in 0..to.heads {
                let source = from.range(if from.heads == 1 { 0 } else { head }, part, width);
                combine(&mut out[to.range(head, part, to_width)], &x[source]);
            }
        }
    }

    /// Stores keys that contain their values.
    pub(super) fn store_latent(&self, worker: &Worker<'_>, state: StateId, [k, v]: [BufferId; 2]) {
        let (dtype, border) = (self.pool.layout().dtype, self.pool.layout().value_offsets[state.0 as usize]);
        for index in self.own_rows(worker, k) {
            let row = &self.batch.rows[index];
            let slot = row.slot as usize;
            let page = self.batch.tables[row.seq as usize][slot / crate::PAGE_TOKENS];
            let mut to = self.pool.write(worker, page, Slot { state, kv: Kv::Keys, head: 0, slot });
            let (key, value) = to.split_at_mut(border);
            for (buffer, to) in [(k, key), (v, value)] {
                (self.variant.encode_row)(dtype, &self.buffer(buffer).read(worker, self.row(buffer, index)), to);
            }
        }
    }
}
