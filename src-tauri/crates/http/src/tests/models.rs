//! Tests of import, creation and deletion of models.

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
        self.reply(Request::delete("/api/delete").body(Body::from(json.to_owned())).unwrap()).await
    }
}

#[tokio::test]
async fn import_adds_a_usable_model() {
    let daemon = Daemon::start();
    let path = daemon.file("a file.gguf", 3);
    let reply = daemon.authorized("POST", "/app/import", &format!(r#"{{"path":"{path}","name":"new"}}"#)).await;
    let last = reply.lines().last().unwrap();
    assert!(reply.starts_with("200 application/x-ndjson"), "the response streams: {reply}");
    assert!(last.starts_with(r#"{"status":"success","model":"new:latest","size":"#), "{last}");
    assert!(last.contains(r#""chat_template":true"#) && last.contains(r#""way":""#), "{last}");
    let chat =
        r#"{"model":"new","messages":[{"role":"user","content":"hi"}],"stream":false,"options":{"num_predict":2}}"#;
    assert!(daemon.post("/api/chat", chat).await.contains(r#""done_reason":"length""#), "the imported model answers");
    check!(daemon.delete(r#"{"model":"NEW"}"#).await, @"200 -");
    check!(daemon.delete(r#"{"name":"new"}"#).await, @r##"
    404 application/json; charset=utf-8
    {"error":"model 'new' not found","code":"model_not_found","params":{"model":"new"}}
    "##);
    assert!(!daemon.get("/api/ps").await.contains("new"), "a deleted model is unloaded");
}

#[tokio::test]
async fn import_rejects_invalid_requests() {
    let daemon = Daemon::start();
    let check = async |body: String, expected: &str| {
        let reply = daemon.authorized("POST", "/app/import", &body).await;
        let (status, text) = expected.split_once(' ').unwrap();
        // On a busy machine, a line of progress comes first, and the error is the last line of the stream.
        let is_last_line = reply.starts_with("200") && reply.contains("\"error\"");
        assert!(reply.starts_with(status) || is_last_line, "{expected}: {reply}");
        assert!(reply.contains(text), "{expected}: {reply}");
    };
    let path = daemon.file("x.gguf", 3);
    check(r#"{"path":"x.gguf"}"#.to_owned(), "400 path must be absolute").await;
    check(format!(r#"{{"path":"{path}.not"}}"#), "400 could not open").await;
    check(format!(r#"{{"path":"{path}","name":"m"}}"#), "409 another model named m:latest").await;
    check(format!(r#"{{"path":"{path}","name":"pebble"}}"#), "409 part of Cairn").await;
    check(format!(r#"{{"path":"{path}","name":"a b"}}"#), "400 invalid model name").await;
    let reply = daemon.post("/app/import", &format!(r#"{{"path":"{path}"}}"#)).await;
    assert!(reply.starts_with("403") || reply.starts_with("401"), "requests need the token: {reply}");
}

#[tokio::test]
async fn create_makes_a_model_from_another() {
    let _turn = super::bodies::TURN.lock().await;
    let daemon = Daemon::with(&[("CAIRN_STALL", "300ms")]);
    let request = r#"{"model":"mine","from":"m","system":"Be brief.","parameters":{"temperature":0.5},
                      "messages":[{"role":"user","content":"hi"}],"license":"MIT"}"#;
    let reply = daemon.post("/api/create", request).await;
    insta::with_settings!({filters => [(r"[0-9a-f]{64}", "DIGEST")]}, { insta::assert_snapshot!(reply, @r##"
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
    check!(daemon.post("/api/create", r#"{"model":"other","from":"m","renderer":"future","stream":false}"#).await, @r##"
    200 application/json; charset=utf-8
    {"status":"success","warnings":["the renderer \"future\" is not built in; see `cairn show` for the template in use"]}
    "##);
    let reply = daemon.post("/api/create", r#"{"model":"other","from":"m","renderer":"future"}"#).await;
    assert!(reply.contains(r#"{"status":"warning: the renderer \"future\" is not built in;"#), "{reply}");
    // No server listens at this address. The error is a line of the stream, as for a pull.
    let unreachable = "127.0.0.1:9/library/absent";
    let reply = daemon.post("/api/create", &format!(r#"{{"model":"x","from":"{unreachable}"}}"#)).await;
    assert!(reply.starts_with("200 application/x-ndjson\n{\"status\":\"pulling manifest\"}\n"), "{reply}");
    assert!(reply.lines().last().is_some_and(|line| line.starts_with(r#"{"error":"pull model manifest: "#)), "{reply}");
    let reply = daemon.post("/api/create", &format!(r#"{{"model":"x","from":"{unreachable}","stream":false}}"#)).await;
    assert!(reply.starts_with("500 ") && reply.contains(r#"{"error":"pull model manifest: "#), "{reply}");
    check!(daemon.post("/api/create", r#"{"model":"x"}"#).await, @r##"
    400 application/json; charset=utf-8
    {"error":"neither 'from' or 'files' was specified","code":"create_request_invalid","params":{"reason":"neither 'from' or 'files' was specified"}}
    "##);
    let long = format!(r#"{{"model":"x","from":"m","renderer":"{}"}}"#, "r".repeat(3 << 20));
    let reply = daemon.post("/api/create", &long).await;
    assert!(reply.starts_with("400") && reply.contains("renderer is too long: 3145728 bytes"), "{reply}");
    let reply = daemon.post("/api/create", r#"{"model":"x","from":"m","quantize":"q9"}"#).await;
    assert!(reply.starts_with("400") && reply.contains("unsupported quantization type Q9 - supported"), "{reply}");
    let reply = daemon.post("/api/create", r#"{"model":"small","from":"m","quantize":"q8_0"}"#).await;
    let lines: Vec<&str> = reply.lines().collect();
    let prefix = r#"{"status":"quantizing F32 model to Q8_0","digest":"0000000000000000000","total":"#;
    assert!(lines[1].starts_with(prefix) && !lines[1].contains("completed"), "the first progress line: {reply}");
    let last = lines.iter().rfind(|line| line.starts_with(prefix)).expect("a progress line");
    let number = |name: &str| serde_json::from_str::<serde_json::Value>(last).unwrap()[name].as_u64();
    assert!(number("total").is_some() && number("total") == number("completed"), "the last progress line: {last}");
    assert_eq!(lines.last(), Some(&r#"{"status":"success"}"#), "{reply}");
}

#[tokio::test]
async fn create_refuses_a_checkpoint_with_values_that_are_not_numbers() {
    let daemon = Daemon::start();
    let config = r#"{"architectures": ["BertModel"], "num_hidden_layers": 1, "hidden_size": 2,
        "max_position_embeddings": 3, "intermediate_size": 2, "num_attention_heads": 1, "layer_norm_eps": 1e-12,
        "type_vocab_size": 2}"#;
    let name = "embeddings.LayerNorm.weight";
    let header = format!(r#"{{"{name}": {{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}}}"#);
    let length = (header.len() as u64).to_le_bytes();
    let weights = [&length[..], header.as_bytes(), &f32::NAN.to_le_bytes()].concat();
    let mut files = Vec::new();
    for (file, contents) in
        [("config.json", config.as_bytes()), ("vocab.txt", &b"[UNK]"[..]), ("m.safetensors", &weights)]
    {
        let digest = cairn_store::Digest::of(contents);
        let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from(contents.to_vec())).unwrap();
        assert_eq!(daemon.send(request).await.status(), StatusCode::CREATED, "the upload of {file}");
        files.push(format!(r#""{file}":"{digest}""#));
    }
    let request = format!(r#"{{"model":"sent","files":{{{}}},"stream":false}}"#, files.join(","));
    let reply = daemon.post("/api/create", &request).await;
    let expected = format!("tensor `{name}` has values that are not finite numbers");
    assert!(reply.starts_with("400") && reply.contains(&expected), "{reply}");
    assert!(reply.contains(r#""code":"create_request_invalid""#), "{reply}");
}

#[tokio::test]
async fn create_makes_a_model_from_uploaded_files() {
    let daemon = Daemon::start();
    let file = cairn_testkit::write(&cairn_testkit::ModelSpec { seed: 2, ..cairn_testkit::tiny_llama() });
    let digest = cairn_store::Digest::of(&file);
    let create = async |files: &str| {
        let request = format!(r#"{{"model":"sent","files":{files},"license":["MIT","BSD"],"stream":false}}"#);
        daemon.post("/api/create", &request).await
    };
    let check = async |files: &str, part: &str| {
        let reply = create(files).await;
        assert!(reply.starts_with("400") && reply.contains(part), "{files}: {reply}");
    };
    check(&format!(r#"{{"m.gguf":"{digest}"}}"#), &format!("blob {digest} not found")).await;
    let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from(file)).unwrap();
    assert_eq!(daemon.send(request).await.status(), StatusCode::CREATED, "the upload");
    for hostile in ["/etc/passwd", "../m.gguf", "a/../../m.gguf", "C:\\\\m.gguf", "..\\\\m.gguf", ""] {
        check(&format!(r#"{{"{hostile}":"{digest}"}}"#), "file path must be relative").await;
    }
    check(r#"{"m.gguf":"sha256:../../m.gguf"}"#, "invalid digest format").await;
    check("{}", "no files provided to convert").await;
    let reply = create(&format!(r#"{{"m.gguf":"{digest}"}}"#)).await;
    assert!(reply.contains(r#"{"status":"success"}"#), "{reply}");
    let shown = daemon.post("/api/show", r#"{"model":"sent"}"#).await;
    assert!(shown.contains(r#""license":"MIT\nBSD""#) && shown.contains(r#""family":"llama""#), "{shown}");
}

#[tokio::test]
async fn missing_model_file_has_its_own_code() {
    let daemon = Daemon::start();
    let blobs = daemon.folder.path().join("models/blobs");
    let digest = cairn_store::Digest::of(&cairn_testkit::write(&cairn_testkit::tiny_llama()));
    std::fs::remove_file(blobs.join(digest.file_name())).unwrap();
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}"#;
    let reply = daemon.post("/api/chat", chat).await;
    assert!(reply.starts_with("500 ") && reply.contains("cannot be read"), "{reply}");
    assert!(reply.contains(r#""code":"model_file_missing""#), "clients offer to download the model again: {reply}");
    assert!(reply.contains(&format!(r#""digest":"{digest}""#)), "the file: {reply}");
}
