//! Tests of logprobs: they align with the text and are a softmax of the unmodified logits.

use serde_json::Value;

use super::*;

impl Daemon {
    async fn lines(&self, path: &str, json: &str) -> Vec<Value> {
        let reply = self.post(path, json).await;
        reply.lines().skip(1).map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{reply}"))).collect()
    }
}

/// Returns the bytes of the tokens in a chunk's logprobs.
fn bytes(chunk: &Value) -> Vec<u8> {
    let tokens = chunk["logprobs"].as_array().into_iter().flatten();
    tokens
        .flat_map(|token| token["bytes"].as_array().into_iter().flatten())
        .map(|b| b.as_u64().unwrap() as u8)
        .collect()
}

const CHAT: &str = r#""model":"m","messages":[{"role":"user","content":"hi"}]"#;

#[tokio::test]
async fn logprobs_of_each_chunk_match_its_text() {
    let daemon = Daemon::start();
    let request = format!(
        r#"{{{CHAT},"logprobs":true,"top_logprobs":3,"options":{{"temperature":1.5,"seed":7,"num_predict":40}}}}"#
    );
    let chunks = daemon.lines("/api/chat", &request).await;
    let mut tokens = 0;
    for chunk in &chunks {
        let text = chunk["message"]["content"].as_str().unwrap();
        let token_bytes = bytes(chunk);
        assert!(token_bytes == text.as_bytes() || text.contains('\u{fffd}') || text.is_empty(), "{chunk}");
        for token in chunk["logprobs"].as_array().into_iter().flatten() {
            tokens += 1;
            let top = token["top_logprobs"].as_array().unwrap();
            let logprob = |token: &Value| token["logprob"].as_f64().unwrap();
            assert_eq!(top.len(), 3, "the requested number of top tokens: {token}");
            assert!(top.is_sorted_by(|a, b| logprob(a) >= logprob(b)), "top tokens are sorted: {token}");
            assert!(logprob(token) <= logprob(&top[0]) && logprob(&top[0]) <= 0.0, "top[0] is the maximum: {token}");
            let sum: f64 = top.iter().map(|token| logprob(token).exp()).sum();
            assert!(sum <= 1.0 + 1e-6, "probabilities sum to at most 1: {token}");
        }
    }
    assert_eq!(Value::from(tokens), chunks.last().unwrap()["eval_count"], "every token is reported once");

    let whole = format!(r#"{{"stream":false,{}"#, &request[1..]);
    let whole = daemon.lines("/api/chat", &whole).await;
    let joined: Vec<Value> =
        chunks.iter().flat_map(|c| c["logprobs"].as_array().cloned().unwrap_or_default()).collect();
    assert_eq!(whole[0]["logprobs"], Value::from(joined), "streaming does not change the logprobs");
}

#[tokio::test]
async fn logprobs_ignore_temperature_penalties_and_filters() {
    let daemon = Daemon::start();
    let first = async |options: &str| {
        let request = format!(
            r#"{{"model":"m","prompt":"hi","stream":false,"logprobs":true,"top_logprobs":20,"options":{{"num_predict":1,"seed":1,{options}}}}}"#
        );
        let chunk = daemon.lines("/api/generate", &request).await.remove(0);
        chunk["logprobs"][0]["top_logprobs"].clone()
    };
    let plain = first(r#""temperature":0"#).await;
    assert_eq!(plain.as_array().unwrap().len(), 20, "the maximum number of top tokens: {plain}");
    assert_eq!(first(r#""temperature":2"#).await, plain, "temperature has no effect");
    let penalised = r#""temperature":0,"repeat_penalty":1.9,"presence_penalty":1.5,"top_k":1"#;
    assert_eq!(first(penalised).await, plain, "penalties and filters have no effect");
}

#[tokio::test]
async fn logprobs_exclude_tokens_of_a_stop_text() {
    let daemon = Daemon::start();
    let generate = async |stop: &str| {
        let request = format!(
            r#"{{"model":"m","prompt":"hi","raw":true,"stream":false,"logprobs":true,
                 "options":{{"temperature":0,"num_predict":5,"stop":["{stop}"]}}}}"#
        );
        daemon.lines("/api/generate", &request).await.remove(0)
    };
    let whole = generate("never").await;
    let text = whole["response"].as_str().unwrap().to_owned();
    assert_eq!(bytes(&whole), text.as_bytes(), "the whole text: {whole}");
    let stop: String = text.chars().skip(2).take(2).collect();
    let cut = generate(&stop).await;
    let shown = cut["response"].as_str().unwrap();
    assert_eq!(bytes(&cut), shown.as_bytes(), "tokens of the stop text are not reported: {cut}");
    assert!(text.starts_with(shown) && shown.len() < text.len(), "{shown:?} of {text:?}");
}

#[tokio::test]
async fn logprobs_are_absent_unless_requested() {
    let daemon = Daemon::start();
    for request in [format!("{{{CHAT},\"logprobs\":false}}"), format!("{{{CHAT},\"top_logprobs\":5}}")] {
        let reply = daemon
            .post("/api/chat", &request.replace("{\"model\"", "{\"options\":{\"num_predict\":3},\"model\""))
            .await;
        assert!(!reply.contains("logprob"), "{reply}");
    }
}
