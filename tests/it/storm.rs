//! A chat while the daemon is attacked: slow readers, idle connections, incomplete bodies, a hostile registry and a hostile page.
//!
//! The attack runs in a process of its own with the lowest priority, so that most of its cost is the daemon's. The times between the
//! tokens of a chat are compared with those before and after the attack. Continuous integration runs a small attack, which
//! the chat and other clients must survive; `cargo xtask prove storm` runs the full one and compares the times.

mod attack;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cairn::{Daemon, Home, exchange, send, succeeded};
use crate::process::Size;

/// Address of the daemon, for the attacking process.
const ADDRESS: &str = "CAIRN_STORM_ADDRESS";
const SCALE: &str = "CAIRN_PROVE_STORM";
/// Longest time until the attack is connected.
const RISE: Duration = Duration::from_secs(20);
/// Largest acceptable p99 between two tokens, as a multiple of the same without the attack.
const MAX_RATIO: f64 = 1.5;
/// Longest response time for another client during the attack.
const LIMIT: Duration = Duration::from_secs(30);

/// Size of the attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    /// Slow readers of long answers of the model that answers the chat, which therefore computes them at the same time.
    slow_answers: usize,
    /// Slow readers of lists and pages.
    slow_lists: usize,
    idle: usize,
    half_bodies: usize,
    registries: usize,
    pages: usize,
    /// Pairs of a quiet and an attacked chat.
    rounds: usize,
}

const SMALL: Scale =
    Scale { slow_answers: 10, slow_lists: 90, idle: 200, half_bodies: 16, registries: 2, pages: 1, rounds: 1 };
const FULL: Scale =
    Scale { slow_answers: 200, slow_lists: 1800, idle: 5000, half_bodies: 200, registries: 2, pages: 2, rounds: 3 };

#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale, and the test starts itself")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Scale {
    /// The small one, the full one, or the full one with only some of its parts: `full:idle,pages`.
    fn chosen() -> Self {
        let chosen = variable(SCALE).unwrap_or_default();
        let Some(parts) = chosen.strip_prefix("full") else { return SMALL };
        let Some(parts) = parts.strip_prefix(':') else { return FULL };
        let part = |name: &str, count: usize| if parts.split(',').any(|part| part == name) { count } else { 0 };
        Scale {
            slow_answers: part("answers", FULL.slow_answers),
            slow_lists: part("lists", FULL.slow_lists),
            idle: part("idle", FULL.idle),
            half_bodies: part("bodies", FULL.half_bodies),
            registries: part("registry", FULL.registries),
            pages: part("pages", FULL.pages),
            rounds: FULL.rounds,
        }
    }
}

/// The attacking process; not a test of its own.
#[test]
fn attacker_process_runs_until_its_parent_ends_it() {
    if let Some(address) = variable(ADDRESS) {
        attack::run(address.parse().expect("the parent passes an address"), &Scale::chosen());
    }
}

/// The running attack.
struct Attack(Child);

impl Attack {
    fn start(port: u16) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let script = "ulimit -n \"$(ulimit -H -n)\"; exec nice -n 19 \"$0\" --exact storm::attacker_process_runs_until_its_parent_ends_it --nocapture";
        let mut child = Command::new("sh")
            .args(["-c", script, &program.to_string_lossy()])
            .env(ADDRESS, SocketAddr::from(([127, 0, 0, 1], port)).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let output = BufReader::new(child.stdout.as_mut().expect("the stream is piped"));
        assert!(output.lines().map_while(Result::ok).any(|line| line.contains("attacking")), "the attack starts");
        Self(child)
    }

    /// Ends the attack and returns its counters.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let mut text = String::new();
        let mut output = self.0.stdout.take().expect("the stream is piped");
        output.read_to_string(&mut text).expect("the output is text");
        self.0.wait().expect("the process exits");
        text.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was measured while a chat streamed.
#[derive(Default)]
struct Sample {
    /// Times between two tokens.
    gaps: Vec<Duration>,
    /// Response times of another client.
    responses: Vec<Duration>,
    took: Duration,
    /// CPU time of the daemon.
    cpu: Duration,
}

impl Sample {
    fn add(&mut self, other: Self) {
        self.gaps.extend(other.gaps);
        self.responses.extend(other.responses);
        self.took += other.took;
        self.cpu += other.cpu;
    }

    /// Sorts the times and prints them. Returns the p99 between two tokens.
    fn report(&mut self, name: &str) -> Duration {
        self.gaps.sort_unstable();
        self.responses.sort_unstable();
        let at = |times: &[Duration], percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        println!(
            "{name}: {} gaps, median {:?}, p99 {:?}, longest {:?}; another client: median {:?}, longest {:?}; daemon: {:.2} CPUs",
            self.gaps.len(),
            at(&self.gaps, 50),
            at(&self.gaps, 99),
            at(&self.gaps, 100),
            at(&self.responses, 50),
            at(&self.responses, 100),
            self.cpu.as_secs_f64() / self.took.as_secs_f64(),
        );
        at(&self.gaps, 99)
    }
}

/// A streamed answer. When it ends, another one begins.
struct Chat {
    port: u16,
    lines: BufReader<std::net::TcpStream>,
}

impl Chat {
    fn start(port: u16) -> Self {
        let mut chat = Self { port, lines: Self::ask(port) };
        chat.token();
        chat
    }

