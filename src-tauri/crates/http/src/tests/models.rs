//! Models that come and go: import, create, delete.

use super::*;

impl Daemon {
    /// Writes a model file beside the library.
    fn file(&self, name: &str, seed: u64) -> String {
        let path = self.folder.path().join(name);
        let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
        cairn_testkit::write_file(&spec, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn delete(&self, json: &str) -> String {
        self.heard(Request::delete("/api/delete").body(Body::from(json.to_owned())).unwrap()).await
    }
}

#[tokio::test]
async fn a_file_is_imported_and_answers() {
    let daemon = Daemon::start();
    let path = daemon.file("a file.gguf", 3);
    let heard = daemon.own("POST", "/app/import", &format!(r#"{{"path":"{path}","name":"new"}}"#)).await;
    let last = heard.lines().last().unwrap();
    assert!(heard.starts_with("200 application/x-ndjson"), "it streams: {heard}");
    assert!(last.starts_with(r#"{"status":"success","model":"new:latest","size":"#), "{last}");
    assert!(last.contains(r#""chat_template":true"#) && last.contains(r#""way":""#), "{last}");
    let chat =
        r#"{"model":"new","messages":[{"role":"user","content":"hi"}],"stream":false,"options":{"num_predict":2}}"#;
    assert!(daemon.post("/api/chat", chat).await.contains(r#""done_reason":"length""#), "it answers");
    check!(daemon.delete(r#"{"model":"NEW"}"#).await, @"200 -");
    check!(daemon.delete(r#"{"name":"new"}"#).await, @r##"
    404 application/json; charset=utf-8
    {"error":"model 'new' not found","code":"model_not_found","params":{"model":"new"}}
    "##);
    assert!(!daemon.get("/api/ps").await.contains("new"), "what is deleted is not in memory either");
}

#[tokio::test]
async fn imports_that_are_refused() {
    let daemon = Daemon::start();
    let check = async |body: String, expected: &str| {
        let heard = daemon.own("POST", "/app/import", &body).await;
        assert!(heard.starts_with(expected.split_once(' ').unwrap().0), "{expected}: {heard}");
        assert!(heard.contains(expected.split_once(' ').unwrap().1), "{expected}: {heard}");
    };
    let path = daemon.file("x.gguf", 3);
    check(r#"{"path":"x.gguf"}"#.to_owned(), "400 path must be absolute").await;
    check(format!(r#"{{"path":"{path}.not"}}"#), "400 could not open").await;
    check(format!(r#"{{"path":"{path}","name":"m"}}"#), "409 another model named m:latest").await;
    check(format!(r#"{{"path":"{path}","name":"pebble"}}"#), "409 part of Cairn").await;
    check(format!(r#"{{"path":"{path}","name":"a b"}}"#), "400 invalid model name").await;
    let heard = daemon.post("/app/import", &format!(r#"{{"path":"{path}"}}"#)).await;
    assert!(heard.starts_with("403") || heard.starts_with("401"), "only our own clients may: {heard}");
}

#[tokio::test]
async fn a_model_is_made_of_another() {
    let daemon = Daemon::with(&[("CAIRN_STALL", "300ms")]);
    let request = r#"{"model":"mine","from":"m","system":"Be brief.","parameters":{"temperature":0.5},
                      "messages":[{"role":"user","content":"hi"}],"license":"MIT"}"#;
    let heard = daemon.post("/api/create", request).await;
    insta::with_settings!({filters => [(r"[0-9a-f]{64}", "DIGEST")]}, { insta::assert_snapshot!(heard, @r##"
    200 application/x-ndjson
    {"status":"using existing layer sha256:DIGEST"}
    {"status":"creating new layer sha256:DIGEST"}
    {"status":"creating new layer sha256:DIGEST"}
    {"status":"creating new layer sha256:DIGEST"}
    {"status":"creating new layer sha256:DIGEST"}
    {"status":"writing manifest"}
    {"status":"success"}
    "##) });
    let shown = daemon.post("/api/show", r#"{"model":"mine"}"#).await;
    for part in
        [r#""system":"Be brief.""#, r#""messages":[{"role":"user","content":"hi"}]"#, "0.5", r#""license":"MIT""#]
    {
        assert!(shown.contains(part), "{part} is missing from {shown}");
    }
    check!(daemon.post("/api/create", r#"{"model":"mine2","from":"mine","stream":false}"#).await, @r##"
    200 application/json; charset=utf-8
    {"status":"success"}
    "##);
    // Nobody listens there; what was begun ends with a line, as a pull does.
    let nobody = "127.0.0.1:9/library/nobody";
    let heard = daemon.post("/api/create", &format!(r#"{{"model":"x","from":"{nobody}"}}"#)).await;
    assert!(heard.starts_with("200 application/x-ndjson\n{\"status\":\"pulling manifest\"}\n"), "{heard}");
    assert!(heard.lines().last().is_some_and(|line| line.starts_with(r#"{"error":"pull model manifest: "#)), "{heard}");
    let heard = daemon.post("/api/create", &format!(r#"{{"model":"x","from":"{nobody}","stream":false}}"#)).await;
    assert!(heard.starts_with("500 ") && heard.contains(r#"{"error":"pull model manifest: "#), "{heard}");
    check!(daemon.post("/api/create", r#"{"model":"x"}"#).await, @r##"
    400 application/json; charset=utf-8
    {"error":"neither 'from' or 'files' was specified","code":"create_request_invalid","params":{"reason":"neither 'from' or 'files' was specified"}}
    "##);
    let heard = daemon.post("/api/create", r#"{"model":"x","from":"m","quantize":"q9"}"#).await;
    assert!(heard.starts_with("400") && heard.contains("unsupported quantization type Q9 - supported"), "{heard}");
    let heard = daemon.post("/api/create", r#"{"model":"small","from":"m","quantize":"q8_0"}"#).await;
    let lines: Vec<&str> = heard.lines().collect();
    let begun = r#"{"status":"quantizing F32 model to Q8_0","digest":"0000000000000000000","total":"#;
    assert!(lines[1].starts_with(begun) && !lines[1].contains("completed"), "it begins: {heard}");
    let ended = lines.iter().rfind(|line| line.starts_with(begun)).expect("there was one");
    let number = |name: &str| serde_json::from_str::<serde_json::Value>(ended).unwrap()[name].as_u64();
    assert!(number("total").is_some() && number("total") == number("completed"), "and ends: {ended}");
    assert_eq!(lines.last(), Some(&r#"{"status":"success"}"#), "{heard}");
}

#[tokio::test]
async fn a_model_is_made_of_files_that_were_sent() {
    let daemon = Daemon::start();
    let file = cairn_testkit::write(&cairn_testkit::ModelSpec { seed: 2, ..cairn_testkit::tiny_llama() });
    let digest = cairn_store::Digest::of(&file);
    let create = async |files: &str| {
        let request = format!(r#"{{"model":"sent","files":{files},"license":["MIT","BSD"],"stream":false}}"#);
        daemon.post("/api/create", &request).await
    };
    let check = async |files: &str, part: &str| {
        let heard = create(files).await;
        assert!(heard.starts_with("400") && heard.contains(part), "{files}: {heard}");
    };
    check(&format!(r#"{{"m.gguf":"{digest}"}}"#), &format!("blob {digest} not found")).await;
    let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from(file)).unwrap();
    assert_eq!(daemon.send(request).await.status(), StatusCode::CREATED, "it is sent");
    for hostile in ["/etc/passwd", "../m.gguf", "a/../../m.gguf", "C:\\\\m.gguf", "..\\\\m.gguf", ""] {
        check(&format!(r#"{{"{hostile}":"{digest}"}}"#), "file path must be relative").await;
    }
    check(r#"{"m.gguf":"sha256:../../m.gguf"}"#, "invalid digest format").await;
    check("{}", "no files provided to convert").await;
    let heard = create(&format!(r#"{{"m.gguf":"{digest}"}}"#)).await;
    assert!(heard.contains(r#"{"status":"success"}"#), "{heard}");
    let shown = daemon.post("/api/show", r#"{"model":"sent"}"#).await;
    assert!(shown.contains(r#""license":"MIT\nBSD""#) && shown.contains(r#""family":"llama""#), "{shown}");
}
