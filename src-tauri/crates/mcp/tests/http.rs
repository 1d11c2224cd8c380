//! Servers with streamable HTTP: the usual one, and those that flood, hang, redirect or lie.

#[path = "support/timeouts.rs"]
mod timeouts;

use std::collections::BTreeMap;

use cairn_mcp::limits::Timeouts;
use cairn_mcp::{Endpoint, Error, Excess, Launch, Server, ServerConfig, Surroundings, Task};
use serde_json::{Map, Value, json};
use timeouts::{IMPATIENT, PATIENT};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the server does with a call.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Json,
    Events,
    Flood,
    HugeJson,
    Hang,
    Hangup,
    Redirect,
    Unauthorized,
    Html,
}

/// A server for tests. Requests arrive at the receiver: method, value of `X-Key`, and method of the body.
async fn serve(mode: Mode) -> (String, mpsc::UnboundedReceiver<(String, String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("a bound socket has an address"));
    let (seen, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, mode, seen.clone()));
        }
    });
    (url, requests)
}

async fn connection(stream: TcpStream, mode: Mode, seen: mpsc::UnboundedSender<(String, String, String)>) {
    let mut stream = BufReader::new(stream);
    while let Some((method, headers, body)) = request(&mut stream).await {
        let key = headers.get("x-key").cloned().unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let rpc = body["method"].as_str().unwrap_or_default().to_owned();
        let _ = seen.send((method.clone(), key, rpc.clone()));
        let response = |result: Value| json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string();
        let text = json!({ "content": [{ "type": "text", "text": "done" }] });
        let written = match &*rpc {
            _ if method != "POST" => respond(&mut stream, "405 Method Not Allowed", "", "").await,
            _ if mode == Mode::Unauthorized => respond(&mut stream, "401 Unauthorized", "text/plain", "no key").await,
            _ if mode == Mode::Html => respond(&mut stream, "200 OK", "text/html", "<p>Hello").await,
            _ if mode == Mode::Redirect => {
                respond(&mut stream, "307 Temporary Redirect", "text/plain\r\nLocation: http://127.0.0.1:9/", "").await
            }
            "initialize" => {
                let version = &body["params"]["protocolVersion"];
                let info = json!({ "name": "fake", "version": "1" });
                let result = json!({ "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": info });
                respond(&mut stream, "200 OK", "application/json", &response(result)).await
            }
            "tools/list" => {
                let tool = json!({ "name": "echo", "inputSchema": { "type": "object" } });
                respond(&mut stream, "200 OK", "application/json", &response(json!({ "tools": [tool] }))).await
            }
            "tools/call" => match mode {
                Mode::Events => {
                    let events = format!(": comment\n\ndata: {}\n\n", response(text));
                    respond(&mut stream, "200 OK", "text/event-stream", &events).await
                }
                Mode::Flood => flood(&mut stream).await,
                Mode::HugeJson => {
                    let large = json!({ "content": [{ "type": "text", "text": "x".repeat(20 << 20) }] });
                    respond(&mut stream, "200 OK", "application/json", &response(large)).await
                }
                Mode::Hang => std::future::pending().await,
                Mode::Hangup => return,
                _ => respond(&mut stream, "200 OK", "application/json", &response(text)).await,
            },
            _ => respond(&mut stream, "202 Accepted", "", "").await,
        };
        if written.is_err() {
            return;
        }
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let method = line.split(' ').next()?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((method, headers, body))
}

async fn respond(stream: &mut BufReader<TcpStream>, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
    let head = format!("HTTP/1.1 {status}\r\n{kind}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

async fn flood(stream: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await?;
    let event =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
    loop {
        stream.write_all(format!("data: {event}\n\n").as_bytes()).await?;
    }
}

fn client(url: &str, timeouts: Timeouts) -> Server {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
    let launch = Launch {
        surroundings: Surroundings::default(),
        http: http.expect("a client without settings"),
        client: ("cairn".to_owned(), "1".to_owned()),
        timeouts,
    };
    let headers = [("X-Key".to_owned(), "sk-1".to_owned())].into();
    let endpoint = Endpoint::Http { url: url.to_owned(), headers };
    Server::new(ServerConfig { name: "fake".to_owned(), endpoint }, launch)
}

async fn call(server: &Server) -> Result<String, Error> {
    Ok(server.call("echo", Map::new()).await?.text)
}

#[tokio::test]
async fn tools_are_listed_and_called_with_the_headers() {
    for mode in [Mode::Json, Mode::Events] {
        let (url, mut requests) = serve(mode).await;
        let server = client(&url, PATIENT);
        assert_eq!(server.tools().await.unwrap().tools[0].name, "echo");
        assert_eq!(call(&server).await, Ok("done".to_owned()));
        let mut seen = Vec::new();
        while let Ok((_, key, rpc)) = requests.try_recv() {
            assert_eq!(key, "sk-1", "{rpc}");
            seen.push(rpc);
        }
        assert!(seen.contains(&"tools/call".to_owned()), "{seen:?}");
    }
}

#[tokio::test]
async fn flood_ends_the_connection() {
    let (url, _requests) = serve(Mode::Flood).await;
    let server = client(&url, PATIENT);
    let error = call(&server).await.unwrap_err();
    assert!(matches!(error, Error::Flood { excess: Excess::Messages, .. }), "{error}");
    assert!(!server.is_running());
    let (url, _requests) = serve(Mode::HugeJson).await;
    let error = call(&client(&url, PATIENT)).await.unwrap_err();
    assert!(matches!(error, Error::Failed { task: Task::Call, .. }), "{error}");
}

#[tokio::test]
async fn hanging_and_closed_connections_are_errors() {
    let (url, _requests) = serve(Mode::Hang).await;
    let error = call(&client(&url, Timeouts { call: IMPATIENT, ..PATIENT })).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { task: Task::Call, .. }), "{error}");
    let (url, _requests) = serve(Mode::Hangup).await;
    let error = call(&client(&url, PATIENT)).await.unwrap_err();
    assert!(matches!(error, Error::Failed { .. } | Error::Ended { .. }), "{error}");
}

#[tokio::test]
async fn redirects_and_refusals_are_errors() {
    for (mode, expected) in [(Mode::Redirect, "307"), (Mode::Unauthorized, "401"), (Mode::Html, "text/html")] {
        let (url, _requests) = serve(mode).await;
        let error = client(&url, PATIENT).tools().await.unwrap_err();
        assert!(matches!(&error, Error::Handshake { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn absent_server_is_an_error_without_the_query() {
    let url = "http://127.0.0.1:9/mcp?key=sk-1";
    let error = client(url, PATIENT).tools().await.unwrap_err();
    assert!(matches!(&error, Error::Handshake { .. }), "{error}");
    assert!(!error.to_string().contains("sk-1"), "{error}");
}
