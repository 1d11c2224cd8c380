//! Ops between several residual streams, and sparse activations.
//!
//! Sums over a row have a fixed number of lanes, so they depend on nothing but the row.

use super::step::Step;
use crate::plan::BufferId;
use crate::team::Worker;

/// Partial sums of a row. Each lane has every eighth element.
const LANES: usize = 8;

/// Returns the sum of a function of each element.
fn sum(x: &[f32], of: impl Fn(f64) -> f64) -> f64 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in whole {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += of(f64::from(*x)));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += of(f64::from(*x)));
    lanes.iter().sum()
}

impl Step<'_> {
    /// Mixes the parts of this thread's rows.
    pub(super) fn add_mixed(&self, worker: &Worker<'_>, [x, factors, out]: [BufferId; 3], part: usize) {
        let parts = self.width(x) / part;
        for row in self.own_rows(worker, out) {
            let x = self.buffer(x).read(worker, self.row(x, row));
            let factors = self.buffer(factors).read(worker, self.row(factors, row));
            let mut out = self.buffer(out).write(worker, self.row(out, row));
            for (out, factors) in out.chunks_mut(part).zip(factors.chunks(parts)) {
                for (x, factor) in x.chunks(part).zip(factors) {
                    (self.variant.add_scaled)(out, x, *factor);
                }
            }
        }
    }

    /// Scales the parts of this thread's rows.
    pub(super) fn match_length(&self, worker: &Worker<'_>, [x, like]: [BufferId; 2]) {
        let squares = |x: &[f32]| sum(x, |x| x * x);
        for row in self.own_rows(worker, x) {
            let like = self.buffer(like).read(worker, self.row(like, row));
            let wanted = squares(&like);
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            for part in x.chunks_mut(like.len()) {
                let found = squares(part);
                if found > 0.0 {
                    (self.variant.scale)(part, (wanted / found).sqrt() as f32);
                }
            }
        }
    }

    /// Keeps what exceeds the limit in this thread's rows.
    pub(super) fn keep_outliers(&self, worker: &Worker<'_>, x: BufferId, deviations: f32) {
        for row in self.own_rows(worker, x) {
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            let mean = sum(&x, |x| x) / x.len() as f64;
            let deviation = (sum(&x, |x| (x - mean) * (x - mean)) / (x.len() - 1) as f64).sqrt();
            let limit = (mean + f64::from(deviations) * deviation) as f32;
            // A comparison with NaN is false, so NaN stays.
            x.iter_mut().for_each(|x| *x = if *x < limit { 0.0 } else { *x - limit });
        }
    }
}
