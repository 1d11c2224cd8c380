//! Memory of state space models.

use cairn_kernels::SCAN_TOKENS;

use crate::plan::{Op, Plan};
use crate::state_space::BLOCK;

/// Memory of one thread.
#[derive(Debug, Default)]
pub(super) struct ScanScratch {
    /// `[state_size, columns]`.
    pub(super) state: Vec<f32>,
    /// Outputs of some tokens, `[tokens, columns]`.
    pub(super) out: Vec<f32>,
}

impl ScanScratch {
    /// Allocates memory for a plan.
    pub(super) fn fit(&mut self, plan: &Plan) {
        let sizes = plan.ops.iter().filter_map(|op| match op {
            Op::StateSpace(op) => Some(op.state_size),
            _ => None,
        });
        let Some(size) = sizes.max() else { return };
        self.state.resize(self.state.len().max(size * BLOCK), 0.0);
        self.out.resize(SCAN_TOKENS * BLOCK, 0.0);
    }
}
