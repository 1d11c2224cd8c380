//! A duration that is linear in two quantities, fitted to measurements.
//!
//! The last [`MAX_SAMPLES`] samples are fitted by least squares of the *relative* error, so that short samples count as much as
//! long ones. Huber weights (<https://en.wikipedia.org/wiki/Huber_loss>) reduce the effect of samples on a busy machine.
//! The initial assumption remains as a weak sample, but only its ratio: if all samples are alike, they determine the
//! machine's speed but not the ratio of the coefficients.

use std::collections::VecDeque;

/// Maximum number of samples.
const MAX_SAMPLES: usize = 64;
/// Larger relative errors reduce a sample's weight.
const HUBER_THRESHOLD: f64 = 0.15;
/// Number of iterations of the reweighted least-squares fit.
const ROUNDS: usize = 4;
/// Weight of the assumed ratio, in samples.
const PRIOR_WEIGHT: f64 = 0.003;

#[derive(Clone, Copy, Debug)]
struct Sample {
    x: f64,
    y: f64,
    seconds: f64,
}

/// `seconds = a * x + b * y`; `a` and `b` are not negative.
#[derive(Clone, Debug)]
pub(super) struct LinearModel {
    assumed: (f64, f64),
    fitted: (f64, f64),
    samples: VecDeque<Sample>,
}

impl LinearModel {
    /// Creates a model from assumed coefficients, both positive.
    pub(super) fn new(a: f64, b: f64) -> Self {
        Self { assumed: (a, b), fitted: (a, b), samples: VecDeque::with_capacity(MAX_SAMPLES) }
    }

    pub(super) fn at(&self, x: f64, y: f64) -> f64 {
        self.fitted.0 * x + self.fitted.1 * y
    }

    /// Adds a sample in place of the oldest. Invalid samples are ignored.
    pub(super) fn add_sample(&mut self, x: f64, y: f64, seconds: f64) {
        let is_valid = |value: f64| value.is_finite() && value > 0.0;
        if !(is_valid(x) && is_valid(y) && is_valid(seconds)) {
            return;
        }
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { x, y, seconds });
        self.fit();
    }

    fn fit(&mut self) {
        let (a, b) = self.assumed;
        let mut scales: Vec<f64> =
            self.samples.iter().map(|sample| sample.seconds / (a * sample.x + b * sample.y)).collect();
        let middle = scales.len() / 2;
        let scale = *scales.select_nth_unstable_by(middle, f64::total_cmp).1;
        let prior = (a * scale, b * scale);
        self.fitted = prior;
        for _ in 0..ROUNDS {
            self.fitted = self.solve(prior);
        }
    }

    /// Solves one weighted least-squares step for two factors, and returns `prior` multiplied with them.
    fn solve(&self, prior: (f64, f64)) -> (f64, f64) {
        let (mut uu, mut uv, mut vv, mut us, mut vs) = (PRIOR_WEIGHT, 0.0, PRIOR_WEIGHT, PRIOR_WEIGHT, PRIOR_WEIGHT);
        for sample in &self.samples {
            let expected = self.at(sample.x, sample.y);
            let error = (sample.seconds - expected).abs() / expected.max(f64::MIN_POSITIVE);
            let weight = (HUBER_THRESHOLD / error.max(HUBER_THRESHOLD)) / (expected * expected).max(f64::MIN_POSITIVE);
            let (u, v) = (prior.0 * sample.x, prior.1 * sample.y);
            uu += weight * u * u;
            uv += weight * u * v;
            vv += weight * v * v;
            us += weight * u * sample.seconds;
            vs += weight * v * sample.seconds;
        }
        let det = uu * vv - uv * uv;
        let (u, v) = ((us * vv - vs * uv) / det, (vs * uu - us * uv) / det);
        let (u, v) = match (u >= 0.0, v >= 0.0) {
            _ if !(u.is_finite() && v.is_finite()) => (1.0, 1.0),
            (true, true) => (u, v),
            // A coefficient cannot be negative, so the other one explains everything.
            (false, _) => (0.0, vs / vv),
            (_, false) => (us / uu, 0.0),
        };
        (u * prior.0, v * prior.1)
    }
}