    fn ask(port: u16) -> BufReader<std::net::TcpStream> {
        let body = json!({"model": "slow", "messages": [{"role": "user", "content": "Count."}],
            "options": {"num_predict": 32_000, "num_ctx": 32_768, "temperature": 1, "seed": 1}});
        // Another program than the attackers, which send no name.
        let stream = send(port, "POST", "/api/chat", &[("User-Agent", "chat")], &body.to_string())
            .expect("the daemon accepts connections");
        BufReader::new(stream)
    }

    /// Waits for the next token.
    fn token(&mut self) {
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).expect("the answer continues");
            assert!(length > 0 && !line.contains("\"error\""), "the answer failed: {line:?}");
            if line.contains("\"done\":true") {
                self.lines = Self::ask(self.port);
                continue;
            }
            if line.starts_with('{') {
                return;
            }
        }
    }

    /// Measures for a time, while another client sends requests.
    fn measure(&mut self, daemon: &Daemon<'_>, port: u16, time: Duration) -> Sample {
        let pid = daemon.child.id();
        let (started, cpu) = (Instant::now(), cpu_time(pid));
        let other = std::thread::spawn(move || {
            let mut responses = Vec::new();
            while started.elapsed() < time {
                let sent = Instant::now();
                let response = exchange(port, "GET", "/api/version", &[], "");
                assert!(response.is_some_and(|(status, _)| status == 200), "another client is served");
                responses.push(sent.elapsed());
                std::thread::sleep(Duration::from_millis(50));
            }
            responses
        });
        let (mut gaps, mut last) = (Vec::new(), Instant::now());
        while started.elapsed() < time {
            self.token();
            gaps.push(last.elapsed());
            last = Instant::now();
        }
        let took = started.elapsed();
        let cpu = cpu_time(pid).saturating_sub(cpu);
        Sample { gaps, responses: other.join().expect("another client is served"), took, cpu }
    }
}

/// Returns the CPU time of a process, in ticks of 10 ms.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon runs");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// Waits until the daemon has most of the connections, or for [`RISE`].
fn wait_until_connected(daemon: &Daemon<'_>, scale: &Scale) {
    let folder = format!("/proc/{}/fd", daemon.child.id());
    let open = || std::fs::read_dir(&folder).expect("the daemon runs").count();
    let wanted = (scale.slow_answers + scale.slow_lists + scale.idle + scale.half_bodies).min(4096) * 9 / 10;
    let until = Instant::now() + RISE;
    while open() < wanted && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{} open files of the daemon", open());
}

#[test]
fn chat_continues_while_daemon_is_attacked() {
    let scale = Scale::chosen();
    let is_full = scale != SMALL;
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0").with("CAIRN_STALL", "2s");
    let file = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &file).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &file.to_string_lossy(), "slow"]));
    let time = Duration::from_secs(if is_full { 10 } else { 2 });
    let (mut quiet, mut attacked) = (Sample::default(), Sample::default());
    for _ in 0..scale.rounds {
        let mut chat = Chat::start(home.port);
        chat.measure(&daemon, home.port, time / 2);
        quiet.add(chat.measure(&daemon, home.port, time));
        let attack = Attack::start(home.port);
        // The answer is read meanwhile.
        std::thread::scope(|scope| {
            let connected = scope.spawn(|| wait_until_connected(&daemon, &scale));
            while !connected.is_finished() {
                chat.token();
            }
        });
        attacked.add(chat.measure(&daemon, home.port, time));
        println!("{}; {}", Size::of(daemon.child.id()), attack.end());
        // Tokens of a longer context take longer, so the quiet times are those before and after the attack.
        chat.measure(&daemon, home.port, time / 2);
        quiet.add(chat.measure(&daemon, home.port, time));
    }
    let (before, during) = (quiet.report("quiet"), attacked.report("attacked"));
    let ratio = during.as_secs_f64() / before.as_secs_f64();
    println!("p99 between tokens: {ratio:.2} times that of the quiet chat");
    let slowest = attacked.responses.last().copied().unwrap_or_default();
    assert!(slowest < LIMIT, "another client waited for {slowest:?}");
    assert!(!daemon.log().contains("panicked"), "a panic: {}", daemon.log());
    Chat::start(home.port);
    assert!(!is_full || ratio <= MAX_RATIO, "the attack slows the chat down {ratio:.2} times");
}
