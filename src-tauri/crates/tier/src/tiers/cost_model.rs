//! Restore plans from measured costs. Measurements live as long as the tiers, so a reloaded model starts with them.

use std::time::Duration;

use super::Tiers;
use crate::cost::{CostModel, RestorePlan};
use crate::coverage::Coverage;
use crate::identity::Fingerprint;
use crate::tier::TierKind;

impl Tiers {
    /// Plans how much of a coverage to restore for a reader that has the first `have` tokens. Returns `None` if
    /// computing is no slower.
    pub fn plan_restore(&self, costs: &mut CostModel, have: usize, coverage: &Coverage) -> Option<RestorePlan> {
        let rates = self.inner.lock().rates.clone();
        costs.set_rates(rates);
        if self.inner.config.use_cost_model { costs.plan_for(have, coverage) } else { costs.plan_all(have, coverage) }
    }

    /// Records how long it took to copy rows from a tier that needs no read.
    pub fn record_copy(&self, tier: TierKind, bytes: u64, took: Duration) {
        self.inner.lock().rates.record_read(tier, bytes, took);
    }

    /// Returns the compute costs that were measured before the model was last unloaded.
    pub fn cost_model(&self, fingerprint: &Fingerprint) -> Option<CostModel> {
        self.inner.lock().costs.get(fingerprint).cloned()
    }

    /// Stores a model's compute costs until the process ends.
    pub fn save_cost_model(&self, fingerprint: Fingerprint, costs: CostModel) {
        /// More models than are in use at a time.
        const MODELS: usize = 64;
        let mut state = self.inner.lock();
        if state.costs.len() >= MODELS {
            state.costs.clear();
        }
        state.costs.insert(fingerprint, costs);
    }
}
