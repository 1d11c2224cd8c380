//! The daemon's connections, with limits on their number and their idle time.
//!
//! Every connection uses a file descriptor, of which a process has few. A client that sends nothing, or half of a
//! request head, must not block others:
//! - A request head must arrive within [`HEAD_TIMEOUT`]. This also closes idle connections.
//! - A request body may pause for at most [`BODY_TIMEOUT`].
//! - A client may accept no byte of a response for at most [`WRITE_TIMEOUT`]. Then the connection is closed, which cancels the
//!   work behind the response.
//! - There are at most [`Limits::all`] connections, and [`Limits::per_address`] of one remote address.
//!
//! At a limit, a new connection evicts the oldest idle one, and waits for it if too many evicted ones are still open. A connection
//! with an active request is never evicted. Without an idle one, the new connection gets the status 503 and is closed.

mod rejection;
mod table;
mod write_timeout;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use cairn_http::LocalAddress;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tower::ServiceExt;

use table::{ActiveRequest, ConnectionPermit, Table};
use write_timeout::WriteTimeout;

/// Timeout for a request head, from the end of the previous response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause between two chunks of a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time in which a client accepts no byte of a response. A user may pause a terminal that prints an answer for this long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// Most connections, for any limit of open files.
const MAX_CONNECTIONS: usize = 4096;
/// Most connections of one remote address.
const MAX_PER_ADDRESS: usize = 128;
/// Pause after the system failed to accept a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(200);
/// Longest time in which a new connection waits for evicted ones to close.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two warnings about such failures.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Limits of the connections.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    head_timeout: Duration,
    body_timeout: Duration,
    write_timeout: Duration,
    all: usize,
    per_address: usize,
    /// Reverse proxies. The limit per address does not apply to them, because each serves many clients.
    proxies: Vec<IpAddr>,
}

impl Limits {
    /// Limits for a process that may have `open_files` files open. Half of them are for connections.
    pub(super) fn of(open_files: Option<u64>, proxies: &[IpAddr]) -> Self {
        let files = open_files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        let all = (files / 2).clamp(1, MAX_CONNECTIONS);
        let per_address = MAX_PER_ADDRESS.min(all.div_ceil(2));
        Self {
            head_timeout: HEAD_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            all,
            per_address,
            proxies: proxies.to_vec(),
        }
    }

    /// Returns the address that a connection counts for; `None` if the limit per address does not apply. An IPv6 /64
    /// network counts as one address, because one machine can use all its addresses.
    fn counted_address(&self, ip: IpAddr) -> Option<IpAddr> {
        match ip.to_canonical() {
            ip if ip.is_loopback() || self.proxies.contains(&ip) => None,
            IpAddr::V6(ip) => Some(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64)).into()),
            ip => Some(ip),
        }
    }

    /// Returns a permit for a new connection; `None` at a limit if no connection is idle.
    async fn admit(&self, table: &Arc<Mutex<Table>>, ip: IpAddr) -> Option<ConnectionPermit> {
        let deadline = tokio::time::Instant::now() + CLOSING_TIMEOUT;
        loop {
            if let Some(permit) = Table::admit(table, self.counted_address(ip), self.all, self.per_address) {
                return Some(permit);
            }
            let closed = table.lock().closing()?;
            tokio::time::timeout_at(deadline, closed.notified()).await.ok()?;
        }
    }
}

/// Serves connections until `stopping` completes, then waits for the active requests.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, stopping: impl Future<Output = ()>) {
    let table = Arc::default();
    let ending = GracefulShutdown::new();
    let mut stopping = pin!(stopping);
    let mut warned_at: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopping => break,
        };
        match accepted {
            Ok((stream, peer)) => match limits.admit(&table, peer.ip()).await {
                Some(permit) => spawn_connection(stream, peer, router.clone(), permit, &limits, &ending),
                None => {
                    tracing::debug!(%peer, "connection rejected: too many connections");
                    rejection::spawn(stream);
                }
            },
            // The client closed the connection again.
            Err(error) if is_client_error(&error) => {}
            Err(error) => {
                if warned_at.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
                    tracing::warn!(%error, "cannot accept connections; retrying");
                    warned_at = Some(Instant::now());
                }
                table.lock().evict_oldest_idle();
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
    drop(listener);
    ending.shutdown().await;
}

fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}

/// Serves one connection in its own task.
fn spawn_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    permit: ConnectionPermit,
    limits: &Limits,
    ending: &GracefulShutdown,
) {
    // A streamed token is smaller than a packet and must be sent at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn Nagle's algorithm off for a connection");
    }
    let local = stream.local_addr().ok().map(LocalAddress);
    let permit = Arc::new(permit);
    let (requests, body_timeout) = (Arc::clone(&permit), limits.body_timeout);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (router, active) = (router.clone(), requests.begin_request());
        request.extensions_mut().insert(ConnectInfo(peer));
        if let Some(local) = local {
            request.extensions_mut().insert(local);
        }
        let request = request.map(|body| RequestBody::new(body, body_timeout));
        async move {
            let Ok(response) = router.oneshot(request).await;
            Ok::<_, Infallible>(response.map(|body| ResponseBody { body, _active: active }))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, limits.write_timeout)), service);
    let serving = ending.watch(serving);
    tokio::spawn(async move {
        let mut serving = pin!(serving);
        let mut is_evicted = false;
        loop {
            tokio::select! {
                biased;
                served = &mut serving => {
                    if let Err(error) = served {
                        tracing::debug!(%peer, %error, "connection failed");
                    }
                    return;
                }
                // The request of a client that is not idle may have arrived meanwhile: the runtime looks for it while this task
                // yields.
                () = tokio::task::yield_now(), if is_evicted => {
                    if !permit.has_active_request() {
                        tracing::debug!(%peer, "connection evicted");
                        return;
                    }
                    is_evicted = false;
                }
                () = permit.evicted() => is_evicted = true,
            }
        }
    });
}

/// A request body that fails if it pauses for longer than `timeout`.
struct RequestBody {
    body: Incoming,
    timeout: Duration,
    /// Runs while the next chunk is pending.
    timer: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    fn new(body: Incoming, timeout: Duration) -> Self {
        Self { body, timeout, timer: None }
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let timeout = this.timeout;
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let text = format!("the request body paused for more than {timeout:?}");
                Poll::Ready(Some(Err(axum::Error::new(io::Error::new(io::ErrorKind::TimedOut, text)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body. Its request stays active until the body is dropped.
struct ResponseBody {
    body: axum::body::Body,
    _active: ActiveRequest,
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Raises the limit of open files as far as useful and allowed. Returns the limit; `None` if there is no known limit.
#[cfg(unix)]
pub(super) fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Some systems report a higher maximum than they allow.
    for wanted in [65_536, 10_240] {
        let wanted = limit.maximum.map_or(wanted, |most| most.min(wanted));
        if limit.current.is_none_or(|current| current >= wanted) {
            break;
        }
        if setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).is_ok() {
            return Some(wanted);
        }
    }
    limit.current
}

#[cfg(not(unix))]
pub(super) fn raise_open_files() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests;
