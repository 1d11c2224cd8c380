//! The response to a connection beyond the limits: the status 503, before its request is read.

use std::time::Duration;

use cairn_wire::{ErrorBody, ErrorCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Time for a client to read the response.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a request that are discarded. A connection that is closed with unread bytes loses its response.
const DRAIN_BYTES: u64 = 64 << 10;
/// Most connections that are rejected at the same time. Further ones are closed without a response.
static REJECTIONS: Semaphore = Semaphore::const_new(64);

/// Rejects a connection in a task of its own.
pub(super) fn spawn(stream: TcpStream) {
    let Ok(permit) = REJECTIONS.try_acquire() else { return };
    tokio::spawn(async move {
        let _permit = permit;
        // A client that does not read its response gets none.
        let _ = tokio::time::timeout(TIMEOUT, reject(stream)).await;
    });
}

async fn reject(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(response().as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(DRAIN_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}

fn response() -> String {
    let error = "the server is busy: too many connections; try again later";
    let body = ErrorBody { code: Some(ErrorCode::ServerBusy), ..ErrorBody::text(error) };
    let body = serde_json::to_string(&body).expect("our own types have string keys");
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
