//! Measured speeds of kernels and models, and the progress of prompts.

use cairn_gguf::DType;
use cairn_runtime::{Engine, Event, PromptTokens, RatesError};
use tempfile::TempDir;

use crate::common::{answer, config, greedy, lease, model, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn kernels_are_measured_only_while_no_model_computes() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let in_use = engine.variant();
    let lease = lease(&engine, &model(&folder, 1)).await;
    let mut events = lease.generate(greedy(prompt(1, 20), 1500));
    assert!(matches!(events.recv().await, Some(Event::Delta(_))), "the answer begins");
    let measure = |variant: &'static str| engine.measure_products(&[(variant, &[DType::Q8_0, DType::Q4_K])]);
    let busy = measure(in_use).expect_err("an answer is computed");
    assert!(matches!(busy, RatesError::Busy), "{busy}");
    drop(events);
    drop(lease);
    let missing = loop {
        // The cancelled generation may not have ended yet.
        match measure("no-such-variant") {
            Err(RatesError::Busy) => tokio::task::yield_now().await,
            other => break other.expect_err("no such variant"),
        }
    };
    assert!(matches!(&missing, RatesError::Unusable(name) if name == "no-such-variant"), "{missing}");
    let rates = measure(in_use).expect("no model computes");
    let types: Vec<DType> = rates[0].iter().map(|rates| rates.dtype).collect();
    assert_eq!((rates.len(), types), (1, vec![DType::Q8_0, DType::Q4_K]), "all types of the variant");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_ran_has_a_speed() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &model(&folder, 1)).await;
    let speed = |engine: &Engine| engine.metrics()[0].1.speed;
    answer(lease.generate(greedy(prompt(1, 200), 8))).await.expect("it finishes");
    assert_eq!(speed(&engine).answer_tokens_per_second, None, "a short answer");
    for seed in 2..6 {
        answer(lease.generate(greedy(prompt(seed, 200), 40))).await.expect("it finishes");
    }
    let measured = speed(&engine);
    assert!(measured.answer_tokens_per_second.is_some_and(|speed| speed > 0.0), "{measured:?}");
    assert!(measured.prompt_tokens_per_second.is_some_and(|speed| speed > 0.0), "{measured:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_of_a_prompt_grows_to_its_length() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the folder is writable");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let lease = lease(&engine, &path).await;
    let mut events = lease.generate(greedy(prompt(1, 1500), 4));
    let progress = events.prompt_progress().clone();
    let mut seen = vec![progress.tokens()];
    while events.is_empty() {
        let tokens = progress.tokens();
        if seen.last() != Some(&tokens) {
            seen.push(tokens);
        }
        tokio::task::yield_now().await;
    }
    assert!(seen.is_sorted_by_key(|tokens| tokens.ready), "{seen:?}");
    assert!(seen.len() > 2, "some steps of the prompt were seen: {seen:?}");
    while events.recv().await.is_some() {}
    assert_eq!(progress.tokens(), PromptTokens { ready: 1500, total: 1500 }, "the answer does not count");
}
