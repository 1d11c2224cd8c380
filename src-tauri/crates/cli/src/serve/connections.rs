//! The daemon's connections: how many there may be, and how long one may say nothing.
//!
//! Whoever connects holds a file descriptor of this process, and there are few: a client that sends half of a request's head,
//! or nothing, must not keep others out. So a head has [`HEAD_WITHIN`] to come, which also ends connections that nobody
//! uses between requests; a body may pause for [`BODY_WITHIN`]; there are at most [`Limits::all`] connections, and of one address beyond this machine
//! [`Limits::per_address`]. When a limit is reached, the oldest connection that waits for a request gives way to the new one;
//! none is closed while it is answered.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Sleep;
use tower::ServiceExt;

/// How long a request's head may take, from when one is waited for.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a request's body may say nothing before its end.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// Connections at most, however many files may be open.
const MAX_CONNECTIONS: usize = 4096;
/// Connections of one address beyond this machine, at most.
const MAX_PER_ADDRESS: usize = 128;
/// How long nobody is let in after the system could not give a connection.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two lines of the log that say so.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What connections may take.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    head_within: Duration,
    body_within: Duration,
    all: usize,
    per_address: usize,
    /// Reverse proxies, each of which speaks for many.
    proxies: Vec<IpAddr>,
}

impl Limits {
    /// Those that suit a process which may have so many files open: half of them are for connections.
    pub(super) fn of(open_files: Option<u64>, proxies: &[IpAddr]) -> Self {
        let files = open_files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        let all = (files / 2).clamp(1, MAX_CONNECTIONS);
        let per_address = MAX_PER_ADDRESS.min(all.div_ceil(2));
        Self { head_within: HEAD_WITHIN, body_within: BODY_WITHIN, all, per_address, proxies: proxies.to_vec() }
    }

    /// Whose connections are counted together; `None` for those that only the limit of all holds for. A network of IPv6
    /// counts as one, because each machine of it has as many addresses as it wants.
    fn counted(&self, ip: IpAddr) -> Option<IpAddr> {
        match ip.to_canonical() {
            ip if ip.is_loopback() || self.proxies.contains(&ip) => None,
            IpAddr::V6(ip) => Some(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64)).into()),
            ip => Some(ip),
        }
    }
}

/// Answers connections until `stopping`, and then those that are being answered to their end.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, stopping: impl Future<Output = ()>) {
    let open = Open { limits, table: Arc::default() };
    let ending = GracefulShutdown::new();
    let mut stopping = pin!(stopping);
    let mut said: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopping => break,
        };
        match accepted {
            Ok((stream, peer)) => match open.take(peer.ip()) {
                Some(seat) => answer(stream, peer, router.clone(), seat, &open.limits, &ending),
                None => tracing::debug!(%peer, "a connection too many"),
            },
            // The client's affair, and over.
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                if said.is_none_or(|at| at.elapsed() >= SAY_AGAIN) {
                    tracing::warn!(%error, "connections cannot be taken; trying again");
                    said = Some(Instant::now());
                }
                open.make_room();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    ending.shutdown().await;
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}

/// Answers what comes over one connection, in a task of its own.
fn answer(stream: TcpStream, peer: SocketAddr, router: Router, seat: Seat, limits: &Limits, ending: &GracefulShutdown) {
    // A token is smaller than a packet, and must not wait for the next one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps small packets back");
    }
    let (held, body_within) = (Arc::clone(&seat.held), limits.body_within);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (router, working) = (router.clone(), Working::begin(&held));
        request.extensions_mut().insert(ConnectInfo(peer));
        let request = request.map(|body| Asking::new(body, body_within));
        async move {
            let Ok(response) = router.oneshot(request).await;
            Ok::<_, Infallible>(response.map(|body| Answering { body, _working: working }))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .serve_connection(TokioIo::new(stream), service);
    let serving = ending.watch(serving);
    tokio::spawn(async move {
        tokio::select! {
            served = serving => if let Err(error) = served {
                tracing::debug!(%peer, %error, "a connection broke off");
            },
            () = seat.held.gives_way.notified() => tracing::debug!(%peer, "a connection gave way to another"),
        }
    });
}

/// The connections that there are.
struct Open {
    limits: Limits,
    table: Arc<Mutex<Table>>,
}

/// By age: the first is the oldest.
#[derive(Default)]
struct Table {
    last: u64,
    held: BTreeMap<u64, Arc<Held>>,
}

/// One connection, as the others see it.
struct Held {
    counted: Option<IpAddr>,
    /// Requests of it that are being answered.
    working: AtomicUsize,
    gives_way: Notify,
}

/// The right to one connection, until it is dropped.
struct Seat {
    id: u64,
    held: Arc<Held>,
    table: Arc<Mutex<Table>>,
}

