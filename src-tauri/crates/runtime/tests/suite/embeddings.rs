//! Embedding models: batches of several requests, limits, and cancellation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_runtime::{
    Client, EmbedText, Engine, EngineConfig, Event, GenerateError, KeepAlive, Lease, LoadOptions, Priority, Request,
    Source,
};
use cairn_testkit::families::{BERT, CROSS_ENCODER, GEMMA_EMBEDDING, NOMIC_BERT, QWEN3_EMBEDDING};
use cairn_testkit::{Family, ModelSpec, tiny_bert};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::common::{config, lease};

fn model(folder: &TempDir, spec: &ModelSpec) -> PathBuf {
    let path = folder.path().join(format!("{}.gguf", spec.family.name));
    cairn_testkit::write_file(spec, &path).expect("the folder is writable");
    path
}

/// Returns an engine and a lease of a small model of this family.
async fn start(folder: &TempDir, family: &'static Family) -> (Engine, Lease) {
    let engine = Engine::start(config()).expect("a kernel variant runs on this machine");
    let lease = lease(&engine, &model(folder, &tiny_bert(family))).await;
    (engine, lease)
}

/// Returns another lease of the BERT of [`start`].
async fn again(engine: &Engine, folder: &TempDir) -> Lease {
    lease(engine, &folder.path().join("bert.gguf")).await
}

