//! Several residual streams (alternating updates: Baykal et al., arXiv 2301.13310), and sparse activations.

use super::arithmetic;
use super::step::Step;
use crate::plan::{BufferId, HeadPart};

impl Step<'_> {
    pub(super) fn add_heads(&mut self, from: HeadPart, to: HeadPart, width: usize) {
        let before = self.copy(to.buffer);
        self.copy_heads(from, to, width);
        let row_width = self.width(to.buffer);
        let rows = self.buffers[to.buffer.0 as usize].chunks_mut(row_width).zip(before.chunks(row_width));
        for (row, before) in rows {
            for at in (0..to.heads).flat_map(|head| to.range(head, width, row_width)) {
                row[at] += before[at];
            }
        }
    }

    pub(super) fn add_mixed(&mut self, [x, factors, out]: [BufferId; 3], width: usize) {
        let [m, n] = [x, out].map(|id| self.width(id) / width);
        let (x, factors) = (self.copy(x), self.copy(factors));
        for (row, out) in self.buffers[out.0 as usize].chunks_mut(n * width).enumerate() {
            for (at, out) in out.iter_mut().enumerate() {
                let (part, element) = (at / width, at % width);
                let term = |j: usize| {
                    let factor = factors[(row * n + part) * m + j];
                    f64::from(factor) * f64::from(x[(row * m + j) * width + element])
                };
                *out = (f64::from(*out) + (0..m).map(term).sum::<f64>()) as f32;
            }
        }
    }

    pub(super) fn match_length(&mut self, x: BufferId, like: BufferId) {
        let (like, width, like_width) = (self.copy(like), self.width(x), self.width(like));
        let length = |x: &[f32]| arithmetic::dot(x, x).sqrt();
        for (x, like) in self.buffers[x.0 as usize].chunks_mut(width).zip(like.chunks(like_width)) {
            for part in x.chunks_mut(like_width).filter(|part| part.iter().any(|x| *x != 0.0)) {
                let factor = length(like) / length(part);
                part.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
            }
        }
    }

    pub(super) fn keep_outliers(&mut self, x: BufferId, deviations: f32) {
        let width = self.width(x);
        for x in self.buffers[x.0 as usize].chunks_mut(width) {
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64;
            let squares = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
            let limit = mean + f64::from(deviations) * (squares / (width - 1) as f64).sqrt();
            x.iter_mut().for_each(|x| *x = (f64::from(*x) - limit).max(0.0) as f32);
        }
    }
}
