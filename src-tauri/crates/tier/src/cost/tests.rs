//! The cost model: what it learns, and that it takes the quicker way.

use std::time::Duration;

use cairn_testkit::Random;

use super::{Candidate, Costs};
use crate::tier::Place;

/// What a machine really takes, with noise on top.
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

/// Ten percent of noise, and one run in ten that meets a busy machine and takes up to five times as long.
fn noisy(random: &mut Random, seconds: f64) -> Duration {
    let busy = if random.below(10) == 0 { 1.0 + 4.0 * unit(random) } else { 1.0 };
    Duration::from_secs_f64(seconds * busy * (1.0 + 0.1 * f64::from(random.normal())).max(0.3))
}

/// Lets `costs` see prompts of various lengths, computed in pieces, and reads of chunks of various sizes.
fn watch(costs: &mut Costs, machine: Machine, place: Place, random: &mut Random) {
    for _ in 0..8 {
        let prompt = 64 + random.below(8000) as usize;
        for from in (0..prompt).step_by(512) {
            let to = (from + 512).min(prompt);
            costs.computed(from..to, noisy(random, machine.computes(from, to)));
        }
    }
    for _ in 0..40 {
        let bytes = (1 << 20) + random.below(32 << 20);
        costs.read(place, bytes, noisy(random, machine.reads(bytes)));
    }
}

const BYTES_PER_TOKEN: u64 = 128 << 10;
const CHUNK: usize = 256;

fn ends(prompt: usize, place: Place) -> Vec<Candidate> {
    let candidate = |end: usize| {
        let mut bytes = [0; 3];
        bytes[place as usize] = end as u64 * BYTES_PER_TOKEN;
        Candidate { end, bytes }
    };
    (CHUNK..=prompt).step_by(CHUNK).map(candidate).collect()
}

#[test]
fn the_chosen_way_is_rarely_much_slower_than_the_better_one() {
    let (mut good, mut cells, mut restored, mut worst) = (0, 0, 0, 1.0f64);
    for seed in 0..40 {
        let mut random = Random::named(seed, "regret");
        // From a slow processor to a fast card, and the grid lies elsewhere each time.
        let token_s = 10f64.powf(-4.5 + 3.0 * unit(&mut random));
        let shift = 10f64.powf(unit(&mut random));
        for step in 0..5 {
            let machine = Machine {
                token_s,
                pair_s: token_s / (4000.0 + 30_000.0 * unit(&mut random)),
                latency_s: 2e-3,
                bytes_per_s: 2e6 * shift * 10f64.powi(step),
            };
            let mut costs = Costs::new(Duration::from_millis(10));
            watch(&mut costs, machine, Place::Ssd, &mut random);
            for prompt in [512, 1024, 4096, 16_384, 65_536] {
                let took = |end: usize| {
                    let restore = if end == 0 { 0.0 } else { machine.reads(end as u64 * BYTES_PER_TOKEN) };
                    restore + machine.computes(end, prompt)
                };
                let choice = costs.choose(0, ends(prompt, Place::Ssd));
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
    assert!(good * 100 >= cells * 95, "{good} of {cells} cells are within 10 % of the better way");
    assert!((cells / 5..cells * 4 / 5).contains(&restored), "{restored} of {cells}: the grid has both kinds of cells");
    assert!(worst < 2.0, "the worst cell takes {worst} times as long as the better way");
}

#[test]
fn both_parts_of_the_cost_are_learnt_in_spite_of_stalls() {
    let machine = Machine { token_s: 4e-3, pair_s: 5e-7, latency_s: 3e-3, bytes_per_s: 2e9 };
    let mut costs = Costs::new(Duration::from_micros(50));
    watch(&mut costs, machine, Place::Ssd, &mut Random::new(3));
    for (from, to) in [(0, 256), (0, 4096), (7000, 8000), (0, 16_384)] {
        let ratio = costs.recompute(from..to).as_secs_f64() / machine.computes(from, to);
        assert!((0.85..1.15).contains(&ratio), "computing {from}..{to} is estimated at {ratio} of what it takes");
    }
    for bytes in [1 << 20, 32 << 20, 512 << 20] {
        let ratio = costs.restore([0, bytes, 0]).as_secs_f64() / machine.reads(bytes);
        assert!((0.7..1.4).contains(&ratio), "reading {bytes} bytes is estimated at {ratio} of what it takes");
    }
}

#[test]
fn a_machine_that_becomes_slower_is_followed() {
    let mut costs = Costs::new(Duration::from_millis(10));
    for speed in [1e-3, 2e-2, 1e-4] {
        for _ in 0..64 {
            costs.computed(0..512, Duration::from_secs_f64(512.0 * speed));
        }
        let ratio = costs.recompute(0..512).as_secs_f64() / (512.0 * speed);
        assert!((0.95..1.05).contains(&ratio), "512 tokens are estimated at {ratio} of what they take");
    }
}

#[test]
fn one_measurement_sets_the_speed() {
    let mut costs = Costs::new(Duration::from_millis(10));
    costs.computed(0..512, Duration::from_millis(51));
    let estimate = costs.recompute(0..1024).as_secs_f64();
    assert!((0.09..0.13).contains(&estimate), "twice as many tokens take {estimate} s, after 51 ms for half of them");
}

#[test]
fn a_recall_may_end_before_the_slow_part() {
    let mut costs = Costs::new(Duration::from_millis(1));
    for _ in 0..64 {
        costs.read(Place::Ssd, 32 << 20, Duration::from_millis(16));
        costs.read(Place::Remote, 32 << 20, Duration::from_secs(3));
    }
    let near = |chunks: u64| [0, chunks * (32 << 20), 0];
    let half = Candidate { end: 2048, bytes: near(8) };
    let all = Candidate { end: 4096, bytes: [0, 8 * (32 << 20), 8 * (32 << 20)] };
    let choice = costs.choose(0, [half, all]).expect("the near half pays");
    assert_eq!(choice.end, 2048, "the far half takes longer than computing it");
    assert_eq!(choice.within, choice.restore * 2 + Duration::from_millis(50), "a place on this machine gets this long");
    assert!(costs.choose(2048, [half]).is_none(), "what the reader has is no gain");
    let far = costs.choose(0, [Candidate { end: 4096, bytes: [0, 0, 1 << 20] }]).expect("little to read pays");
    assert_eq!(
        far.within,
        far.restore * 2 + Duration::from_millis(50 + 4096),
        "a network gets 1 s more per 1000 tokens"
    );
}

#[test]
fn senseless_measurements_change_nothing_or_little() {
    let mut costs = Costs::new(Duration::ZERO);
    costs.computed(0..512, Duration::ZERO);
    costs.computed(5..5, Duration::from_secs(1));
    costs.read(Place::Ssd, 0, Duration::MAX);
    costs.read(Place::Ssd, u64::MAX, Duration::MAX);
    costs.read(Place::Ssd, 1 << 20, Duration::from_nanos(1));
    costs.computed(0..usize::MAX, Duration::from_nanos(1));
    let whole = Candidate { end: usize::MAX, bytes: [u64::MAX; 3] };
    let _ = costs.choose(0, [whole, Candidate { end: 256, bytes: [0, 1 << 20, 0] }]);
    for _ in 0..8 {
        costs.read(Place::Ssd, 1 << 20, Duration::from_millis(1));
    }
    assert!(costs.restore([0, 1 << 20, 0]) < Duration::from_millis(10), "odd reads are outvoted");
}
