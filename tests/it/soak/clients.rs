//! Clients of the soak test. Each runs until the test is over.

use std::io::{BufRead, BufReader, Read};
use std::thread::Scope;
use std::time::{Duration, Instant};

use cairn_testkit::Random;
use serde_json::{Value, json};

use super::{Outcome, Soak, answer};
use crate::cairn::send;

/// Pause of a client after a failed request, for example because the daemon is restarted.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts all clients.
pub(super) fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, soak: &'scope Soak) {
    let clients: [fn(&Soak, &mut Random); 9] =
        [generate, generate, generate, read_slowly, disconnect, pull, manage, cache, chat];
    for (seed, client) in clients.into_iter().enumerate() {
        scope.spawn(move || {
            let mut random = Random::new(seed as u64);
            while !soak.is_over() {
                client(soak, &mut random);
            }
        });
    }
}

/// Compares an answer with that of the idle daemon.
fn generate(soak: &Soak, random: &mut Random) {
    let question = soak.question(random);
    let Outcome::Response(200, body) = soak.request("POST", "/api/generate", &[], &question.body().to_string()) else {
        return std::thread::sleep(PAUSE);
    };
    match answer(&body) {
        Ok(text) if text == question.answer => soak.count("right answer"),
        Ok(text) => soak.violation(format!("{}: {text:?} instead of {:?}", question.model, question.answer)),
        Err(error) => soak.count(format!("answer failed: {error:.60}")),
    }
}

/// Reads an answer with pauses and measures the times between its pieces.
fn read_slowly(soak: &Soak, random: &mut Random) {
    let body = json!({"model": "m1", "prompt": "Count.", "options": {"num_predict": 200, "temperature": 1}});
    let Some(stream) = send(soak.home.port, "POST", "/api/generate", &[], &body.to_string()) else {
        return std::thread::sleep(PAUSE);
    };
    let mut pauses = random.below(3);
    let mut last = Instant::now();
    for line in BufReader::new(stream).lines().map_while(Result::ok).filter(|line| line.starts_with('{')) {
        if line.contains("\"done\":true") {
            soak.count("slow answer complete");
        }
        soak.tally.lock().expect("no client panics").gaps.push(last.elapsed());
        if pauses > 0 && random.below(20) == 0 {
            pauses -= 1;
            std::thread::sleep(Duration::from_millis(500 + random.below(2500)));
        }
        last = Instant::now();
    }
}

/// Closes connections in the middle of answers and of requests.
fn disconnect(soak: &Soak, random: &mut Random) {
    let body = json!({"model": "m2", "prompt": "Count.", "options": {"num_predict": 2000}}).to_string();
    let sent = &body[..random.below(body.len() as u64 + 1) as usize];
    let length = format!("{}", body.len());
    let stream = match random.below(2) {
        0 => send(soak.home.port, "POST", "/api/generate", &[], &body),
        // A part of the body.
        _ => send(soak.home.port, "POST", "/api/generate", &[("X-Length", &length)], sent),
    };
    let Some(mut stream) = stream else { return std::thread::sleep(PAUSE) };
    // The daemon may have been killed.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100 + random.below(900))));
    let _ = stream.read(&mut [0; 256]);
    soak.count("disconnected");
}

/// Pulls a model from a faulty registry and deletes it.
fn pull(soak: &Soak, random: &mut Random) {
    let body = json!({"model": soak.churn, "insecure": true});
    let Outcome::Response(200, lines) = soak.request("POST", "/api/pull", &[], &body.to_string()) else {
        return std::thread::sleep(PAUSE);
    };
    let is_complete = lines.contains("\"success\"");
    soak.count(if is_complete { "pull complete" } else { "pull failed" });
    if is_complete && random.below(2) == 0 {
        soak.request("DELETE", "/api/delete", &[], &json!({"model": soak.churn}).to_string());
    }
    std::thread::sleep(Duration::from_millis(random.below(500)));
}

/// Lists, copies, creates and deletes models.
fn manage(soak: &Soak, random: &mut Random) {
    let name = format!("made{}", random.below(3));
    let (method, path, body) = match random.below(7) {
        0 => ("POST", "/api/copy", json!({"source": "m1", "destination": name})),
        1 => ("POST", "/api/create", json!({"model": name, "from": "m2", "parameters": {"temperature": 0.5}})),
        2 => ("DELETE", "/api/delete", json!({"model": name})),
        3 => ("GET", "/api/tags", Value::Null),
        4 => ("GET", "/api/ps", Value::Null),
        5 => ("POST", "/api/show", json!({"model": "m3"})),
        _ => ("POST", "/api/generate", json!({"model": "m3", "keep_alive": 0})),
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    soak.request(method, path, &[], &body);
    std::thread::sleep(Duration::from_millis(random.below(300)));
}

/// Shows, pins, checks and clears the cache, and changes settings.
fn cache(soak: &Soak, random: &mut Random) {
    let outcome = match random.below(8) {
        0 => soak.own("POST", "/app/cache/clear", &json!({})),
        1 => soak.own("POST", "/app/cache/clear", &json!({"tier": "ram"})),
        2 => soak.own("GET", "/app/cache/fsck", &Value::Null),
        3 => soak.own("GET", "/app/cache", &Value::Null),
        4 => soak.own("GET", "/metrics", &Value::Null),
        5 => soak.own("GET", "/app/downloads", &Value::Null),
        _ => soak.own("GET", "/app/cache/contexts", &Value::Null),
    };
    if let Outcome::Response(200, body) = outcome
        && let Ok(listed) = serde_json::from_str::<Value>(&body)
        && let Some(context) = listed["contexts"].as_array().and_then(|all| all.first())
    {
        let action = ["pin", "unpin", "drop"][random.below(3) as usize];
        soak.own("POST", &format!("/app/cache/{action}"), &json!({"context": context["id"]}));
    }
    std::thread::sleep(Duration::from_millis(random.below(500)));
}

/// Stores a chat. A complete answer must still be there later, also after a kill.
fn chat(soak: &Soak, random: &mut Random) {
    let Outcome::Response(200 | 201, created) = soak.own("POST", "/app/chats", &json!({"model": "pebble"})) else {
        return std::thread::sleep(PAUSE);
    };
    let created: Value = serde_json::from_str(&created).unwrap_or_default();
    let id = created["id"].as_str().unwrap_or_default();
    let messages = format!("/app/chats/{id}/messages");
    let question = json!({"content": "How do I pull a model?", "options": {"num_predict": 12}});
    let Outcome::Response(200 | 201, lines) = soak.own("POST", &messages, &question) else { return };
    let Some(done) =
        lines.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok()?.get("done").cloned())
    else {
        return soak.count("chat cut off");
    };
    std::thread::sleep(Duration::from_secs(random.below(5)));
    let Outcome::Response(200, page) = soak.own("GET", &messages, &Value::Null) else { return };
    let text = done["content"].to_string();
    match page.contains(&text) {
        true => soak.count("stored answer"),
        false => soak.violation(format!("the answer {text} of chat {id} is lost: {page}")),
    }
    soak.own("DELETE", &format!("/app/chats/{id}"), &Value::Null);
}
