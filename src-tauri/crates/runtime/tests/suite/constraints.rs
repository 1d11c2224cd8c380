//! Answers under constraints: every answer of a random model is valid, and answers beside it do not change.

use std::sync::Arc;

use cairn_grammar::{Constraint, Matcher, Vocabulary};
use cairn_runtime::{
    Constrained, ContextFullPolicy, Engine, Event, Finish, FinishReason, GenerateError, Generation, Lease, LoadOptions,
    Logprob, Request, Sampling, Source, ThinkingTags,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{answer, config, greedy, lease, model, prompt};

/// An engine with one model, and the model's vocabulary.
struct Models {
    lease: Lease,
    vocabulary: Arc<Vocabulary>,
    _folder: TempDir,
}

impl Models {
    async fn load() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let engine = Engine::start(config()).expect("a kernel variant runs");
        let lease = lease(&engine, &model(&folder, 1)).await;
        let vocabulary = lease.vocabulary().expect("the vocabulary is valid");
        Self { lease, vocabulary, _folder: folder }
    }

    fn constrained(&self, constraint: &Constraint) -> Option<Constrained> {
        let matcher =
            Matcher::new(&self.vocabulary, constraint).unwrap_or_else(|error| panic!("{error}: {constraint:?}"));
        Some(Constrained { matcher, thinking: None })
    }

    /// A request at a high temperature.
    fn hot(&self, constraint: &Constraint, seed: u64) -> Request {
        let sampling = Sampling { temperature: 1.5, top_k: 0, top_p: 1.0, seed: Some(seed), ..Sampling::default() };
        let constraint = self.constrained(constraint);
        Request {
            prompt: prompt(seed as u32 % 7, 20),
            sampling,
            max_tokens: Some(900),
            constraint,
            ..Request::default()
        }
    }
}

/// Reads a generation to its end. Returns its text too.
async fn read(mut events: Generation) -> (Result<Finish, GenerateError>, String, Vec<Logprob>) {
    let (mut text, mut logprobs) = (String::new(), Vec::new());
    loop {
        match events.recv().await.expect("a generation has a last event") {
            Event::Delta(delta) => {
                text += &delta.text;
                logprobs.extend(delta.logprobs);
            }
            Event::ContextFull(_) => {}
            Event::Finish(finish) => return (Ok(finish), text, logprobs),
            Event::Error(error) => return (Err(error), text, logprobs),
        }
    }
}

