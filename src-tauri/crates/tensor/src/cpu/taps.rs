//! Weights of convolutions in the layout that the ops read.

use crate::plan::{Op, Plan};
use crate::weight::Weight;

/// The weights of all convolutions of a checked plan as `[kernel, width]`, by recurrent state.
pub(super) fn taps(plan: &Plan, weights: &[Weight]) -> Vec<Vec<f32>> {
    let mut all = vec![Vec::new(); plan.recurrent.len()];
    for op in &plan.ops {
        let Op::Conv { state, weight, .. } = op else { continue };
        let Weight { dtype, rows, cols, bytes, .. } = &weights[weight.0 as usize];
        let mut values = vec![0.0; rows * cols];
        dtype.decode(bytes, &mut values);
        let tap = |nth: usize| values.iter().copied().skip(nth).step_by(*cols);
        all[state.0 as usize] = (0..*cols).flat_map(tap).collect();
    }
    all
}
