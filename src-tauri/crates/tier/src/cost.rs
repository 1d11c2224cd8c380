//! Estimates whether restoring rows is faster than recomputing them, and how many rows to restore.
//!
//! Both times are linear functions whose two coefficients are fitted to measurements, see [`LinearModel`]. Computing
//! positions `p0..p` takes `a * (p - p0) + b * (p^2 - p0^2) / 2`, since each token attends to all tokens before it.
//! Reading takes `latency + bytes / rate`, including verification and decompression. A restore starts only if it
//! clearly wins. It ends where it saves the most time, which may exclude chunks in a slower tier.
//!
//! This module performs no I/O and reads no clock. **Invariant:** an estimate is finite and never negative, whatever
//! was measured.

mod linear_model;
#[cfg(test)]
#[path = "../tests/simulations/cost.rs"]
mod simulation;

use std::ops::Range;
use std::time::Duration;

use self::linear_model::LinearModel;
use crate::coverage::Coverage;
use crate::tier::TierKind;

/// A restore must take less than this share of the recompute time, because estimates are inexact.
const MAX_RESTORE_SHARE: f64 = 0.8;
/// Maximum number of candidates, so that planning takes no longer for long prompts.
const MAX_CANDIDATES: usize = 64;
/// Shorter runs measure fixed costs rather than the cost per token, and are ignored.
const MIN_SAMPLE_TOKENS: usize = 16;
/// Smaller reads measure latency rather than the rate, and are ignored.
const MIN_SAMPLE_BYTES: u64 = 16 << 10;
/// Initial estimate of the depth at which attention costs as much as all other work.
const INITIAL_BALANCE_DEPTH: f64 = 16_384.0;

/// A possible end of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Tokens from the start of the prompt.
    pub end: usize,
    /// Bytes to read, by tier in the order of [`TierKind`].
    pub bytes: [u64; 3],
}

/// A restore that saves time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// Tokens from the start of the prompt.
    pub end: usize,
    /// Time limit of the restore; the rest is computed.
    pub timeout: Duration,
    /// Estimated restore time.
    pub restore: Duration,
    /// Estimated time to recompute the same rows.
    pub recompute: Duration,
}

/// Measured read costs of each tier. The tiers own it, so a model that is loaded later starts with these measurements.
#[derive(Clone, Debug)]
pub struct ReadRates([LinearModel; 3]);

impl Default for ReadRates {
    fn default() -> Self {
        // Defaults for memory, a plain SSD and a home network: seconds per call and per byte.
        let tier = |latency: f64, bytes_per_s: f64| LinearModel::new(latency, 1.0 / bytes_per_s);
        Self([tier(20e-6, 5e9), tier(500e-6, 500e6), tier(50e-3, 50e6)])
    }
}

impl ReadRates {
    /// Records how long a read took, without pauses.
    pub fn record_read(&mut self, tier: TierKind, bytes: u64, took: Duration) {
        if bytes >= MIN_SAMPLE_BYTES {
            self.0[tier as usize].add_sample(1.0, bytes as f64, took.as_secs_f64());
        }
    }

    /// Estimates the time to read these bytes, one tier after the other.
    pub fn estimate_restore(&self, bytes: [u64; 3]) -> Duration {
        let of = |(line, &bytes): (&LinearModel, &u64)| if bytes == 0 { 0.0 } else { line.at(1.0, bytes as f64) };
        seconds(self.0.iter().zip(&bytes).map(of).sum())
    }
}

/// Measured compute costs of one model, and read costs.
#[derive(Clone, Debug)]
pub struct CostModel {
    prefill: LinearModel,
    rates: ReadRates,
}

impl CostModel {
    /// Creates a model without measurements. `token` is the assumed time to compute one token at the start of a
    /// prompt.
    pub fn new(token: Duration) -> Self {
        let token = token.as_secs_f64().max(1e-7);
        Self { prefill: LinearModel::new(token, token / INITIAL_BALANCE_DEPTH), rates: ReadRates::default() }
    }

    /// As [`CostModel::new`], for weights of this size: each token is assumed to read every weight once.
    pub fn of_weights(bytes: u64) -> Self {
        const WEIGHT_BYTES_PER_S: f64 = 100e9;
        Self::new(Duration::from_secs_f64(bytes as f64 / WEIGHT_BYTES_PER_S))
    }