impl Open {
    /// A seat for a new connection; `None` when there are too many that are being answered.
    fn take(&self, ip: IpAddr) -> Option<Seat> {
        let counted = self.limits.counted(ip);
        let mut table = lock(&self.table);
        if counted.is_some()
            && table.held.values().filter(|held| held.counted == counted).count() >= self.limits.per_address
        {
            table.make_room(|held| held.counted == counted).then_some(())?;
        }
        if table.held.len() >= self.limits.all {
            table.make_room(|_| true).then_some(())?;
        }
        table.last += 1;
        let id = table.last;
        let held = Arc::new(Held { counted, working: AtomicUsize::new(0), gives_way: Notify::new() });
        table.held.insert(id, Arc::clone(&held));
        Some(Seat { id, held, table: Arc::clone(&self.table) })
    }

    /// Ends the oldest connection that waits for a request, if there is one.
    fn make_room(&self) {
        lock(&self.table).make_room(|_| true);
    }
}

impl Table {
    fn make_room(&mut self, among: impl Fn(&Held) -> bool) -> bool {
        let waits = |held: &Held| held.working.load(Ordering::Relaxed) == 0 && among(held);
        let Some(id) = self.held.iter().find(|(_, held)| waits(held)).map(|(id, _)| *id) else { return false };
        if let Some(held) = self.held.remove(&id) {
            held.gives_way.notify_one();
        }
        true
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.table).held.remove(&self.id);
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that is being answered.
struct Working(Arc<Held>);

impl Working {
    fn begin(held: &Arc<Held>) -> Self {
        held.working.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(held))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a request, which may pause for so long and no longer.
struct Asking {
    body: Incoming,
    within: Duration,
    /// Runs while a piece is waited for.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Asking {
    fn new(body: Incoming, within: Duration) -> Self {
        Self { body, within, patience: None }
    }
}

impl hyper::body::Body for Asking {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.patience = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let within = this.within;
        let patience = this.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        match patience.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let silent = format!("the rest of the request did not come within {within:?}");
                Poll::Ready(Some(Err(axum::Error::new(io::Error::new(io::ErrorKind::TimedOut, silent)))))
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

/// The body of an answer, which is being answered until its end.
struct Answering {
    body: axum::body::Body,
    _working: Working,
}

impl hyper::body::Body for Answering {
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

/// How many files this process may have open, after raising that as far as is useful and allowed; `None` for no limit that
/// is known.
#[cfg(unix)]
pub(super) fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Some systems allow less than they say.
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
mod tests {
    use super::*;

    fn open(all: usize, per_address: usize) -> Open {
        let proxies = ["10.0.0.5".parse().unwrap()];
        let limits = Limits { all, per_address, ..Limits::of(None, &proxies) };
        Open { limits, table: Arc::default() }
    }

    async fn gave_way(seat: &Seat) -> bool {
        tokio::time::timeout(Duration::from_millis(20), seat.held.gives_way.notified()).await.is_ok()
    }

    #[test]
    fn half_of_the_files_are_for_connections() {
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
    async fn the_oldest_that_waits_gives_way() {
        let open = open(3, 9);
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let [first, second, third] = [(); 3].map(|()| open.take(here).expect("there is room"));
        let working = Working::begin(&first.held);
        let fourth = open.take(here).expect("somebody waits");
        assert!(gave_way(&second).await, "the oldest that is not being answered");
        assert!(!gave_way(&first).await && !gave_way(&third).await, "and no other");
        let _all = [&third, &fourth].map(|seat| Working::begin(&seat.held));
        assert!(open.take(here).is_none(), "nobody is thrown out while being answered");
        drop(working);
        assert!(open.take(here).is_some(), "once answered, it waits");
    }

    #[tokio::test]
    async fn one_address_beyond_this_machine_has_few() {
        let open = open(100, 2);
        let check = async |ips: [&str; 3], limited: bool| {
            let seats = ips.map(|ip| open.take(ip.parse().unwrap()).expect("the oldest gives way"));
            assert_eq!(gave_way(&seats[0]).await, limited, "{ips:?}");
        };
        check(["192.168.1.9"; 3], true).await;
        check(["::ffff:192.168.1.9", "192.168.1.9", "192.168.1.9"], true).await;
        check(["2001:db8::1", "2001:db8::2", "2001:db8::3"], true).await;
        check(["192.168.1.1", "192.168.1.2", "192.168.1.3"], false).await;
        check(["127.0.0.1"; 3], false).await;
        check(["10.0.0.5"; 3], false).await;
    }

    #[tokio::test]
    async fn half_a_head_is_waited_for_no_longer_than_its_time() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", axum::routing::get(async || "here"));
        let limits = Limits { head_within: Duration::from_millis(100), ..Limits::of(None, &[]) };
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
    async fn half_a_body_is_waited_for_no_longer_than_its_time() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let read = async |body: Bytes| format!("read {}", body.len());
        let router = Router::new().route("/", axum::routing::post(read));
        let limits = Limits { body_within: Duration::from_millis(400), ..Limits::of(None, &[]) };
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
        // Longer than that in all, and never silent for so long.
        check(&[b"b", b"o", b"d", b"y"], "HTTP/1.1 200", "read 4").await;
        served.abort();
    }
}
