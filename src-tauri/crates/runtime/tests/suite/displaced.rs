//! A busy model is unloaded for another one in limited time, also if the clients of its answers do not read.

use std::path::Path;
use std::time::Duration;

use cairn_runtime::{
    Displaced, Engine, EngineConfig, FinishReason, GenerateError, KeepAlive, LoadError, LoadOptions, LoadTimeouts,
    Source,
};
use tempfile::TempDir;

use crate::common::{answer, config, greedy, lease, model, prompt};
use crate::hostile::{in_time, wait_until_blocked};

/// A limit that no test reaches.
const NEVER: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

/// An engine with room for `max_loaded` models and these limits.
fn engine(max_loaded: usize, unread: Duration, drain: Duration, queue: Duration) -> Engine {
    let load_timeouts = LoadTimeouts { unread, drain, queue };
    Engine::start(EngineConfig { max_loaded, load_timeouts, ..config() }).expect("a kernel variant runs")
}

async fn acquire(engine: &Engine, path: &Path, keep_alive: KeepAlive) -> Result<cairn_runtime::Lease, LoadError> {
    let (id, source) = (path.display().to_string(), Source::File(path.to_owned()));
    engine.acquire(id, source, LoadOptions::default(), Some(keep_alive)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answer_ends_when_another_model_needs_its_place() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine(1, SHORT, NEVER, NEVER);
    let held = lease(&engine, &model(&folder, 1)).await;
    let silent = held.generate(greedy(prompt(1, 20), 1000));
    wait_until_blocked(&silent).await;
    let other = in_time("the other model loads", lease(&engine, &model(&folder, 2))).await;
    in_time("it answers", answer(other.generate(greedy(prompt(2, 20), 5)))).await.expect("the generation finishes");
    let error = in_time("the late client", answer(silent)).await.expect_err("the answer was ended");
    assert!(
        matches!(error, GenerateError::Displaced(Displaced::Unread(SHORT))),
        "the reason is the last event: {error}"
    );
    assert_eq!(engine.loaded().len(), 1, "only one model may be loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_answer_ends_after_longest_drain() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine(1, NEVER, SHORT, NEVER);
    let held = lease(&engine, &model(&folder, 1)).await;
    // It pauses, so it never completes.
    let silent = held.generate(greedy(prompt(1, 20), 1000));
    wait_until_blocked(&silent).await;
    in_time("the other model loads", lease(&engine, &model(&folder, 2))).await;
    let error = in_time("the late client", answer(silent)).await.expect_err("the answer was ended");
    assert!(matches!(error, GenerateError::Displaced(Displaced::Late)), "the reason is the last event: {error}");
    let error = in_time("a new generation", answer(held.generate(greedy(prompt(1, 20), 5)))).await;
    assert!(error.is_err(), "the lease of an unloaded model cannot generate");
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_answer_does_not_keep_its_model_until_it_is_read() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine(1, NEVER, NEVER, NEVER);
    let held = lease(&engine, &model(&folder, 1)).await;
    let unread = held.generate(greedy(prompt(1, 20), 5));
    in_time("the other model loads", lease(&engine, &model(&folder, 2))).await;
    let finish = in_time("the late client", answer(unread)).await.expect("the generation finished");
    assert_eq!(finish.usage.eval_tokens, 5, "the answer is complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_in_progress_completes_before_its_model_unloads() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine(1, NEVER, NEVER, NEVER);
    let (first, second) = (model(&folder, 1), model(&folder, 2));
    let held = lease(&engine, &first).await;
    let silent = held.generate(greedy(prompt(1, 20), 200));
    wait_until_blocked(&silent).await;
    let mut waits = tokio::spawn({
        let (engine, second) = (engine.clone(), second.clone());
        async move { drop(lease(&engine, &second).await) }
    });
    let early = tokio::time::timeout(SHORT, &mut waits).await;
    assert!(early.is_err(), "an answer in progress is not ended before its limits");
    let finish = in_time("the answer", answer(silent)).await.expect("the generation finishes");
    assert_eq!((finish.usage.eval_tokens, finish.reason), (200, FinishReason::Length), "the answer is complete");
    in_time("the other model loads", waits).await.expect("leasing does not panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn loaded_model_answers_while_another_load_waits() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine(2, NEVER, NEVER, SHORT);
    let [first, second, third] = [1, 2, 3].map(|seed| model(&folder, seed));
    // The model with the shorter keep-alive time is drained.
    let held = acquire(&engine, &first, KeepAlive::For(NEVER)).await.expect("the model loads");
    let silent = held.generate(greedy(prompt(1, 20), 1000));
    wait_until_blocked(&silent).await;
    let other = acquire(&engine, &second, KeepAlive::Forever).await.expect("the model loads");
    let waits = tokio::spawn({
        let engine = engine.clone();
        async move { acquire(&engine, &third, KeepAlive::Forever).await.map(drop) }
    });
    // The queue's limit shows that the load waits. A draining model gets no requests.
    let queued = in_time("a request for the draining model", async {
        loop {
            match acquire(&engine, &first, KeepAlive::For(NEVER)).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => return error,
            }
        }
    });
    let queued = queued.await;
    assert!(matches!(queued, LoadError::Timeout(SHORT)), "it fails after the longest wait for other loads: {queued}");
    let again = in_time("a lease of the other model", acquire(&engine, &second, KeepAlive::Forever)).await;
    let again = again.expect("the model is loaded");
    let finish = in_time("its answer", answer(again.generate(greedy(prompt(2, 20), 5)))).await;
    assert_eq!(finish.expect("the generation finishes").usage.eval_tokens, 5, "requests for loaded models do not wait");
    drop((silent, held, other));
    in_time("the load", waits).await.expect("leasing does not panic").expect("the drain ends with its last answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_stays_when_the_load_that_drains_it_is_cancelled() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine(1, NEVER, NEVER, SHORT);
    let first = model(&folder, 1);
    let held = lease(&engine, &first).await;
    let silent = held.generate(greedy(prompt(1, 20), 200));
    wait_until_blocked(&silent).await;
    let cancelled = tokio::spawn({
        let (engine, second) = (engine.clone(), model(&folder, 2));
        async move { drop(lease(&engine, &second).await) }
    });
    let drained = async {
        while acquire(&engine, &first, KeepAlive::Forever).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time("the drain begins", drained).await;
    cancelled.abort();
    let _ = cancelled.await;
    assert!(acquire(&engine, &first, KeepAlive::Forever).await.is_ok(), "the model accepts requests again");
    let finish = in_time("the answer", answer(silent)).await.expect("the generation finishes");
    assert_eq!(finish.usage.eval_tokens, 200, "its answer continues");
}
