//! Tests of the limits of request bodies.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::*;
use crate::body::BodyLimit;
use crate::body_memory::BodyMemory;

const MIB: usize = 1 << 20;
/// Tests with large bodies run one after the other, because all together would fill the memory of a small machine.
pub(super) static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns a request and the channel that sends its body.
fn streamed(path: &str) -> (mpsc::Sender<Result<Bytes, Infallible>>, Request<Body>) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Request::post(path).body(Body::from_stream(ReceiverStream::new(receiver))).unwrap())
}

#[tokio::test]
async fn body_over_limit_of_its_route_is_rejected() {
    let _turn = TURN.lock().await;
    let daemon = Daemon::start();
    let check = async |path: &str, bytes: usize, expected: &str| {
        let reply = daemon.post(path, &format!(r#"{{"model":"absent","unknown":"{}"}}"#, "m".repeat(bytes))).await;
        assert!(reply.starts_with(expected), "{path} with {bytes} bytes: {}", &reply[..reply.len().min(300)]);
    };
    check("/api/show", MIB, "413 ").await;
    check("/api/show", MIB / 2, "404 ").await;
    check("/api/chat", 64 * MIB, "413 ").await;
    check("/api/chat", 2 * MIB, "404 ").await;
    let (_, mut announced) = streamed("/api/show");
    announced.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(2 * MIB));
    let reply = daemon.reply(announced).await;
    assert!(reply.starts_with("413 ") && reply.contains("body_too_large"), "a length is checked first: {reply}");
}

#[tokio::test(start_paused = true)]
async fn body_that_arrives_too_slowly_is_ended() {
    let _turn = TURN.lock().await;
    let daemon = Daemon::start();
    let (sender, trickle) = streamed("/api/chat");
    let send = async {
        while sender.send(Ok(Bytes::from_static(b" "))).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let (reply, ()) = tokio::join!(daemon.reply(trickle), send);
    assert!(reply.starts_with("408 ") && reply.contains("64 KiB in each second"), "{reply}");
}

#[tokio::test]
async fn upload_under_invalid_digest_is_rejected_without_reading() {
    let daemon = Daemon::start();
    let (_sender, endless) = streamed("/api/blobs/bogus");
    let reply = daemon.reply(endless).await;
    assert!(reply.starts_with("400 ") && reply.contains("digest_invalid"), "{reply}");
}

/// A body of 256 MiB that announces another size, and the number of MiB that were read of it.
fn long_upload(digest: &str, announced: u64) -> (Request<Body>, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let chunks = (0..256).map(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b' '; MIB]))
    });
    let request = Request::post(format!("/api/blobs/{digest}")).header(header::CONTENT_LENGTH, announced);
    (request.body(Body::from_stream(tokio_stream::iter(chunks))).unwrap(), read)
}

#[tokio::test]
async fn unneeded_upload_is_read_up_to_a_limit() {
    let daemon = Daemon::start();
    let check = async |contents: &[u8], announced: u64, expected: &str| {
        let (request, read) = long_upload(&cairn_store::Digest::of(contents).to_string(), announced);
        let reply = daemon.reply(request).await;
        assert!(reply.starts_with(expected), "{reply}");
        let read = read.load(Ordering::Relaxed);
        assert!(read <= 80, "{read} MiB of the unneeded body were read");
    };
    let stored = daemon
        .send(Request::post(format!("/api/blobs/{}", cairn_store::Digest::of(b"x"))).body(Body::from("x")).unwrap());
    assert_eq!(stored.await.status(), StatusCode::CREATED, "the blob is stored");
    check(b"x", 256 << 20, "200 ").await;
    check(b"larger than any disk", u64::MAX >> 1, "500 ").await;
}

#[tokio::test]
async fn upload_to_an_unknown_path_is_rejected_without_reading() {
    let daemon = Daemon::start();
    for path in ["/api/blobs", "/api/blobs/", "/api/blobs/bogus/bogus", "/api/blob/bogus"] {
        let (_sender, endless) = streamed(path);
        let reply = daemon.reply(endless).await;
        assert!(reply.starts_with("404 ") || reply.starts_with("405 "), "{path}: {reply}");
    }
}

