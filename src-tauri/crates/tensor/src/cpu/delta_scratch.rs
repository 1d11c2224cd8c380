//! Memory of the gated delta rule.

use crate::delta::BLOCK;
use crate::plan::{Op, Plan};

/// Memory of one thread.
#[derive(Debug, Default)]
pub(super) struct DeltaScratch {
    /// `[key_dim, columns]`.
    pub(super) state: Vec<f32>,
    /// A normalised query.
    pub(super) q: Vec<f32>,
    /// A normalised key.
    pub(super) k: Vec<f32>,
    /// The same factor for each element of a query or a key.
    pub(super) factors: Vec<f32>,
}

impl DeltaScratch {
    /// Allocates memory for a plan.
    pub(super) fn fit(&mut self, plan: &Plan) {
        let rules = plan.ops.iter().filter_map(|op| match op {
            Op::DeltaRule(rule) => Some(rule.key_dim),
            _ => None,
        });
        let dim = rules.max().unwrap_or(0).max(self.k.len());
        self.state.resize(dim * BLOCK, 0.0);
        [&mut self.q, &mut self.k, &mut self.factors].into_iter().for_each(|memory| memory.resize(dim, 0.0));
    }
}
