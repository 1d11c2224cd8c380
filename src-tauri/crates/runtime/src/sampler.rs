//! Chooses the next token from its logits.
//!
//! The steps are those of Ollama's default chain, in its order: penalties, top-k, typical-p, top-p, min-p, temperature,
//! draw. A constraint applies after the penalties, so that no penalty can allow a token. Candidates are kept sorted, most likely first, equal ones by id, so that a seed fixes the answer.

use crate::random::Random;
use crate::request::Sampling;

/// One request's sampler. Its buffers are reused from token to token.
pub(crate) struct Sampler {
    sampling: Sampling,
    random: Random,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    id: u32,
    logit: f32,
    probability: f32,
}

impl Sampler {
    /// `seed` is used if the request has none.
    pub(crate) fn new(sampling: Sampling, seed: u64) -> Self {
        let random = Random::new(sampling.seed.unwrap_or(seed));
        Self { sampling, random, candidates: Vec::new() }
    }

    /// Chooses a token. `history` is the prompt and what was generated so far, newest last.
    pub(crate) fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> u32 {
        self.penalise(logits, history);
        self.choose(logits)
    }

    /// Chooses a token from logits after the penalties.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> u32 {
        if self.sampling.temperature <= 0.0 {
            return argmax(logits);
        }
        // A NaN logit is not a candidate. If all are NaN, the result is token 0.
        self.draw_from(logits, |logit| !logit.is_nan()).unwrap_or(0)
    }

    /// Chooses a token from logits after the penalties, of which a constraint has set some to negative infinity. None if no other
    /// is left.
    pub(crate) fn choose_allowed(&mut self, logits: &[f32]) -> Option<u32> {
        let is_allowed = |logit: f32| logit > f32::NEG_INFINITY;
        if self.sampling.temperature <= 0.0 {
            return Some(argmax(logits)).filter(|&id| logits.get(id as usize).is_some_and(|&logit| is_allowed(logit)));
        }
        self.draw_from(logits, is_allowed)
    }

    /// Filters the tokens with these logits, and draws one.
    fn draw_from(&mut self, logits: &[f32], is_candidate: impl Fn(f32) -> bool) -> Option<u32> {
        self.candidates.clear();
        self.candidates.extend(
            logits.iter().enumerate().filter(|(_, logit)| is_candidate(**logit)).map(|(id, &logit)| Candidate {
                id: id as u32,
                logit,
                probability: 0.0,
            }),
        );
        if self.candidates.is_empty() {
            return None;
        }
        self.top_k();
        self.typical_p();
        self.top_p();
        self.min_p();
        for candidate in &mut self.candidates {
            candidate.logit /= self.sampling.temperature;
        }
        softmax(&mut self.candidates);
        Some(self.draw())
    }

    /// Applies the penalties of recent tokens.
    pub(crate) fn penalise(&self, logits: &mut [f32], history: &[u32]) {
        let Sampling { repeat_last_n, repeat_penalty, presence_penalty, frequency_penalty, .. } = self.sampling;
        if repeat_penalty == 1.0 && presence_penalty == 0.0 && frequency_penalty == 0.0 {
            return;
        }
        let window = usize::try_from(repeat_last_n).unwrap_or(usize::MAX).min(history.len());
        let mut recent = history[history.len() - window..].to_vec();
        recent.sort_unstable();
        for run in recent.chunk_by(|a, b| a == b) {
            let Some(logit) = logits.get_mut(run[0] as usize) else { continue };
            *logit = if *logit > 0.0 { *logit / repeat_penalty } else { *logit * repeat_penalty };
            *logit -= run.len() as f32 * frequency_penalty + presence_penalty;
        }
    }

    fn top_k(&mut self) {
        let keep = match usize::try_from(self.sampling.top_k) {
            Ok(k) if k > 0 => k.min(self.candidates.len()),
            _ => self.candidates.len(),
        };
        if keep < self.candidates.len() {
            self.candidates.select_nth_unstable_by(keep, by_logit);
            self.candidates.truncate(keep);
        }
        self.candidates.sort_unstable_by(by_logit);
    }

    fn typical_p(&mut self) {
        let mass = self.sampling.typical_p;
        if mass >= 1.0 {
            return;
        }
        softmax(&mut self.candidates);
        let surprise = |candidate: &Candidate| -candidate.probability.max(f32::MIN_POSITIVE).ln();
        let entropy: f32 = self.candidates.iter().map(|c| c.probability * surprise(c)).sum();
        let distance = |candidate: &Candidate| (surprise(candidate) - entropy).abs();
        self.candidates.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        self.keep_mass(mass);
        self.candidates.sort_unstable_by(by_logit);
    }

    fn top_p(&mut self) {
        if self.sampling.top_p < 1.0 {
            softmax(&mut self.candidates);
            self.keep_mass(self.sampling.top_p);
        }
    }

    fn min_p(&mut self) {
        if self.sampling.min_p <= 0.0 {
            return;
        }
        // p >= min_p * p_max is a bound on the difference of logits, so no softmax is needed.
        let least = self.candidates[0].logit + self.sampling.min_p.ln();
        let keep = self.candidates.partition_point(|candidate| candidate.logit >= least).max(1);
        self.candidates.truncate(keep);
    }

    /// Keeps the first candidates, at least one, whose probabilities reach `mass`.
    fn keep_mass(&mut self, mass: f32) {
        let mut sum = 0.0;
        let enough = self.candidates.iter().position(|candidate| {
            sum += candidate.probability;
            sum >= mass
        });
        if let Some(last) = enough {
            self.candidates.truncate(last + 1);
        }
    }

    fn draw(&mut self) -> u32 {
        let point = self.random.unit();
        let mut sum = 0.0;
        for candidate in &self.candidates {
            sum += f64::from(candidate.probability);
            if point < sum {
                return candidate.id;
            }
        }
        // Rounding can leave the sum just under one.
        self.candidates[self.candidates.len() - 1].id
    }
}

