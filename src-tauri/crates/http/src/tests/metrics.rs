//! Tests of `/metrics` with a parser as strict as that of Prometheus.

use std::collections::{HashMap, HashSet};

use super::*;

/// Name, labels and value of a sample.
type Sample<'a> = (&'a str, Vec<(String, String)>, f64);

/// Parses a sample line. Returns `None` if it is invalid.
fn sample(line: &str) -> Option<Sample<'_>> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        same @ ('\\' | '"') => same,
                        _ => return None,
                    }),
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break rest = rest.strip_prefix('}')?,
            }
        }
    }
    Some((name, labels, rest.strip_prefix(' ')?.parse().ok()?))
}

/// Parses an exposition into samples by name and labels. Panics if Prometheus would reject it.
fn parse(text: &str) -> HashMap<String, f64> {
    let word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    assert!(text.ends_with('\n'), "the last line has a line feed");
    let (mut names, mut seen, mut samples) = (Vec::new(), HashSet::new(), HashMap::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, about) = help.split_once(' ').expect("a name and a description");
            assert!(word(name) && !about.is_empty(), "{line}");
            assert!(seen.insert(name.to_owned()), "{name} occurs in one group of lines");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.unwrap_or_else(|| panic!("{name} has a type")).to_owned();
            assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{name}: {kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "only counters end in _total: {name}");
            let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            names = suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect();
            continue;
        }
        let (name, labels, value) = sample(line).unwrap_or_else(|| panic!("{line:?} is a sample"));
        assert!(names.iter().any(|expected| expected == name), "{line:?} has a type");
        let buckets = name.ends_with("_bucket");
        assert_eq!(buckets, labels.last().is_some_and(|(label, _)| label == "le"), "{line:?}");
        assert!(labels.iter().all(|(label, _)| word(label)), "{line:?}");
        assert!(value.is_finite() && value >= 0.0, "{line:?}");
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        assert!(samples.insert(format!("{name} {}", labels.join(",")), value).is_none(), "{line:?} occurs once");
    }
    samples
}

