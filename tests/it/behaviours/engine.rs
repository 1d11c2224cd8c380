//! Loaded models: how long they stay, when they reload, their list, and the queue.

use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cairn_testkit::{ModelSpec, slow_llama, tiny_llama, write};
use serde_json::{Value, json};

use super::{home, list, names, post_json, store};
use crate::cairn::{Home, exchange, succeeded};

/// Adds the model `slow`, which answers for minutes.
pub(super) fn with_slow_model(home: Home) -> Home {
    store(&home, "slow", &[("model", &write(&slow_llama()))]);
    home
}

fn endless(keep_alive: Value) -> Value {
    let options = json!({"num_predict": 100_000, "num_ctx": 32_768});
    json!({"model": "slow", "prompt": "hi", "options": options, "keep_alive": keep_alive})
}

/// Returns the seconds since 1970 of a time in RFC 3339, in UTC.
fn unix_seconds(time: &Value) -> i64 {
    let text = time.as_str().and_then(|text| text.get(..19)).unwrap_or_else(|| panic!("{time}"));
    let numbers: Vec<i64> = text.split(['-', 'T', ':']).map(|part| part.parse().expect("a number")).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { panic!("{text}") };
    // Years begin in March, so that a leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    ((days * 24 + hour) * 60 + minute) * 60 + second
}

/// Behaviour 4: the values, and which request sets them.
#[test]
fn keep_alive_of_a_request_stays_until_another_sets_it() {
    let home = home().with("OLLAMA_KEEP_ALIVE", "20m");
    let _daemon = home.serve();
    let check = |keep_alive: Value, expected_seconds: i64| {
        let mut request = json!({"model": "m", "prompt": "hi", "options": {"num_predict": 1}});
        if !keep_alive.is_null() {
            request["keep_alive"] = keep_alive.clone();
        }
        let answer = post_json(&home, "/api/generate", request);
        let expires = list(&home, "/api/ps")[0]["expires_at"].clone();
        let found = unix_seconds(&expires) - unix_seconds(&answer["created_at"]);
        assert!((expected_seconds - 1..expected_seconds + 30).contains(&found), "{keep_alive}: {found} s");
    };
    let forever = i64::MAX / 1_000_000_000;
    check(json!(null), 1200);
    check(json!(600), 600);
    check(json!(null), 600);
    check(json!("1h30m"), 5400);
    check(json!(-1), forever);
    check(json!(null), forever);
    check(json!(90.5), 90);
    check(json!("-1m"), forever);
}

/// Behaviour 4: when the time begins.
#[test]
fn keep_alive_time_begins_when_the_last_request_ends() {
    const KEEP_ALIVE: Duration = Duration::from_secs(1);
    let home = with_slow_model(home());
    let daemon = home.serve();
    let mut stream = BufReader::new(daemon.post_streaming("/api/generate", &endless(json!(1))));
    let mut line = String::new();
    while !line.contains("\"response\"") {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the answer begins");
    }
    std::thread::sleep(KEEP_ALIVE.mul_f64(1.3));
    assert_eq!(names(&list(&home, "/api/ps")), ["slow:latest"], "the request is not complete");
    // The client disconnects.
    let ended = Instant::now();
    drop(stream);
    while !list(&home, "/api/ps").is_empty() {
        assert!(ended.elapsed() < Duration::from_secs(60), "the model stays loaded");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ended.elapsed() >= KEEP_ALIVE.mul_f64(0.9), "it stays for its time: {:?}", ended.elapsed());
}

/// Behaviour 10: the refusal. The status of cancelled requests is tested beside the log of requests.
#[test]
fn request_beyond_the_queue_is_refused_with_the_text_of_ollama() {
    let home = with_slow_model(home().with("OLLAMA_NUM_PARALLEL", "1").with("OLLAMA_MAX_QUEUE", "1"));
    let daemon = home.serve();
    post_json(&home, "/api/generate", json!({"model": "slow", "keep_alive": -1}));
    let (sender, replies) = mpsc::channel();
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (sender, port) = (sender.clone(), home.port);
            let request = endless(json!(-1)).to_string();
            std::thread::spawn(move || sender.send(exchange(port, "POST", "/api/generate", &[], &request)))
        })
        .collect();
    // The first answer takes longer than the refusal of the third request.
    let (status, body) = replies.recv().expect("a client has a response").expect("the daemon answers");
    let error: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
    let expected = "server busy, please try again.  maximum pending requests exceeded";
    assert_eq!((status, &error["error"]), (503, &json!(expected)), "with two spaces");
    drop(daemon);
    for client in clients {
        client.join().expect("a client does not panic").expect("the test receives");
    }
}

/// Behaviour 26: the order of `/api/ps`, and the share of the GPU.
#[test]
fn loaded_models_are_sorted_by_expiry_with_their_place() {
    let home = home();
    for (name, seed) in [("a", 2), ("b", 3)] {
        store(&home, name, &[("model", &write(&ModelSpec { seed, ..tiny_llama() }))]);
    }
    let _daemon = home.serve();
    for (name, keep_alive) in [("b", json!(600)), ("m", json!(60)), ("a", json!(-1))] {
        post_json(&home, "/api/generate", json!({"model": name, "keep_alive": keep_alive}));
    }
    let loaded = list(&home, "/api/ps");
    assert_eq!(names(&loaded), ["a:latest", "b:latest", "m:latest"], "the last to unload comes first");
    for model in &loaded {
        assert!(model["size"].as_u64() > Some(0) && model["size_vram"] == 0, "no GPU: {model}");
    }
    assert_eq!(succeeded(&home.run(&["ps"])).matches("100% CPU").count(), 3, "the share in the table");
}

/// Behaviour 30: what reloads a model.
#[test]
fn sampling_options_and_shift_never_reload_the_model() {
    let home = home();
    let _daemon = home.serve();
    let reloads = |more: Value| {
        let mut request = json!({"model": "m", "prompt": "hi", "options": {}});
        request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        request["options"]["num_predict"] = json!(1);
        post_json(&home, "/api/generate", request).get("load_duration").is_some()
    };
    assert!(reloads(json!({})), "the first request loads it");
    assert!(!reloads(json!({})), "the second does not");
    let sampling = json!({"temperature": 0.1, "top_k": 3, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.9, "seed": 4,
        "repeat_penalty": 1.3, "repeat_last_n": 8, "presence_penalty": 0.2, "frequency_penalty": 0.2, "stop": ["x"],
        "num_keep": 2});
    assert!(!reloads(json!({"options": sampling})), "sampling");
    // Ollama reloads for these three.
    assert!(!reloads(json!({"shift": false})), "the context shift");
    assert!(!reloads(json!({"options": {"num_ctx": 512, "num_batch": 64}})), "a smaller context");
    assert_eq!(list(&home, "/api/ps")[0]["context_length"], 512, "it applies");
    assert!(!reloads(json!({"options": {"num_gpu": 0, "use_mmap": false}})), "the place of the weights");
    assert!(reloads(json!({"options": {"kv_cache_type": "q8_0"}})), "another type of the KV cache");
    assert!(!reloads(json!({"options": {"kv_cache_type": "q8_0"}})), "the same type");
}
