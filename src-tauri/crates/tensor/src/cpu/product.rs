//! Matrix products: activations are converted once per op, weight rows are split over the threads.
//!
//! In decode, where there is one column, a thread goes through its weight rows once and writes its part of the output.
//! In prefill it takes a strip of rows at a time, so that the unpacked weights stay in its cache, multiplies it with
//! all columns into memory of its own and copies that out: the results of neighbouring strips share the rows of the
//! output.

use std::ops::Range;

use cairn_kernels::{Columns, Format, MatMul, Scratch as ProductScratch};

use super::schedule::{GROUP, STRIP, grouped_part};
use super::step::{Scratch, Step};
use crate::plan::{Op, Projection};
use crate::team::Worker;
use crate::team::share::Shared;
use crate::weight::Weight;

impl Step<'_> {
    /// Returns the columns of a format.
    pub(super) fn columns(&self, format: Format) -> &Shared<u8> {
        let of = |(has, _): &&(Format, Shared<u8>)| *has == format;
        &self.prepared.columns.iter().find(of).expect("prepare made columns for every format of the plan").1
    }

    /// Converts this thread's rows of a product's input: one column per row, or per part of a row that has its own
    /// expert.
    pub(super) fn convert(&self, worker: &Worker<'_>, op: usize, format: Format) {
        let op = &self.prepared.plan.ops[op];
        if let Op::MatMulHeads { from, weight, .. } = op {
            return self.convert_heads(worker, *from, *weight, format);
        }
        let Some((x, projections)) = op.product() else {
            unreachable!("only products have a conversion phase");
        };
        let k = self.weights[projections[0].weight.0 as usize].cols;
        let (bytes, parts) = (format.column_bytes(k), self.width(x) / k);
        for row in self.own_rows(worker, x) {
            let from = self.buffer(x).read(worker, self.row(x, row));
            let mut columns = self.columns(format).write(worker, row * parts * bytes..(row + 1) * parts * bytes);
            for (from, column) in from.chunks(k).zip(columns.chunks_mut(bytes)) {
                (self.variant.convert)(format, from, column);
            }
        }
    }

    /// Multiplies `rows` of a weight with columns and adds `bias`, one element for each of the rows; `out` receives
    /// `[columns, rows]`.
    pub(super) fn multiply_rows(
        &self,
        scratch: &mut ProductScratch,
        (weight, rows): (&Weight, Range<usize>),
        columns: Columns<'_>,
        bias: Option<&[f32]>,
        out: &mut [f32],
    ) {
        let count = rows.len();
        (self.variant.matmul)(MatMul {
            dtype: weight.dtype,
            k: weight.cols,
            weights: weight.row_bytes(rows),
            rows: count,
            columns,
            out,
            out_stride: count,
            scratch,
        });
        if let Some(bias) = bias {
            out.chunks_mut(count).for_each(|out| (self.variant.add)(out, bias));
        }
    }

    /// Multiplies this thread's rows of one weight with all columns.
    pub(super) fn multiply(&self, worker: &Worker<'_>, scratch: &mut Scratch, projection: &Projection) {
        let weight = &self.weights[projection.weight.0 as usize];
        let (out, rows) = (self.buffer(projection.out), self.rows(projection.out));
        let count = rows.len();
        let own = grouped_part(weight.rows, GROUP, worker.threads(), worker.index());
        if own.is_empty() || count == 0 {
            return;
        }
        let bias = projection.bias.map(|bias| &self.vectors[bias.0 as usize][..]);
        let bias = |rows: &Range<usize>| bias.map(|bias| &bias[rows.clone()]);
        let format = Format::of(weight.dtype);
        let column_bytes = format.column_bytes(weight.cols);
        let bytes = self.columns(format).read(worker, rows.start * column_bytes..rows.end * column_bytes);
        let columns = Columns { format, k: weight.cols, bytes: &bytes, count };
        if count == 1 {
            let row = self.row(projection.out, rows.start).start;
            let mut out = out.write(worker, row + own.start..row + own.end);
            self.multiply_rows(&mut scratch.product, (weight, own.clone()), columns, bias(&own), &mut out);
            return;
        }
        let mut to = out.write_columns(worker, own.clone());
        for start in own.clone().step_by(STRIP) {
            let strip = start..(start + STRIP).min(own.end);
            let tile = &mut scratch.tile[..count * strip.len()];
            self.multiply_rows(&mut scratch.product, (weight, strip.clone()), columns, bias(&strip), tile);
            for (row, results) in rows.clone().zip(tile.chunks(strip.len())) {
                to.row(row)[strip.start - own.start..strip.end - own.start].copy_from_slice(results);
            }
        }
    }
}
