//! Pages of the web, with fake servers: private addresses, redirects, and pages that are too long or no text.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_mcp::{PageFetcher, ToolResult};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers each path with a response of `pages`. Also returns a counter of its requests.
async fn serve(pages: Vec<(&'static str, String)>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let page = pages
                .iter()
                .find(|(of, _)| *of == path)
                .map_or("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", |(_, page)| page.as_str());
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    (address, requests)
}

fn page(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn redirect(target: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// Resolves every name to the loopback address.
struct Loopback;

impl Resolve for Loopback {
    fn resolve(&self, _name: Name) -> Resolving {
        Box::pin(async { Ok(Box::new([SocketAddr::from(([127, 0, 0, 1], 0))].into_iter()) as Addrs) })
    }
}

/// A fetcher for addresses that `allows` accepts.
fn fetcher(allows: fn(IpAddr) -> bool) -> PageFetcher {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).dns_resolver(Loopback);
    PageFetcher::new(http.build().expect("a client without settings"), Arc::new(allows), true)
}

async fn fetch(fetcher: &PageFetcher, url: &str) -> ToolResult {
    fetcher.call("fetch_page", json!({ "url": url }).as_object().expect("an object")).await
}

#[tokio::test]
async fn page_is_fetched_as_text() {
    let html = "<head><title>News</title></head><h1>Today</h1><script>x</script><p>Rain <a href=b>more</a>";
    let (address, _) =
        serve(vec![("/a", page("text/html; charset=utf-8", html)), ("/j", page("application/json", "{\"a\":1}"))])
            .await;
    let fetcher = fetcher(|_| true);
    let port = address.port();
    let result = fetch(&fetcher, &format!("http://example.com:{port}/a#part")).await;
    let expected = format!("News\nhttp://example.com:{port}/a\n\n# Today\n\nRain [more](http://example.com:{port}/b");
    assert!(!result.is_error && result.text.starts_with(&expected), "{}", result.text);
    let result = fetch(&fetcher, &format!("http://example.com:{port}/j")).await;
    assert!(result.text.ends_with("\n\n{\"a\":1}"), "{}", result.text);
    let result = fetch(&fetcher, &format!("http://example.com:{port}/missing")).await;
    assert!(result.is_error && result.text.contains("404"), "{}", result.text);
}

#[tokio::test]
async fn private_addresses_are_refused_before_a_request() {
    let (address, requests) = serve(vec![("/", page("text/plain", "secret"))]).await;
    let fetcher = fetcher(|ip| !ip.is_loopback());
    let port = address.port();
    // The system's notations of an address are one address.
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]"] {
        let result = fetch(&fetcher, &format!("http://{host}:{port}/")).await;
        assert!(result.is_error && result.text.contains("private network"), "{host}: {}", result.text);
    }
    assert_eq!(requests.load(Ordering::SeqCst), 0, "no request was sent");
}

#[tokio::test]
async fn private_address_of_a_name_is_refused_by_its_connection() {
    let (address, _) = serve(vec![("/", page("text/plain", "secret"))]).await;
    let result = fetch(&fetcher(|ip| !ip.is_loopback()), &format!("http://example.com:{}/", address.port())).await;
    assert!(result.is_error && result.text.contains("private network"), "{}", result.text);
    assert!(!result.text.contains("secret"), "{}", result.text);
}

#[tokio::test]
async fn redirects_are_checked_and_bounded() {
    let pages = vec![
        ("/once", redirect("/end")),
        ("/end", page("text/plain", "the end")),
        ("/loop", redirect("/loop")),
        ("/file", redirect("file:///etc/passwd")),
        ("/private", redirect("http://10.0.0.1:9/")),
        ("/user", redirect("http://user:key@example.com/")),
    ];
    let (address, _) = serve(pages).await;
    let fetcher = fetcher(|ip| ip != IpAddr::from([10, 0, 0, 1]));
    let url = |path: &str| format!("http://example.com:{}{path}", address.port());
    let result = fetch(&fetcher, &url("/once")).await;
    assert!(!result.is_error && result.text.ends_with("/end\n\nthe end"), "{}", result.text);
    for (path, expected) in
        [("/loop", "redirects more"), ("/file", "not a URL"), ("/private", "private network"), ("/user", "not a URL")]
    {
        let result = fetch(&fetcher, &url(path)).await;
        assert!(result.is_error && result.text.contains(expected), "{path}: {}", result.text);
        assert!(!result.text.contains("key"), "{}", result.text);
    }
}

#[tokio::test]
async fn long_and_binary_pages_are_bounded() {
    let (address, _) =
        serve(vec![("/long", page("text/plain", &"x".repeat(6 << 20))), ("/image", page("image/png", "x"))]).await;
    let fetcher = fetcher(|_| true);
    let result = fetch(&fetcher, &format!("http://example.com:{}/long", address.port())).await;
    assert!(!result.is_error && result.is_truncated && result.text.len() < 300 << 10, "{}", result.text.len());
    let result = fetch(&fetcher, &format!("http://example.com:{}/image", address.port())).await;
    assert!(result.is_error && result.text.contains("image/png"), "{}", result.text);
    for url in ["", "example.com", "file:///etc/passwd", "ftp://example.com/", "https://user@example.com/"] {
        assert!(fetch(&fetcher, url).await.is_error, "{url}");
    }
}
