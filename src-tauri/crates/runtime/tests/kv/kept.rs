//! Share of the computed rows that a killed process leaves on the disk: all of them at most 10 s after an answer, also while every core
//! is busy and other answers are generated.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cairn_runtime::{Event, Finish, Request, Sampling};
use cairn_testkit::Random;
use cairn_testkit::hash_backend::History;
use cairn_tier::TierKind;
use tempfile::TempDir;

use crate::crash::spawn_test;
use crate::scale;
use crate::world::{Instance, Settings, TIMEOUT, TOKEN_BYTES, World};

/// Length of a prompt that is sent twice, and takes less than two seconds to compute.
const TWICE: usize = 1200;
/// Length of a prompt that is sent once, and takes longer.
const ONCE: usize = 1600;
/// Number of chunks of both prompts.
const CHUNKS: usize = TWICE.div_ceil(256) + ONCE.div_ceil(256);
/// Maximum time until the rows are on the disk. The target is 10 s, but a test machine may be busy with other work.
const DEADLINE: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings {
        pages_bytes: 256 * 64 * TOKEN_BYTES,
        ram_bytes: 4 << 20,
        row_time: Duration::from_micros(1400),
        sparing: true,
        ..Settings::default()
    }
}

/// Two threads for each core that compute until this is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..2 * cores {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A prompt of this length.
fn history(world: &World, tokens: usize) -> History {
    let mut dice = Random::from_name(tokens as u64, "kept");
    let mut history = History::new(world.shape(0, 0));
    (0..tokens).for_each(|_| history.push(dice.below(300) as u32));
    history
}

/// Sends a prompt, and checks the answer.
async fn ask(life: &Instance, history: &History, max_tokens: u32) -> Finish {
    let lease = life.lease(0, 0).await;
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let prompt = history.tokens().to_vec();
    let mut events = lease.generate(Request { prompt, sampling, max_tokens: Some(max_tokens), ..Request::default() });
    let finish = loop {
        match events.recv().await {
            Some(Event::Delta(_) | Event::ContextFull(_)) => {}
            Some(Event::Finish(finish)) => break finish,
            other => panic!("the generation finishes: {other:?}"),
        }
    };
    let mut history = history.clone();
    for &token in &finish.tokens {
        assert_eq!(token, history.next(), "the answer to {} tokens", history.tokens().len());
        history.push(token);
    }
    finish
}

/// Sends both prompts.
async fn ask_all(life: &Instance, world: &World) {
    let twice = history(world, TWICE);
    ask(life, &twice, 4).await;
    ask(life, &twice, 4).await;
    ask(life, &history(world, ONCE), 4).await;
}

/// Generates answers to other prompts, until the process is killed.
async fn generate_forever(life: &Instance, world: &World) {
    loop {
        ask(life, &history(world, 40), 300).await;
    }
}

/// Number of chunks of the two prompts in the SSD tier, which counts the chunks of a prefix only if it has all of them.
fn stored(life: &Instance) -> usize {
    let prefixes = life.tiers.stored_prefixes(usize::MAX);
    let is_prompt = |tokens: u64| tokens as usize >= TWICE;
    let complete = prefixes.iter().filter(|prefix| prefix.complete_in.contains(&TierKind::Ssd));
    complete.filter(|prefix| is_prompt(prefix.tokens)).map(|prefix| prefix.tokens.div_ceil(256) as usize).sum()
}

/// Waits until the chunks of both prompts are on the disk.
async fn await_stored(life: &Instance) {
    let until = Instant::now() + DEADLINE;
    while stored(life) < CHUNKS {
        assert!(Instant::now() < until, "{} of {CHUNKS} chunks are on the disk", stored(life));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs in a folder until it is killed: answers, reports it, and generates other answers if the machine is to be busy. Does nothing if it
/// is not a child process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_child_process() {
    let Some(folder) = scale::folder_of_child() else { return };
    let is_busy = scale::number(scale::LIFE) == Some(1);
    let world = World::new(&folder);
    let life = world.start(settings());
    assert!(life.tiers.wait_idle(TIMEOUT), "the folder is scanned");
    ask_all(&life, &world).await;
    std::fs::write(folder.join("answered"), "").expect("the folder is writable");
    let stores = async {
        await_stored(&life).await;
        std::fs::write(folder.join("stored"), "").expect("the folder is writable");
        std::future::pending::<()>().await;
    };
    let generates = async {
        if is_busy {
            generate_forever(&life, &world).await;
        }
    };
    tokio::join!(stores, generates);
}

/// Kills a process after its answers, when it has written a file and this time has passed. Returns the percentage of the prompts' tokens
/// that the next process restores from the disk.
async fn share_after_kill(is_busy: bool, file: &str, after: Duration) -> f64 {
    let home = TempDir::new().expect("a temporary folder");
    let world = World::new(home.path());
    let load = is_busy.then(Load::start);
    let mut child = spawn_test("kept::kept_child_process", home.path(), u64::from(is_busy), false);
    await_file(&home.path().join(file)).await;
    tokio::time::sleep(after).await;
    child.kill().expect("a child process");
    child.wait().expect("a child process");
    drop(load);
    let life = world.start(Settings { sparing: false, ..settings() });
    assert!(life.tiers.wait_idle(TIMEOUT), "the folder is scanned");
    let mut restored = 0;
    for tokens in [TWICE, ONCE] {
        let usage = ask(&life, &history(&world, tokens), 4).await.usage.restored;
        // A model that loads prefetches its last prompts from the disk into RAM.
        restored += usage.ram_tokens + usage.ssd_tokens;
    }
    life.end(Duration::ZERO).await;
    restored as f64 * 100.0 / (TWICE + ONCE) as f64
}

async fn await_file(path: &Path) {
    let until = Instant::now() + 2 * DEADLINE;
    while !path.exists() {
        assert!(Instant::now() < until, "the child process writes {}", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All tokens but the last one of each prompt, which must run to give logits.
const COMPLETE_PERCENT: f64 = (TWICE + ONCE - 2) as f64 * 100.0 / (TWICE + ONCE) as f64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_rows_survive_a_kill_on_a_busy_machine() {
    let share = share_after_kill(true, "stored", Duration::ZERO).await;
    assert!(share >= COMPLETE_PERCENT, "{share:.1} % of the rows are restored");
}

/// Measures the share for several times after the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_share_is_complete_10_s_after_the_answer() {
    if !scale::is_full() {
        return;
    }
    for run in scale::runs(1) {
        for is_busy in [false, true] {
            for seconds in [1, 5, 10, 30] {
                let share = share_after_kill(is_busy, "answered", Duration::from_secs(seconds)).await;
                let machine = if is_busy { "busy" } else { "idle" };
                println!(
                    "run {run}, {machine} machine, killed after {seconds} s: {share:.1} % of the rows are restored"
                );
                assert!(seconds < 10 || share >= COMPLETE_PERCENT, "{share:.1} % after {seconds} s");
            }
        }
    }
}
