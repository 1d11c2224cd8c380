//! Tests of the limits.

use std::io::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::*;

fn limits(all: usize, per_address: usize) -> Limits {
    let proxies = ["10.0.0.5".parse().unwrap()];
    Limits { all, per_address, ..Limits::of(None, &proxies) }
}

async fn was_evicted(permit: &ConnectionPermit) -> bool {
    tokio::time::timeout(Duration::from_millis(20), permit.evicted()).await.is_ok()
}

#[test]
fn limits_use_half_of_open_files() {
    let check = |files: Option<u64>, all: usize, per_address: usize| {
        let limits = Limits::of(files, &[]);
        assert_eq!((limits.all, limits.per_address), (all, per_address), "{files:?}");
    };
    check(Some(256), 128, 64);
    check(Some(1024), 512, 128);
    check(Some(65_536), 4096, 128);
    check(None, 4096, 128);
    check(Some(0), 1, 1);
}

#[tokio::test]
async fn connection_limit_evicts_oldest_idle_connection() {
    let (limits, table) = (limits(3, 9), Arc::default());
    let take = async |ip| limits.admit(&table, ip).await;
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let next = async || take(here).await.expect("there is room");
    let [first, second, third] = [next().await, next().await, next().await];
    let active = first.begin_request();
    let fourth = take(here).await.expect("two connections are idle");
    assert!(was_evicted(&second).await, "the oldest idle connection");
    assert!(!was_evicted(&first).await && !was_evicted(&third).await, "and no other");
    let _all = [&third, &fourth].map(ConnectionPermit::begin_request);
    drop(second);
    assert!(take(here).await.is_none(), "active connections are not evicted");
    drop(active);
    assert!(take(here).await.is_some(), "the first connection is idle again");
}

#[tokio::test]
async fn new_connection_waits_for_evicted_connections_to_close() {
    let (limits, table) = (limits(1, 9), Arc::default());
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let mut open = Vec::new();
    // One connection, and those that may be open beyond the limit.
    for _ in 0..65 {
        open.push(limits.admit(&table, here).await.expect("the oldest is evicted"));
    }
    let waiting = limits.admit(&table, here);
    let mut waiting = std::pin::pin!(waiting);
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("too many connections are open"),
        () = tokio::task::yield_now() => {}
    }
    open.remove(0);
    assert!(waiting.await.is_some(), "an evicted connection has closed");
}

#[tokio::test]
async fn remote_address_has_lower_limit() {
    let (limits, table) = (limits(100, 2), Arc::default());
    let check = async |ips: [&str; 3], limited: bool| {
        let mut permits = Vec::new();
        for ip in ips {
            permits.push(limits.admit(&table, ip.parse().unwrap()).await.expect("the oldest is evicted"));
        }
        assert_eq!(was_evicted(&permits[0]).await, limited, "{ips:?}");
    };
    check(["192.168.1.9"; 3], true).await;
    check(["::ffff:192.168.1.9", "192.168.1.9", "192.168.1.9"], true).await;
    check(["2001:db8::1", "2001:db8::2", "2001:db8::3"], true).await;
    check(["192.168.1.1", "192.168.1.2", "192.168.1.3"], false).await;
    check(["127.0.0.1"; 3], false).await;
    check(["10.0.0.5"; 3], false).await;
}

#[tokio::test]
async fn request_head_times_out_when_incomplete() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", axum::routing::get(async || "here"));
    let limits = Limits { head_timeout: Duration::from_millis(100), ..Limits::of(None, &[]) };
    let served = tokio::spawn(serve(listener, router, limits, std::future::pending()));
    let check = async |sent: &[u8], expected: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut heard = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut heard)).await;
        assert!(read.is_ok(), "it is closed after {sent:?}");
        assert!(heard.ends_with(expected), "{sent:?}: {heard:?}");
    };
    check(b"", "").await;
    check(b"GET / HTTP/1.1\r\nHost: x\r\n", "").await;
    check(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\nhere").await;
    served.abort();
}

#[tokio::test]
async fn request_body_times_out_after_long_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let read = async |body: Bytes| format!("read {}", body.len());
    let router = Router::new().route("/", axum::routing::post(read));
    let limits = Limits { body_timeout: Duration::from_millis(400), ..Limits::of(None, &[]) };
    let served = tokio::spawn(serve(listener, router, limits, std::future::pending()));
    let check = async |pieces: &[&[u8]], status: &str, text: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n").await.unwrap();
        for piece in pieces {
            tokio::time::sleep(Duration::from_millis(150)).await;
            stream.write_all(piece).await.unwrap();
        }
        let mut heard = String::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut heard)).await;
        assert!(ended.is_ok(), "it is closed after {pieces:?}");
        assert!(heard.starts_with(status) && heard.contains(text), "{pieces:?}: {heard:?}");
    };
    check(&[b"bo"], "HTTP/1.1 400", "").await;
    check(&[], "HTTP/1.1 400", "").await;
    // The whole body takes longer than the timeout, but no pause does.
    check(&[b"b", b"o", b"d", b"y"], "HTTP/1.1 200", "read 4").await;
    served.abort();
}

/// A body without end. Notifies when it is dropped.
struct EndlessBody(Arc<Notify>);

impl hyper::body::Body for EndlessBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 << 10])))))
    }
}

impl Drop for EndlessBody {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn response_ends_when_client_reads_nothing_for_too_long() {
    use tokio::io::AsyncWriteExt;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dropped = Arc::new(Notify::new());
    let body = Arc::clone(&dropped);
    let router = Router::new()
        .route("/", axum::routing::get(async move || axum::body::Body::new(EndlessBody(Arc::clone(&body)))));
    let limits = Limits { write_timeout: Duration::from_millis(100), ..Limits::of(None, &[]) };
    let served = tokio::spawn(serve(listener, router, limits, std::future::pending()));
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), dropped.notified()).await;
    assert!(ended.is_ok(), "the work behind the response is cancelled");
    drop(silent);
    served.abort();
}

#[tokio::test]
async fn connection_beyond_the_limit_gets_server_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let started = Arc::new(Notify::new());
    let start = Arc::clone(&started);
    let router = Router::new().route(
        "/",
        axum::routing::get(async move || {
            start.notify_one();
            std::future::pending::<()>().await;
        }),
    );
    let limits = Limits { all: 1, ..Limits::of(None, &[]) };
    let served = tokio::spawn(serve(listener, router, limits, std::future::pending()));
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut active = TcpStream::connect(address).await.unwrap();
    active.write_all(request).await.unwrap();
    started.notified().await;
    let mut rejected = TcpStream::connect(address).await.unwrap();
    rejected.write_all(request).await.unwrap();
    let mut response = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), rejected.read_to_string(&mut response)).await;
    assert!(matches!(read, Ok(Ok(_))), "the connection is closed in order: {read:?}");
    assert!(response.starts_with("HTTP/1.1 503 ") && response.contains("\"code\":\"server_busy\""), "{response:?}");
    served.abort();
}

#[tokio::test]
async fn evicted_connection_serves_a_request_that_has_arrived() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", axum::routing::get(async || "served"));
    // The server accepts all connections, and so evicts all but the last, before it reads any request.
    let mut clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            client.set_nonblocking(true).unwrap();
            TcpStream::from_std(client).unwrap()
        })
        .collect();
    let limits = Limits { all: 1, ..Limits::of(None, &[]) };
    let served = tokio::spawn(serve(listener, router, limits, std::future::pending()));
    for client in &mut clients {
        let mut response = String::new();
        client.read_to_string(&mut response).await.expect("the response is complete");
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("served"), "{response:?}");
    }
    served.abort();
}
