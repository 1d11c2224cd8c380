//! Structure-aware fuzzing of all routes of the daemon: valid requests and their mutations.
//!
//! Each request is determined by its number and by the ids that exist. No request may panic, fail with an undeclared error, or stay
//! without a response, and the daemon may not grow. Continuous integration sends 600 requests, `cargo xtask prove requests` 30,000.

mod dictionary;
mod exchange;
mod judge;
mod mutate;
pub(crate) mod routes;
mod seeds;
mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use cairn_store::Digest;
use cairn_testkit::Random;
use cairn_testkit::hub::FakeHub;
use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::Value;

use self::exchange::{Bytes, Outcome, Request};
use self::seeds::{Expected, Seed};
use self::world::World;
use crate::cairn::{Daemon, Home};
use crate::process::{Size, settle};
use crate::pulls::published::Published;

/// Requests of continuous integration.
const FEW: u64 = 300;
/// Longest time until a response.
const LIMIT: Duration = Duration::from_secs(30);
/// Requests between two checks of the daemon.
const INTERVAL: u64 = 100;
/// The route that ends the daemon.
const STOP: &str = "/app/stop";

/// A running daemon and what its requests did.
struct Fuzz<'a> {
    home: &'a Home,
    daemon: Daemon<'a>,
    bearer: String,
    world: World,
    /// Number of outcomes of each kind.
    outcomes: BTreeMap<String, u64>,
    slowest: (Duration, String),
    failures: Vec<String>,
    /// The last requests, for a failure of the daemon as a whole.
    recent: VecDeque<String>,
}

#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale")]
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn home(hub: &FakeHub) -> Home {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name).to_string_lossy().into_owned();
    let (user, tier) = (path("user"), path("tier"));
    // Small budgets, because the memory of the process is compared. No request may leave this machine.
    home.with("HOME", user)
        .with("OLLAMA_KV_TIERING", "1")
        .with("OLLAMA_KV_TIER_LOCAL", tier)
        .with("CAIRN_KV_WEIGH", "0")
        .with("CAIRN_KV_BUDGET", (32 << 20).to_string())
        .with("CAIRN_KV_RAM", "8M")
        .with("OLLAMA_CONTEXT_LENGTH", "1024")
        .with("CAIRN_CHAT_TITLES", "0")
        .with("CAIRN_SHARE", "0")
        .with("CAIRN_STALL", "500ms")
        .with("CAIRN_PROXY", "http://127.0.0.1:1")
        .with("CAIRN_HUB", hub.url())
}

#[test]
fn daemon_answers_hostile_requests_without_faults() {
    let (from, runs) = (number("CAIRN_PROVE_FROM", 0), number("CAIRN_PROVE_RUNS", FEW));
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let hub = FakeHub::with_one_model().expect("loopback has free ports");
    let home = home(&hub);
    let folder = home.folder.path().join("files");
    let new_blob = "GGUF";
    let published = Published::tiny(&registry, "pulled", 77);
    let slow = FakeRegistry::start(1, Faults { bytes_per_second: Some(1_000), ..Faults::default() });
    let slow = slow.expect("loopback has free ports");
    let world = World {
        model: "m1".into(),
        embedder: "embedder".into(),
        made: "made".into(),
        pulled: published.name.clone(),
        registry: registry.host(),
        digest: Digest::of(&cairn_testkit::write(&cairn_testkit::tiny_llama())).to_string(),
        new_digest: Digest::of(new_blob.as_bytes()).to_string(),
        new_blob: new_blob.into(),
        file: folder.join("m1.gguf").to_string_lossy().into_owned(),
        folder: folder.to_string_lossy().into_owned(),
        slow: Published::of_noise(&slow, "slow", 78, 1 << 20).name,
        ..World::default()
    };
    let daemon = home.serve();
    let bearer = home.bearer().expect("the daemon has a token");
    let mut fuzz = Fuzz {
        home: &home,
        daemon,
        bearer,
        world,
        outcomes: BTreeMap::new(),
        slowest: Default::default(),
        failures: Vec::new(),
        recent: VecDeque::new(),
    };
    fuzz.world.refresh(&home);
    fuzz.check_seeds();
    assert_eq!(fuzz.failures, [""; 0], "valid requests");
    let warm_up = (runs / 10).max(INTERVAL);
    let started = Instant::now();
    let before = {
        fuzz.run(from, warm_up);
        Size::of(fuzz.daemon.child.id())
    };
    println!("after {warm_up} requests: {before}");
    fuzz.run(from + warm_up, runs.saturating_sub(warm_up));
    println!("{runs} requests in {:?}, the slowest in {:?}: {}", started.elapsed(), fuzz.slowest.0, fuzz.slowest.1);
    for (outcome, count) in &fuzz.outcomes {
        println!("{count:>8} {outcome}");
    }
    println!("after all requests: {}", Size::of(fuzz.daemon.child.id()));
    let after = settle(&before, fuzz.daemon.child.id());
    println!("later: {after}");
    assert_eq!(fuzz.failures, [""; 0], "failures");
    assert!(after.is_within(&before), "the process grew: {before} before, {after} after");
    fuzz.stop();
}

