//! Tests of requests for the text of a document. The process that reads them is tested end to end.

use super::*;

async fn send(daemon: &Daemon, query: &str, body: Body, length: Option<u64>) -> String {
    let request = Request::post(format!("/app/documents{query}"))
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let request = match length {
        Some(bytes) => request.header(header::CONTENT_LENGTH, bytes),
        None => request,
    };
    daemon.reply(request.body(body).unwrap()).await
}

#[tokio::test]
async fn requests_for_documents_are_checked() {
    let daemon = Daemon::start();
    let check = async |query: &str, body: &'static str, length: Option<u64>, status: &str, part: &str| {
        let reply = send(&daemon, query, Body::from(body), length).await;
        assert!(reply.starts_with(status) && reply.contains(part), "{query} with {body:?}: {reply}");
    };
    check("?name=a.pdf", "", None, "400", "missing_body").await;
    check("", "text", None, "400", "name").await;
    check(&format!("?name={}", "x".repeat(256)), "text", None, "400", "255 bytes").await;
    check("?name=huge.pdf", "text", Some(2 << 30), "413", "body_too_large").await;
    // No such program exists in this test.
    check("?name=a.pdf", "text", None, "500", "document_failed").await;
    let open = Request::post("/app/documents?name=a.pdf").body(Body::from("text")).unwrap();
    assert!(daemon.reply(open).await.starts_with("401"), "the route needs the token");
}
