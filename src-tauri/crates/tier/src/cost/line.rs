//! A time that grows with two quantities, learnt from what was measured.
//!
//! The last [`KEPT`] measurements are fitted by least squares of the *relative* error, so that a short run counts as much as a long
//! one, and with Huber's weights, so that a run during which the machine was busy with something else counts little
//! (<https://en.wikipedia.org/wiki/Huber_loss>). What was assumed before stays in as a weak measurement, but only as a ratio: when all
//! runs are alike, they say how fast the machine is, and nothing about how the two quantities share the time.

use std::collections::VecDeque;

/// Measurements that are remembered.
const KEPT: usize = 64;
/// Relative errors above this count less.
const USUAL: f64 = 0.15;
/// Rounds of weighing anew; each gives those that do not fit less weight.
const ROUNDS: usize = 4;
/// How many measurements the assumed ratio is worth.
const ASSUMED: f64 = 0.003;

#[derive(Clone, Copy, Debug)]
struct Run {
    x: f64,
    y: f64,
    seconds: f64,
}

/// `seconds = a * x + b * y`, with `a` and `b` not negative.
#[derive(Clone, Debug)]
pub(super) struct Line {
    assumed: (f64, f64),
    fitted: (f64, f64),
    runs: VecDeque<Run>,
}

impl Line {
    /// What is assumed before anything was measured: both are above zero.
    pub(super) fn new(a: f64, b: f64) -> Self {
        Self { assumed: (a, b), fitted: (a, b), runs: VecDeque::with_capacity(KEPT) }
    }

    pub(super) fn at(&self, x: f64, y: f64) -> f64 {
        self.fitted.0 * x + self.fitted.1 * y
    }

    /// Takes a measurement in, in place of the oldest. One that says nothing is left out.
    pub(super) fn learn(&mut self, x: f64, y: f64, seconds: f64) {
        let telling = |value: f64| value.is_finite() && value > 0.0;
        if !(telling(x) && telling(y) && telling(seconds)) {
            return;
        }
        if self.runs.len() == KEPT {
            self.runs.pop_front();
        }
        self.runs.push_back(Run { x, y, seconds });
        self.fit();
    }

    fn fit(&mut self) {
        let (a, b) = self.assumed;
        let mut scales: Vec<f64> = self.runs.iter().map(|run| run.seconds / (a * run.x + b * run.y)).collect();
        let middle = scales.len() / 2;
        let scale = *scales.select_nth_unstable_by(middle, f64::total_cmp).1;
        let prior = (a * scale, b * scale);
        self.fitted = prior;
        for _ in 0..ROUNDS {
            self.fitted = self.solve(prior);
        }
    }

    /// One round of weighted least squares, whose unknowns are what to multiply `prior` with.
    fn solve(&self, prior: (f64, f64)) -> (f64, f64) {
        let (mut uu, mut uv, mut vv, mut us, mut vs) = (ASSUMED, 0.0, ASSUMED, ASSUMED, ASSUMED);
        for run in &self.runs {
            let expected = self.at(run.x, run.y);
            let error = (run.seconds - expected).abs() / expected.max(f64::MIN_POSITIVE);
            let weight = (USUAL / error.max(USUAL)) / (expected * expected).max(f64::MIN_POSITIVE);
            let (u, v) = (prior.0 * run.x, prior.1 * run.y);
            uu += weight * u * u;
            uv += weight * u * v;
            vv += weight * v * v;
            us += weight * u * run.seconds;
            vs += weight * v * run.seconds;
        }
        let det = uu * vv - uv * uv;
        let (u, v) = ((us * vv - vs * uv) / det, (vs * uu - us * uv) / det);
        let (u, v) = match (u >= 0.0, v >= 0.0) {
            _ if !(u.is_finite() && v.is_finite()) => (1.0, 1.0),
            (true, true) => (u, v),
            // Neither can be below zero, so the other explains all.
            (false, _) => (0.0, vs / vv),
            (_, false) => (us / uu, 0.0),
        };
        (u * prior.0, v * prior.1)
    }
}