#[tokio::test]
async fn metrics_count_stores_and_restores_of_tiers() {
    let daemon = Daemon::with(&[("CAIRN_KV_RAM", "10M"), ("CAIRN_KV_WEIGH", "0")]);
    let answer = daemon.authorized("GET", "/metrics", "").await;
    let (head, body) = answer.split_once('\n').expect("a head and a body");
    assert_eq!(head, "200 text/plain; version=0.0.4; charset=utf-8", "the content type of the text format");
    let samples = parse(body);
    let value = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("{name} is missing: {body}"));
    assert_eq!(value("kvtier_budget_bytes tier=ram"), 10e6, "the value of the setting");
    assert_eq!(value("kvtier_tier_up tier=ram"), 1.0, "the RAM tier is up");
    for zero in [
        "kvtier_hit_tokens_total tier=ram",
        "kvtier_restore_bytes_total tier=ram",
        "kvtier_store_bytes_total tier=ram",
        "kvtier_evicted_bytes_total tier=ram,reason=evicted",
        "kvtier_corrupt_total tier=ram,kind=damaged",
        "kvtier_store_dropped_total reason=queue_full",
        "kvtier_restores_total end=deadline",
        "kvtier_used_bytes tier=ram",
        "kvtier_chunks tier=ram",
    ] {
        assert_eq!(value(zero), 0.0, "{zero}: counters start at 0");
    }

    let prompt = "word ".repeat(300);
    let request =
        format!(r#"{{"model":"m","prompt":"{prompt}","raw":true,"stream":false,"options":{{"num_predict":1}}}}"#);
    for _ in 0..2 {
        assert!(daemon.post("/api/generate", &request).await.starts_with("200"), "the model answers");
        let unload = daemon.post("/api/generate", r#"{"model":"m","keep_alive":0}"#).await;
        assert!(unload.starts_with("200"), "{unload}");
    }
    let after = parse(daemon.authorized("GET", "/metrics", "").await.split_once('\n').expect("a body").1);
    assert!(
        after["kvtier_hit_tokens_total tier=ram"] > 256.0,
        "the prompt of the unloaded model is restored: {after:?}"
    );
    let lookups = after["kvtier_lookup_tokens_total model=m:latest"];
    assert!(lookups > 512.0, "both prompts were looked up: {after:?}");
    assert!(
        after["kvtier_recomputed_tokens_total model=m:latest,reason=miss"] > 256.0,
        "the first prompt was computed: {after:?}"
    );
    assert_eq!(after["kvtier_restore_seconds_count tier=ram"], 1.0, "the second was restored: {after:?}");
    let (one, all) = ("kvtier_restore_seconds_bucket tier=ram,le=60", "kvtier_restore_seconds_bucket tier=ram,le=+Inf");
    assert_eq!((after[one], after[all]), (1.0, 1.0), "buckets are cumulative: {after:?}");
    assert!(after["kvtier_used_bytes tier=ram"] > 0.0, "the chunks stay in the tier: {after:?}");
    for (name, before) in samples.iter().filter(|(name, _)| name.contains("_total ")) {
        assert!(after[name] >= *before, "{name} is monotonic");
    }
}

#[tokio::test]
async fn metrics_require_the_token() {
    let daemon = Daemon::start();
    assert!(daemon.get("/metrics").await.starts_with("4"), "without the token");
    let none = Daemon::with(&[("CAIRN_KV_RAM", "0")]).authorized("GET", "/metrics", "").await;
    assert!(none.starts_with("200 text/plain"), "without tiers the response is valid: {none}");
}

#[tokio::test]
async fn api_key_reads_metrics_until_it_is_revoked() {
    let daemon = Daemon::start();
    let reply = daemon.authorized("POST", "/app/keys", r#"{"name":"grafana","scopes":["metrics"]}"#).await;
    let created: serde_json::Value = serde_json::from_str(reply.lines().nth(1).unwrap()).unwrap();
    let key = created["key"].as_str().unwrap();
    let other_machine = [192, 168, 0, 9];
    let request = |path: &str| {
        Request::get(path)
            .header(header::HOST, "192.168.0.7:11434")
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
    };
    assert_eq!(daemon.status_from(other_machine, request("/metrics")).await, StatusCode::OK);
    assert_eq!(daemon.status_from(other_machine, request("/app/keys")).await, StatusCode::FORBIDDEN, "metrics only");
    let mut local = Request::get("/app/keys").body(Body::empty()).unwrap();
    local.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
    assert_eq!(daemon.send(local).await.status(), StatusCode::FORBIDDEN, "metrics only");

    let listed = daemon.authorized("GET", "/app/keys", "").await;
    let keys = r#"{"keys":[{"name":"grafana","scopes":["metrics"],"created_at":"2026-01-02T03:04:05.678901Z","last_used_at":"2026-01-02T03:04:05.678901Z"}]}"#;
    assert_eq!(listed.lines().nth(1), Some(keys), "the list has no key's text");
    for (path, body, status) in [
        ("/app/keys", r#"{"name":"grafana","scopes":["metrics"]}"#, "409"),
        ("/app/keys", r#"{"name":"a b","scopes":["metrics"]}"#, "400"),
        ("/app/keys", r#"{"name":"a","scopes":["root"]}"#, "400"),
        ("/app/keys", r#"{"name":"a","scopes":[]}"#, "400"),
        ("/app/keys/revoke", r#"{"name":"other"}"#, "404"),
        ("/app/keys/revoke", r#"{"name":"grafana"}"#, "200"),
    ] {
        let reply = daemon.authorized("POST", path, body).await;
        assert!(reply.starts_with(status), "{path} {body}: {reply}");
    }
    assert_eq!(daemon.status_from(other_machine, request("/metrics")).await, StatusCode::UNAUTHORIZED, "revoked");
    for (text, code) in [(key, "api_key_invalid"), ("other", "unauthorized")] {
        for path in ["/metrics", "/app/keys"] {
            let request = Request::get(path).header(header::AUTHORIZATION, format!("Bearer {text}"));
            let reply = daemon.reply(request.body(Body::empty()).unwrap()).await;
            assert!(reply.starts_with("401") && reply.contains(&format!(r#""code":"{code}""#)), "{path}: {reply}");
        }
    }
}
