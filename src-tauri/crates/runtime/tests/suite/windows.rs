//! Models whose layers attend to a window in part: what tiers keep of them, and that it changes no answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_runtime::{Engine, Event, LoadOptions, Logprob, Request, Source};
use cairn_testkit::{Family, ModelSpec, families};
use cairn_tier::{Tiers, WeightsDigest};
use tempfile::TempDir;

use super::common::{greedy, prompt};
use super::kept::{engine, tiers, unload};

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

/// An answer, to the last bit of what the model thought of it.
#[derive(Debug, PartialEq)]
struct Answer {
    tokens: Vec<u32>,
    likely: Vec<Logprob>,
}

/// The answer, and how many tokens of the prompt were not computed.
async fn ask(engine: &Engine, path: &Path, prompt: Vec<u32>) -> (Answer, usize) {
    let options =
        LoadOptions { context_tokens: Some(8192), weights: Some(WeightsDigest([7; 32])), ..LoadOptions::default() };
    let source = Source::File(path.to_owned());
    let lease = engine.acquire("m".to_owned(), source, options, None).await.expect("the model loads");
    let mut events = lease.generate(Request { logprobs: Some(5), ..greedy(prompt, 12) });
    let mut likely = Vec::new();
    loop {
        match events.recv().await.expect("an answer ends with its end") {
            Event::Full(_) => {}
            Event::Text(text) => likely.extend(text.logprobs),
            Event::Done(finish) => return (Answer { tokens: finish.tokens, likely }, finish.spent.cached_tokens),
            Event::Failed(error) => panic!("{error}"),
        }
    }
}

/// Asks for the same conversation, edited at many places: each time of a model that has just been loaded, and of one that still has
/// what it brought back before.
async fn check(family: &'static Family) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = model(&folder, family);
    let tiers = tiers(&folder.path().join("kept"));
    let (kept, plain) = (engine(Some(&tiers)), engine(None));
    let holders = Arc::strong_count(&tiers);
    let conversation = prompt(1, LEN);
    let (first, cached) = ask(&kept, &path, conversation.clone()).await;
    assert_eq!(cached, 0, "nothing is known yet");
    assert_eq!(first, ask(&plain, &path, conversation.clone()).await.0, "as without tiers");
    check_bytes(&tiers, &kept, holders).await;

    let name = family.name;
    let (again, cached) = ask(&kept, &path, conversation.clone()).await;
    assert_eq!(cached, LEN as usize - 1, "{name}: all but the last token came back");
    assert_eq!(again, first, "{name}: the answer is the same, to the bit");
    for reload in [true, false] {
        for at in [4400, 4100, 4096, 4000, 2100, 2048, 1000, 100] {
            if reload {
                unload(&kept, &tiers, holders).await;
                ask(&kept, &path, conversation.clone()).await;
            }
            let mut edited = conversation[..at].to_vec();
            edited.extend(prompt(9, 40));
            let (answer, cached) = ask(&kept, &path, edited.clone()).await;
            assert!(cached + 2048 >= at, "{name}: {cached} tokens of {at} were reused, reload {reload}");
            let (expected, _) = ask(&plain, &path, edited).await;
            assert_eq!(answer, expected, "{name}: an edit at {at}, reload {reload}");
        }
    }
}

/// Unloads the model, and checks that windows take few of the bytes that are kept of it.
async fn check_bytes(tiers: &Arc<Tiers>, kept: &Engine, holders: usize) {
    unload(kept, tiers, holders).await;
    assert!(tiers.settle(Duration::from_secs(10)), "it is soon written");
    let [context] = &tiers.contexts(9)[..] else { panic!("one conversation is kept") };
    let chunks = u64::from(LEN).div_ceil(256);
    // Half of the layers, in f16: four layers with a head of 32 elements each, for keys and for values.
    let full_bytes = chunks * 256 * 2 * 2 * 32 * 2;
    assert!(context.bytes >= full_bytes / 100 * 95, "half of the layers are kept whole: {context:?}");
    assert!(context.bytes < full_bytes * 3 / 2, "the others near anchors only: {context:?}, {full_bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gemma3_comes_back_with_the_windows_that_it_needs() {
    check(&families::GEMMA3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gpt_oss_comes_back_with_the_windows_that_it_needs() {
    check(&families::GPT_OSS).await;
}
