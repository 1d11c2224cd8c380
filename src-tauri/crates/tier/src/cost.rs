//! Whether bringing rows back is quicker than computing them again, and how many of them.
//!
//! Both sides are lines whose two numbers are fitted to what was measured, see [`Line`]: computing positions `p0..p` takes
//! `a * (p - p0) + b * (p^2 - p0^2) / 2`, since each token also attends to all before it; a place takes `latency + bytes / rate`, the
//! check and the unpacking included, since that is what a reader waits for. A recall goes ahead only where it clearly wins, and
//! ends where it saves the most: that may be less than all that is kept, where the rest lies in a slower place.
//!
//! Nothing here reads, writes or looks at a clock. **Invariant:** an estimate is finite and never negative, whatever was measured.

mod line;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use self::line::Line;
use crate::coverage::Coverage;
use crate::tier::Place;

/// A recall must take less than this part of computing, since estimates err and computing needs no luck.
const CLEARLY: f64 = 0.8;
/// Ends that are weighed at most, so that weighing a long prompt takes no longer than a short one.
const ENDS: usize = 64;
/// Recomputing that took fewer tokens than this says more about fixed costs than about tokens.
const TELLING_TOKENS: usize = 16;
/// Reads of less than this say little about a rate.
const TELLING_BYTES: u64 = 16 << 10;
/// The depth at which attending to what came before costs as much as everything else, before anything was measured.
const EVEN_DEPTH: f64 = 16_384.0;

/// Where a recall may end, and what lies before that end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Tokens from the beginning of the prompt.
    pub end: usize,
    /// Bytes to be read for it, by place in the order of [`Place`].
    pub bytes: [u64; 3],
}

/// A recall that pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Tokens from the beginning of the prompt.
    pub end: usize,
    /// How long it may take before the rest is computed instead.
    pub within: Duration,
    /// How long it is expected to take.
    pub restore: Duration,
    /// How long computing the same rows is expected to take.
    pub recompute: Duration,
}

/// What reading from each place costs on this machine. A new one knows nothing but what is common. It belongs to the places, so a model
/// that is loaded later knows what others have learnt.
#[derive(Clone, Debug)]
pub struct Rates([Line; 3]);

impl Default for Rates {
    fn default() -> Self {
        // Memory, a plain SSD and a home's network: seconds per call, and per byte.
        let place = |latency: f64, bytes_per_s: f64| Line::new(latency, 1.0 / bytes_per_s);
        Self([place(20e-6, 5e9), place(500e-6, 500e6), place(50e-3, 50e6)])
    }
}

impl Rates {
    /// Takes note of what reading so many bytes from a place took, without a pause.
    pub fn read(&mut self, place: Place, bytes: u64, took: Duration) {
        if bytes >= TELLING_BYTES {
            self.0[place as usize].learn(1.0, bytes as f64, took.as_secs_f64());
        }
    }

    /// What bringing these bytes back takes, one place after the other, as a prefix needs them.
    pub fn restore(&self, bytes: [u64; 3]) -> Duration {
        let of = |(line, &bytes): (&Line, &u64)| if bytes == 0 { 0.0 } else { line.at(1.0, bytes as f64) };
        seconds(self.0.iter().zip(&bytes).map(of).sum())
    }
}

/// What one model's computing costs on this machine, and what it costs to read instead.
#[derive(Clone, Debug)]
pub struct Costs {
    prefill: Line,
    rates: Rates,
}

impl Costs {
    /// Before anything was measured, `token` is what computing one token at the beginning of a prompt is taken to cost.
    pub fn new(token: Duration) -> Self {
        let token = token.as_secs_f64().max(1e-7);
        Self { prefill: Line::new(token, token / EVEN_DEPTH), rates: Rates::default() }
    }

