//! Clients that do not read, cancel, or send invalid requests, and inconsistent files. None of them may affect other requests.

use std::path::Path;
use std::time::{Duration, Instant};

use cairn_gguf::{Array, Gguf, Value, Writer};
use cairn_runtime::{
    Engine, EngineConfig, Event, Finish, FinishReason, GenerateError, Generation, KeepAlive, LoadError, LoadOptions,
    NotFinite, Request, Sampling, Source,
};
use tempfile::TempDir;

use crate::common::{answer, config, fill_tensors, greedy, lease, model, prompt};

/// Timeout, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, work).await.unwrap_or_else(|_| panic!("{what}: timeout"))
}

/// Waits until a generation has paused because its client does not read.
pub(crate) async fn wait_until_blocked(events: &Generation) {
    let filled = async {
        let mut before = 0;
        while events.is_empty() || events.len() != before {
            before = events.len();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    in_time("the channel fills", filled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_sequence_is_paused_and_resumed_exactly() {
    let folder = TempDir::new().expect("a temporary folder");
    // One active sequence, and pages (of 64 KiB) for hardly more.
    let config = EngineConfig { parallel: 1, kv_budget_bytes: Some(12 << 16), ..config() };
    let engine = Engine::start(config).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 1)).await;
    let alone = answer(lease.generate(greedy(prompt(1, 300), 150))).await.expect("the generation finishes");
    let silent = lease.generate(greedy(prompt(1, 300), 150));
    wait_until_blocked(&silent).await;
    let other = in_time("the other generation", answer(lease.generate(greedy(prompt(2, 500), 20)))).await;
    assert_eq!(other.expect("the generation finishes").usage.eval_tokens, 20, "the blocked sequence was paused");
    let late = in_time("the late client gets the rest", answer(silent)).await.expect("the generation finishes");
    assert_eq!(late.tokens, alone.tokens, "the late client gets the same answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_sequence_continues_when_its_client_reads_beside_others() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { parallel: 2, ..config() }).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 7)).await;
    let silent = lease.generate(greedy(prompt(1, 20), 100));
    wait_until_blocked(&silent).await;
    let mut long = lease.generate(greedy(prompt(2, 20), 3000));
    long.recv().await.expect("the generation has begun");
    let long = tokio::spawn(answer(long));
    in_time("the third generation", answer(lease.generate(greedy(prompt(3, 20), 5)))).await.expect("it is answered");
    // The first generation was paused, and nothing but its client can wake the scheduler.
    let late = in_time("the late client gets the rest", answer(silent)).await.expect("the generation finishes");
    assert_eq!(late.tokens.len(), 100, "the whole answer");
    assert!(!long.is_finished(), "it did not wait for the generation beside it");
    long.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduler_preempts_blocked_sequence_for_its_pages() {
    let folder = TempDir::new().expect("a temporary folder");
    let config = EngineConfig { kv_budget_bytes: Some(12 << 16), ..config() };
    let engine = Engine::start(config).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 2)).await;
    let silent = lease.generate(greedy(prompt(1, 400), 150));
    wait_until_blocked(&silent).await;
    let other = in_time("the other generation", answer(lease.generate(greedy(prompt(2, 600), 20)))).await;
    assert_eq!(other.expect("the generation finishes").usage.eval_tokens, 20, "pages are free");
}

/// Reads nothing until the sequence pauses, then everything after a short delay: the client often catches up just when the
/// scheduler prepares to wait for it.
fn read_in_bursts(mut events: Generation, delay: u32) -> Finish {
    /// The channel has room for 32 events. A sequence pauses when fewer than three places are free.
    const PAUSED: usize = 30;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        while events.len() < PAUSED && !events.is_closed() && Instant::now() < deadline {
            std::hint::spin_loop();
        }
        (0..delay).for_each(|_| std::hint::spin_loop());
        while let Ok(event) = events.try_recv() {
            match event {
                Event::Finish(finish) => return finish,
                Event::Error(error) => panic!("the generation fails: {error}"),
                Event::Delta(_) | Event::ContextFull(_) => {}
            }
        }
        assert!(Instant::now() < deadline, "the generation stopped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generation_continues_after_each_burst_of_reads() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 3)).await;
    let alone = answer(lease.generate(greedy(prompt(1, 20), 400))).await.expect("the generation finishes");
    for round in 0..20 {
        let events = lease.generate(greedy(prompt(1, 20), 400));
        let finish = tokio::task::spawn_blocking(move || read_in_bursts(events, round * 200)).await;
        assert_eq!(finish.expect("the client ends").tokens, alone.tokens, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_token_fails_its_own_request_only() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 4)).await;
    let other = lease.generate(greedy(prompt(1, 100), 50));
    for token in [512, u32::MAX] {
        let error = answer(lease.generate(greedy(vec![1, token], 5))).await.expect_err("the vocabulary has 512 tokens");
        assert!(
            matches!(error, GenerateError::UnknownToken { token: reported, vocabulary: 512 } if reported == token),
            "{error}"
        );
    }
    assert_eq!(
        answer(other).await.expect("the generation finishes").usage.eval_tokens,
        50,
        "the other generation continues"
    );
    assert_eq!(engine.loaded().len(), 1, "the model stays loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn logits_that_are_not_finite_fail_the_request() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    for (seed, value) in [(1, f32::NAN), (2, f32::INFINITY)] {
        let path = model(&folder, seed);
        fill_tensors(&path, |tensor| (tensor == "output_norm.weight").then_some(value));
        let lease = lease(&engine, &path).await;
        let at_once = [0.0, 0.8].map(|temperature| {
            let sampling = Sampling { temperature, ..Sampling::default() };
            lease.generate(Request { sampling, ..greedy(prompt(1, 20), 5) })
        });
        for events in at_once {
            let error = answer(events).await.expect_err("no token can be chosen");
            assert!(matches!(error, GenerateError::NotFinite(NotFinite::Logits)), "{value}: {error}");
            assert!(error.to_string().contains("`cairn gguf verify`"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_limits_are_exact() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let path = model(&folder, 5);
    let options = LoadOptions { context_tokens: Some(64), ..LoadOptions::default() };
    let lease = engine.acquire("m".into(), Source::File(path), options, None).await.expect("the model loads");
    for (prompt_tokens, max_tokens, expected) in [(63, 9, 1), (64 - 9, 9, 9), (10, u32::MAX, 54), (10, 0, 0)] {
        let finish = answer(lease.generate(greedy(prompt(1, prompt_tokens), max_tokens)))
            .await
            .expect("the generation finishes");
        let ended = (finish.usage.eval_tokens, finish.tokens.len(), finish.reason);
        assert_eq!(ended, (expected, expected, FinishReason::Length), "{max_tokens} tokens after {prompt_tokens}");
    }
    let error = answer(lease.generate(greedy(prompt(1, 64), 1))).await.expect_err("the prompt fills the context");
    assert!(matches!(error, GenerateError::PromptTooLong { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_requests_leave_the_queue() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { parallel: 1, max_queue: 2, ..config() }).expect("a kernel variant runs");
    let path = model(&folder, 6);
    let held = lease(&engine, &path).await;
    let mut running = held.generate(greedy(prompt(1, 10), 2000));
    running.recv().await.expect("the generation has begun");
    let waiting = [held.generate(greedy(prompt(2, 10), 5)), held.generate(greedy(prompt(3, 10), 5))];
    let acquire =
        || engine.acquire(path.display().to_string(), Source::File(path.clone()), LoadOptions::default(), None);
    assert!(matches!(acquire().await, Err(LoadError::Busy)), "two requests wait");
    drop(waiting);
    let drained = async {
        while running.recv().await.is_some_and(|event| matches!(event, Event::Delta(_))) && acquire().await.is_err() {}
    };
    in_time("the queue is drained", drained).await;
    assert!(!running.is_closed(), "the running generation has not ended");
    assert!(acquire().await.is_ok(), "cancelled requests do not count");
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_limited_to_cores() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let path = model(&folder, 7);
    for threads in [1_000_000, usize::MAX, 0] {
        let options = LoadOptions { threads: Some(threads), ..LoadOptions::default() };
        let acquire = || engine.acquire("m".into(), Source::File(path.clone()), options.clone(), None);
        let lease = acquire().await.expect("it loads with one thread per core");
        answer(lease.generate(greedy(prompt(1, 10), 5))).await.expect("the generation finishes");
        drop(lease);
        assert_eq!(acquire().await.expect("it is loaded").load_ns(), 0, "{threads} threads need no new load");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_zero_count_as_one() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { parallel: 0, max_loaded: 0, ..config() }).expect("a kernel variant runs");
    let path = model(&folder, 8);
    let lease = in_time("the load", lease(&engine, &path)).await;
    in_time("the answer", answer(lease.generate(greedy(prompt(1, 10), 5)))).await.expect("the generation finishes");
}

#[tokio::test(flavor = "multi_thread")]
async fn reloaded_model_uses_new_seeds() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { keep_alive: KeepAlive::For(Duration::ZERO), ..config() });
    let engine = engine.expect("a kernel variant runs");
    let path = model(&folder, 9);
    let sampling = Sampling { temperature: 5.0, top_k: 0, top_p: 1.0, ..Sampling::default() };
    let request = Request { prompt: prompt(1, 10), sampling, max_tokens: Some(20), ..Request::default() };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let lease = lease(&engine, &path).await;
        answers.push(answer(lease.generate(request.clone())).await.expect("the generation finishes").tokens);
    }
    assert_ne!(answers[0], answers[1], "requests without a seed get different seeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn released_leases_leave_one_timer() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine =
        Engine::start(EngineConfig { keep_alive: KeepAlive::default(), ..config() }).expect("a kernel variant runs");
    let path = model(&folder, 10);
    for _ in 0..500 {
        drop(lease(&engine, &path).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks < 10, "{tasks} keep-alive tasks for one model");
}

/// Rewrites a model file with changed metadata values, and an additional one that moves the tensors.
fn rewrite(path: &Path, alignment: u64, padding: &str, change: impl Fn(&str, Value) -> Value) {
    let bytes = std::fs::read(path).expect("the file exists");
    let gguf = Gguf::parse(&bytes).expect("the file is complete");
    let mut writer = Writer::new(alignment);
    writer.set("padding", padding);
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, change(key, value.clone()));
    }
    for tensor in gguf.tensors() {
        let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
        writer
            .tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes[range].to_vec())
            .expect("the tensor is valid");
    }
    std::fs::write(path, writer.finish()).expect("the folder is writable");
}

#[tokio::test(flavor = "multi_thread")]
async fn vocabulary_larger_than_embedding_table_is_rejected() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 11);
    let one_more = |key: &str, value: Value| match (key, value) {
        ("tokenizer.ggml.tokens", Value::Array(Array::String(mut tokens))) => {
            tokens.push("one more");
            Value::Array(Array::String(tokens))
        }
        ("tokenizer.ggml.token_type", Value::Array(Array::I32(mut types))) => {
            types.push(1);
            Value::Array(Array::I32(types))
        }
        (_, value) => value,
    };
    rewrite(&path, 32, "", one_more);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let rejected = engine.acquire("m".into(), Source::File(path), LoadOptions::default(), None).await;
    let error = rejected.err().expect("token 512 has no row").to_string();
    assert!(error.contains("`tokenizer.ggml.tokens`: 513 tokens") && error.contains("512 rows"), "{error}");
    assert!(engine.loaded().is_empty(), "the model is not loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn unaligned_weights_compute_the_same() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let path = model(&folder, 12);
    let aligned =
        answer(lease(&engine, &path).await.generate(greedy(prompt(1, 40), 10))).await.expect("the generation finishes");
    for padding in ["", "x"] {
        let odd = folder.path().join(format!("odd{padding}.gguf"));
        std::fs::copy(&path, &odd).expect("the folder is writable");
        rewrite(&odd, 1, padding, |_, value| value);
        let unaligned = answer(lease(&engine, &odd).await.generate(greedy(prompt(1, 40), 10))).await;
        assert_eq!(
            unaligned.expect("the generation finishes").tokens,
            aligned.tokens,
            "alignment does not change the answer"
        );
    }
}
