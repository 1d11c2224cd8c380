//! What is worth being brought back, by what reading and computing have taken. What was learnt lives as long as the tiers, so a model
//! that is loaded again need not learn it anew.

use std::time::Duration;

use super::Tiers;
use crate::cost::{Choice, Costs};
use crate::coverage::Coverage;
use crate::identity::Fingerprint;
use crate::tier::Place;

impl Tiers {
    /// How much of a coverage to bring back for a reader who has its first `have` tokens, by what reading has taken lately and what
    /// computing is known to take. None where computing is no worse.
    pub fn choose(&self, costs: &mut Costs, have: usize, coverage: &Coverage) -> Option<Choice> {
        let rates = self.inner.lock().rates.clone();
        costs.set_rates(rates);
        if self.inner.config.weigh { costs.choose_of(have, coverage) } else { costs.all_of(have, coverage) }
    }

    /// Takes note of what copying rows of a place that needs no reading took.
    pub fn copied(&self, place: Place, bytes: u64, took: Duration) {
        self.inner.lock().rates.read(place, bytes, took);
    }

    /// What computing costs a model that is used in this way, as far as it was learnt before it was unloaded the last time.
    pub fn costs(&self, fingerprint: &Fingerprint) -> Option<Costs> {
        self.inner.lock().costs.get(fingerprint).cloned()
    }

    /// Remembers what computing costs a model until the process ends.
    pub fn remember_costs(&self, fingerprint: Fingerprint, costs: Costs) {
        /// More models than one works with.
        const MODELS: usize = 64;
        let mut state = self.inner.lock();
        if state.costs.len() >= MODELS {
            state.costs.clear();
        }
        state.costs.insert(fingerprint, costs);
    }
}