    /// As [`Costs::new`] for a model with weights of so many bytes: each token is taken to need every weight once.
    pub fn of_weights(bytes: u64) -> Self {
        const WEIGHT_BYTES_PER_S: f64 = 100e9;
        Self::new(Duration::from_secs_f64(bytes as f64 / WEIGHT_BYTES_PER_S))
    }

    /// Takes note of what computing these positions of one sequence, and nothing else, took.
    pub fn computed(&mut self, tokens: Range<usize>, took: Duration) {
        if tokens.len() >= TELLING_TOKENS {
            let (count, depth) = work(&tokens);
            self.prefill.learn(count, depth, took.as_secs_f64());
        }
    }

    /// Takes note of what a read of so many bytes from a place took.
    pub fn read(&mut self, place: Place, bytes: u64, took: Duration) {
        self.rates.read(place, bytes, took);
    }

    /// From here on, reading costs what others have learnt.
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// What computing these positions takes.
    pub fn recompute(&self, tokens: Range<usize>) -> Duration {
        let (count, depth) = work(&tokens);
        seconds(self.prefill.at(count, depth))
    }

    /// What bringing these bytes back takes, one place after the other, as a prefix needs them.
    pub fn restore(&self, bytes: [u64; 3]) -> Duration {
        self.rates.restore(bytes)
    }

    /// The candidate that saves the most time for a reader who has the first `have` tokens; none where computing is no worse, or
    /// nearly so.
    pub fn choose(&self, have: usize, candidates: impl IntoIterator<Item = Candidate>) -> Option<Choice> {
        let weighed =
            candidates.into_iter().filter(|candidate| candidate.end > have).filter_map(|Candidate { end, bytes }| {
                let (restore, recompute) = (self.restore(bytes), self.recompute(have..end));
                let within = patience(restore, (end - have) as u32, bytes[Place::Remote as usize] > 0);
                (restore < recompute.mul_f64(CLEARLY)).then_some(Choice { end, within, restore, recompute })
            });
        weighed.max_by_key(|choice| (choice.recompute - choice.restore, choice.end))
    }

    /// As [`Costs::choose`], among the ends that a coverage allows.
    pub fn choose_of(&self, have: usize, coverage: &Coverage) -> Option<Choice> {
        self.choose(have, candidates(have, coverage))
    }

    /// All that a coverage has, whatever that takes.
    pub fn all_of(&self, have: usize, coverage: &Coverage) -> Option<Choice> {
        let end = coverage.tokens();
        let (restore, recompute) = (self.restore(coverage.bytes(have..end)), self.recompute(have..end));
        (end > have).then_some(Choice { end, within: Duration::MAX, restore, recompute })
    }
}

/// How long to wait for what should take `restore`: twice that, and some more where a network may stumble.
fn patience(restore: Duration, tokens: u32, remote: bool) -> Duration {
    const FLOOR: Duration = Duration::from_millis(50);
    const REMOTE_TOKEN: Duration = Duration::from_millis(1);
    restore.saturating_mul(2).saturating_add(FLOOR + if remote { REMOTE_TOKEN * tokens } else { Duration::ZERO })
}

/// Tokens, and positions that they attend to.
fn work(tokens: &Range<usize>) -> (f64, f64) {
    let (from, to) = (tokens.start as f64, tokens.end.max(tokens.start) as f64);
    (to - from, (to * to - from * from) / 2.0)
}

/// What does not fit is for ever.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Where a recall of this coverage may end.
pub fn candidates(have: usize, coverage: &Coverage) -> Vec<Candidate> {
    let whole = coverage.tokens();
    let stride = whole.saturating_sub(have).div_ceil(ENDS).next_multiple_of(crate::identity::CHUNK_TOKENS);
    let mut ends: Vec<usize> = (have..whole).step_by(stride.max(1)).skip(1).map(|end| coverage.longest(end)).collect();
    ends.push(whole);
    ends.dedup();
    ends.into_iter().filter(|&end| end > have).map(|end| Candidate { end, bytes: coverage.bytes(have..end) }).collect()
}
