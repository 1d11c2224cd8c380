//! Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): products and copies by head, and keys that contain their values.

use super::arithmetic;
use super::step::Step;
use crate::plan::{BufferId, HeadPart};
use crate::state::StateId;
use crate::weight::{Weight, WeightId};

impl Step<'_> {
    pub(super) fn multiply_heads(&mut self, from: HeadPart, weight: WeightId, to: HeadPart) {
        let Weight { rows, cols, .. } = self.weights[weight.0 as usize];
        let (x, widths) = (self.copy(from.buffer), [from, to].map(|part| self.width(part.buffer)));
        let out_width = rows / from.heads;
        for head in 0..from.heads {
            let [input, output] = [from.range(head, cols, widths[0]), to.range(head, out_width, widths[1])];
            for (element, at) in output.enumerate() {
                let weight = self.weight_row(weight, head * out_width + element);
                let outputs = self.buffers[to.buffer.0 as usize].chunks_mut(widths[1]);
                for (x, out) in x.chunks(widths[0]).zip(outputs) {
                    out[at] = arithmetic::dot(&x[input.clone()], &weight) as f32;
                }
            }
        }
    }

    pub(super) fn copy_heads(&mut self, from: HeadPart, to: HeadPart, width: usize) {
        let (x, widths) = (self.copy(from.buffer), [from, to].map(|part| self.width(part.buffer)));
        for (x, out) in x.chunks(widths[0]).zip(self.buffers[to.buffer.0 as usize].chunks_mut(widths[1])) {
            for head in 0..to.heads {
                let source = from.range(if from.heads == 1 { 0 } else { head }, width, widths[0]);
                out[to.range(head, width, widths[1])].copy_from_slice(&x[source]);
            }
        }
    }

    pub(super) fn store_latent(&mut self, state: StateId, k: BufferId, v: BufferId) {
        let [k_width, v_width] = [k, v].map(|id| self.width(id));
        let (keys, values) = (self.copy(k), self.copy(v));
        for (index, row) in self.batch.rows.iter().enumerate() {
            let (page, [place, _]) = self.place(state, row.seq, row.slot as usize, 0);
            let (key, value) = (&keys[index * k_width..][..k_width], &values[index * v_width..][..v_width]);
            let mut bytes = Vec::new();
            let row = [key, value].concat();
            self.layout.dtype.encode(&row, &mut bytes).expect("types of pages have encoders, and heads whole blocks");
            self.pages[page][place].copy_from_slice(&bytes);
        }
    }
}
