//! Models with window layers: the rows that tiers store, and exact answers from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_runtime::{Engine, Event, LoadOptions, Logprob, Request, Source};
use cairn_testkit::{Family, ModelSpec, families};
use cairn_tier::{Tiers, WeightsDigest};
use tempfile::TempDir;

use super::common::{greedy, prompt};
use super::tiers::{engine, tiers, unload};

/// Tokens of the conversation under test.
const LEN: u32 = 4500;

/// Every second layer has a window of 100 tokens.
fn model(folder: &TempDir, family: &'static Family) -> PathBuf {
    let path = folder.path().join("windows.gguf");
    let spec = ModelSpec { context: 8192, width: 64, heads: 2, kv_heads: 1, head_dim: 32, ffn: 64, ..tiny(family) };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    path
}

fn tiny(family: &'static Family) -> ModelSpec {
    ModelSpec { layers: 4, ..cairn_testkit::tiny(family) }
}

/// An answer with its log probabilities.
#[derive(Debug, PartialEq)]
struct Answer {
    tokens: Vec<u32>,
    logprobs: Vec<Logprob>,
}

/// The answer, and the number of prompt tokens that were not computed.
async fn ask(engine: &Engine, path: &Path, prompt: Vec<u32>) -> (Answer, usize) {
    let options =
        LoadOptions { context_tokens: Some(8192), weights: Some(WeightsDigest([7; 32])), ..LoadOptions::default() };
    let source = Source::File(path.to_owned());
    let lease = engine.acquire("m".to_owned(), source, options, None).await.expect("the model loads");
    let mut events = lease.generate(Request { logprobs: Some(5), ..greedy(prompt, 12) });
    let mut logprobs = Vec::new();
    loop {
        match events.recv().await.expect("a generation has a last event") {
            Event::ContextFull(_) => {}
            Event::Delta(text) => logprobs.extend(text.logprobs),
            Event::Finish(finish) => return (Answer { tokens: finish.tokens, logprobs }, finish.usage.cached_tokens),
            Event::Error(error) => panic!("{error}"),
        }
    }
}

/// Edits one conversation at many positions, both in a model that was just reloaded and in one with restored rows in its pages.
async fn check(family: &'static Family) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, family);
    let tiers = tiers(&folder.path().join("kept"));
    let (tiered, plain) = (engine(Some(&tiers)), engine(None));
    let holders = Arc::strong_count(&tiers);
    let conversation = prompt(1, LEN);
    let (first, cached) = ask(&tiered, &path, conversation.clone()).await;
    assert_eq!(cached, 0, "empty tiers");
    assert_eq!(first, ask(&plain, &path, conversation.clone()).await.0, "the answer without tiers");
    check_bytes(&tiers, &tiered, holders).await;

    let name = family.name;
    let (again, cached) = ask(&tiered, &path, conversation.clone()).await;
    assert_eq!(cached, LEN as usize - 1, "{name}: all but the last token were restored");
    assert_eq!(again, first, "{name}: the answer is identical");
    for reload in [true, false] {
        for at in [4400, 4100, 4096, 4000, 2100, 2048, 1000, 100] {
            if reload {
                unload(&tiered, &tiers, holders).await;
                ask(&tiered, &path, conversation.clone()).await;
            }
            let mut edited = conversation[..at].to_vec();
            edited.extend(prompt(9, 40));
            let (answer, cached) = ask(&tiered, &path, edited.clone()).await;
            assert!(cached + 2048 >= at, "{name}: {cached} tokens of {at} were reused, reload {reload}");
            let (expected, _) = ask(&plain, &path, edited).await;
            assert_eq!(answer, expected, "{name}: an edit at {at}, reload {reload}");
        }
    }
}

/// Unloads the model, and checks that window rows take few of the stored bytes.
async fn check_bytes(tiers: &Arc<Tiers>, tiered: &Engine, holders: usize) {
    unload(tiered, tiers, holders).await;
    assert!(tiers.wait_idle(Duration::from_secs(10)), "all chunks are written");
    let [context] = &tiers.stored_prefixes(9)[..] else { panic!("one conversation is stored") };
    let chunks = u64::from(LEN).div_ceil(256);
    // Half of the layers, in f16: four layers with a head of 32 elements each, for keys and for values.
    let full_bytes = chunks * 256 * 2 * 2 * 32 * 2;
    assert!(context.bytes >= full_bytes / 100 * 95, "the rows of full layers are stored: {context:?}");
    assert!(context.bytes < full_bytes * 3 / 2, "window rows near anchors only: {context:?}, {full_bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gemma3_restores_required_window_rows() {
    check(&families::GEMMA3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gpt_oss_restores_required_window_rows() {
    check(&families::GPT_OSS).await;
}
