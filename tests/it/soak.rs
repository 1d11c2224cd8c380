//! Soak and chaos test: a daemon under mixed load while it is killed, its disk fills, the clock jumps and memory is short.
//!
//! Clients generate, chat, read slowly, disconnect, pull, copy, create, delete, and manage the cache, all at once. Each answer
//! is compared with the answer of the idle daemon. The second half has no faults: at its end, the process must be as small as at
//! its start. Continuous integration runs three minutes, `cargo xtask soak` any time.

mod clients;
mod faults;
mod memory_limit;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_testkit::Random;
use cairn_testkit::registry::{FakeRegistry, Fault, Faults};
use serde_json::{Value, json};

use crate::cairn::{Home, exchange, succeeded};
use crate::process::{Size, settle};
use crate::pulls::published::Published;
use crate::small_disk::SmallDisk;

/// Test models that are loaded and unloaded by turns, beside the built-in one.
const MODELS: u64 = 3;
const PROMPTS: u64 = 6;
const ANSWER_TOKENS: u32 = 24;

/// State that all clients and the faults share.
struct Soak {
    home: Home,
    /// The disk of the library, if this machine lets a test mount one.
    disk: Option<SmallDisk>,
    /// Name of a model that is pulled and deleted.
    churn: String,
    questions: Vec<Question>,
    /// Number of daemon processes so far, the running one included.
    incarnation: AtomicU64,
    /// Whether the daemon accepts requests: false from each kill to the next start.
    is_up: AtomicBool,
    is_over: AtomicBool,
    tally: Mutex<Tally>,
}

/// A prompt with the answer of the idle daemon.
struct Question {
    model: String,
    prompt: String,
    answer: String,
}

/// Record of the events of a run.
#[derive(Default)]
struct Tally {
    events: BTreeMap<String, u64>,
    /// Events that must not happen.
    violations: Vec<String>,
    /// Times between two pieces of an answer.
    gaps: Vec<Duration>,
}

/// Result of one request.
enum Outcome {
    Response(u16, String),
    /// The daemon was killed or restarted meanwhile.
    Killed,
}

/// Settings that make evictions, loads and writes to the tiers frequent.
fn settings(home: Home) -> Home {
    let home = home
        .with("OLLAMA_KV_TIERING", "1")
        .with("CAIRN_KV_WEIGH", "0")
        .with("CAIRN_KV_BUDGET", (24 << 20).to_string())
        .with("CAIRN_KV_RAM", "16M")
        .with("OLLAMA_MAX_LOADED_MODELS", "2")
        .with("CAIRN_STALL", "2s")
        .with("CAIRN_CHAT_TITLES", "0");
    faults::with_clock(home)
}

/// Imports the models and asks the idle daemon all questions.
fn prepare(home: &Home, pulled: &str) -> Vec<Question> {
    let _daemon = home.serve();
    let mut models = vec![pulled.to_owned(), "pebble".to_owned()];
    succeeded(&home.run(&["pull", pulled, "--insecure"]));
    for seed in 1..=MODELS {
        let file = home.folder.path().join(format!("m{seed}.gguf"));
        let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
        cairn_testkit::write_file(&spec, &file).expect("the home is writable");
        models.push(format!("m{seed}"));
        succeeded(&home.run(&["import", &file.to_string_lossy(), &format!("m{seed}")]));
    }
    let ask = |(model, number): (&String, u64)| {
        // The prompts share a prefix of several chunks.
        let common: String = (0..300).map(|word| format!("{} ", word * 7919 % 1009)).collect();
        let mut question =
            Question { model: model.clone(), prompt: format!("{common}{number}"), answer: String::new() };
        let response = exchange(home.port, "POST", "/api/generate", &[], &question.body().to_string());
        let (_, body) = response.expect("the daemon answers");
        question.answer = answer(&body).unwrap_or_else(|error| panic!("{model}: {error}"));
        question
    };
    models.iter().flat_map(|model| (0..PROMPTS).map(move |number| (model, number))).map(ask).collect()
}

impl Soak {
    /// Sends a request that may break only if the daemon is killed meanwhile. A server error without a declared reason is a
    /// violation.
    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Outcome {
        let before = self.incarnation.load(Ordering::SeqCst);
        let was_up = self.is_up.load(Ordering::SeqCst);
        let response = exchange(self.home.port, method, path, headers, body);
        let was_killed =
            !was_up || !self.is_up.load(Ordering::SeqCst) || self.incarnation.load(Ordering::SeqCst) != before;
        match response {
            Some((status, body)) => {
                let is_declared = body.contains("\"code\"") && !body.contains("\"internal\"");
                if status >= 500 && !is_declared && !was_killed {
                    self.violation(format!("{method} {path}: {status} {body}"));
                }
                // The first two parts of a path, without identifiers.
                let route: String = path.split_inclusive('/').take(3).collect();
                self.count(format!("{method} {} {status}", route.trim_end_matches('/')));
                Outcome::Response(status, body)
            }
            None if was_killed => Outcome::Killed,
            None => {
                self.violation(format!("{method} {path}: the connection broke, but the daemon was not killed"));
                Outcome::Killed
            }
        }
    }

