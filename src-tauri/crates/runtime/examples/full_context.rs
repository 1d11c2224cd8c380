//! How long an answer stops when its context is full: `cargo run --release -p cairn-runtime --example full_context -- 8192`.
//!
//! A context that is full to the last token loses half of what follows a beginning of a quarter of it, once by a shorter prompt, of
//! which the beginning is cached, and once by moving rows. Both are measured from one token's text to the next, against computing all of
//! the context again. The model has some 30 million random weights, so only the ratios mean something.

use std::time::{Duration, Instant};

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_runtime::{
    ContextFullPolicy, Engine, EngineConfig, Event, KeepAlive, Lease, LoadOptions, Request, Sampling, Source,
};

/// Tokens of the answer before its context is full, and after.
const ANSWER: usize = 4;

#[tokio::main]
async fn main() {
    let context: usize = std::env::args().nth(1).map_or(8192, |text| text.parse().expect("a number of tokens"));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the folder is writable");
    let engine = Engine::start(EngineConfig {
        machine: Machine::probe(),
        kernel: None,
        kv_budget_bytes: Some(4 << 30),
        kv_type: DType::F16,
        parallel: 1,
        max_loaded: 1,
        max_queue: 1,
        keep_alive: KeepAlive::Forever,
        load_timeouts: cairn_runtime::LoadTimeouts::default(),
        seed: 1,
        cache_tiers: None,
    })
    .expect("a variant runs");
    let options = LoadOptions { context_tokens: Some(context as u32), ..LoadOptions::default() };
    let lease = engine.acquire("slow".to_owned(), Source::File(path), options, None).await.expect("it loads");

    let prompt =
        |seed: usize| -> Vec<u32> { (0..context - ANSWER).map(|at| (seed + at * 31) as u32 % 8000 + 600).collect() };
    let head = context / 4;
    let (whole, _) = gap(&lease, prompt(1), ContextFullPolicy::default(), 0).await;
    println!("all of {context} tokens computed: {whole:?}");
    let ask = ContextFullPolicy { request_prompt: true, ..ContextFullPolicy::default() };
    let (_, turns) = gap(&lease, prompt(2), ask, head).await;
    println!("half of the rest left out, {head} tokens cached: {turns:?}, {:.3} of that", ratio(turns, whole));
    let shift = ContextFullPolicy { shift_after_tokens: Some(head), request_prompt: false };
    let (_, rope) = gap(&lease, prompt(3), shift, head).await;
    println!("half of the rest forgotten, rows moved: {rope:?}, {:.4} of that", ratio(rope, whole));
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64()
}

/// The time to the first text, and the longest from one text to the next.
async fn gap(lease: &Lease, prompt: Vec<u32>, on_context_full: ContextFullPolicy, head: usize) -> (Duration, Duration) {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let max_tokens = Some(2 * ANSWER as u32);
    let request = Request { prompt: prompt.clone(), sampling, max_tokens, on_context_full, ..Request::default() };
    let mut events = lease.generate(request);
    let mut last = Instant::now();
    let (mut first, mut longest) = (None, Duration::ZERO);
    loop {
        match events.recv().await.expect("an answer ends with its end") {
            Event::Delta(_) => {
                let took = last.elapsed();
                match first {
                    None => first = Some(took),
                    Some(_) => longest = longest.max(took),
                }
                last = Instant::now();
            }
            Event::ContextFull(full) => {
                let kept = prompt.len() - (prompt.len() - head) / 2;
                full.resume_with([&prompt[..head], &prompt[prompt.len() - (kept - head)..]].concat());
            }
            Event::Finish(_) => return (first.expect("it says something"), longest),
            Event::Error(error) => panic!("{error}"),
        }
    }
}