    /// Records how long it took to compute these positions of a single sequence.
    pub fn record_compute(&mut self, tokens: Range<usize>, took: Duration) {
        if tokens.len() >= MIN_SAMPLE_TOKENS {
            let (count, depth) = work(&tokens);
            self.prefill.add_sample(count, depth, took.as_secs_f64());
        }
    }

    /// Records how long a read took.
    pub fn record_read(&mut self, tier: TierKind, bytes: u64, took: Duration) {
        self.rates.record_read(tier, bytes, took);
    }

    /// Replaces the read costs by those that the tiers measured.
    pub fn set_rates(&mut self, rates: ReadRates) {
        self.rates = rates;
    }

    /// Estimates the time to compute these positions.
    pub fn estimate_recompute(&self, tokens: Range<usize>) -> Duration {
        let (count, depth) = work(&tokens);
        seconds(self.prefill.at(count, depth))
    }

    /// Estimates the time to read these bytes, one tier after the other.
    pub fn estimate_restore(&self, bytes: [u64; 3]) -> Duration {
        self.rates.estimate_restore(bytes)
    }

    /// Returns the candidate that saves the most time for a reader that has the first `have` tokens, or `None` if no
    /// restore clearly wins.
    pub fn plan(&self, have: usize, candidates: impl IntoIterator<Item = Candidate>) -> Option<RestorePlan> {
        let weighed =
            candidates.into_iter().filter(|candidate| candidate.end > have).filter_map(|Candidate { end, bytes }| {
                let (restore, recompute) = (self.estimate_restore(bytes), self.estimate_recompute(have..end));
                let timeout = time_limit(restore, (end - have) as u32, bytes[TierKind::Remote as usize] > 0);
                (restore < recompute.mul_f64(MAX_RESTORE_SHARE)).then_some(RestorePlan {
                    end,
                    timeout,
                    restore,
                    recompute,
                })
            });
        weighed.max_by_key(|choice| (choice.recompute - choice.restore, choice.end))
    }

    /// As [`CostModel::plan`], for the ends that a coverage allows.
    pub fn plan_for(&self, have: usize, coverage: &Coverage) -> Option<RestorePlan> {
        self.plan(have, candidates(have, coverage))
    }

    /// Plans to restore a whole coverage, at any cost.
    pub fn plan_all(&self, have: usize, coverage: &Coverage) -> Option<RestorePlan> {
        let end = coverage.tokens();
        let (restore, recompute) =
            (self.estimate_restore(coverage.bytes(have..end)), self.estimate_recompute(have..end));
        (end > have).then_some(RestorePlan { end, timeout: Duration::MAX, restore, recompute })
    }
}

/// Time limit of a restore that should take `restore`: twice that, plus a margin for networks.
fn time_limit(restore: Duration, tokens: u32, remote: bool) -> Duration {
    const FLOOR: Duration = Duration::from_millis(50);
    const REMOTE_TOKEN: Duration = Duration::from_millis(1);
    restore.saturating_mul(2).saturating_add(FLOOR + if remote { REMOTE_TOKEN * tokens } else { Duration::ZERO })
}

/// Returns the number of tokens, and the sum of their depths.
fn work(tokens: &Range<usize>) -> (f64, f64) {
    let (from, to) = (tokens.start as f64, tokens.end.max(tokens.start) as f64);
    (to - from, (to * to - from * from) / 2.0)
}

/// Converts seconds, saturating at [`Duration::MAX`].
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Returns the possible ends of a restore of this coverage.
pub fn candidates(have: usize, coverage: &Coverage) -> Vec<Candidate> {
    let whole = coverage.tokens();
    let stride = whole.saturating_sub(have).div_ceil(MAX_CANDIDATES).next_multiple_of(crate::identity::CHUNK_TOKENS);
    let mut ends: Vec<usize> =
        (have..whole).step_by(stride.max(1)).skip(1).map(|end| coverage.longest_prefix(end)).collect();
    ends.push(whole);
    ends.dedup();
    ends.into_iter().filter(|&end| end > have).map(|end| Candidate { end, bytes: coverage.bytes(have..end) }).collect()
}