impl Fuzz<'_> {
    /// Sends each valid request once. Every method of every route must have one, and the daemon must have the route.
    fn check_seeds(&mut self) {
        let seeds = seeds::all(&self.world);
        let covered: BTreeSet<(&str, &str)> = seeds.iter().map(|seed| (seed.route, seed.method)).collect();
        let paths = routes::paths();
        for path in &paths {
            for method in routes::methods(self.home.port, &self.bearer, path) {
                assert!(
                    covered.contains(&(path.as_str(), method.as_str())),
                    "{method} {path} has no valid request in seeds.rs"
                );
            }
        }
        for seed in &seeds {
            assert!(paths.contains(seed.route), "{} is no route of the source", seed.route);
            let request = self.request(seed);
            let outcome = request.send(self.home.port, LIMIT);
            let Outcome::Response(response) = &outcome else { panic!("{} {}: {outcome:?}", seed.method, seed.target) };
            let is_right = match seed.expected {
                Expected::Accepted => response.status < 400,
                Expected::Refused => response.status >= 400,
                Expected::Either => true,
            };
            if !is_right {
                let text = format!("{} {}: {} {}", seed.method, seed.target, response.status, Bytes(&response.body));
                self.failures.push(format!("wrong status of a valid request: {text}"));
            }
            self.record(&format!("valid {} {}", seed.method, seed.target), seed, &request, &outcome);
        }
    }

    /// Returns the request of a seed, with the daemon token.
    fn request(&self, seed: &Seed) -> Request {
        let body = match &seed.body {
            Value::Null => Vec::new(),
            Value::String(text) => text.clone().into_bytes(),
            body => body.to_string().into_bytes(),
        };
        let request = Request::new(self.home.port, seed.method, &seed.target).with_body(body);
        if seed.route == STOP { request } else { request.with_header("Authorization", &self.bearer) }
    }

    /// Sends requests with the numbers from `from` on.
    fn run(&mut self, from: u64, runs: u64) {
        for number in from..from + runs {
            let seeds = seeds::all(&self.world);
            let seed = &seeds[usize::try_from(number).unwrap_or_default() % seeds.len()];
            let request = self.mutated(seed, number);
            let started = Instant::now();
            let outcome = request.send(self.home.port, LIMIT);
            let took = started.elapsed();
            let label = format!("number {number}, {} {}", seed.method, seed.route);
            if took > self.slowest.0 {
                self.slowest = (took, format!("{label}: {}", Bytes(&request.to_bytes())));
            }
            self.record(&label, seed, &request, &outcome);
            if number % INTERVAL == INTERVAL - 1 {
                self.check_daemon();
                self.world.refresh(self.home);
            }
            if number % (20 * INTERVAL) == 0 {
                println!("number {number}: {}", Size::of(self.daemon.child.id()));
            }
            assert!(self.failures.len() < 20, "too many failures: {:#?}", self.failures);
        }
        self.check_daemon();
    }

    /// Returns the request of a number. Every eighth one stays valid.
    fn mutated(&self, seed: &Seed, number: u64) -> Request {
        let random = &mut Random::from_name(number, "requests");
        let mut request = self.request(seed);
        if random.below(10) == 0 {
            request.patience = Duration::from_secs(1);
        }
        for _ in 0..[0, 1, 1, 1, 1, 2, 2, 3][usize::try_from(random.below(8)).unwrap_or_default()] {
            match random.below(10) {
                0..=4 if seed.body.is_object() => request.body = mutate::json(random, seed.body.clone(), &self.world),
                0..=2 => mutate::bytes(random, &mut request.body),
                3..=5 => mutate::target(random, &mut request.target),
                6..=8 => mutate::head(random, &mut request),
                _ => mutate::framing(random, &mut request),
            }
        }
        if request.target.windows(4).any(|part| part == b"stop") && seed.route == STOP {
            request.remove_header("Authorization");
        }
        request
    }

    fn record(&mut self, label: &str, seed: &Seed, request: &Request, outcome: &Outcome) {
        let (kind, problem) = judge::judge(seed.route, request, outcome);
        *self.outcomes.entry(kind).or_default() += 1;
        self.recent.push_back(label.to_owned());
        if self.recent.len() > usize::try_from(INTERVAL).unwrap_or(usize::MAX) {
            self.recent.pop_front();
        }
        if let Some(problem) = problem {
            let text = format!("{label}: {problem}; request: {}", Bytes(&request.to_bytes()));
            eprintln!("failure: {text}");
            self.failures.push(text);
        }
    }

    /// Checks that the daemon runs, answers, and did not panic.
    fn check_daemon(&mut self) {
        let ended = self.daemon.child.try_wait().expect("the child process can be polled");
        let recent = &self.recent;
        assert!(ended.is_none(), "the daemon ended: {ended:?} after {recent:?}: {}", self.daemon.log());
        assert!(self.daemon.get("/api/version").is_some(), "the daemon answers after {recent:?}");
        let log = self.daemon.log();
        assert!(!log.contains("panicked"), "a panic after {recent:?}: {log}");
    }

    /// Ends the daemon by the one request that the fuzzer never sends with a token.
    fn stop(mut self) {
        let request = Request::new(self.home.port, "POST", STOP).with_header("Authorization", &self.bearer);
        let outcome = request.send(self.home.port, LIMIT);
        assert!(matches!(&outcome, Outcome::Response(response) if response.status == 202), "{outcome:?}");
        let status = self.daemon.child.wait().expect("the process exits");
        assert!(status.success(), "{status}: {}", self.daemon.log());
    }
}
