//! Tests with a server that keeps connections open, until a script closes them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::{MAX_LOSS_TIME, UsedConnections};
use crate::client::{Deadlines, UpstreamClient};
use crate::failure::Failure;
use crate::upstream::tests::http;

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reaction {
    /// Respond, and keep the connection open.
    Answer,
    /// Read the request and close the connection.
    Close,
    /// Close the connection without reading the request, which resets it.
    Reset,
    /// Send the head of a response and close the connection.
    Begin,
}

/// A server that reacts by the position of a request on its connection, from 0.
struct Server {
    url: String,
    /// Requests so far, and those of them that were not answered.
    requests: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
}

impl Server {
    fn start(react: fn(usize) -> Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, requests: Arc::default(), lost: Arc::default() };
        let (requests, lost) = (Arc::clone(&server.requests), Arc::clone(&server.lost));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, lost) = (Arc::clone(&requests), Arc::clone(&lost));
                std::thread::spawn(move || serve(stream, react, &requests, &lost));
            }
        });
        server
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    fn lost(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }
}

/// Serves one connection until the client or a reaction closes it.
fn serve(mut stream: TcpStream, react: fn(usize) -> Reaction, requests: &AtomicUsize, lost: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for position in 0.. {
        // Waits for the first byte of a request, and leaves it unread.
        if stream.peek(&mut [0]).unwrap_or(0) == 0 {
            return;
        }
        requests.fetch_add(1, Ordering::AcqRel);
        let reaction = react(position);
        if reaction != Reaction::Answer {
            lost.fetch_add(1, Ordering::AcqRel);
        }
        if reaction == Reaction::Reset || read_request(&mut reader).is_none() {
            return;
        }
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let sent = match reaction {
            Reaction::Answer => response,
            Reaction::Begin => response.trim_end_matches("ok"),
            Reaction::Close | Reaction::Reset => return,
        };
        if stream.write_all(sent.as_bytes()).is_err() || reaction == Reaction::Begin {
            return;
        }
    }
}

/// Reads a whole request; `None` if the connection ends.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()
}

fn client(server: &Server) -> UpstreamClient {
    UpstreamClient::new(http(), "gpu", server.url.parse().unwrap(), None, Deadlines::default())
}

/// Sends a request and reads its whole response.
async fn post(client: &UpstreamClient) -> Result<Bytes, Failure> {
    let response = client.answer("/api/chat", Bytes::from_static(b"{\"model\":\"m\"}"), false).await?;
    response.bytes().await.map_err(|error| crate::client::failure_of(&error))
}

/// Sends requests until the server did not answer one on a reused connection. Returns their number and the last result.
async fn until_lost(client: &UpstreamClient, server: &Server) -> (usize, Result<Bytes, Failure>) {
    for sent in 1..=100 {
        let result = post(client).await;
        if server.lost() > 0 {
            return (sent, result);
        }
        assert_eq!(result, Ok(Bytes::from_static(b"ok")), "a new connection");
        // The connection becomes idle a moment after its response.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no connection was reused");
}

#[tokio::test]
async fn request_lost_on_a_reused_connection_is_sent_again() {
    let check = async |name: &str, react: fn(usize) -> Reaction| {
        let server = Server::start(react);
        let (sent, result) = until_lost(&client(&server), &server).await;
        assert_eq!(result, Ok(Bytes::from_static(b"ok")), "{name}");
        assert_eq!((server.requests(), server.lost()), (sent + 1, 1), "{name}: once more");
    };
    check("closed", |position| if position == 0 { Reaction::Answer } else { Reaction::Close }).await;
    check("reset", |position| if position == 0 { Reaction::Answer } else { Reaction::Reset }).await;
}

#[tokio::test]
async fn lost_request_is_repeated_on_a_new_connection_only() {
    let server = Server::start(|position| if position == 0 { Reaction::Answer } else { Reaction::Close });
    let client = client(&server);
    // Several idle connections, all of which lose their next request.
    for _ in 0..20 {
        let all = tokio::join!(post(&client), post(&client), post(&client), post(&client));
        let ok = || Ok(Bytes::from_static(b"ok"));
        assert_eq!(all, (ok(), ok(), ok(), ok()), "{} lost", server.lost());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(server.lost() > 0, "connections were reused");
    assert_eq!(server.requests(), 80 + server.lost(), "each lost request once more");
}

#[tokio::test]
async fn request_is_not_repeated_after_a_new_connection_or_a_response_fails() {
    let server = Server::start(|_| Reaction::Close);
    let result = post(&client(&server)).await;
    assert!(matches!(result, Err(Failure::Closed { .. })), "{result:?}");
    assert_eq!(server.requests(), 1, "a new connection was closed");
    let server = Server::start(|position| if position == 0 { Reaction::Answer } else { Reaction::Begin });
    let (sent, result) = until_lost(&client(&server), &server).await;
    assert!(matches!(result, Err(Failure::Closed { .. })), "{result:?}");
    assert_eq!(server.requests(), sent, "the response had begun");
}

#[tokio::test]
async fn request_that_is_lost_late_is_not_repeated() {
    let server = Server::start(|position| if position == 0 { Reaction::Answer } else { Reaction::Close });
    let (pooled, used) = (http().pooled, UsedConnections::default());
    for _ in 0..100 {
        match pooled.post(&server.url).body("{}").send().await {
            Ok(response) => {
                used.add(&response);
                response.bytes().await.expect("the whole response");
            }
            Err(error) => {
                assert!(used.has_lost_request(&error, Duration::ZERO), "{error:?}");
                assert!(!used.has_lost_request(&error, MAX_LOSS_TIME), "the request may be the cause");
                return;
            }
        }
        // The connection becomes idle a moment after its response.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no connection was reused");
}
