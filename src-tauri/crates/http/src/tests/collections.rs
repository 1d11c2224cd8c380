//! Tests of requests for collections. The process that reads documents is tested end to end.

use cairn_testkit::families::BERT;
use cairn_testkit::tiny_bert;
use serde_json::{Value, json};

use super::*;

fn daemon() -> Daemon {
    let daemon = Daemon::start();
    daemon.store("bert", &[("model", &cairn_testkit::write(&tiny_bert(&BERT)))]);
    daemon
}

/// Sends a request with the daemon's token. Returns the status and the JSON body.
async fn send(daemon: &Daemon, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = daemon.authorized(method, path, &body).await;
    let (head, body) = reply.split_once('\n').expect("a status");
    let status = head.split(' ').next().and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn collections_are_created_changed_and_deleted() {
    let daemon = daemon();
    let (status, list) = send(&daemon, "GET", "/app/collections", &Value::Null).await;
    assert_eq!((status, &list), (200, &json!({"collections": []})));
    let request = json!({"name": "Notes", "model": "bert"});
    let (status, created) = send(&daemon, "POST", "/app/collections", &request).await;
    let expected = json!({"id": created["id"], "name": "Notes", "created_at": created["created_at"],
        "model": "bert:latest", "documents": 0, "chunks": 0, "unreadable_chunks": 0, "meaning": {"state": "ready"}});
    assert_eq!((status, &created), (201, &expected));
    let path = format!("/app/collections/{}", created["id"].as_str().expect("an id"));
    let change = json!({"name": "Letters", "model": ""});
    let (status, changed) = send(&daemon, "PATCH", &path, &change).await;
    assert_eq!((status, &changed["name"], &changed["meaning"]["state"]), (200, &json!("Letters"), &json!("no_model")));
    assert_eq!(changed.get("model"), None, "{changed}");
    let (_, one) = send(&daemon, "GET", &path, &Value::Null).await;
    assert_eq!(one, json!({"collection": changed, "documents": []}));
    assert_eq!(send(&daemon, "DELETE", &path, &Value::Null).await.0, 204);
    let (status, gone) = send(&daemon, "GET", &path, &Value::Null).await;
    assert_eq!((status, &gone["code"]), (404, &json!("collection_not_found")));
}

#[tokio::test]
async fn refusals_of_collections_have_codes() {
    let daemon = daemon();
    let (_, created) = send(&daemon, "POST", "/app/collections", &json!({"name": "A"})).await;
    let path = format!("/app/collections/{}", created["id"].as_str().expect("an id"));
    let check = async |method: &str, path: &str, body: Value, status: u16, code: &str| {
        let (found, reply) = send(&daemon, method, path, &body).await;
        assert_eq!((found, reply["code"].as_str()), (status, Some(code)), "{method} {path} {body}: {reply}");
    };
    let under = |end: &str| format!("{path}{end}");
    check("POST", "/app/collections", json!({"name": ""}), 400, "collection_name_invalid").await;
    check("POST", "/app/collections", json!({"name": "B", "model": "m"}), 400, "collection_model_invalid").await;
    check("PATCH", &path, json!({"model": "absent"}), 404, "model_not_found").await;
    check("POST", &under("/search"), json!({"query": " "}), 400, "invalid_request").await;
    check("POST", "/app/collections/x/search", json!({"query": "a"}), 404, "collection_not_found").await;
    check("DELETE", &under("/documents/7"), Value::Null, 404, "collection_document_not_found").await;
    check("POST", &under("/documents?name=a.md"), Value::Null, 400, "missing_body").await;
    check("POST", &under("/documents"), json!("text"), 400, "invalid_request").await;
    // No such program exists in this test. The document stays with the code of its error.
    check("POST", &under("/documents?name=a.md"), json!("text"), 500, "document_failed").await;
    let (_, one) = send(&daemon, "GET", &path, &Value::Null).await;
    let status = &one["documents"][0]["status"];
    assert_eq!((&status["state"], &status["error"]["code"]), (&json!("failed"), &json!("document_failed")), "{one}");
    let (status, found) = send(&daemon, "POST", &under("/search"), &json!({"query": "text"})).await;
    assert_eq!((status, found), (200, json!({"hits": [], "words_only": "no_model"})));
}
