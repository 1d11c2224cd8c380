//! Clients that do not read, leave, or ask for the impossible, and files that do not fit together. None of them may hurt the
//! others.

use std::path::Path;
use std::time::Duration;

use cairn_gguf::{Array, Gguf, Value, Writer};
use cairn_runtime::{
    Engine, EngineConfig, Event, FinishReason, GenerateError, KeepAlive, LoadError, LoadOptions, Request, Sampling,
    Source,
};
use tempfile::TempDir;

use crate::common::{answer, config, greedy, lease, model, prompt};

/// More than any of these answers takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what}: nothing came"))
}

/// Waits until an answer has paused because nobody reads it.
async fn full(events: &tokio::sync::mpsc::Receiver<Event>) {
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
async fn a_client_that_does_not_read_keeps_no_place_and_loses_nothing() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    // Place for one, and pages (of 64 KiB) for hardly more.
    let config = EngineConfig { parallel: 1, kv_budget_bytes: Some(12 << 16), ..config() };
    let engine = Engine::start(config).expect("the best variant runs");
    let lease = lease(&engine, &model(&folder, 1)).await;
    let alone = answer(lease.generate(greedy(prompt(1, 300), 150))).await.expect("it answers");
    let silent = lease.generate(greedy(prompt(1, 300), 150));
    full(&silent).await;
    let other = in_time("the other answers", answer(lease.generate(greedy(prompt(2, 500), 20)))).await;
    assert_eq!(other.expect("it answers").spent.eval_tokens, 20, "the place was given up");
    let late = in_time("the late reader gets the rest", answer(silent)).await.expect("it answers");
    assert_eq!(late.tokens, alone.tokens, "who reads late gets the same answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_to_those_who_read() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let config = EngineConfig { kv_budget_bytes: Some(12 << 16), ..config() };
    let engine = Engine::start(config).expect("the best variant runs");
    let lease = lease(&engine, &model(&folder, 2)).await;
    let silent = lease.generate(greedy(prompt(1, 400), 150));
    full(&silent).await;
    let other = in_time("the other answers", answer(lease.generate(greedy(prompt(2, 600), 20)))).await;
    assert_eq!(other.expect("it answers").spent.eval_tokens, 20, "it found pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_model_does_not_know_fails_its_own_request_only() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(config()).expect("the best variant runs");
    let lease = lease(&engine, &model(&folder, 4)).await;
    let other = lease.generate(greedy(prompt(1, 100), 50));
    for token in [512, u32::MAX] {
        let error = answer(lease.generate(greedy(vec![1, token], 5))).await.expect_err("there are 512 tokens");
        assert!(
            matches!(error, GenerateError::UnknownToken { token: told, vocabulary: 512 } if told == token),
            "{error}"
        );
    }
    assert_eq!(answer(other).await.expect("it answers").spent.eval_tokens, 50, "the other answer goes on");
    assert_eq!(engine.loaded().len(), 1, "the model stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_exact() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(config()).expect("the best variant runs");
    let path = model(&folder, 5);
    let options = LoadOptions { context_tokens: Some(64), ..LoadOptions::default() };
    let lease = engine.acquire("m".into(), Source::File(path), options, None).await.expect("the model loads");
    for (prompt_tokens, max_tokens, wanted) in [(63, 9, 1), (64 - 9, 9, 9), (10, u32::MAX, 54), (10, 0, 0)] {
        let finish = answer(lease.generate(greedy(prompt(1, prompt_tokens), max_tokens))).await.expect("it answers");
        let ended = (finish.spent.eval_tokens, finish.tokens.len(), finish.reason);
        assert_eq!(ended, (wanted, wanted, FinishReason::Length), "{max_tokens} tokens after {prompt_tokens}");
    }
    let error = answer(lease.generate(greedy(prompt(1, 64), 1))).await.expect_err("there is no room for an answer");
    assert!(matches!(error, GenerateError::PromptTooLong { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_whose_clients_have_left_do_not_fill_the_queue() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(EngineConfig { parallel: 1, max_queue: 2, ..config() }).expect("the best variant runs");
    let path = model(&folder, 6);
    let held = lease(&engine, &path).await;
    let mut running = held.generate(greedy(prompt(1, 10), 2000));
    running.recv().await.expect("it has begun");
    let waiting = [held.generate(greedy(prompt(2, 10), 5)), held.generate(greedy(prompt(3, 10), 5))];
    let acquire =
        || engine.acquire(path.display().to_string(), Source::File(path.clone()), LoadOptions::default(), None);
    assert!(matches!(acquire().await, Err(LoadError::Busy)), "two wait");
    drop(waiting);
    let drained = async {
        while running.recv().await.is_some_and(|event| matches!(event, Event::Text(_))) && acquire().await.is_err() {}
    };
    in_time("the queue is empty", drained).await;
    assert!(!running.is_closed(), "the answer that runs has not ended yet");
    assert!(acquire().await.is_ok(), "those who left do not count");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_cannot_take_threads_without_end() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(config()).expect("the best variant runs");
    let path = model(&folder, 7);
    for threads in [1_000_000, usize::MAX, 0] {
        let options = LoadOptions { threads: Some(threads), ..LoadOptions::default() };
        let acquire = || engine.acquire("m".into(), Source::File(path.clone()), options.clone(), None);
        let lease = acquire().await.expect("it loads with as many as there are cores");
        answer(lease.generate(greedy(prompt(1, 10), 5))).await.expect("it answers");
        drop(lease);
        assert_eq!(acquire().await.expect("it is loaded").load_ns(), 0, "{threads} threads ask for no further load");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_zero_are_one() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(EngineConfig { parallel: 0, max_loaded: 0, ..config() }).expect("a variant runs");
    let path = model(&folder, 8);
    let lease = in_time("the load", lease(&engine, &path)).await;
    in_time("the answer", answer(lease.generate(greedy(prompt(1, 10), 5)))).await.expect("it answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_loaded_again_does_not_repeat_itself() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(EngineConfig { keep_alive: KeepAlive::For(Duration::ZERO), ..config() });
    let engine = engine.expect("the best variant runs");
    let path = model(&folder, 9);
    let sampling = Sampling { temperature: 5.0, top_k: 0, top_p: 1.0, ..Sampling::default() };
    let request = Request { prompt: prompt(1, 10), sampling, max_tokens: Some(20), ..Request::default() };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let lease = lease(&engine, &path).await;
        answers.push(answer(lease.generate(request.clone())).await.expect("it answers").tokens);
    }
    assert_ne!(answers[0], answers[1], "without a seed of its own, a request draws its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn short_requests_leave_no_timers_behind() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(EngineConfig { keep_alive: KeepAlive::default(), ..config() }).expect("a variant runs");
    let path = model(&folder, 10);
    for _ in 0..500 {
        drop(lease(&engine, &path).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks < 10, "{tasks} tasks wait for the keep-alive of one model");
}

/// Writes a model file anew, with each metadata value as `change` gives it and a further one to move the tensors.
fn rewrite(path: &Path, alignment: u64, padding: &str, change: impl Fn(&str, Value) -> Value) {
    let bytes = std::fs::read(path).expect("it was written");
    let gguf = Gguf::parse(&bytes).expect("it is whole");
    let mut writer = Writer::new(alignment);
    writer.set("padding", padding);
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, change(key, value.clone()));
    }
    for tensor in gguf.tensors() {
        let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes[range].to_vec()).expect("it is sound");
    }
    std::fs::write(path, writer.finish()).expect("the folder is writable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vocabulary_larger_than_the_embedding_table_is_refused() {
    let folder = TempDir::new().expect("a temporary folder can be made");
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
    let engine = Engine::start(config()).expect("the best variant runs");
    let refused = engine.acquire("m".into(), Source::File(path), LoadOptions::default(), None).await;
    let error = refused.err().expect("token 512 has no row").to_string();
    assert!(error.contains("`tokenizer.ggml.tokens`: 513 tokens") && error.contains("512 rows"), "{error}");
    assert!(engine.loaded().is_empty(), "nothing is left of the load");
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_at_odd_addresses_compute_the_same() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let engine = Engine::start(config()).expect("the best variant runs");
    let path = model(&folder, 12);
    let aligned = answer(lease(&engine, &path).await.generate(greedy(prompt(1, 40), 10))).await.expect("it answers");
    for padding in ["", "x"] {
        let odd = folder.path().join(format!("odd{padding}.gguf"));
        std::fs::copy(&path, &odd).expect("the folder is writable");
        rewrite(&odd, 1, padding, |_, value| value);
        let unaligned = answer(lease(&engine, &odd).await.generate(greedy(prompt(1, 40), 10))).await;
        assert_eq!(unaligned.expect("it answers").tokens, aligned.tokens, "the file may place tensors anywhere");
    }
}
