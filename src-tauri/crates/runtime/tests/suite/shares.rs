//! Several clients of one model: fair shares, and an exact limit of accepted requests.

use cairn_runtime::{Client, Engine, EngineConfig, LoadError, LoadOptions, Priority, Source};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::common::{answer, config, greedy, lease, model, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn client_with_many_requests_does_not_delay_another() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { parallel: 2, ..config() }).expect("a kernel variant runs");
    let path = model(&folder, 40);
    let client = |name: &str, priority| Client { name: name.into(), priority };
    let many = lease(&engine, &path).await.for_client(client("many", Priority::Interactive));
    let alone = answer(many.generate(greedy(prompt(1, 20), 400))).await.expect("the generation finishes");
    let mut long = JoinSet::new();
    for seed in 1..10 {
        long.spawn(answer(many.generate(greedy(prompt(seed, 20), 400))));
    }
    let other = lease(&engine, &path).await.for_client(client("other", Priority::Interactive));
    answer(other.generate(greedy(prompt(20, 20), 20))).await.expect("the generation finishes");
    let finished = std::iter::from_fn(|| long.try_join_next()).count();
    assert!(finished <= 2, "{finished} of nine requests that came earlier finished before the other client's");
    let mut tokens = Vec::new();
    while let Some(finish) = long.join_next().await {
        tokens.push(finish.expect("no panic").expect("a paused generation continues").tokens);
    }
    assert!(tokens.contains(&alone.tokens), "a pause does not change an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn interactive_request_takes_place_of_batch_request() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { parallel: 1, ..config() }).expect("a kernel variant runs");
    let path = model(&folder, 41);
    let batch = Client { name: "client".into(), priority: Priority::Batch };
    let mut slow = lease(&engine, &path).await.for_client(batch).generate(greedy(prompt(1, 20), 2000));
    slow.recv().await.expect("it has begun");
    let slow = tokio::spawn(answer(slow));
    let fast = lease(&engine, &path).await.for_client(Client { name: "client".into(), ..Client::default() });
    answer(fast.generate(greedy(prompt(2, 20), 20))).await.expect("the generation finishes");
    assert!(!slow.is_finished(), "the batch request was paused");
    slow.await.expect("no panic").expect("the batch request continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_loads_without_a_queue() {
    let folder = TempDir::new().expect("a temporary folder");
    let config = EngineConfig { parallel: 1, max_queue: 0, ..config() };
    let engine = Engine::start(config).expect("a kernel variant runs");
    let path = model(&folder, 43);
    let acquire =
        || engine.acquire(path.display().to_string(), Source::File(path.clone()), LoadOptions::default(), None);
    let (first, second) = tokio::join!(acquire(), acquire());
    assert!(first.is_ok(), "the first request loads the model");
    assert!(matches!(second, Err(LoadError::Busy)), "the second one would wait for the load");
    assert!(matches!(acquire().await, Err(LoadError::Busy)), "the model computes one request");
    drop(first);
    assert!(acquire().await.is_ok(), "the model is idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_beyond_the_queue_are_refused_exactly() {
    let folder = TempDir::new().expect("a temporary folder");
    let config = EngineConfig { parallel: 8, max_queue: 64, ..config() };
    let engine = Engine::start(config).expect("a kernel variant runs");
    let path = model(&folder, 42);
    drop(lease(&engine, &path).await);
    let mut requests = JoinSet::new();
    for _ in 0..200 {
        let (engine, path) = (engine.clone(), path.clone());
        requests.spawn(async move {
            let id = path.display().to_string();
            engine.acquire(id, Source::File(path), LoadOptions::default(), None).await
        });
    }
    let (mut accepted, mut busy) = (Vec::new(), 0);
    while let Some(result) = requests.join_next().await {
        match result.expect("no panic") {
            Ok(lease) => accepted.push(lease),
            Err(LoadError::Busy) => busy += 1,
            Err(error) => panic!("another error: {error}"),
        }
    }
    assert_eq!((accepted.len(), busy), (72, 128), "eight are computed, 64 wait, the others are refused");
    let mut answers = JoinSet::new();
    for (seed, lease) in (0..).zip(&accepted) {
        answers.spawn(answer(lease.generate(greedy(prompt(seed, 10), 5))));
    }
    while let Some(finish) = answers.join_next().await {
        assert_eq!(
            finish.expect("no panic").expect("an accepted request is answered").usage.eval_tokens,
            5,
            "all tokens"
        );
    }
    drop(lease(&engine, &path).await);
}
