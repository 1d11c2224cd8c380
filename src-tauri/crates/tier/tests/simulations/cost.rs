//! Tests of the cost model: learning, and the choice of the faster way.

use std::time::Duration;

use cairn_testkit::Random;

use super::{Candidate, CostModel};
use crate::tier::TierKind;

/// True costs of a simulated machine.
#[derive(Clone, Copy)]
struct Machine {
    token_s: f64,
    pair_s: f64,
    latency_s: f64,
    bytes_per_s: f64,
}

impl Machine {
    fn computes(&self, from: usize, to: usize) -> f64 {
        let (from, to) = (from as f64, to as f64);
        self.token_s * (to - from) + self.pair_s * (to * to - from * from) / 2.0
    }

    fn reads(&self, bytes: u64) -> f64 {
        self.latency_s + bytes as f64 / self.bytes_per_s
    }
}

fn unit(random: &mut Random) -> f64 {
    random.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// Adds 10 % of noise; one run in ten is up to five times as slow.
fn noisy(random: &mut Random, seconds: f64) -> Duration {
    let busy = if random.below(10) == 0 { 1.0 + 4.0 * unit(random) } else { 1.0 };
    Duration::from_secs_f64(seconds * busy * (1.0 + 0.1 * f64::from(random.normal())).max(0.3))
}

/// Records prefills of various lengths and reads of various sizes.
fn watch(costs: &mut CostModel, machine: Machine, tier: TierKind, random: &mut Random) {
    for _ in 0..8 {
        let prompt = 64 + random.below(8000) as usize;
        for from in (0..prompt).step_by(512) {
            let to = (from + 512).min(prompt);
            costs.record_compute(from..to, noisy(random, machine.computes(from, to)));
        }
    }
    for _ in 0..40 {
        let bytes = (1 << 20) + random.below(32 << 20);
        costs.record_read(tier, bytes, noisy(random, machine.reads(bytes)));
    }
}

const BYTES_PER_TOKEN: u64 = 128 << 10;
const CHUNK: usize = 256;

fn ends(prompt: usize, tier: TierKind) -> Vec<Candidate> {
    let candidate = |end: usize| {
        let mut bytes = [0; 3];
        bytes[tier as usize] = end as u64 * BYTES_PER_TOKEN;
        Candidate { end, bytes }
    };
    (CHUNK..=prompt).step_by(CHUNK).map(candidate).collect()
}

#[test]
fn restore_plan_is_rarely_much_slower_than_optimum() {
    let (mut good, mut cells, mut restored, mut worst) = (0, 0, 0, 1.0f64);
    for seed in 0..40 {
        let mut random = Random::from_name(seed, "regret");
        // From a slow processor to a fast GPU, with a different grid for each seed.
        let token_s = 10f64.powf(-4.5 + 3.0 * unit(&mut random));
        let shift = 10f64.powf(unit(&mut random));
        for step in 0..5 {
            let machine = Machine {
                token_s,
                pair_s: token_s / (4000.0 + 30_000.0 * unit(&mut random)),
                latency_s: 2e-3,
                bytes_per_s: 2e6 * shift * 10f64.powi(step),
            };
            let mut costs = CostModel::new(Duration::from_millis(10));
            watch(&mut costs, machine, TierKind::Ssd, &mut random);
            for prompt in [512, 1024, 4096, 16_384, 65_536] {
                let took = |end: usize| {
                    let restore = if end == 0 { 0.0 } else { machine.reads(end as u64 * BYTES_PER_TOKEN) };
                    restore + machine.computes(end, prompt)
                };
                let choice = costs.plan(0, ends(prompt, TierKind::Ssd));
                let best = (0..=prompt).step_by(CHUNK).map(took).fold(f64::INFINITY, f64::min);
                let regret = took(choice.map_or(0, |choice| choice.end)) / best;
                cells += 1;
                good += usize::from(regret <= 1.1);
                restored += usize::from(choice.is_some());
                worst = worst.max(regret);
            }
        }
    }
    println!("{good} of {cells} cells within 10 %, the worst at {worst:.2}, {restored} restored");
    assert!(good * 100 >= cells * 95, "{good} of {cells} cells are within 10 % of the optimum");
    assert!(
        (cells / 5..cells * 4 / 5).contains(&restored),
        "{restored} of {cells} cells restore: both kinds of cells must occur"
    );
    assert!(worst < 2.0, "the worst cell takes {worst} times as long as the optimum");
}

#[test]
fn both_coefficients_are_fitted_despite_outliers() {
    let machine = Machine { token_s: 4e-3, pair_s: 5e-7, latency_s: 3e-3, bytes_per_s: 2e9 };
    let mut costs = CostModel::new(Duration::from_micros(50));
    watch(&mut costs, machine, TierKind::Ssd, &mut Random::new(3));
    for (from, to) in [(0, 256), (0, 4096), (7000, 8000), (0, 16_384)] {
        let ratio = costs.estimate_recompute(from..to).as_secs_f64() / machine.computes(from, to);
        assert!(
            (0.85..1.15).contains(&ratio),
            "the estimate for computing {from}..{to} is {ratio} times the true time"
        );
    }
    for bytes in [1 << 20, 32 << 20, 512 << 20] {
        let ratio = costs.estimate_restore([0, bytes, 0]).as_secs_f64() / machine.reads(bytes);
        assert!((0.7..1.4).contains(&ratio), "the estimate for reading {bytes} bytes is {ratio} times the true time");
    }
}

#[test]
fn model_follows_a_machine_that_changes_speed() {
    let mut costs = CostModel::new(Duration::from_millis(10));
    for speed in [1e-3, 2e-2, 1e-4] {
        for _ in 0..64 {
            costs.record_compute(0..512, Duration::from_secs_f64(512.0 * speed));
        }
        let ratio = costs.estimate_recompute(0..512).as_secs_f64() / (512.0 * speed);
        assert!((0.95..1.05).contains(&ratio), "the estimate for 512 tokens is {ratio} times the true time");
    }
}

#[test]
fn one_sample_sets_the_speed() {
    let mut costs = CostModel::new(Duration::from_millis(10));
    costs.record_compute(0..512, Duration::from_millis(51));
    let estimate = costs.estimate_recompute(0..1024).as_secs_f64();
    assert!((0.09..0.13).contains(&estimate), "1024 tokens are estimated at {estimate} s after 512 took 51 ms");
}

#[test]
fn restore_ends_before_the_slow_tier() {
    let mut costs = CostModel::new(Duration::from_millis(1));
    for _ in 0..64 {
        costs.record_read(TierKind::Ssd, 32 << 20, Duration::from_millis(16));
        costs.record_read(TierKind::Remote, 32 << 20, Duration::from_secs(3));
    }
    let near = |chunks: u64| [0, chunks * (32 << 20), 0];
    let half = Candidate { end: 2048, bytes: near(8) };
    let all = Candidate { end: 4096, bytes: [0, 8 * (32 << 20), 8 * (32 << 20)] };
    let choice = costs.plan(0, [half, all]).expect("restoring the SSD part saves time");
    assert_eq!(choice.end, 2048, "the remote part is slower than computing it");
    assert_eq!(choice.timeout, choice.restore * 2 + Duration::from_millis(50), "the time limit for a local tier");
    assert!(costs.plan(2048, [half]).is_none(), "rows that the reader has save nothing");
    let far = costs.plan(0, [Candidate { end: 4096, bytes: [0, 0, 1 << 20] }]).expect("a small read saves time");
    assert_eq!(
        far.timeout,
        far.restore * 2 + Duration::from_millis(50 + 4096),
        "a remote tier gets 1 s more per 1000 tokens"
    );
}

#[test]
fn invalid_samples_change_little() {
    let mut costs = CostModel::new(Duration::ZERO);
    costs.record_compute(0..512, Duration::ZERO);
    costs.record_compute(5..5, Duration::from_secs(1));
    costs.record_read(TierKind::Ssd, 0, Duration::MAX);
    costs.record_read(TierKind::Ssd, u64::MAX, Duration::MAX);
    costs.record_read(TierKind::Ssd, 1 << 20, Duration::from_nanos(1));
    costs.record_compute(0..usize::MAX, Duration::from_nanos(1));
    let whole = Candidate { end: usize::MAX, bytes: [u64::MAX; 3] };
    let _ = costs.plan(0, [whole, Candidate { end: 256, bytes: [0, 1 << 20, 0] }]);
    for _ in 0..8 {
        costs.record_read(TierKind::Ssd, 1 << 20, Duration::from_millis(1));
    }
    assert!(costs.estimate_restore([0, 1 << 20, 0]) < Duration::from_millis(10), "valid samples outweigh invalid ones");
}