#[tokio::test]
async fn body_with_too_many_values_is_rejected_before_parsing() {
    let daemon = Daemon::start();
    for items in ["{},".repeat(200_000), "[],".repeat(600_000)] {
        let reply = daemon.post("/api/chat", &format!(r#"{{"model":"absent","messages":[{items}{{}}]}}"#)).await;
        assert!(reply.starts_with("413 ") && reply.contains("JSON values"), "{reply}");
    }
}

#[tokio::test]
async fn half_sent_bodies_leave_room_for_small_requests() {
    let _turn = TURN.lock().await;
    let daemon = Daemon::start();
    let mut senders = Vec::new();
    let mut requests = Vec::new();
    // Bodies of 60 MiB that never end, until one is refused.
    let refused = loop {
        let (sender, request) = streamed("/api/chat");
        let mut request = Box::pin(daemon.reply(request));
        let mut reply = None;
        for _ in 0..60 {
            let chunk = Ok(Bytes::from(vec![b' '; MIB]));
            reply = tokio::select! {
                biased;
                reply = &mut request => Some(reply),
                sent = sender.send(chunk) => { sent.expect("the daemon reads"); None }
            };
            if reply.is_some() {
                break;
            }
        }
        if let Some(reply) = reply {
            break reply;
        }
        assert!(senders.len() < 8, "the bodies have no common budget");
        senders.push(sender);
        requests.push(request);
    };
    assert!(refused.starts_with("503 ") && refused.contains("server_busy"), "{refused}");
    for request in &mut requests {
        let poll = std::future::poll_fn(|context| Poll::Ready(request.as_mut().poll(context)));
        assert!(poll.await.is_pending(), "other bodies are not affected");
    }
    let small = daemon.post("/api/show", r#"{"model":"m"}"#).await;
    assert!(small.starts_with("200 "), "a small request: {small}");
    drop(requests);
    let large = format!(r#"{{"model":"absent","prompt":"{}"}}"#, " ".repeat(20 * MIB));
    let large = daemon.post("/api/generate", &large).await;
    assert!(large.starts_with("404 "), "the budget is free again: {large}");
}

/// A client that sends its whole body before it reads must get the response.
#[tokio::test]
async fn client_that_sends_all_reads_that_the_server_is_busy() {
    let _turn = TURN.lock().await;
    let daemon = Daemon::start();
    let memory = BodyMemory::new(daemon.server.bodies(), None);
    memory.grow(320 * MIB, 320 * MIB).unwrap_or_else(|_| panic!("the whole memory"));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let routes = daemon.router.clone().into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    let (mut stream, bytes) = (tokio::net::TcpStream::connect(address).await.expect("a connection"), 30 * MIB);
    let head = format!("POST /api/chat HTTP/1.1\r\nHost: {address}\r\nContent-Length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("the head is sent");
    stream.write_all(&vec![b' '; bytes]).await.expect("the whole body is sent");
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.expect("a response");
    assert_eq!(&start, b"HTTP/1.1 503", "the memory is full");
    server.abort();
    drop(memory);
}

#[tokio::test]
async fn bodies_of_waiting_requests_count() {
    static PARSED: Semaphore = Semaphore::const_new(0);
    static END: Semaphore = Semaphore::const_new(0);
    async fn wait(crate::body::Body(_request): crate::body::Body<serde_json::Value>) -> StatusCode {
        PARSED.add_permits(1);
        END.acquire().await.expect("the semaphore is never closed").forget();
        StatusCode::OK
    }
    let _turn = TURN.lock().await;
    let daemon = Daemon::start();
    let routes = Router::new().route("/api/chat", axum::routing::post(wait).layer(BodyLimit::PROMPT.layer()));
    let daemon = Daemon { router: with_layers(routes, daemon.server.clone()), ..daemon };
    let large = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(50 * MIB));
    let mut waiting = Vec::new();
    let refused = loop {
        let mut request = Box::pin(daemon.post("/api/chat", &large));
        tokio::select! {
            biased;
            reply = &mut request => break reply,
            parsed = PARSED.acquire() => parsed.expect("the semaphore is never closed").forget(),
        }
        waiting.push(request);
        assert!(waiting.len() < 8, "the bodies of waiting requests do not count");
    };
    assert!(refused.starts_with("503 ") && refused.contains("server_busy"), "{refused}");
    assert_eq!(waiting.len(), 6, "320 MiB are the budget");
    END.add_permits(waiting.len() + 1);
    for request in waiting {
        let reply = request.await;
        assert!(reply.starts_with("200 "), "a request that waited: {reply}");
    }
    let reply = daemon.post("/api/chat", &large).await;
    assert!(reply.starts_with("200 "), "the budget is free again: {reply}");
}