fn by_logit(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// The id of the largest logit; the lowest id if several are equal.
fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] || logits[best].is_nan() {
            best = id;
        }
    }
    best as u32
}

/// Sets the probabilities of candidates from their logits.
fn softmax(candidates: &mut [Candidate]) {
    let max = candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for candidate in candidates.iter_mut() {
        // An infinite maximum would make NaN of its own difference.
        candidate.probability = if candidate.logit == max { 1.0 } else { (candidate.logit - max).exp() };
        sum += candidate.probability;
    }
    for candidate in candidates {
        candidate.probability /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_draws(sampling: Sampling, logits: &[f32], history: &[u32], draws: usize) -> Vec<usize> {
        let mut counts = vec![0; logits.len()];
        let mut sampler = Sampler::new(sampling, 7);
        for _ in 0..draws {
            counts[sampler.sample(&mut logits.to_vec(), history) as usize] += 1;
        }
        counts
    }

    fn unfiltered() -> Sampling {
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, ..Sampling::default() }
    }

    #[test]
    fn zero_temperature_takes_largest_logit_and_lowest_id() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(count_draws(greedy.clone(), &[0.0, 3.0, 3.0, 1.0], &[], 5), [0, 5, 0, 0], "ties go to the lower id");
        assert_eq!(count_draws(greedy, &[f32::NAN, 1.0], &[], 2), [0, 2], "NaN is never the largest");
    }

    #[test]
    fn draws_follow_probabilities() {
        let counts = count_draws(unfiltered(), &[0.0, 2f32.ln(), 4f32.ln()], &[], 70_000);
        for (count, expected) in counts.iter().zip([10_000, 20_000, 40_000]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?} is far from 1 : 2 : 4");
        }
    }

    #[test]
    fn filters_drop_unlikely_tokens() {
        let logits = [0.0, 1.0, 2.0, 3.0, 3.5];
        let kept = |sampling| count_draws(sampling, &logits, &[], 3000).iter().map(|&n| n > 0).collect::<Vec<_>>();
        assert_eq!(kept(Sampling { top_k: 2, ..unfiltered() }), [false, false, false, true, true], "top-k 2");
        // Probabilities: .017 .046 .126 .341 .470
        assert_eq!(kept(Sampling { top_p: 0.8, ..unfiltered() }), [false, false, false, true, true], "top-p 0.8");
        assert_eq!(
            kept(Sampling { top_p: 0.0, ..unfiltered() }),
            [false, false, false, false, true],
            "top-p 0 keeps one"
        );
        assert_eq!(kept(Sampling { min_p: 0.2, ..unfiltered() }), [false, false, true, true, true], "min-p 0.2");
        // Entropy 1.22 nats; surprises 4.06 3.07 2.07 1.08 .755: the closest is the fourth.
        assert_eq!(
            kept(Sampling { typical_p: 0.3, ..unfiltered() }),
            [false, false, false, true, false],
            "typical-p 0.3"
        );
    }

    #[test]
    fn penalties_apply_within_window_only() {
        let greedy = |repeat_last_n| Sampling {
            temperature: 0.0,
            repeat_last_n,
            repeat_penalty: 2.0,
            frequency_penalty: 0.1,
            presence_penalty: 0.5,
            ..Sampling::default()
        };
        // 3.0 / 2 - 2 * 0.1 - 0.5 = 0.8, below 1.0.
        assert_eq!(count_draws(greedy(64), &[1.0, 3.0], &[1, 1], 1), [1, 0], "both in the window");
        assert_eq!(count_draws(greedy(0), &[1.0, 3.0], &[1, 1], 1), [0, 1], "window off");
        assert_eq!(count_draws(greedy(1), &[1.0, 3.0], &[1, 0], 1), [0, 1], "only token 0 is in the window");
        assert_eq!(count_draws(greedy(-1), &[1.0, 3.0], &[1, 0], 1), [0, 1], "both penalised: 0.9 against -0.1");
    }

    #[test]
    fn equal_seeds_draw_equal_tokens() {
        let seeded = |seed| {
            let mut sampler = Sampler::new(Sampling { seed: Some(seed), ..unfiltered() }, 1);
            (0..64).map(|_| sampler.sample(&mut [0.0; 50], &[])).collect::<Vec<_>>()
        };
        assert_eq!(seeded(42), seeded(42), "the same seed draws the same tokens");
        assert_ne!(seeded(42), seeded(43), "another seed draws others");
    }

    #[test]
    fn only_allowed_tokens_are_chosen() {
        let none = f32::NEG_INFINITY;
        // A penalty that is not positive turns the logit of a token that may not come into NaN or positive infinity.
        for (temperature, repeat_penalty) in [(0.0, 1.0), (1.0, 1.0), (50.0, 0.0), (2.0, -3.0), (0.0, -3.0)] {
            let sampling = Sampling { temperature, repeat_penalty, ..unfiltered() };
            let mut sampler = Sampler::new(sampling, 5);
            for _ in 0..500 {
                let mut logits = [1.0, -900.0, 3.0, f32::NAN, 2.0];
                sampler.penalise(&mut logits, &[2, 2, 4]);
                for masked in [0, 2, 4] {
                    logits[masked] = none;
                }
                assert_eq!(
                    sampler.choose_allowed(&logits),
                    Some(1),
                    "temperature {temperature}: neither masked nor NaN"
                );
            }
            assert_eq!(
                sampler.choose_allowed(&[none, f32::NAN, none]),
                None,
                "temperature {temperature}: none is left"
            );
            assert_eq!(sampler.choose_allowed(&[]), None, "no logits");
        }
    }

    #[test]
    fn hostile_logits_do_not_panic() {
        for logits in [&[f32::INFINITY, f32::INFINITY, 0.0][..], &[f32::NEG_INFINITY; 3], &[f32::NAN; 3]] {
            let id = Sampler::new(Sampling::default(), 1).sample(&mut logits.to_vec(), &[9, 9]);
            assert!((id as usize) < logits.len(), "{id} is outside of the vocabulary");
        }
    }
}
