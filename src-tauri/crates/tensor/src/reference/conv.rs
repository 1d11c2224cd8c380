//! Convolution along the tokens of a sequence, one output element after the other.

use super::step::Step;
use crate::plan::BufferId;
use crate::state::RecurrentId;
use crate::weight::WeightId;

impl Step<'_> {
    pub(super) fn conv(
        &mut self,
        state: RecurrentId,
        [x, out]: [BufferId; 2],
        weight: WeightId,
        bias: Option<WeightId>,
    ) {
        let (input, width) = (self.copy(x), self.width(x));
        let taps: Vec<Vec<f32>> = (0..width).map(|element| self.weight_row(weight, element)).collect();
        let kernel = taps[0].len();
        let bias = bias.map(|bias| self.weight_row(bias, 0));
        let section = self.layout.snapshot.elements(state);
        let mut end = 0;
        for rows in self.batch.rows.chunk_by(|a, b| a.seq == b.seq) {
            let begin = end;
            end += rows.len();
            let table = &self.batch.snapshots[rows[0].seq as usize];
            // All rows from the oldest one that the first output depends on.
            let mut all = match table.from {
                Some(from) => self.snapshots[from.0 as usize][section.clone()].to_vec(),
                None => vec![0.0; (kernel - 1) * width],
            };
            all.extend_from_slice(&input[begin * width..end * width]);
            for row in 0..rows.len() {
                for (element, taps) in taps.iter().enumerate() {
                    let products = taps.iter().enumerate().map(|(nth, tap)| {
                        let x = all[(row + nth) * width + element];
                        f64::from(*tap) * f64::from(x)
                    });
                    let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[element]));
                    let sum = products.sum::<f64>() + bias;
                    self.buffers[out.0 as usize][(begin + row) * width + element] = sum as f32;
                }
            }
            for (tokens, to) in &table.to {
                let last = (tokens - rows[0].slot) as usize;
                let state = &all[last * width..(last + kernel - 1) * width];
                self.snapshots[to.0 as usize][section.clone()].copy_from_slice(state);
            }
        }
    }
}
