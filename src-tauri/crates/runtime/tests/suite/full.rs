//! Answers that fill their context: who goes on, with what, and what others find of it.

use cairn_gguf::DType;
use cairn_runtime::{Engine, EngineConfig, Event, Finish, FinishReason, Lease, LoadOptions, Request, Source, WhenFull};
use tempfile::TempDir;

use super::common::{answer, config, greedy, prompt};

/// Tokens of the contexts here.
const CONTEXT: usize = 512;

/// Its answers are the same on every machine, and end only where they are made to: its tokens follow each other in pairs.
fn engine() -> Engine {
    Engine::start(EngineConfig { kernel: Some("scalar".to_owned()), ..config() }).expect("the variant runs everywhere")
}

async fn lease(engine: &Engine, folder: &TempDir, kv_type: DType) -> Lease {
    let path = folder.path().join("m.gguf");
    let spec = cairn_testkit::ModelSpec { vocab: 4096, ..cairn_testkit::tiny_qwen3() };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    let options =
        LoadOptions { context_tokens: Some(CONTEXT as u32), kv_type: Some(kv_type), ..LoadOptions::default() };
    engine.acquire(format!("{kv_type}"), Source::File(path), options, None).await.expect("the model loads")
}

/// What is answered, its text, and how often a shorter prompt was asked for, where `shorten` makes one for so many tokens of the answer.
async fn told(
    lease: &Lease,
    request: Request,
    mut shorten: impl FnMut(usize) -> Option<Vec<u32>>,
) -> (Finish, String, usize) {
    let mut events = lease.generate(request);
    let (mut text, mut asked) = (String::new(), 0);
    loop {
        match events.recv().await.expect("an answer ends with its end") {
            Event::Text(said) => text += &said.text,
            Event::Full(full) => {
                asked += 1;
                if let Some(prompt) = shorten(full.answer_tokens) {
                    full.go_on(prompt);
                }
            }
            Event::Done(finish) => return (finish, text, asked),
            Event::Failed(error) => panic!("{error}"),
        }
    }
}

fn asking(prompt: Vec<u32>, tokens: u32) -> Request {
    Request { when_full: WhenFull { ask: true, ..WhenFull::default() }, ..greedy(prompt, tokens) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_goes_on_after_a_shorter_prompt_as_if_it_had_come_after_that() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let (head, middle, tail) = (prompt(1, 100), prompt(2, 250), prompt(3, 100));
    let long = [head.clone(), middle, tail.clone()].concat();
    let short = [head, tail].concat();

    let (finish, text, asked) = told(&lease, asking(long.clone(), 150), |_| Some(short.clone())).await;
    assert_eq!(
        (asked, finish.reason, finish.spent.eval_tokens),
        (1, FinishReason::Length, 150),
        "it goes on to its limit"
    );
    assert_eq!(
        (finish.spent.prompt_tokens, finish.tokens.len()),
        (450, 150),
        "its own tokens, and those of its first prompt"
    );
    // The context was full with 62 tokens of the answer. From there on, it is what the short prompt and they lead to.
    let before = answer(lease.generate(greedy(long.clone(), 62))).await.expect("it answers");
    assert_eq!(finish.tokens[..62], before.tokens, "what came before is as it was");
    let after = [short.clone(), before.tokens].concat();
    let after = answer(lease.generate(greedy(after, 88))).await.expect("it answers");
    assert_eq!(finish.tokens[62..], after.tokens, "what comes after follows from the shorter prompt");
    let pieces = lease.tokenizer().decode(&finish.tokens);
    assert_eq!(text, pieces, "its text has no seam");

    // Whoever comes next finds both ways computed.
    let again = answer(lease.generate(greedy(long, 1))).await.expect("it answers");
    assert_eq!(again.spent.cached_tokens, 449, "what was left out stays cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_where_nothing_shorter_comes() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let check = async |why: &str, request: Request, shorter: Option<Vec<u32>>, expected_asked: usize| {
        let (finish, _, asked) = told(&lease, request, |_| shorter.clone()).await;
        assert_eq!((finish.reason, asked), (FinishReason::Length, expected_asked), "{why}");
        assert_eq!(finish.spent.eval_tokens, CONTEXT - 400, "{why}: as many as there is room for");
    };
    let long = || prompt(5, 400);
    check("nobody is asked", greedy(long(), 300), None, 0).await;
    check("nothing is answered", asking(long(), 300), None, 1).await;
    check("it is no shorter", asking(long(), 300), Some(long()), 1).await;
    check("it is empty", asking(long(), 300), Some(Vec::new()), 1).await;
    check("it has tokens of another model", asking(long(), 300), Some(vec![1_000_000]), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shifted_answer_goes_on_and_nobody_else_gets_its_rows() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::F16).await;
    let long = prompt(6, 400);
    let shifting = |tokens: u32| {
        let when_full = WhenFull { shift_after_tokens: Some(70), ask: false };
        Request { when_full, ..greedy(long.clone(), tokens) }
    };
    let plain = answer(lease.generate(greedy(long.clone(), 112))).await.expect("it answers");
    let (finish, text, asked) = told(&lease, shifting(700), |_| None).await;
    assert_eq!(
        (finish.reason, finish.spent.eval_tokens, asked),
        (FinishReason::Length, 700, 0),
        "far beyond its context"
    );
    assert_eq!(finish.tokens[..112], plain.tokens, "up to the first shift it is as it was");
    assert_eq!(text, lease.tokenizer().decode(&finish.tokens), "its text has no seam");
    // 1,100 tokens went through 512 places, by pages of 64, of which two are kept.
    let gone = finish.forgotten_tokens;
    assert!(gone.is_multiple_of(64) && gone >= 1100 - CONTEXT, "{gone} tokens were forgotten");

    // What is visible at its end, asked for by somebody else, is computed but for what never moved.
    let all = [long.clone(), finish.tokens].concat();
    let visible = [&all[..128], &all[128 + gone..]].concat();
    let other = answer(lease.generate(greedy(visible, 1))).await.expect("it answers");
    assert_eq!(other.spent.cached_tokens, 128, "only the kept beginning is found");
    let first = answer(lease.generate(greedy(long.clone(), 1))).await.expect("it answers");
    assert_eq!(first.spent.cached_tokens, 399, "and the prompt as it was computed");
}

#[tokio::test(flavor = "multi_thread")]
async fn quantised_keys_are_shifted_once() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = engine();
    let lease = lease(&engine, &folder, DType::Q8_0).await;
    let when_full = WhenFull { shift_after_tokens: Some(1), ask: false };
    let (finish, ..) = told(&lease, Request { when_full, ..greedy(prompt(7, 400), 700) }, |_| None).await;
    // 511 computed tokens are seven whole pages: one is kept, and three of the other six go.
    assert_eq!(
        (finish.reason, finish.forgotten_tokens),
        (FinishReason::Length, 192),
        "then the context is full for good"
    );
    assert_eq!(finish.spent.eval_tokens, CONTEXT - 400 + 192, "the answer ends there");
}
