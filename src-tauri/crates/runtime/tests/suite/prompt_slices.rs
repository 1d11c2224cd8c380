//! Prompts beside a running answer: their rows go through the layers in several steps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cairn_grammar::{Constraint, Matcher};
use cairn_runtime::{Client, Constrained, Engine, Event, Finish, Generation, Lease, Priority, Request, Sampling};
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};

use crate::common::{answer, config, greedy, lease, prompt};

/// Tokens of the answer that runs meanwhile.
const RUNNING: u32 = 1500;

/// A model of six layers.
fn model(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("six-layers.gguf");
    let spec = cairn_testkit::ModelSpec { seed: 50, layers: 6, context: 4096, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    path
}

/// A greedy request, a sampled one, or one with a constraint.
fn varied(lease: &Lease, seed: u32) -> Request {
    let request = greedy(prompt(100 + seed, 40 + seed * 45), 6);
    let sampling = Sampling { temperature: 1.5, seed: Some(u64::from(seed)), ..Sampling::default() };
    let vocabulary = lease.vocabulary().expect("the vocabulary is valid");
    let matcher = || Matcher::new(&vocabulary, &Constraint::Regex("[a-m]{9}".to_owned())).expect("it compiles");
    match seed % 3 {
        0 => request,
        1 => Request { sampling, ..request },
        _ => Request { sampling, constraint: Some(Constrained { matcher: matcher(), thinking: None }), ..request },
    }
}

/// A lease for this client.
async fn lease_for(engine: &Engine, path: &Path, name: &str, priority: Priority) -> Lease {
    lease(engine, path).await.for_client(Client { name: name.into(), priority })
}

/// An answer that runs, and the number of its tokens so far.
struct Running {
    tokens: Arc<AtomicUsize>,
    answer: JoinHandle<Finish>,
}

impl Running {
    /// Starts an answer and waits for its first token.
    async fn start(lease: &Lease) -> Self {
        let mut events: Generation = lease.generate(greedy(prompt(1, 20), RUNNING));
        assert!(matches!(events.recv().await, Some(Event::Delta(_))), "the answer begins");
        let tokens = Arc::new(AtomicUsize::new(1));
        let counted = Arc::clone(&tokens);
        let answer = tokio::spawn(async move {
            loop {
                match events.recv().await.expect("a generation has a last event") {
                    Event::Delta(_) => counted.fetch_add(1, Ordering::Relaxed),
                    Event::Finish(finish) => return finish,
                    other => panic!("the answer fails: {other:?}"),
                };
            }
        });
        Self { tokens, answer }
    }

    fn tokens(&self) -> usize {
        self.tokens.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_beside_a_running_answer_give_the_same_answers() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder);
    let (mut requests, mut alone) = (Vec::new(), Vec::new());
    let running_alone;
    {
        let engine = Engine::start(config()).expect("a kernel variant runs");
        let lease = lease(&engine, &path).await;
        requests.extend((0..8).map(|seed| varied(&lease, seed)));
        running_alone = answer(lease.generate(greedy(prompt(1, 20), RUNNING))).await.expect("it finishes").tokens;
        for request in &requests {
            alone.push(answer(lease.generate(request.clone())).await.expect("it finishes").tokens);
        }
    }
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let running = Running::start(&lease_for(&engine, &path, "running", Priority::Interactive).await).await;
    let mut leases = Vec::new();
    for (name, priority) in [("a", Priority::Interactive), ("b", Priority::Batch), ("c", Priority::Interactive)] {
        leases.push(lease_for(&engine, &path, name, priority).await);
    }
    let mut answers = JoinSet::new();
    for (number, request) in requests.into_iter().enumerate() {
        let lease = &leases[number % leases.len()];
        // A prompt that ends early ends its slice, and others begin again.
        let cancelled = lease.generate(greedy(prompt(200 + number as u32, 300), 6));
        let events = lease.generate(request);
        answers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(3 * number as u64)).await;
            drop(cancelled);
            (number, answer(events).await.expect("it finishes").tokens)
        });
    }
    while let Some(found) = answers.join_next().await {
        let (number, tokens) = found.expect("no panic");
        assert_eq!(tokens, alone[number], "request {number}");
    }
    assert_eq!(running.answer.await.expect("no panic").tokens, running_alone, "the running answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_beside_a_running_answer_takes_at_most_a_step_for_each_token() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let running = Running::start(&lease_for(&engine, &path, "running", Priority::Interactive).await).await;
    let other = lease_for(&engine, &path, "other", Priority::Interactive).await;
    let before = running.tokens();
    answer(other.generate(greedy(prompt(2, 400), 1))).await.expect("it finishes");
    let steps = running.tokens() - before;
    // Each 17th step measures the running answer alone. A slow reader counts late.
    assert!(steps <= 400 * 17 / 16 + 40, "{steps} steps for 400 tokens");
    running.answer.abort();
}