fn schema(text: &str) -> Constraint {
    Constraint::JsonSchema(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}")))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Whether an answer is valid.
type IsValid = fn(&str) -> bool;

/// Constraints, each with a check of an answer.
fn cases() -> Vec<(Constraint, IsValid)> {
    let person = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer",
        "minimum": 0, "maximum": 99}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3}},
        "required": ["name", "age", "tags"], "additionalProperties": false}"#;
    let tree = r##"{"anyOf": [{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties":
        false}, {"enum": [null, true, 1.5]}]}"##;
    let list = "start: \"(\" [ITEM (\",\" ITEM)*] \")\"\nITEM: /[a-z]{1,3}/\n";
    vec![
        (schema(person), |text| {
            let value = parse(text);
            let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
            let tags = value["tags"].as_array().expect("a list");
            keys == ["name", "age", "tags"]
                && value["name"].as_str().is_some_and(|name| name.chars().count() <= 8)
                && value["age"].as_u64().is_some_and(|age| age <= 99)
                && tags.len() <= 3
                && tags.iter().all(|tag| tag == "red" || tag == "green")
        }),
        (schema(tree), |text| {
            let mut value = &parse(text);
            while let Some(inner) = value.get("a") {
                value = inner;
            }
            *value == Value::Null || *value == Value::Bool(true) || *value == 1.5
        }),
        (Constraint::Regex("[0-9]{4}-(0[1-9]|1[0-2])".to_owned()), |text| {
            let (year, month) = text.split_once('-').expect("a hyphen");
            year.len() == 4 && month.len() == 2 && (1..=12).contains(&month.parse::<u8>().expect("a number"))
        }),
        (Constraint::Lark(list.to_owned()), |text| {
            let items = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).expect("brackets");
            items.is_empty() || items.split(',').all(|item| (1..=3).contains(&item.len()))
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_answers_match_their_constraint() {
    let models = Models::load().await;
    for (constraint, is_valid) in cases() {
        for seed in 0..25 {
            let (finish, text, _) = read(models.lease.generate(models.hot(&constraint, seed))).await;
            let finish = finish.unwrap_or_else(|error| panic!("{error} after {text}"));
            match finish.reason {
                FinishReason::Stop => assert!(is_valid(&text), "seed {seed}: {text} under {constraint:?}"),
                FinishReason::Length => assert_eq!(finish.tokens.len(), 900, "seed {seed}: {text}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn constrained_answers_do_not_change_others() {
    let models = Models::load().await;
    let plain = |seed: u64| Request { constraint: None, max_tokens: Some(40), ..models.hot(&cases()[0].0, seed) };
    let mut alone = Vec::new();
    for seed in 0..2 {
        alone.push(answer(models.lease.generate(plain(seed))).await.expect("the generation finishes").tokens);
    }
    let mut constrained = Vec::new();
    for (seed, (constraint, _)) in cases().iter().enumerate() {
        constrained.push(read(models.lease.generate(models.hot(constraint, seed as u64))).await.1);
    }
    // All at once, in batches of four.
    let events: Vec<_> = cases()
        .iter()
        .enumerate()
        .map(|(seed, case)| models.lease.generate(models.hot(&case.0, seed as u64)))
        .collect();
    let plains: Vec<_> = (0..2).map(|seed| models.lease.generate(plain(seed))).collect();
    let mut cached = 0;
    for (index, events) in events.into_iter().enumerate() {
        let (finish, text, _) = read(events).await;
        cached += finish.expect("the generation finishes").usage.cached_tokens;
        assert_eq!(text, constrained[index], "constraint {index} beside others, with a cached prompt");
    }
    assert!(cached > 0, "the prompts are cached now");
    for (seed, events) in plains.into_iter().enumerate() {
        let tokens = answer(events).await.expect("the generation finishes").tokens;
        assert_eq!(tokens, alone[seed], "answer {seed} without a constraint, beside constrained ones");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn end_token_waits_for_the_complete_answer() {
    let models = Models::load().await;
    let regex = Constraint::Regex("[ab]{40}".to_owned());
    for seed in 0..5 {
        let (finish, text, _) = read(models.lease.generate(models.hot(&regex, seed))).await;
        let finish = finish.expect("the generation finishes");
        assert_eq!((text.len(), finish.reason), (40, FinishReason::Stop), "neither shorter nor longer: {text}");
        let ends = models.lease.tokenizer().end_ids();
        assert!(!finish.tokens.iter().any(|token| ends.contains(token)), "it ends without an end token");
    }
    let stopped = Request { stop: vec!["b".to_owned()], ..models.hot(&regex, 1) };
    let (finish, text, _) = read(models.lease.generate(stopped)).await;
    assert_eq!(finish.expect("it finishes").reason, FinishReason::Stop, "a stop text ends it");
    assert!(text.len() < 40 && !text.contains('b'), "before the stop text: {text}");
    let short = Request { max_tokens: Some(7), ..models.hot(&regex, 1) };
    let (finish, text, _) = read(models.lease.generate(short)).await;
    let finish = finish.expect("it finishes");
    assert_eq!((finish.reason, finish.tokens.len()), (FinishReason::Length, 7), "the limit ends it: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn penalties_apply_to_allowed_tokens() {
    let models = Models::load().await;
    let constraint = models.constrained(&Constraint::Regex("[ab]{40}".to_owned()));
    let sampling = Sampling { temperature: 0.0, frequency_penalty: 1000.0, ..Sampling::default() };
    let request = Request { constraint, sampling, ..greedy(vec![1, 2, 3], 60) };
    let (finish, text, _) = read(models.lease.generate(request)).await;
    finish.expect("the generation finishes");
    let letters = text.bytes().filter(|&byte| byte == b'a').count();
    assert!(letters.abs_diff(20) <= 1, "each makes the other more likely: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logprobs_are_those_of_the_model() {
    let models = Models::load().await;
    let free = Request { logprobs: Some(3), ..greedy(prompt(1, 20), 1) };
    let (_, _, free) = read(models.lease.generate(free)).await;
    let constraint = models.constrained(&Constraint::Regex("[ab]{4}".to_owned()));
    let bound = Request { logprobs: Some(3), constraint, ..greedy(prompt(1, 20), 9) };
    let (_, text, bound) = read(models.lease.generate(bound)).await;
    assert_eq!(text.len(), 4, "{text}");
    assert_eq!(bound[0].top, free[0].top, "the most likely tokens without the constraint");
    assert!(
        bound[0].chosen.logprob < bound[0].top[0].logprob,
        "the chosen token is less likely: {:?}",
        bound[0].chosen
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_follows_its_constraint_in_a_full_context() {
    let folder = TempDir::new().expect("a temporary folder");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let path = model(&folder, 1);
    let options = LoadOptions { context_tokens: Some(512), ..LoadOptions::default() };
    let lease = engine.acquire("m".to_owned(), Source::File(path), options, None).await.expect("the model loads");
    let vocabulary = lease.vocabulary().expect("the vocabulary is valid");
    let matcher = Matcher::new(&vocabulary, &Constraint::Regex("([a-f][0-9]){400}".to_owned())).expect("it compiles");
    for policy in [
        ContextFullPolicy { shift_after_tokens: Some(4), request_prompt: false },
        ContextFullPolicy { shift_after_tokens: None, request_prompt: true },
    ] {
        let constraint = Some(Constrained { matcher: matcher.clone(), thinking: None });
        let prompt = prompt(1, if policy.request_prompt { 300 } else { 20 });
        let request = Request { constraint, on_context_full: policy, ..greedy(prompt, 900) };
        let mut events = lease.generate(request);
        let (mut text, mut shorter_prompts) = (String::new(), 0);
        let finish = loop {
            match events.recv().await.expect("a generation has a last event") {
                Event::Delta(delta) => text += &delta.text,
                Event::ContextFull(full) => {
                    shorter_prompts += 1;
                    full.resume_with(vec![1, 2, 3]);
                }
                Event::Finish(finish) => break finish,
                Event::Error(error) => panic!("{error}"),
            }
        };
        // A shorter prompt makes room for one more part; the answer itself does not fit into the context.
        let is_whole = if policy.request_prompt { text.len() < 800 } else { text.len() == 800 };
        assert!(is_whole, "{policy:?}: {} bytes, {finish:?}", text.len());
        assert!(finish.dropped_tokens > 0 || shorter_prompts > 0, "{policy:?}: the context was full");
        let pairs = text.as_bytes().chunks(2);
        let is_valid = |pair: &[u8]| (b'a'..=b'f').contains(&pair[0]) && pair.get(1).is_none_or(u8::is_ascii_digit);
        assert!(pairs.into_iter().all(is_valid), "{policy:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_comes_before_the_constrained_answer() {
    let models = Models::load().await;
    let regex = Constraint::Regex("[ab]{20}".to_owned());
    for seed in 0..4 {
        let mut request = models.hot(&regex, seed);
        // `z` is in no word of the vocabulary, so a token ends with it.
        let thinking = Some(ThinkingTags { open: None, close: "z".to_owned() });
        request.constraint = request.constraint.map(|constraint| Constrained { thinking, ..constraint });
        request.max_tokens = None;
        let free = Request { constraint: None, max_tokens: Some(1), ..request.clone() };
        let (finish, text, _) = read(models.lease.generate(request)).await;
        let finish = finish.expect("the generation finishes");
        let first = answer(models.lease.generate(free)).await.expect("the generation finishes").tokens;
        assert_eq!(finish.tokens[0], first[0], "reasoning is drawn as without a constraint");
        let Some((_, constrained)) = text.split_once('z') else {
            assert!(
                models.lease.tokenizer().is_end(*finish.tokens.last().expect("a token")),
                "it ends in its reasoning"
            );
            continue;
        };
        let is_valid = constrained.len() == 20 && constrained.bytes().all(|byte| matches!(byte, b'a' | b'b'));
        assert!(is_valid && finish.reason == FinishReason::Stop, "seed {seed}: {constrained:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_constrained_answer_frees_its_place() {
    let models = Models::load().await;
    let endless = Constraint::Regex("[a-z]*".to_owned());
    for seed in 0..8 {
        let mut events = models.lease.generate(Request { max_tokens: None, ..models.hot(&endless, seed) });
        if seed % 2 == 0 {
            events.recv().await.expect("a first event");
        }
        drop(events);
    }
    let (finish, text, _) = read(models.lease.generate(models.hot(&cases()[2].0, 1))).await;
    assert_eq!((text.len(), finish.expect("it finishes").reason), (7, FinishReason::Stop), "the next answer: {text}");
}
