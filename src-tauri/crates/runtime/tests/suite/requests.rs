//! Batches, cache, cancellation, keep-alive and file errors, with small random models.

use std::time::Duration;

use cairn_gguf::DType;
use cairn_runtime::{
    Engine, EngineConfig, FinishReason, GenerateError, KeepAlive, LoadError, LoadOptions, Request, Source,
};
use cairn_testkit::{ModelSpec, RopeScaling, families};
use tempfile::TempDir;

use crate::common::{answer, config, greedy, lease, model, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn batched_answers_equal_single_answers() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 1)).await;
    let mut alone = Vec::new();
    for seed in 0..10 {
        let finish =
            answer(lease.generate(greedy(prompt(seed, 20 + seed * 40), 24))).await.expect("the generation finishes");
        assert!(finish.usage.eval_tokens > 0 && finish.usage.prompt_tokens == 20 + seed as usize * 40, "{finish:?}");
        alone.push(finish.tokens);
    }
    // Other prompts run at the same time. Their first tokens differ, so nothing is cached.
    let fresh = |seed: u32| [vec![301 + seed], prompt(seed, 100)].concat();
    let at_once: Vec<_> = (0..10).map(|seed| lease.generate(greedy(prompt(seed, 20 + seed * 40), 24))).collect();
    let beside: Vec<_> = (0..10).map(|seed| lease.generate(greedy(fresh(seed), 24))).collect();
    for (seed, events) in at_once.into_iter().enumerate() {
        let finish = answer(events).await.expect("the generation finishes");
        assert_eq!(finish.tokens, alone[seed], "prompt {seed} must not depend on the batch or the cache");
    }
    for events in beside {
        answer(events).await.expect("the generation finishes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_turn_computes_new_tokens_only() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 2)).await;
    let first = answer(lease.generate(greedy(prompt(3, 200), 30))).await.expect("the generation finishes");
    assert_eq!(first.usage.cached_tokens, 0, "an empty cache");
    let turn = [prompt(3, 200), first.tokens.clone(), prompt(4, 25)].concat();
    let second = answer(lease.generate(greedy(turn.clone(), 30))).await.expect("the generation finishes");
    // The last token of an answer is chosen but never computed.
    assert_eq!(second.usage.cached_tokens, 200 + first.tokens.len() - 1, "all computed tokens are cached");
    let again = answer(lease.generate(greedy(turn.clone(), 30))).await.expect("the generation finishes");
    assert_eq!(again.usage.cached_tokens, turn.len() - 1, "all but the last token");
    assert_eq!(again.tokens, second.tokens, "a cached prefix gives the same answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn generations_wait_for_pages() {
    let folder = TempDir::new().expect("a temporary folder");
    // A page of this model has 64 tokens * 2 layers * 2 * 128 elements of two bytes: 64 KiB, so there are twelve.
    let engine =
        Engine::start(EngineConfig { kv_budget_bytes: Some(12 << 16), ..config() }).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 5)).await;
    let events: Vec<_> = (0..8).map(|seed| lease.generate(greedy(prompt(seed, 150), 200))).collect();
    let mut crowded = Vec::new();
    for events in events {
        crowded.push(answer(events).await.expect("it waits, and then finishes").tokens);
    }
    for (seed, tokens) in crowded.into_iter().enumerate() {
        let alone =
            answer(lease.generate(greedy(prompt(seed as u32, 150), 200))).await.expect("the generation finishes");
        assert_eq!(alone.tokens, tokens, "prompt {seed} has the same answer after it was preempted");
    }
    let error = answer(lease.generate(greedy(prompt(9, 900), 5))).await.expect_err("the prompt can never fit");
    assert!(matches!(error, GenerateError::CacheFull(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_generation_is_cancelled() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { parallel: 1, ..config() }).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 6)).await;
    for seed in 0..5 {
        drop(lease.generate(greedy(prompt(seed, 10), 100_000)));
    }
    let finish = answer(lease.generate(greedy(prompt(7, 10), 3))).await.expect("the generation finishes");
    assert_eq!((finish.usage.eval_tokens, finish.reason), (3, FinishReason::Length), "the limit is three tokens");
    let error =
        answer(lease.generate(greedy(prompt(7, 5000), 3))).await.expect_err("the prompt is longer than the context");
    assert!(matches!(error, GenerateError::PromptTooLong { .. }), "{error}");
    let error = answer(lease.generate(Request::default())).await.expect_err("the prompt is empty");
    assert!(matches!(error, GenerateError::EmptyPrompt), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_unload_after_keep_alive_or_for_others() {
    let folder = TempDir::new().expect("a temporary folder");
    let short = KeepAlive::For(Duration::from_millis(150));
    let engine = Engine::start(EngineConfig { keep_alive: short, ..config() }).expect("a kernel variant runs");
    let paths: Vec<_> = (10..13).map(|seed| model(&folder, seed)).collect();
    drop(lease(&engine, &paths[0]).await);
    assert_eq!(engine.loaded().len(), 1, "it stays loaded after its request");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(engine.loaded().is_empty(), "the keep-alive time has expired");

    let held = lease(&engine, &paths[0]).await;
    drop(lease(&engine, &paths[1]).await);
    drop(lease(&engine, &paths[2]).await);
    let ids: Vec<_> = engine.loaded().into_iter().map(|loaded| loaded.id).collect();
    assert!(ids.contains(&paths[0].display().to_string()), "a model in use is not unloaded: {ids:?}");
    assert!(!ids.contains(&paths[1].display().to_string()), "only two may be loaded: {ids:?}");

    assert!(engine.unload(&paths[0].display().to_string()), "the model is loaded");
    assert!(answer(held.generate(greedy(prompt(1, 5), 2))).await.is_ok(), "its generation finishes first");
    drop(held);
    let ids: Vec<_> = engine.loaded().into_iter().map(|loaded| loaded.id).collect();
    assert!(!ids.contains(&paths[0].display().to_string()), "then it is unloaded: {ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_alive_of_a_request_stays_until_another_sets_it() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let path = model(&folder, 14);
    let seconds = |seconds: u64| KeepAlive::For(Duration::from_secs(seconds));
    let check = async |keep_alive: Option<KeepAlive>, default: u64, expected: Option<u64>| {
        let options = LoadOptions { default_keep_alive: Some(seconds(default)), ..LoadOptions::default() };
        let lease = engine.acquire("m".to_owned(), Source::File(path.clone()), options, keep_alive).await;
        drop(lease.expect("the model loads"));
        let left = engine.loaded()[0].expires_in.map(|left| left.as_secs_f64().ceil() as u64);
        assert_eq!(left, expected, "{keep_alive:?}, by default {default} s");
    };
    check(None, 100, Some(100)).await;
    check(None, 200, Some(200)).await;
    check(Some(KeepAlive::Forever), 100, None).await;
    check(None, 100, None).await;
    check(Some(seconds(50)), 100, Some(50)).await;
    check(None, 100, Some(50)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_model_file_fails_until_it_is_restored() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let path = model(&folder, 20);
    let complete = std::fs::read(&path).expect("it was written");
    let held = lease(&engine, &path).await;
    answer(held.generate(greedy(prompt(1, 50), 5))).await.expect("the generation finishes");
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(4096))
        .expect("the file can be truncated");
    let error = answer(held.generate(greedy(prompt(2, 50), 5))).await.expect_err("the file was truncated");
    assert!(matches!(error, GenerateError::ModelVanished(_) | GenerateError::Unloaded), "{error}");
    drop(held);
    let id = path.display().to_string();
    let truncated = engine.acquire(id, Source::File(path.clone()), Default::default(), None).await;
    assert!(matches!(truncated, Err(LoadError::File(_))), "a truncated file is rejected");
    std::fs::write(&path, complete).expect("the folder is writable");
    answer(lease(&engine, &path).await.generate(greedy(prompt(1, 50), 5))).await.expect("a complete file loads");
}

#[tokio::test(flavor = "multi_thread")]
async fn steady_traffic_does_not_starve_another_model() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(EngineConfig { max_loaded: 1, ..config() }).expect("a kernel variant runs");
    let (steady, other) = (model(&folder, 30), model(&folder, 31));
    let mut held = lease(&engine, &steady).await;
    let mut waits = tokio::spawn({
        let engine = engine.clone();
        async move { lease(&engine, &other).await }
    });
    for _ in 0..1000 {
        // The next lease is requested before the last one ends, so the model is never idle.
        let mut next = tokio::spawn({
            let (engine, steady) = (engine.clone(), steady.clone());
            async move { lease(&engine, &steady).await }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        if next.is_finished() {
            held = next.await.expect("leasing does not panic");
            continue;
        }
        drop(held);
        // On a busy machine, the lease may just be slow.
        tokio::select! {
            lease = &mut next => held = lease.expect("leasing does not panic"),
            loaded = &mut waits => {
                drop(loaded.expect("the other model loads"));
                next.await.expect("then the first one loads again");
                return;
            }
        }
    }
    panic!("the other model was never loaded");
}

#[tokio::test]
async fn longer_context_reloads_only_with_long_rope_factors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let scaling = RopeScaling::Long { factor: 8.0, original_context: 512, attention_factor: 1.0 };
    let long = ModelSpec { rope_scaling: scaling, ..cairn_testkit::tiny(&families::PHI3) };
    let check = async |name: &str, spec: ModelSpec, loads: [bool; 5]| {
        let path = folder.path().join(name);
        cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
        for (context, loads) in [256, 512, 513, 1024, 4].into_iter().zip(loads) {
            let options = LoadOptions { context_tokens: Some(context), ..LoadOptions::default() };
            let lease = engine.acquire(name.to_owned(), Source::File(path.clone()), options, None).await;
            let lease = lease.expect("the model loads");
            assert_eq!(lease.load_ns() > 0, loads, "{name}: a context of {context} tokens");
        }
    };
    check("long", long, [true, false, true, false, true]).await;
    check("plain", cairn_testkit::tiny_llama(), [true, false, false, false, false]).await;
}

#[tokio::test]
async fn kv_type_change_reloads_and_answers_from_cache() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let even = cairn_testkit::tiny_llama();
    let uneven = ModelSpec { head_dim: 48, ..cairn_testkit::tiny_llama() };
    for (name, spec) in [("even", even), ("uneven", uneven)] {
        let path = folder.path().join(name);
        cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
        let types =
            [None, Some(DType::F16), Some(DType::BF16), Some(DType::Q8_0), Some(DType::Q8_0), Some(DType::Q4_0)];
        for (nth, kv_type) in types.into_iter().enumerate() {
            let what = format!("{name}: {kv_type:?} as request {nth}");
            let options = LoadOptions { kv_type, ..LoadOptions::default() };
            let lease = engine.acquire(name.to_owned(), Source::File(path.clone()), options, None).await;
            let lease = lease.expect("the model loads");
            let again = nth > 0 && kv_type.unwrap_or(DType::F16) == types[nth - 1].unwrap_or(DType::F16);
            assert_eq!(lease.load_ns() > 0, !again, "{what}: reloaded for another type");
            let shown = engine.loaded().into_iter().find(|model| model.id == name).expect("the model is loaded");
            let is_rejected = name == "uneven" && matches!(kv_type, Some(DType::Q8_0 | DType::Q4_0));
            let used = if is_rejected { DType::F16 } else { kv_type.unwrap_or(DType::F16) };
            assert_eq!((shown.kv_type, shown.kv_refused.is_some()), (used, is_rejected), "{what}: the type in use");
            let first = answer(lease.generate(greedy(prompt(1, 90), 8))).await.expect("the generation finishes");
            let second = answer(lease.generate(greedy(prompt(1, 90), 8))).await.expect("the generation finishes");
            assert_eq!(first.tokens, second.tokens, "{what}: the second answer, from cached pages");
            drop(lease);
        }
    }
}