fn text(seed: u32, tokens: u32) -> EmbedText {
    EmbedText::from((0..tokens).map(|at| (seed * 7919 + at * 31) % 300).collect::<Vec<u32>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_equal_alone_and_in_batches() {
    for family in [&BERT, &NOMIC_BERT, &GEMMA_EMBEDDING, &QWEN3_EMBEDDING] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_engine, lease) = start(&folder, family).await;
        // Several batches: more rows than one has, and more texts than it has pages.
        let texts: Vec<EmbedText> = (0..100).map(|seed| text(seed, 1 + seed * 37 % 128)).collect();
        let together = lease.embed(texts.clone()).await.expect("valid texts");
        assert_eq!(together.len(), texts.len(), "{}: a vector for each text", family.name);
        for at in [0, 1, 27, 99] {
            let alone = lease.embed(vec![texts[at].clone()]).await.expect("a valid text");
            assert_eq!(alone, together[at..=at], "{}: text {at}, bit for bit", family.name);
        }
        let distinct = together.iter().map(|vector| vector[0].to_bits()).collect::<std::collections::HashSet<_>>();
        assert!(distinct.len() > 95, "{}: vectors differ between texts: {}", family.name, distinct.len());
        assert!(together.iter().flatten().all(|x| x.is_finite()), "{}: numbers", family.name);
        assert_eq!(lease.embed(Vec::new()).await.expect("no texts"), Vec::<Vec<f32>>::new(), "no texts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_encoder_returns_one_score_that_depends_on_the_segment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_engine, lease) = start(&folder, &CROSS_ENCODER).await;
    let pair = |second_text| EmbedText { second_text, ..text(1, 20) };
    let scores = lease.embed(vec![pair(None), pair(Some(8)), pair(Some(9))]).await.expect("valid pairs");
    assert!(scores.iter().all(|score| score.len() == 1), "{scores:?}");
    assert!(scores[0] != scores[1] && scores[1] != scores[2], "{scores:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_take_turns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_engine, lease) = start(&folder, &BERT).await;
    let expected = lease.embed(vec![text(7, 30)]).await.expect("a valid text");
    let long = lease.embed((0..300).map(|seed| text(seed, 64)).collect());
    tokio::pin!(long);
    // The long request is sent when it is polled first.
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut long).await.is_err(), "it takes longer");
    let short = tokio::time::timeout(Duration::from_secs(60), lease.embed(vec![text(7, 30)]));
    let short = tokio::select! {
        short = short => short.expect("in time").expect("a valid text"),
        _ = &mut long => panic!("the long request delayed the short one"),
    };
    assert_eq!(short, expected, "the vector does not depend on the other request");
    assert_eq!(long.await.expect("valid texts").len(), 300, "the long request is completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_with_many_requests_does_not_delay_another() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (engine, lease) = start(&folder, &BERT).await;
    let client = |name: &str| Client { name: name.into(), ..Client::default() };
    let many = Arc::new(lease.for_client(client("many")));
    let alone = many.embed(vec![text(7, 64)]).await.expect("a valid text");
    let mut long = JoinSet::new();
    for _ in 0..8 {
        let many = Arc::clone(&many);
        long.spawn(async move { many.embed((0..60).map(|seed| text(seed, 64)).collect()).await });
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let other = again(&engine, &folder).await.for_client(client("other"));
    let vectors = other.embed((0..10).map(|seed| text(seed, 64)).collect()).await.expect("valid texts");
    assert_eq!(vectors.len(), 10, "a vector for each text");
    assert!(long.try_join_next().is_none(), "the other client's texts did not wait for any of the long requests");
    while let Some(vectors) = long.join_next().await {
        let vectors = vectors.expect("no panic").expect("valid texts");
        assert!(vectors.len() == 60 && vectors[7] == alone[0], "in the order of the texts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_request_waits_for_interactive_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (engine, lease) = start(&folder, &BERT).await;
    let batch = lease.for_client(Client { priority: Priority::Batch, ..Client::default() });
    let texts: Vec<EmbedText> = (0..100).map(|seed| text(seed, 64)).collect();
    let slow = tokio::spawn({
        let texts = texts.clone();
        async move { batch.embed(texts).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let fast = again(&engine, &folder).await;
    fast.embed(texts).await.expect("valid texts");
    assert!(!slow.is_finished(), "the batch request came first, but waits");
    assert_eq!(slow.await.expect("no panic").expect("valid texts").len(), 100, "the batch request continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_request_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = EngineConfig { parallel: 1, ..config() };
    let engine = Engine::start(config).expect("a kernel variant runs on this machine");
    let lease = lease(&engine, &model(&folder, &ModelSpec { layers: 12, ..tiny_bert(&BERT) })).await;
    let long = lease.embed((0..20_000).map(|seed| text(seed, 128)).collect());
    assert!(tokio::time::timeout(Duration::from_millis(50), long).await.is_err(), "it takes minutes");
    // Only one request is active at a time, so this one is computed after the other has ended.
    let next = tokio::time::timeout(Duration::from_secs(60), lease.embed(vec![text(1, 8)])).await;
    assert_eq!(next.expect("the request does not wait for the cancelled one").expect("a valid text").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_waiting_request_frees_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = EngineConfig { parallel: 1, max_queue: 1, ..config() };
    let engine = Engine::start(config).expect("a kernel variant runs on this machine");
    let path = model(&folder, &ModelSpec { layers: 12, ..tiny_bert(&BERT) });
    let long = lease(&engine, &path).await;
    let texts = (0..20_000).map(|seed| text(seed, 128)).collect();
    let long = long.embed(texts);
    tokio::pin!(long);
    // The request is sent when it is polled first.
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut long).await.is_err(), "it takes minutes");
    let acquire =
        || engine.acquire(path.display().to_string(), Source::File(path.clone()), LoadOptions::default(), None);
    let waiting = acquire().await.expect("one request may wait");
    let cancelled = tokio::time::timeout(Duration::from_millis(50), waiting.embed(vec![text(1, 8)])).await;
    assert!(cancelled.is_err(), "only one request is active at a time");
    drop(waiting);
    let is_free = async {
        while acquire().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let is_free = tokio::time::timeout(Duration::from_secs(60), is_free);
    tokio::select! {
        is_free = is_free => is_free.expect("the place becomes free"),
        _ = &mut long => panic!("the place became free only with the end of the other request"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_texts_are_refused_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_engine, lease) = start(&folder, &BERT).await;
    assert_eq!(lease.context_tokens(), 128, "the trained context");
    for (bad, expected) in [
        (text(1, 0), "the prompt is empty"),
        (text(1, 129), "the prompt has 129 tokens, and the context has room for 128"),
        (EmbedText::from(vec![1, 512]), "the prompt has token 512, and the model's vocabulary has 512"),
    ] {
        let (bad, good) = tokio::join!(lease.embed(vec![text(1, 5), bad]), lease.embed(vec![text(1, 5)]));
        assert_eq!(bad.expect_err(expected).to_string(), expected);
        assert!(good.is_ok(), "the other request is computed");
    }
    assert!(lease.embed(vec![text(1, 128)]).await.is_ok(), "a text of the whole context");
}

#[tokio::test(flavor = "multi_thread")]
async fn context_is_at_most_that_of_the_training() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs on this machine");
    let lease = lease(&engine, &model(&folder, &ModelSpec { context: 3, ..tiny_bert(&BERT) })).await;
    assert_eq!(lease.context_tokens(), 3, "as many as there are positions");
    assert!(lease.embed(vec![text(1, 3)]).await.is_ok(), "three tokens fit");
    let error = lease.embed(vec![text(1, 4)]).await.expect_err("there are three positions");
    assert!(matches!(error, GenerateError::PromptTooLong { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_context_reloads_the_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spec = ModelSpec { context: 2048, ..tiny_bert(&QWEN3_EMBEDDING) };
    let path = model(&folder, &spec);
    let engine = Engine::start(config()).expect("a kernel variant runs on this machine");
    let acquire = async |tokens: u32| {
        let options = LoadOptions { context_tokens: Some(tokens), ..LoadOptions::default() };
        let source = Source::File(path.clone());
        engine.acquire("m".to_owned(), source, options, Some(KeepAlive::Forever)).await.expect("the model loads")
    };
    for (context, reloads) in [(600, true), (600, false), (100, false), (2000, true), (9999, true), (9999, false)] {
        let lease = acquire(context).await;
        assert_eq!(lease.load_ns() > 0, reloads, "a context of {context}");
        let fits = context.min(2048);
        assert!(lease.embed(vec![text(1, fits)]).await.is_ok(), "{fits} tokens fit");
        assert!(lease.embed(vec![text(1, fits + 1)]).await.is_err(), "one more does not");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_fails_requests_and_generations_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (engine, lease) = start(&folder, &BERT).await;
    let mut generation = lease.generate(Request { prompt: vec![1], ..Request::default() });
    let event = generation.recv().await;
    assert!(matches!(event, Some(Event::Error(GenerateError::Unloaded))), "it generates no text: {event:?}");
    let long = lease.embed((0..20_000).map(|seed| text(seed, 128)).collect());
    let stop = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        engine.shutdown();
    };
    let (vectors, ()) = tokio::join!(long, stop);
    assert!(matches!(vectors, Err(GenerateError::Unloaded)), "all requests end");
    assert!(matches!(lease.embed(vec![text(1, 3)]).await, Err(GenerateError::Unloaded)), "also later ones");
}
