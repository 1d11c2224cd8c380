//! Models with an encoder and a decoder: answers that depend on neither batch nor cache, and inputs with rows that are cached as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_gguf::DType;
use cairn_runtime::{
    CacheScope, Engine, EngineConfig, Finish, FinishReason, GenerateError, Lease, LoadOptions, NotFinite, Request,
    Sampling, Source,
};
use cairn_testkit::{ModelSpec, Types, families};
use cairn_tier::WeightsDigest;
use tempfile::TempDir;

use super::common::{answer, config, fill_tensors, greedy, prompt};
use super::tiers;

fn model(folder: &TempDir, seed: u64) -> PathBuf {
    let path = folder.path().join(format!("t5-{seed}.gguf"));
    // Rows of an output matrix of blocks are independent of the embedding, so that answers depend on the input.
    let types = Types::By(|name| if name == "output.weight" { DType::Q8_0 } else { DType::F32 });
    let spec = ModelSpec { seed, context: 1024, types, ..cairn_testkit::tiny_t5(&families::T5) };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    path
}

async fn lease(engine: &Engine, path: &Path) -> Lease {
    let weights = Some(WeightsDigest([9; 32]));
    let options = LoadOptions { context_tokens: Some(2048), weights, ..LoadOptions::default() };
    engine.acquire("m".to_owned(), Source::File(path.to_owned()), options, None).await.expect("the model loads")
}

async fn ask(lease: &Lease, request: Request) -> Finish {
    answer(lease.generate(request)).await.expect("the generation finishes")
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_inputs_are_independent_of_batch_and_cache() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 1);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &path).await;
    let input = |seed: u32| prompt(seed, 1 + seed * 90);
    let mut alone = Vec::new();
    for seed in 0..8 {
        let finish = ask(&lease, greedy(input(seed), 24)).await;
        assert_eq!(finish.usage.prompt_tokens, 1 + seed as usize * 90, "the tokens of the input: {:?}", finish.usage);
        assert_eq!(finish.usage.cached_tokens, 0, "no input has rows of another one");
        alone.push(finish);
    }
    let distinct: std::collections::BTreeSet<_> = alone.iter().map(|finish| finish.tokens.clone()).collect();
    assert!(distinct.len() > 6, "answers depend on the input: {distinct:?}");
    let fresh = |seed: u32| [vec![301 + seed], prompt(seed, 100)].concat();
    let at_once: Vec<_> = (0..8).map(|seed| lease.generate(greedy(input(seed), 24))).collect();
    let beside: Vec<_> = (0..8).map(|seed| lease.generate(greedy(fresh(seed), 24))).collect();
    for (seed, events) in at_once.into_iter().enumerate() {
        let finish = answer(events).await.expect("the generation finishes");
        assert_eq!(finish.tokens, alone[seed].tokens, "input {seed} in a batch");
        assert_eq!(finish.usage.cached_tokens, 1 + seed * 90, "the whole input {seed} is cached: {:?}", finish.usage);
    }
    for events in beside {
        answer(events).await.expect("the generation finishes");
    }
    // The same beginning is not the same input.
    let longer = ask(&lease, greedy([input(7), vec![5]].concat(), 24)).await;
    assert_eq!(longer.usage.cached_tokens, 0, "rows of a part of an input are never used");
    let other = Engine::start(config()).expect("a kernel variant runs");
    let other = self::lease(&other, &path).await;
    assert_eq!(ask(&other, greedy([input(7), vec![5]].concat(), 24)).await.tokens, longer.tokens, "an empty cache");
}

