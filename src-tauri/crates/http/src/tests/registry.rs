//! Tests of `/v2` as registry clients use it.

use super::*;

async fn head_of(
    daemon: &Daemon,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, Vec<(String, String)>, usize) {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:11434");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = daemon.send(request.body(Body::empty()).unwrap()).await;
    let status = response.status().as_u16();
    let headers = response.headers().iter().map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect();
    let body = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
    (status, headers, body.len())
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn blob_is_served_completely_and_in_ranges() {
    let daemon = Daemon::start();
    let contents = b"0123456789".repeat(100);
    daemon.store("b", &[("license", &contents)]);
    let digest = cairn_store::Digest::of(&contents);
    let path = format!("/v2/library/b/blobs/{digest}");
    for method in ["GET", "HEAD"] {
        let (status, headers, bytes) = head_of(&daemon, method, &path, &[]).await;
        assert_eq!((status, bytes), (200, if method == "GET" { 1000 } else { 0 }), "{method}");
        assert_eq!(value(&headers, "content-length"), Some("1000"), "{method}: {headers:?}");
        assert_eq!(value(&headers, "accept-ranges"), Some("bytes"), "{method}");
        let location = format!("http://127.0.0.1:11434{path}");
        assert_eq!(value(&headers, "location"), Some(&*location), "{method}: Ollama's client requests ranges there");
        assert_eq!(value(&headers, "etag"), Some(&*format!("\"{digest}\"")), "{method}");
    }
    let check = async |range: (&str, &str), more: &[(&str, &str)], expected: (u16, usize)| {
        let headers: Vec<_> = std::iter::once(range).chain(more.iter().copied()).collect();
        let (status, headers, bytes) = head_of(&daemon, "GET", &path, &headers).await;
        assert_eq!((status, bytes), expected, "{range:?} {more:?}: {headers:?}");
        headers
    };
    let headers = check(("range", "bytes=10-19"), &[], (206, 10)).await;
    assert_eq!(value(&headers, "content-range"), Some("bytes 10-19/1000"), "the range and the size");
    assert_eq!(value(&headers, "location"), None, "a range needs no Location");
    let headers = check(("range", "bytes=1000-"), &[], (416, 0)).await;
    assert_eq!(value(&headers, "content-range"), Some("bytes */1000"), "the size");
    check(("range", "bytes=10-19"), &[("if-range", "\"other\"")], (200, 1000)).await;
    check(("if-none-match", &format!("\"{digest}\"")), &[], (304, 0)).await;
    let peers = daemon.server.app().transfers().peers().list();
    assert_eq!((peers[0].sent_bytes, peers[0].open), (2010, 0), "sent bytes are counted: {peers:?}");
}

#[tokio::test]
async fn manifest_is_served_by_tag_and_by_digest() {
    let daemon = Daemon::start();
    let path = daemon.folder.path().join("models/manifests/registry.ollama.ai/library/m/latest");
    let stored = std::fs::read(path).unwrap();
    let digest = cairn_store::Digest::of(&stored);
    for reference in ["latest".to_owned(), digest.to_string()] {
        let reply = daemon.get(&format!("/v2/library/M/manifests/{reference}")).await;
        let media_type = "application/vnd.docker.distribution.manifest.v2+json";
        assert_eq!(reply, format!("200 {media_type}\n{}", String::from_utf8_lossy(&stored)), "byte for byte");
    }
    check!(daemon.get("/v2/library/x/manifests/latest").await, @r#"
    404 application/json; charset=utf-8
    {"errors":[{"code":"MANIFEST_UNKNOWN","message":"this machine does not have the model"}]}
    "#);
    assert!(daemon.get("/v2/library/m/manifests/latest?ns=hf.co").await.starts_with("404"), "another registry's model");
    assert!(daemon.get("/v2/library/m/manifests/latest?ns=registry.ollama.ai").await.starts_with("200"), "this one");
    check!(daemon.get("/v2/").await, @r#"
    200 application/json; charset=utf-8
    {}
    "#);
}

#[tokio::test]
async fn registry_rejects_path_traversal_and_writes() {
    let daemon = Daemon::start();
    std::fs::write(daemon.folder.path().join("secret"), "secret").unwrap();
    let zeros = "0".repeat(64);
    for path in [
        "/v2/library/m/blobs/..%2f..%2fsecret".to_owned(),
        "/v2/library/m/blobs/sha256-../../secret".to_owned(),
        "/v2/library/m/blobs/sha256:..%2f..%2f..%2fsecret".to_owned(),
        "/v2/library/m/blobs/%00".to_owned(),
        "/v2/..%2f..%2f..%2f/secret/manifests/latest".to_owned(),
        "/v2/library/..%2f..%2fsecret/manifests/latest".to_owned(),
        "/v2/library/m/manifests/..%2f..%2f..%2f..%2fsecret".to_owned(),
        "/v2/library/m/manifests/latest?ns=..%2f..%2f..".to_owned(),
        "/v2/library/m/manifests/%ff".to_owned(),
        format!("/v2/library/%2e%2e/blobs/sha256:{zeros}"),
        format!("/v2/library/m/blobs/sha256:{zeros}"),
        format!("/v2/library/m/blobs/md5:{zeros}"),
        format!("/v2/library/m/blobs/sha256:{zeros}0"),
    ] {
        let reply = daemon.get(&path).await;
        assert!(reply.starts_with('4') && !reply.contains("secret\n"), "{path}: {reply}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in ["/v2/library/m/manifests/latest", "/v2/library/m/blobs/uploads/"] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let status = daemon.send(request).await.status().as_u16();
            assert!((400..500).contains(&status), "{method} {path}: {status}");
        }
    }
}

#[tokio::test]
async fn registry_rejects_other_machines_unless_shared() {
    let daemon = Daemon::start();
    let mut request = Request::get("/v2/").header(header::HOST, "localhost").body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 1, 9], 5000))));
    let response = daemon.router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
    let body = String::from_utf8_lossy(&body);
    assert!(status == StatusCode::FORBIDDEN && body.contains("CAIRN_SHARE=1"), "the error names the setting: {body}");
    let page = Request::get("/v2/").header(header::HOST, "localhost").header(header::ORIGIN, "http://localhost");
    assert_eq!(
        daemon.send(page.body(Body::empty()).unwrap()).await.status(),
        StatusCode::FORBIDDEN,
        "web pages are rejected"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn registry_ignores_symlinks_out_of_the_library() {
    use std::os::unix::fs::symlink;
    let daemon = Daemon::start();
    let blobs = daemon.folder.path().join("models/blobs");
    let outside = daemon.folder.path().join("secret");
    std::fs::write(&outside, "secret").unwrap();
    std::fs::write(blobs.join("inside"), "secret").unwrap();
    let check = async |digit: char, create: &dyn Fn(&std::path::Path), status: &str| {
        let digest = digit.to_string().repeat(64);
        create(&blobs.join(format!("sha256-{digest}")));
        let reply = daemon.get(&format!("/v2/library/m/blobs/sha256:{digest}")).await;
        assert!(reply.starts_with(status), "{digit}: {reply}");
    };
    check('1', &|blob| symlink(&outside, blob).unwrap(), "404 ").await;
    check('2', &|blob| symlink("../../secret", blob).unwrap(), "404 ").await;
    check('3', &|blob| symlink("inside", blob).unwrap(), "200 ").await;
    check('4', &|blob| std::fs::hard_link(&outside, blob).unwrap(), "200 ").await;
}