    /// Sends a request with the daemon token.
    fn own(&self, method: &str, path: &str, body: &Value) -> Outcome {
        let Some(bearer) = self.home.bearer() else { return Outcome::Killed };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.request(method, path, &[("Authorization", &bearer)], &body)
    }

    fn count(&self, event: impl Into<String>) {
        *self.tally.lock().expect("no client panics").events.entry(event.into()).or_default() += 1;
    }

    fn violation(&self, text: String) {
        eprintln!("violation: {text}");
        self.tally.lock().expect("no client panics").violations.push(text);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn question(&self, random: &mut Random) -> &Question {
        &self.questions[random.below(self.questions.len() as u64) as usize]
    }
}

impl Question {
    fn body(&self) -> Value {
        let options = json!({"num_predict": ANSWER_TOKENS, "temperature": 0, "num_ctx": 2048});
        json!({"model": self.model, "prompt": self.prompt, "raw": true, "options": options})
    }
}

/// Returns the text of a streamed answer.
fn answer(body: &str) -> Result<String, String> {
    let lines: Vec<Value> = body.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if let Some(error) = lines.iter().find_map(|line| line["error"].as_str()) {
        return Err(error.to_owned());
    }
    if !lines.last().is_some_and(|line| line["done"] == true) {
        return Err(format!("no last line: {body}"));
    }
    Ok(lines.iter().filter_map(|line| line["response"].as_str()).collect())
}

/// Duration of the test: three minutes in CI, more in `cargo xtask soak`.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask soak` sets the scale")]
fn duration() -> Duration {
    let minutes = std::env::var("CAIRN_SOAK_MINUTES").ok().and_then(|minutes| minutes.parse().ok());
    Duration::from_secs(60 * minutes.unwrap_or(3))
}

#[test]
fn daemon_survives_mixed_load_and_faults() {
    let total = duration();
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let [pulled, churn] =
        [("pulled", 77), ("churn", 78)].map(|(model, seed)| Published::tiny(&registry, model, seed).name);
    let (disk, home) = match SmallDisk::under(settings(Home::new()), 96 << 20) {
        Some((disk, home)) => (Some(disk), home),
        None => (None, settings(Home::new())),
    };
    let questions = prepare(&home, &pulled);
    registry.set_faults(Faults { per_1000: vec![(Fault::Drop, 100), (Fault::Flip, 50)], ..Faults::default() });
    let soak = Soak {
        home,
        disk,
        churn,
        questions,
        incarnation: AtomicU64::new(1),
        is_up: AtomicBool::new(true),
        is_over: AtomicBool::new(false),
        tally: Mutex::default(),
    };

    let started = Instant::now();
    let mut daemon = soak.home.serve();
    let before = std::thread::scope(|scope| {
        clients::spawn(scope, &soak);
        faults::run(&soak, &mut daemon, started + total / 2);
        std::thread::sleep(total / 6);
        let before = Size::of(daemon.child.id());
        println!("after {:?}, without further faults: {before}", started.elapsed());
        while started.elapsed() < total {
            std::thread::sleep((total / 10).min(Duration::from_secs(60)));
            println!("after {:?}: {}", started.elapsed(), Size::of(daemon.child.id()));
        }
        soak.is_over.store(true, Ordering::SeqCst);
        before
    });
    let after = settle(&before, daemon.child.id());
    let tally = std::mem::take(&mut *soak.tally.lock().expect("no client panics"));
    report(tally.events, tally.gaps);
    println!("after the load: {after}");
    assert!(!daemon.log().contains("panicked"), "a panic: {}", daemon.log());
    assert_eq!(tally.violations, [""; 0], "violations");
    assert!(after.is_within(&before), "the process grew: {before} before, {after} after");
}

fn report(events: BTreeMap<String, u64>, mut gaps: Vec<Duration>) {
    for (event, count) in events {
        println!("{count:>8} {event}");
    }
    gaps.sort_unstable();
    let percentile = |percent: usize| gaps.get(gaps.len() * percent / 100).copied().unwrap_or_default();
    println!("times between pieces of an answer: median {:?}, p99 {:?}", percentile(50), percentile(99));
}
