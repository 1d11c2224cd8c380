//! Tests of the OpenAPI document and of the facts in its table.

use serde_json::Value;

use super::*;
use crate::operations::body_limits;

#[tokio::test]
async fn document_is_served_to_every_client() {
    let reply = Daemon::start().get("/openapi.json").await;
    let (head, body) = reply.split_once('\n').unwrap();
    assert_eq!(head, "200 application/json; charset=utf-8", "status and content type");
    let document: Value = serde_json::from_str(body).unwrap();
    assert_eq!(document["openapi"], "3.1.0", "the version of the format");
    assert_eq!(document["info"]["version"], cairn_app::VERSION, "the version of Cairn");
    let paths = openapi_document()["paths"].as_object().unwrap().len();
    assert_eq!(document["paths"].as_object().map(serde_json::Map::len), Some(paths), "all paths");
}

#[test]
fn lines_of_a_stream_are_its_type_or_an_error() {
    let document = openapi_document();
    let schema = |path: &str, method: &str| {
        document["paths"][path][method]["responses"]["200"]["content"]["application/x-ndjson"]["schema"].clone()
    };
    let reference = |ty: &str| serde_json::json!({"$ref": format!("#/components/schemas/{ty}")});
    for (path, ty) in [
        ("/api/chat", "ollama.ChatChunk"),
        ("/api/generate", "ollama.GenerateChunk"),
        ("/api/pull", "ollama.PullLine"),
        ("/api/create", "ollama.ProgressLine"),
        ("/app/import", "app.ImportLine"),
    ] {
        let expected = serde_json::json!({"anyOf": [reference(ty), reference("ErrorBody")]});
        assert_eq!(schema(path, "post"), expected, "{path}");
    }
    assert_eq!(schema("/app/cache/events", "get"), reference("app.CacheResponse"), "an endless response has no error");
}

#[test]
fn headers_of_a_request_are_documented() {
    let document = openapi_document();
    let headers = |path: &str| -> Vec<String> {
        let parameters = document["paths"][path]["post"]["parameters"].as_array().cloned().unwrap_or_default();
        parameters.iter().map(|parameter| parameter["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    for path in ["/api/chat", "/v1/completions", "/v1/messages"] {
        assert_eq!(headers(path), ["X-Cairn-Owner", "X-Cairn-Incognito", "X-Cairn-Priority"], "{path}");
    }
    for path in ["/api/embed", "/api/embeddings", "/v1/embeddings", "/v1/rerank"] {
        assert_eq!(headers(path), ["X-Cairn-Priority"], "{path}: embeddings leave nothing in the cache");
        let keys = serde_json::json!([{}, {"key": []}, {"key_header": []}]);
        assert_eq!(document["paths"][path]["post"]["security"], keys, "{path}: both headers of a key");
    }
    let scheme = &document["components"]["securitySchemes"]["key_header"];
    assert_eq!(scheme["name"], "x-api-key", "the header of Anthropic's clients");
}

#[tokio::test]
async fn body_limit_of_the_table_is_the_limit_of_the_route() {
    let daemon = Daemon::start();
    for (method, path, limit) in body_limits() {
        // The announced length is checked before the body is read. The body is no object, so nothing is carried out.
        for (announced, is_refused) in [(limit, false), (limit + 1, true)] {
            let path = path.replace(['{', '}', '*'], "");
            let request = Request::builder().method(method).uri(&*path).header(header::CONTENT_LENGTH, announced);
            let request = request.header(header::AUTHORIZATION, format!("Bearer {TOKEN}")).body(Body::from("1"));
            let response = daemon.send(request.unwrap()).await;
            let is_too_large = response.status() == StatusCode::PAYLOAD_TOO_LARGE;
            assert_eq!(is_too_large, is_refused, "{method} {path} with {announced} bytes: {}", response.status());
        }
    }
}

#[tokio::test]
async fn body_that_is_a_list_is_rejected() {
    let daemon = Daemon::start();
    for (path, body) in [("/app/gc", "[true]"), ("/app/verify", " [[]]"), ("/app/delete", r#"["m", ""]"#)] {
        let reply = daemon.authorized("POST", path, body).await;
        assert!(reply.starts_with("400 ") && reply.contains("expected a JSON object, found a list"), "{path}: {reply}");
    }
    assert!(daemon.get("/api/tags").await.contains("m:latest"), "nothing was deleted");
}

#[tokio::test]
async fn malformed_body_of_the_registry_is_an_error_of_the_registry() {
    let reply = Daemon::start().post("/v2/_cairn/join", "{}").await;
    let expected = "400 application/json; charset=utf-8\n\
                    {\"errors\":[{\"code\":\"UNSUPPORTED\",\"message\":\"missing field `key` at line 1 column 2\"}]}";
    assert_eq!(reply, expected, "the format of the specification");
}