#[tokio::test(flavor = "multi_thread")]
async fn encoder_with_weights_that_are_not_finite_fails_the_request() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 1);
    fill_tensors(&path, |tensor| (tensor == "enc.blk.0.attn_q.weight").then_some(f32::NAN));
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &path).await;
    let at_once = [1, 1, 2].map(|seed| lease.generate(greedy(prompt(seed, 50), 5)));
    for events in at_once {
        let error = answer(events).await.expect_err("the rows are no numbers");
        assert!(matches!(error, GenerateError::NotFinite(NotFinite::Input)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_in_progress_are_shared_within_a_scope_only() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 6)).await;
    let scopes = [(None, false), (Some("key"), false), (Some("key"), true), (Some("other"), false)];
    for round in 0..3 {
        let before = engine.metrics()[0].1.inputs;
        // The others arrive while this input is encoded.
        let busy = lease.generate(greedy(prompt(100 + round, 400), 1));
        let at_once = scopes.map(|(name, incognito)| {
            let scope = CacheScope { name: name.map(Arc::from), incognito, ..CacheScope::default() };
            lease.generate(Request { scope, ..greedy(prompt(round, 200), 1) })
        });
        answer(busy).await.expect("the generation finishes");
        for events in at_once {
            answer(events).await.expect("the generation finishes");
        }
        // An incognito request that begins late finds the rows of its scope in the cache.
        let encoded = engine.metrics()[0].1.inputs - before - 1;
        assert!(
            (3..=4).contains(&encoded),
            "round {round}: {encoded} inputs were encoded for 3 keys, one also incognito"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_input_are_restored_from_ram_and_disk() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, 2);
    let kept = folder.path().join("kept");
    let open = || {
        let tiers = tiers::tiers(&kept);
        let engine = tiers::engine(Some(&tiers));
        (Arc::strong_count(&tiers), tiers, engine)
    };
    let (holders, tiers, engine) = open();
    let input = || greedy(prompt(3, 900), 24);
    let first = ask(&lease(&engine, &path).await, input()).await;
    assert_eq!((first.usage.cached_tokens, first.usage.restored.ram_tokens), (0, 0), "empty cache and tiers");
    tiers::unload(&engine, &tiers, holders).await;
    let again = ask(&lease(&engine, &path).await, input()).await;
    assert_eq!(again.usage.restored.ram_tokens, 900, "all rows of the input: {:?}", again.usage.restored);
    assert_eq!(again.tokens, first.tokens, "restored rows give the same answer");
    tiers::unload(&engine, &tiers, holders).await;
    // Another input with the same beginning restores nothing.
    let other = ask(&lease(&engine, &path).await, greedy(prompt(3, 899), 24)).await;
    assert_eq!(other.usage.cached_tokens, 0, "another input: {:?}", other.usage.restored);
    tiers::unload(&engine, &tiers, holders).await;
    drop(engine);
    Arc::into_inner(tiers).expect("the engine has ended").close(Duration::from_secs(10));

    let (_, tiers, engine) = open();
    let restarted = ask(&lease(&engine, &path).await, input()).await;
    // Some chunks are prefetched to RAM while the model loads.
    let restored = restarted.usage.restored;
    assert_eq!(restored.ram_tokens + restored.ssd_tokens, 900, "from disk: {restored:?}");
    assert_eq!(restarted.tokens, first.tokens, "rows from disk give the same answer");
    drop((engine, tiers));
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_wait_for_pages() {
    let folder = TempDir::new().expect("a temporary folder");
    // A page of this model has 64 tokens * 2 layers * 2 * 256 elements of two bytes: 128 KiB, so there are twelve.
    let engine =
        Engine::start(EngineConfig { kv_budget_bytes: Some(12 << 17), ..config() }).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 3)).await;
    let events: Vec<_> = (0..8).map(|seed| lease.generate(greedy(prompt(seed, 200), 150))).collect();
    let mut crowded = Vec::new();
    for events in events {
        crowded.push(answer(events).await.expect("it waits, and then finishes").tokens);
    }
    for (seed, tokens) in crowded.into_iter().enumerate() {
        let alone = ask(&lease, greedy(prompt(seed as u32, 200), 150)).await;
        assert_eq!(alone.tokens, tokens, "input {seed} has the same answer after it was preempted");
    }
    let error = answer(lease.generate(greedy(prompt(9, 900), 5))).await.expect_err("the input can never fit");
    assert!(matches!(error, GenerateError::CacheFull(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_context_ends_the_answer_and_long_inputs_are_refused() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let options = LoadOptions { context_tokens: Some(100), ..LoadOptions::default() };
    let path = model(&folder, 4);
    let lease = engine.acquire("m".to_owned(), Source::File(path), options, None).await.expect("the model loads");
    let policy = cairn_runtime::ContextFullPolicy { shift_after_tokens: Some(1), request_prompt: true };
    let request = Request { on_context_full: policy, ..greedy(prompt(1, 60), 500) };
    let finish = ask(&lease, request).await;
    assert_eq!((finish.reason, finish.dropped_tokens), (FinishReason::Length, 0), "an input cannot be shortened");
    assert_eq!(finish.usage.eval_tokens, 39, "input, start token and answer have 100 tokens");
    let error = answer(lease.generate(greedy(prompt(1, 100), 5))).await.expect_err("no room for an answer");
    assert!(matches!(error, GenerateError::PromptTooLong { prompt_tokens: 100, context_tokens: 100 }), "{error}");
    assert_eq!(ask(&lease, greedy(prompt(1, 99), 5)).await.usage.eval_tokens, 1, "room for one token");
    let error = answer(lease.generate(greedy(vec![5, 100_000], 5))).await.expect_err("there is no such token");
    assert!(matches!(error, GenerateError::UnknownToken { token: 100_000, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn penalties_do_not_apply_to_the_input() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 5)).await;
    let first = ask(&lease, greedy(prompt(1, 40), 1)).await.tokens[0];
    let input = [prompt(1, 40), vec![first; 3]].concat();
    let plain = ask(&lease, greedy(input.clone(), 1)).await.tokens;
    let sampling = Sampling { temperature: 0.0, presence_penalty: 100.0, ..Sampling::default() };
    let penalised = ask(&lease, Request { sampling, ..greedy(input, 1) }).await.tokens;
    assert_eq!(plain, penalised, "the input is no part of the answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn quantised_pages_hold_inputs() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("q.gguf");
    let spec = ModelSpec { types: Types::All(DType::Q8_0), ..cairn_testkit::tiny_t5(&families::T5_UNEVEN) };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    let engine = Engine::start(EngineConfig { kv_type: DType::Q8_0, ..config() }).expect("a kernel variant runs");
    let lease = lease(&engine, &path).await;
    let first = ask(&lease, greedy(prompt(1, 300), 24)).await;
    let again = ask(&lease, greedy(prompt(1, 300), 24)).await;
    assert_eq!((again.tokens, again.usage.cached_tokens), (first.tokens, 300), "cached rows give the same answer");
}
