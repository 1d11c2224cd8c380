//! Pebble's test through the daemon: correct answers, declined questions, and a check that the expected terms
//! discriminate.

use serde_json::{Value, json};

use crate::cairn::{Daemon, Home};

const TEST: &str = include_str!("../../src-tauri/crates/app/pebble/test.json");

/// Minimum of correct answers, of sixty questions about Cairn.
const RIGHT: usize = 45;
/// Minimum of declined questions, of thirty about something else.
const HONEST: usize = 27;
/// Maximum share of answers to other questions that pass.
const CROSSED: f64 = 0.1;

fn answer(daemon: &Daemon<'_>, question: &Value) -> String {
    let ask = json!({
        "model": "pebble",
        "messages": [{"role": "user", "content": question}],
        "options": {"temperature": 0, "num_predict": 200},
        "stream": false
    });
    let body = daemon.post("/api/chat", &ask).expect("the daemon answers");
    let body: Value = serde_json::from_str(&body).expect("an answer is JSON");
    body["message"]["content"].as_str().expect("an answer has a text").to_lowercase()
}

/// Returns whether a text contains one term of each list.
fn passes(need: &Value, answer: &str) -> bool {
    let lists = need.as_array().expect("needs are lists");
    lists.iter().all(|any_of| terms(any_of).any(|term| answer.contains(&term)))
}

fn terms(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().expect("terms are lists").iter().map(|term| term.as_str().expect("terms are texts").to_lowercase())
}

#[test]
fn pebble_answers_about_cairn_and_declines_other_questions() {
    let test: Value = serde_json::from_str(TEST).expect("the test is JSON");
    let home = Home::new();
    let daemon = home.serve();
    let questions = test["on_topic"].as_array().expect("questions are a list");
    let answers: Vec<String> = questions.iter().map(|question| answer(&daemon, &question["q"])).collect();
    let right = questions.iter().zip(&answers).filter(|(question, answer)| passes(&question["need"], answer)).count();
    let off_topic = test["off_topic"].as_array().expect("questions are a list");
    let declined = |question: &&Value| {
        let answer = answer(&daemon, question);
        terms(&test["honest"]).any(|phrase| answer.contains(&phrase))
    };
    let honest = off_topic.iter().filter(declined).count();

    let (mut pairs, mut crossed) = (0u32, 0u32);
    for (at, question) in questions.iter().enumerate() {
        for (_, answer) in answers.iter().enumerate().filter(|(other, _)| *other != at) {
            pairs += 1;
            crossed += u32::from(passes(&question["need"], answer));
        }
    }
    let crossed = f64::from(crossed) / f64::from(pairs);
    println!("right {right}/{}, honest {honest}/{}, cross check {crossed:.3}", questions.len(), off_topic.len());
    assert!((questions.len(), off_topic.len()) == (60, 30), "the test has its full length");
    assert!(right >= RIGHT, "{right} of {} are right", questions.len());
    assert!(honest >= HONEST, "{honest} of {} are declined", off_topic.len());
    assert!(crossed <= CROSSED, "the terms accept {crossed:.3} of the answers to other questions");
}
