//! Tests of copies, deletions, garbage collection, disk usage, verification and scans.

use super::*;

impl Daemon {
    fn blobs(&self) -> std::path::PathBuf {
        self.folder.path().join("models/blobs")
    }

    /// Returns the digest and the path of the model file that every test daemon has.
    fn weights(&self) -> (cairn_store::Digest, std::path::PathBuf) {
        let digest = cairn_store::Digest::of(&cairn_testkit::write(&cairn_testkit::tiny_llama()));
        (digest, self.blobs().join(digest.file_name()))
    }
}

#[tokio::test]
async fn copy_adds_a_second_name() {
    let daemon = Daemon::start();
    check!(daemon.post("/api/copy", r#"{"source":"M","destination":"me/Second:v1"}"#).await, @"200 -");
    let tags = daemon.get("/api/tags").await;
    let digests: Vec<&str> = tags.split(r#""digest":""#).skip(1).map(|rest| &rest[..64]).collect();
    assert!(tags.contains(r#""name":"me/Second:v1""#), "the spelling of the request: {tags}");
    assert_eq!(digests.len(), 2, "two names");
    assert_eq!(digests[0], digests[1], "the same manifest");
    check!(daemon.post("/api/copy", r#"{"source":"absent","destination":"x"}"#).await, @r##"
    404 application/json; charset=utf-8
    {"error":"model \"absent\" not found","code":"model_not_found","params":{"model":"absent"}}
    "##);
    check!(daemon.post("/api/copy", r#"{"source":"a b","destination":"x"}"#).await, @r##"
    400 application/json; charset=utf-8
    {"error":"source \"a b\" is invalid","code":"model_name_invalid","params":{"name":"a b"}}
    "##);
    check!(daemon.post("/api/copy", r#"{"source":"m","destination":"../x"}"#).await, @r##"
    400 application/json; charset=utf-8
    {"error":"destination \"../x\" is invalid","code":"model_name_invalid","params":{"name":"../x"}}
    "##);
    check!(daemon.post("/api/copy", r#"{"source":"m"}"#).await, @r##"
    400 application/json; charset=utf-8
    {"error":"destination \"\" is invalid","code":"model_name_missing"}
    "##);
    let reply = daemon.post("/api/copy", r#"{"source":"m","destination":"pebble"}"#).await;
    assert!(reply.starts_with("409") && reply.contains("part of Cairn"), "{reply}");
    let reply = daemon.authorized("POST", "/app/copy", r#"{"source":"pebble","destination":"Guide"}"#).await;
    assert!(reply.starts_with("200 application/x-ndjson\n"), "the response streams: {reply}");
    let done = r#"{"status":"success","source":"pebble","destination":"Guide:latest","copied_bytes":3"#;
    assert!(reply.contains(done), "3 MB: {reply}");
    check!(daemon.authorized("POST", "/app/copy", r#"{"source":"absent","destination":"x"}"#).await, @r##"
    404 application/json; charset=utf-8
    {"error":"model \"absent\" not found","code":"model_not_found","params":{"model":"absent"}}
    "##);
    let chat =
        r#"{"model":"guide","messages":[{"role":"user","content":"hi"}],"options":{"num_predict":1},"stream":false}"#;
    assert!(daemon.post("/api/chat", chat).await.contains(r#""done":true"#), "the copy answers");
}

#[tokio::test]
async fn delete_reports_freed_bytes() {
    let daemon = Daemon::start();
    let length = daemon.weights().1.metadata().unwrap().len();
    daemon.post("/api/copy", r#"{"source":"m","destination":"n"}"#).await;
    let freed = async |name: &str| daemon.authorized("POST", "/app/delete", &format!(r#"{{"model":"{name}"}}"#)).await;
    check!(freed("M").await, @r##"
    200 application/json; charset=utf-8
    {"model":"m:latest","freed_bytes":0}
    "##);
    assert!(
        freed("n").await.ends_with(&format!(r#"{{"model":"n:latest","freed_bytes":{length}}}"#)),
        "the last name frees the blob"
    );
    check!(daemon.reply(Request::delete("/api/delete").body(Body::from(r#"{"model":"a b"}"#)).unwrap()).await, @r##"
    400 application/json; charset=utf-8
    {"error":"name \"a b\" is invalid","code":"model_name_invalid","params":{"name":"a b"}}
    "##);
    let reply = daemon.post("/app/delete", r#"{"model":"m"}"#).await;
    assert!(reply.starts_with("403") || reply.starts_with("401"), "requests need the token: {reply}");
}

#[tokio::test]
async fn damaged_manifest_blocks_gc_and_can_be_deleted() {
    let daemon = Daemon::start();
    let folder = daemon.folder.path().join("models/manifests/registry.ollama.ai/library/broken");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("latest"), "{").unwrap();
    let reply = daemon.authorized("POST", "/app/gc", "{}").await;
    assert!(reply.starts_with("409") && reply.contains("nothing was removed"), "{reply}");
    let reply = daemon.authorized("POST", "/app/verify", "{}").await;
    assert!(reply.contains(r#""flawed":[],"skipped":[{"path":""#), "verification reports it: {reply}");
    assert!(daemon.authorized("GET", "/app/libraries", "").await.contains("broken/latest"), "the list reports it");
    check!(daemon.authorized("POST", "/app/delete", r#"{"model":"broken"}"#).await, @r##"
    200 application/json; charset=utf-8
    {"model":"broken:latest","freed_bytes":0}
    "##);
    check!(daemon.authorized("POST", "/app/gc", r#"{"dry_run":true}"#).await, @r##"
    200 application/json; charset=utf-8
    {"dry_run":true,"freed_bytes":0,"removed":[],"kept":[]}
    "##);
}

#[tokio::test]
async fn usage_counts_what_gc_removes() {
    let daemon = Daemon::start();
    let file = |name: &str, age: u64| {
        let path = daemon.blobs().join(name);
        std::fs::write(&path, vec![1; 4096]).unwrap();
        let at = daemon.server.app().clock().now() - Duration::from_secs(age);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
    };
    let unnamed = |text: &[u8]| cairn_store::Digest::of(text).file_name();
    file(&unnamed(b"old"), 3601);
    file(&unnamed(b"young"), 3599);
    file("sha256-0-partial", 3601);
    let usage = daemon.authorized("GET", "/app/usage", "").await;
    for part in [
        r#""role":"own","state":"present","missed":false,"models":1}"#,
        r#""models":[{"model":"m:latest","own_bytes":"#,
        r#""shared_bytes":0,"unreferenced_bytes":8192,"unreferenced_files":2,"partial_bytes":4096,"partial_files":1"#,
        r#""free_bytes":"#,
    ] {
        assert!(usage.contains(part), "{part} is missing from {usage}");
    }
    let reply = daemon.authorized("POST", "/app/gc", r#"{"dry_run":true}"#).await;
    assert!(reply.contains(r#"{"dry_run":true,"freed_bytes":4096,"#), "{reply}");
    let reply = daemon.authorized("POST", "/app/gc", "{}").await;
    assert!(reply.contains(r#"{"dry_run":false,"freed_bytes":4096,"#), "{reply}");
    assert!(reply.contains(r#""kind":"unreferenced","young":true"#), "{reply}");
    assert!(reply.contains(r#""kind":"partial","young":false"#), "{reply}");
    let reply = daemon.authorized("POST", "/app/gc", r#"{"partials":true}"#).await;
    assert!(reply.contains(r#""removed":[{"path":""#) && reply.contains("sha256-0-partial"), "{reply}");
    assert_eq!(std::fs::read_dir(daemon.blobs()).unwrap().count(), 2, "the model and the young file");
}

#[tokio::test]
async fn verify_finds_and_discards_damaged_blobs() {
    let daemon = Daemon::start();
    let (digest, path) = daemon.weights();
    let verify = async |body: &str| {
        let reply = daemon.authorized("POST", "/app/verify", body).await;
        assert!(reply.starts_with("200 application/x-ndjson"), "the response streams: {reply}");
        let last: serde_json::Value = serde_json::from_str(reply.lines().last().unwrap()).unwrap();
        assert_eq!(last["status"], "done", "{reply}");
        last
    };
    let length = path.metadata().unwrap().len();
    let sound = verify("{}").await;
    assert_eq!(
        (&sound["models"], &sound["contents"], &sound["bytes"]),
        (&1.into(), &1.into(), &length.into()),
        "{sound}"
    );
    assert_eq!(sound["flawed"], serde_json::json!([]), "no defects");

    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4_000_000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let damaged = verify(r#"{"models":["M"]}"#).await;
    let flawed = &damaged["flawed"][0];
    assert_eq!((&flawed["flaw"], &flawed["digest"]), (&"damaged".into(), &digest.to_string().into()), "{flawed}");
    assert_eq!((&flawed["kind"], &flawed["models"]), (&"model".into(), &serde_json::json!(["m:latest"])), "{flawed}");
    assert_eq!((&flawed["own"], &flawed["discarded"]), (&true.into(), &false.into()), "{flawed}");
    assert_eq!(verify(r#"{"discard":true}"#).await["flawed"][0]["discarded"], true, "the blob is discarded on request");
    assert!(!path.exists(), "the next pull downloads the blob again");
    assert_eq!(verify("{}").await["flawed"][0]["flaw"], "missing", "a discarded blob is missing");
    check!(daemon.authorized("POST", "/app/verify", r#"{"models":["absent"]}"#).await, @r##"
    404 application/json; charset=utf-8
    {"error":"model 'absent' not found","code":"model_not_found","params":{"model":"absent"}}
    "##);
}

#[tokio::test]
async fn scan_reports_found_models() {
    let daemon = Daemon::start();
    let folder = daemon.folder.path().join("others");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("none.gguf"), "no model").unwrap();
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), folder.join("tiny.gguf")).unwrap();
    let scan = async |rest: &str| {
        let body = format!(r#"{{"folders":["{}"]{rest}}}"#, folder.display());
        daemon.authorized("POST", "/app/scan", &body).await.replace(&*folder.to_string_lossy(), "FOLDER")
    };
    let reply = scan(r#","digests":true"#).await;
    let last = reply.lines().last().unwrap();
    let found: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!((&found["status"], &found["models"][0]["state"]), (&"done".into(), &"broken".into()), "{reply}");
    let tiny = &found["models"][1];
    assert_eq!((&tiny["path"], &tiny["app"]), (&"FOLDER/tiny.gguf".into(), &"folder".into()), "{reply}");
    assert_eq!((&tiny["state"], &tiny["model"]), (&"here".into(), &"m:latest".into()), "{reply}");
    assert_eq!(tiny["digest"], daemon.weights().0.to_string(), "{reply}");
    let reply = daemon.authorized("POST", "/app/scan", r#"{"folders":["here"]}"#).await;
    assert!(reply.starts_with("400") && reply.contains("folders must be absolute"), "{reply}");
    let both = r#"{"path":"/x.gguf","link":true,"move":true}"#;
    let reply = daemon.authorized("POST", "/app/import", both).await;
    assert!(reply.starts_with("400") && reply.contains("can be linked or moved, not both"), "{reply}");
}
