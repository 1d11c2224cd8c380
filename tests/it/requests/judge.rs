//! Decides whether the outcome of a request is a fault.

use serde_json::Value;

use super::exchange::{Bytes, Outcome, Request, Response};

/// Errors of servers that are a declared outcome of a route: its prefix, and the codes.
const DECLARED: &[(&str, u16, &[&str])] = &[
    ("/", 501, &["unsupported"]),
    ("/api/embed", 501, &["capability_missing"]),
    ("/v1/", 501, &["capability_missing"]),
    ("/", 503, &["server_busy"]),
    ("/api/pull", 500, REGISTRY),
    ("/api/push", 500, REGISTRY),
    ("/api/create", 500, REGISTRY),
    ("/app/downloads", 500, REGISTRY),
    ("/app/logins", 500, &["login_unreachable", "registry_untrusted", "registry_unreachable", "login_store_failed"]),
    ("/app/mirror/join", 500, &["join_failed"]),
    ("/app/remotes", 502, &["remote_not_a_server"]),
    ("/app/chats", 503, &["generation_interrupted"]),
];

/// Errors of a registry or of the way to it. Ollama's clients expect the status 500.
const REGISTRY: &[&str] = &[
    "registry_model_not_found",
    "registry_insecure",
    "registry_address_invalid",
    "registry_refused",
    "registry_untrusted",
    "registry_unreachable",
    "registry_busy",
    "model_format_unsupported",
    "manifest_invalid",
    "model_made_here",
    "download_failed",
    "download_cancelled",
    "download_discarded",
    "push_unauthorized",
    "push_failed",
];

/// Returns the kind of an outcome for the statistics, and its fault.
pub(super) fn judge(route: &str, request: &Request, outcome: &Outcome) -> (String, Option<String>) {
    match outcome {
        Outcome::Late => ("late".to_owned(), Some(format!("no response within {:?}", super::LIMIT))),
        Outcome::Closed => {
            let problem = request.is_complete().then(|| "the connection was closed without a response".to_owned());
            ("closed".to_owned(), problem)
        }
        Outcome::Response(response) => {
            let kind = format!("{}{}", response.status, if response.left_early { ", stream left early" } else { "" });
            (kind, fault(route, response))
        }
    }
}

/// Returns the fault of a response.
fn fault(route: &str, response: &Response) -> Option<String> {
    let shown = || format!("{} {}", response.status, Bytes(&response.body));
    if !(100..600).contains(&response.status) {
        return Some(format!("no status: {}", shown()));
    }
    if codes(response).iter().any(|code| code == "internal") {
        return Some(format!("an internal error: {}", shown()));
    }
    if response.status < 500 {
        return None;
    }
    // `/v2` answers in the format of a registry.
    let is_unavailable = response.status == 502 && route.starts_with("/v2/") && shown().contains("UNAVAILABLE");
    let codes = codes(response);
    let is_declared = |code: &String| {
        DECLARED.iter().any(|(prefix, status, codes)| {
            route.starts_with(prefix) && *status == response.status && codes.contains(&code.as_str())
        })
    };
    let is_declared = is_unavailable || codes.first().is_some_and(is_declared);
    (!is_declared).then(|| format!("an undeclared error: {}", shown()))
}

/// Returns the error codes of a body: of an object, or of the lines of a stream.
fn codes(response: &Response) -> Vec<String> {
    let text = String::from_utf8_lossy(&response.body);
    let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // OpenAI's format has the code inside of the error.
    let code = |value: &Value| value["code"].as_str().or_else(|| value["error"]["code"].as_str()).map(str::to_owned);
    values.filter_map(|value| code(&value)).collect()
}
