//! The attacking process: hostile clients, a hostile registry and a hostile web page, all with the lowest priority.
//!
//! It runs until its standard input closes, and prints its counters.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_testkit::registry::{FakeRegistry, Fault, Faults};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Scale;
use crate::pulls::published::Published;

/// Pause of a slow reader after each byte.
const READ_PAUSE: Duration = Duration::from_millis(500);
/// Pause before a client connects again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Length of a body that is never completed.
const BODY_BYTES: u64 = 100 << 20;

/// Events of the attack.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) connected: AtomicU64,
    /// Connections that were refused, closed or answered with an error.
    pub(super) refused: AtomicU64,
    pub(super) page_requests: AtomicU64,
    pub(super) pulls: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Attacks the daemon at `address` until standard input closes.
pub(super) fn run(address: SocketAddr, scale: &Scale) {
    let registry = faulty_registry();
    let published = Published::of_noise(&registry, "noise", 5, 64 << 20);
    let endless = endless_registry();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("the runtime starts");
    let counters: &'static Counters = Box::leak(Box::default());
    for _ in 0..scale.slow_answers {
        runtime.spawn(read_slowly(address, long_answer(), counters));
    }
    for number in 0..scale.slow_lists {
        runtime.spawn(read_slowly(address, get(["/api/tags", "/ui/"][number % 2]), counters));
    }
    for _ in 0..scale.idle {
        runtime.spawn(idle(address, counters));
    }
    for number in 0..scale.half_bodies {
        runtime.spawn(send_half(address, number, counters));
    }
    for model in [published.name.clone(), format!("{endless}/library/endless")].into_iter().take(scale.registries) {
        runtime.spawn(pull(address, model, counters));
    }
    for page in 0..scale.pages {
        runtime.spawn(browse(address, page, counters));
    }
    println!("attacking");
    while matches!(std::io::stdin().read(&mut [0]), Ok(length) if length > 0) {}
    let Counters { connected, refused, page_requests, pulls } = counters;
    let [connected, refused, page_requests, pulls] =
        [connected, refused, page_requests, pulls].map(|counter| counter.load(Ordering::Relaxed));
    println!("{connected} connections, {refused} refused or closed, {page_requests} requests of pages, {pulls} pulls");
    // The tasks have no end.
    runtime.shutdown_background();
}

fn long_answer() -> String {
    let answer = json!({"model": "slow", "prompt": "Count.", "options": {"num_predict": 100_000, "temperature": 1}});
    post("/api/generate", &answer.to_string())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn connect(address: SocketAddr, counters: &Counters) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).await.ok()?;
    count(&counters.connected);
    Some(stream)
}

/// Repeats requests on one connection and reads a byte of the responses now and then.
async fn read_slowly(address: SocketAddr, request: String, counters: &Counters) {
    loop {
        if let Some(mut stream) = connect(address, counters).await {
            // As many requests as the daemon accepts, so that its responses exceed all buffers.
            let _ = stream.write_all(request.repeat(20).as_bytes()).await;
            while stream.read_u8().await.is_ok() {
                tokio::time::sleep(READ_PAUSE).await;
            }
            count(&counters.refused);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn idle(address: SocketAddr, counters: &Counters) {
    loop {
        if let Some(mut stream) = connect(address, counters).await {
            let _ = stream.read_u8().await;
            count(&counters.refused);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Sends a part of a large body at once and the rest very slowly.
async fn send_half(address: SocketAddr, number: usize, counters: &Counters) {
    let path = ["/api/chat", "/api/create", "/api/generate", "/api/blobs/"][number % 4];
    let path = match path {
        "/api/blobs/" => format!("/api/blobs/sha256:{number:064x}"),
        path => path.to_owned(),
    };
    let length = match number % 8 {
        0..4 => format!("Content-Length: {BODY_BYTES}"),
        // No declared length: the daemon reads until a limit.
        _ => format!("Transfer-Encoding: chunked\r\n\r\n{BODY_BYTES:x}"),
    };
    let end = if number % 8 < 4 { "\r\n\r\n" } else { "\r\n" };
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{length}{end}");
    let first = vec![b'['; 1 << 20];
    loop {
        if let Some(mut stream) = connect(address, counters).await
            && stream.write_all(head.as_bytes()).await.is_ok()
        {
            let mut is_open = stream.write_all(&first).await.is_ok();
            while is_open {
                tokio::time::sleep(READ_PAUSE).await;
                is_open = stream.write_all(&first[..1024]).await.is_ok();
            }
            count(&counters.refused);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Lets the daemon pull a model that never arrives.
async fn pull(address: SocketAddr, model: String, counters: &Counters) {
    let body = json!({"model": model, "insecure": true}).to_string();
    loop {
        if let Some(mut stream) = connect(address, counters).await {
            let _ = stream
                .write_all(post("/api/pull", &body).replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())
                .await;
            let mut buffer = [0; 4096];
            while matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {}
            count(&counters.pulls);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends requests as a page of another origin would, one after another.
async fn browse(address: SocketAddr, page: usize, counters: &Counters) {
    let headers = [
        "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image",
    ][page % 2];
    let body = json!({"model": "slow", "prompt": "Count."}).to_string();
    let requests = [post("/api/generate", &body), get("/api/tags"), get("/app/chats"), get("/")];
    loop {
        let Some(mut stream) = connect(address, counters).await else {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        let mut buffer = [0; 4096];
        for number in 0.. {
            let request = requests[number % requests.len()].replacen("\r\n", &format!("\r\n{headers}\r\n"), 1);
            let sent = stream.write_all(request.as_bytes()).await;
            if sent.is_err() || !matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {
                break;
            }
            count(&counters.page_requests);
        }
        count(&counters.refused);
    }
}

/// A registry with blobs that are corrupt, too long, too short, slow, or stop.
fn faulty_registry() -> FakeRegistry {
    let per_1000 = vec![
        (Fault::Flip, 300),
        (Fault::Long, 200),
        (Fault::Short, 100),
        (Fault::Slow { bytes_per_second: 10_000 }, 100),
        (Fault::Stall(Duration::from_secs(5)), 100),
        (Fault::OffByOne, 100),
        (Fault::OtherEtag, 100),
    ];
    FakeRegistry::start(3, Faults { per_1000, ..Faults::default() }).expect("loopback has free ports")
}

/// A registry with endless responses. Returns its address.
fn endless_registry() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = listener.local_addr().expect("the listener has an address");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut connection = connection;
                let _ = connection.read(&mut [0; 4096]);
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"";
                let mut sent = connection.write_all(head.as_bytes());
                while sent.is_ok() {
                    sent = connection.write_all(&[b'a'; 64 << 10]);
                }
            });
        }
    });
    address
}
