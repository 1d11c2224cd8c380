//! Answers that fill their context: shorter prompts, context shifts, and the rows that other requests find.

use cairn_gguf::DType;
use cairn_runtime::{
    ContextFullPolicy, Engine, EngineConfig, Event, Finish, FinishReason, Lease, LoadOptions, MAX_ANSWER_CONTEXTS,
    Request, Source,
};
use tempfile::TempDir;

use super::common::{answer, config, greedy, prompt};

/// Context size.
const CONTEXT: usize = 512;

/// An engine whose answers are the same on every machine. The model generates no end token.
fn engine() -> Engine {
    Engine::start(EngineConfig { kernel: Some("scalar".to_owned()), ..config() })
        .expect("the scalar variant runs everywhere")
}

async fn lease(engine: &Engine, folder: &TempDir, kv_type: DType) -> Lease {
    let path = folder.path().join("m.gguf");
    let spec = cairn_testkit::ModelSpec { vocab: 4096, ..cairn_testkit::tiny_qwen3() };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    let options =
        LoadOptions { context_tokens: Some(CONTEXT as u32), kv_type: Some(kv_type), ..LoadOptions::default() };
    engine.acquire(format!("{kv_type}"), Source::File(path), options, None).await.expect("the model loads")
}

/// Runs a generation. `shorten` makes a shorter prompt for an answer of so many tokens. Returns the result, its text, and the number
/// of requests for a shorter prompt.
async fn run(
    lease: &Lease,
    request: Request,
    mut shorten: impl FnMut(usize) -> Option<Vec<u32>>,
) -> (Finish, String, usize) {
    let mut events = lease.generate(request);
    let (mut text, mut requests) = (String::new(), 0);
    loop {
        match events.recv().await.expect("a generation has a last event") {
            Event::Delta(delta) => text += &delta.text,
            Event::ContextFull(full) => {
                requests += 1;
                if let Some(prompt) = shorten(full.answer_tokens) {
                    full.resume_with(prompt);
                }
            }
            Event::Finish(finish) => return (finish, text, requests),
            Event::Error(error) => panic!("{error}"),
        }
    }
}

fn asking(prompt: Vec<u32>, tokens: u32) -> Request {
    Request {
        on_context_full: ContextFullPolicy { request_prompt: true, ..ContextFullPolicy::default() },
        ..greedy(prompt, tokens)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_continues_exactly_after_shorter_prompt() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let (head, middle, tail) = (prompt(1, 100), prompt(2, 250), prompt(3, 100));
    let long = [head.clone(), middle, tail.clone()].concat();
    let short = [head, tail].concat();

    let (finish, text, requests) = run(&lease, asking(long.clone(), 150), |_| Some(short.clone())).await;
    assert_eq!(
        (requests, finish.reason, finish.usage.eval_tokens),
        (1, FinishReason::Length, 150),
        "it continues to its limit"
    );
    assert_eq!(
        (finish.usage.prompt_tokens, finish.tokens.len()),
        (450, 150),
        "the tokens of its first prompt, and its own"
    );
    // The context was full with 62 tokens of the answer. The rest follows from the short prompt and these tokens.
    let before = answer(lease.generate(greedy(long.clone(), 62))).await.expect("the generation finishes");
    assert_eq!(finish.tokens[..62], before.tokens, "the tokens before are unchanged");
    let after = [short.clone(), before.tokens].concat();
    let after = answer(lease.generate(greedy(after, 88))).await.expect("the generation finishes");
    assert_eq!(finish.tokens[62..], after.tokens, "the tokens after it follow from the shorter prompt");
    let pieces = lease.tokenizer().decode(&finish.tokens);
    assert_eq!(text, pieces, "the text is continuous");

    // The rows of the first prompt are still cached.
    let again = answer(lease.generate(greedy(long, 1))).await.expect("the generation finishes");
    assert_eq!(again.usage.cached_tokens, 449, "the dropped tokens stay cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_ends_without_valid_shorter_prompt() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let check = async |why: &str, request: Request, shorter: Option<Vec<u32>>, expected_requests: usize| {
        let (finish, _, requests) = run(&lease, request, |_| shorter.clone()).await;
        assert_eq!((finish.reason, requests), (FinishReason::Length, expected_requests), "{why}");
        assert_eq!(finish.usage.eval_tokens, CONTEXT - 400, "{why}: it fills the context");
    };
    let long = || prompt(5, 400);
    check("no request", greedy(long(), 300), None, 0).await;
    check("no reply", asking(long(), 300), None, 1).await;
    check("the reply is not shorter", asking(long(), 300), Some(long()), 1).await;
    check("the reply is empty", asking(long(), 300), Some(Vec::new()), 1).await;
    check("the reply has invalid tokens", asking(long(), 300), Some(vec![1_000_000]), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shifted_answer_continues_and_its_rows_are_not_shared() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let long = prompt(6, 400);
    let shifting = |tokens: u32| {
        let on_context_full = ContextFullPolicy { shift_after_tokens: Some(70), request_prompt: false };
        Request { on_context_full, ..greedy(long.clone(), tokens) }
    };
    let plain = answer(lease.generate(greedy(long.clone(), 112))).await.expect("the generation finishes");
    let (finish, text, requests) = run(&lease, shifting(700), |_| None).await;
    assert_eq!(
        (finish.reason, finish.usage.eval_tokens, requests),
        (FinishReason::Length, 700, 0),
        "it continues far beyond its context"
    );
    assert_eq!(finish.tokens[..112], plain.tokens, "the tokens before the first shift are unchanged");
    assert_eq!(text, lease.tokenizer().decode(&finish.tokens), "the text is continuous");
    // 1,100 tokens went through 512 slots, in pages of 64, of which two stay.
    let dropped = finish.dropped_tokens;
    assert!(dropped.is_multiple_of(64) && dropped >= 1100 - CONTEXT, "{dropped} tokens were dropped");

    // Another request with the tokens that remain at the end finds only the rows that were not shifted.
    let all = [long.clone(), finish.tokens].concat();
    let visible = [&all[..128], &all[128 + dropped..]].concat();
    let other = answer(lease.generate(greedy(visible, 1))).await.expect("the generation finishes");
    assert_eq!(other.usage.cached_tokens, 128, "only the kept prefix is cached");
    let first = answer(lease.generate(greedy(long.clone(), 1))).await.expect("the generation finishes");
    assert_eq!(first.usage.cached_tokens, 399, "the original prompt is cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_without_limit_ends_after_ten_contexts() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let on_context_full = ContextFullPolicy { shift_after_tokens: Some(4), request_prompt: false };
    for max_tokens in [None, Some(u32::MAX)] {
        let request = Request { max_tokens, on_context_full, ..greedy(prompt(8, 100), 0) };
        let (finish, ..) = run(&lease, request, |_| None).await;
        let ended = (finish.reason, finish.usage.eval_tokens);
        assert_eq!(ended, (FinishReason::Length, MAX_ANSWER_CONTEXTS * CONTEXT), "limit: {max_tokens:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quantised_keys_are_shifted_once() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::Q8_0).await;
    let on_context_full = ContextFullPolicy { shift_after_tokens: Some(1), request_prompt: false };
    let (finish, ..) = run(&lease, Request { on_context_full, ..greedy(prompt(7, 400), 700) }, |_| None).await;
    // 511 computed tokens are seven full pages: one stays, and three of the other six are dropped.
    assert_eq!((finish.reason, finish.dropped_tokens), (FinishReason::Length, 192), "then the context stays full");
    assert_eq!(finish.usage.eval_tokens, CONTEXT - 400 + 192, "the answer ends there");
}
