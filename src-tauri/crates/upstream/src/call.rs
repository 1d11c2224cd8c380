//! One request for an answer: the choice of the server, retries before the first token, and the stream.
//!
//! A task reads the response and sends it through a bounded channel. Dropping the [`Call`] ends the task, which closes the
//! connection, so the server stops computing. Retries end with the first token, because the client has seen a part of the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use crate::affinity::Prefix;
use crate::byte_channel::{ByteReceiver, ByteSender, ByteSize, byte_channel};
use crate::counters::add;
use crate::failure::Failure;
use crate::frames::{Framer, Framing};
use crate::reading::{Piece, Reader};
use crate::request::{Outbound, Request};
use crate::route;
use crate::translation::TranslationError;
use crate::upstream::{OpenRequest, Upstream};

/// Capacity of the channel in frames. A client that does not read stops the reading from the server.
const QUEUED_FRAMES: usize = 16;
/// Capacity of the channel in bytes of frames. A larger frame is the only one in the channel.
const QUEUED_BYTES: u32 = 256 << 10;
/// Most servers that may fail to answer one request.
const MAX_ATTEMPTS: usize = 4;
/// Bytes of a frame that takes milliseconds to parse.
const LARGE_FRAME_BYTES: usize = 1 << 20;
/// Most bytes of comments and empty parts before the first token.
const MAX_HELD_BYTES: usize = 1 << 20;
/// Longest wait for the end of a response after the end of its answer. Some servers leave the response open.
const LAST_BYTES_WAIT: Duration = Duration::from_millis(100);

/// A server that has the model, and how it spells the model's name.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server.
    pub upstream: Arc<Upstream>,
    /// The model's name at the server.
    pub model: String,
}

/// Which servers may answer a request.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The servers.
    pub targets: Vec<Target>,
    /// The blocks of the conversation.
    pub prefix: Prefix,
    /// Whether neither this daemon nor a Cairn at the other end remembers the conversation.
    pub is_incognito: bool,
}

/// Why an answer failed. The texts do not have the hosts of the remotes' URLs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A server failed before the first token, and no other could be tried.
    #[error("remote {remote:?}: {failure}")]
    Failed {
        /// Name of the server.
        remote: String,
        /// The cause.
        failure: Failure,
    },
    /// The server failed during the answer.
    #[error("remote {remote:?}: {failure}; the answer is incomplete")]
    Interrupted {
        /// Name of the server.
        remote: String,
        /// The cause.
        failure: Failure,
    },
    /// All servers of the model failed recently.
    #[error("no remote for this model is available ({remotes}): they failed repeatedly; retry in {} s", wait_s.max(&1))]
    Unavailable {
        /// Names of the servers.
        remotes: String,
        /// Seconds until the next attempt is possible.
        wait_s: u64,
    },
    /// The servers' API cannot express the request.
    #[error("remote {remote:?}: {reason}")]
    Translation {
        /// Name of the server.
        remote: String,
        /// The cause.
        reason: TranslationError,
    },
    /// The daemon is shutting down.
    #[error("the request to the remote was aborted because the daemon is shutting down")]
    Aborted,
}

/// A frame of the response.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The bytes, as the server sent them. Empty for the end of an answer without a marker, and for a frame that the client did
    /// not request.
    pub bytes: Bytes,
    /// What they mean.
    pub pieces: Vec<Piece>,
}

enum Message {
    /// A server accepted the request.
    Accepted,
    Frame(Delivery),
    Failed(CallError),
}

impl ByteSize for Message {
    fn byte_size(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.bytes.len(),
            Self::Accepted | Self::Failed(_) => 0,
        }
    }
}

/// The task's end of the channel. If the receiver was dropped, the task ends at its next wait.
struct Sender(ByteSender<Message>);

impl Sender {
    async fn send(&self, message: Message) {
        self.0.send(message).await;
    }

    async fn frame(&self, frame: Delivery) {
        self.send(Message::Frame(frame)).await;
    }
}

/// A request in progress. Dropping it cancels it.
#[derive(Debug)]
pub struct Call {
    messages: ByteReceiver<Message>,
    /// A message that [`Call::accepted`] received.
    next: Option<Message>,
    has_ended: bool,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Accepted => "Accepted",
            Self::Frame(_) => "Frame",
            Self::Failed(_) => "Failed",
        })
    }
}

impl Call {
    /// Sends a request. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(plan: Plan, request: Request) -> Self {
        let (sender, messages) = byte_channel(QUEUED_FRAMES, QUEUED_BYTES);
        let sender = Sender(sender);
        tokio::spawn(async move {
            tokio::select! {
                () = run(&plan, &request, &sender) => {}
                () = sender.0.closed() => {}
            }
        });
        Self { messages, next: None, has_ended: false }
    }

    /// Waits until a server has accepted the request, but at most `limit`, so that the headers of our own response need not wait
    /// for a slow server.
    ///
    /// # Errors
    /// If the request failed meanwhile.
    pub async fn accepted(&mut self, limit: Duration) -> Result<(), CallError> {
        match timeout(limit, self.messages.recv()).await {
            Ok(Some(Message::Failed(error))) => {
                self.has_ended = true;
                Err(error)
            }
            Ok(message) => {
                self.next = message;
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Returns the next frame; `None` after the end of the answer or an error.
    pub async fn next(&mut self) -> Option<Result<Delivery, CallError>> {
        while !self.has_ended {
            let message = match self.next.take() {
                Some(message) => Some(message),
                None => self.messages.recv().await,
            };
            match message {
                Some(Message::Accepted) => {}
                Some(Message::Frame(frame)) => return Some(Ok(frame)),
                Some(Message::Failed(error)) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
                None => self.has_ended = true,
            }
        }
        None
    }
}

/// Result of one attempt.
enum Attempt {
    /// The answer is complete, or its failure was sent.
    Ended,
    /// It failed before the first token.
    Failed(CallError, bool),
}

async fn run(plan: &Plan, request: &Request, sender: &Sender) {
    let mut tried: Vec<usize> = Vec::new();
    let mut attempts = 0;
    let mut last = None;
    // The server with the failure that the next attempt repeats.
    let mut failed: Option<&Upstream> = None;
    while attempts < MAX_ATTEMPTS {
        let Some((at, mut open)) = begin(plan, &tried) else { break };
        tried.push(at);
        let target = &plan.targets[at];
        match attempt(plan, target, &mut open, request, failed, sender).await {
            Attempt::Ended => return,
            Attempt::Failed(error, is_retryable) => {
                let is_failure = matches!(error, CallError::Failed { .. });
                if is_failure {
                    attempts += 1;
                    failed = Some(&target.upstream);
                }
                // A server whose API cannot express the request got none, and does not hide the failure of another.
                if is_failure || last.is_none() {
                    last = Some(error);
                }
                if !is_retryable {
                    break;
                }
            }
        }
    }
    let error = last.unwrap_or_else(|| unavailable(plan));
    sender.send(Message::Failed(error)).await;
}

/// Chooses a server that was not tried, and begins the request there.
fn begin(plan: &Plan, tried: &[usize]) -> Option<(usize, OpenRequest)> {
    let now = Instant::now();
    let (mut places, mut candidates) = (Vec::new(), Vec::new());
    for (at, target) in plan.targets.iter().enumerate().filter(|(at, _)| !tried.contains(at)) {
        if let Some(candidate) = target.upstream.candidate(&plan.prefix, now) {
            places.push(at);
            candidates.push(candidate);
        }
    }
    while let Some(at) = route::choose(plan.prefix.blocks().len(), &candidates) {
        candidates.remove(at);
        let place = places.remove(at);
        // Another request may have taken the only probe of a half-open circuit.
        if let Some(open) = plan.targets[place].upstream.begin(&plan.prefix, !plan.is_incognito, now) {
            return Some((place, open));
        }
    }
    None
}

fn unavailable(plan: &Plan) -> CallError {
    let now = Instant::now();
    let names: Vec<&str> = plan.targets.iter().map(|target| target.upstream.name()).collect();
    let wait = plan.targets.iter().map(|target| target.upstream.wait(now)).min().unwrap_or_default();
    CallError::Unavailable { remotes: names.join(", "), wait_s: wait.as_secs_f64().ceil() as u64 }
}

async fn attempt(
    plan: &Plan,
    target: &Target,
    open: &mut OpenRequest,
    request: &Request,
    failed: Option<&Upstream>,
    sender: &Sender,
) -> Attempt {
    let upstream = &target.upstream;
    let remote = upstream.name().to_owned();
    let outbound = match request.outbound(upstream.kind(), &target.model) {
        Ok(outbound) => outbound,
        // A server of another kind may understand it.
        Err(reason) => {
            open.withdraw();
            return Attempt::Failed(CallError::Translation { remote, reason }, true);
        }
    };
    open.send();
    if let Some(failed) = failed {
        add(&failed.counters.retried, 1);
    }
    let (mut has_begun, endpoint) = (false, outbound.endpoint);
    match stream(plan, upstream, outbound, open, &mut has_begun, sender).await {
        Ok(()) => Attempt::Ended,
        Err(failure) => {
            let failure = match failure {
                Failure::Reported { text } => Failure::Reported { text: upstream.client.redacted(&text) },
                Failure::Status { status, text } if endpoint.is_missing(upstream.kind(), status) => {
                    Failure::NoEndpoint { path: endpoint.path(), status, text }
                }
                other => other,
            };
            open.fail(&failure);
            if has_begun {
                sender.send(Message::Failed(CallError::Interrupted { remote, failure })).await;
                return Attempt::Ended;
            }
            let is_retryable = failure.is_retryable();
            Attempt::Failed(CallError::Failed { remote, failure }, is_retryable)
        }
    }
}

/// Sends the request and passes the response on. Sets `has_begun` before the first token is passed on.
async fn stream(
    plan: &Plan,
    upstream: &Upstream,
    outbound: Outbound,
    open: &mut OpenRequest,
    has_begun: &mut bool,
    sender: &Sender,
) -> Result<(), Failure> {
    let Outbound { endpoint, body, framing, mut reader, hides_usage } = outbound;
    let deadlines = *upstream.client.deadlines();
    let first_token_at = Instant::now() + deadlines.first_token;
    let mut response = upstream.client.answer(endpoint.path(), body, plan.is_incognito).await?;
    sender.send(Message::Accepted).await;
    let mut framer = Framer::new(framing);
    // Frames before the first token. They are dropped if the request is repeated.
    let (mut held, mut held_bytes): (Vec<Bytes>, usize) = (Vec::new(), 0);
    let mut has_end = false;
    while !has_end {
        let (wait, late) = match *has_begun {
            true => (deadlines.idle, Failure::Stalled { limit: deadlines.idle }),
            false => {
                let late = Failure::Timeout { expected: "first token", limit: deadlines.first_token };
                (first_token_at.saturating_duration_since(Instant::now()), late)
            }
        };
        let chunk = timeout(wait, response.chunk()).await.map_err(|_| late)?;
        let chunk = chunk.map_err(|error| closed(&error))?;
        let is_last = chunk.is_none();
        if let Some(chunk) = chunk {
            framer.push(&chunk)?;
        }
        while let Some(bytes) = framer.next().or_else(|| if is_last { framer.finish() } else { None }) {
            let pieces = match has_end {
                true => Vec::new(),
                false => {
                    let pieces;
                    (reader, pieces) = read(reader, framing, &bytes).await;
                    pieces?
                }
            };
            let bytes = if hides_usage && is_usage_only(&bytes, framing) { Bytes::new() } else { bytes };
            has_end |= pieces.iter().any(|piece| matches!(piece, Piece::End(_)));
            let is_first = !*has_begun && !pieces.is_empty();
            if !*has_begun && !is_first {
                held_bytes += bytes.len();
                if held_bytes > MAX_HELD_BYTES {
                    return Err(Failure::TooLarge { limit_bytes: MAX_HELD_BYTES });
                }
                held.push(bytes);
                continue;
            }
            if is_first {
                open.succeed();
                *has_begun = true;
                for bytes in held.drain(..) {
                    sender.frame(Delivery { bytes, pieces: Vec::new() }).await;
                }
            }
            count(upstream, &pieces);
            sender.frame(Delivery { bytes, pieces }).await;
        }
        if is_last {
            break;
        }
    }
    if has_end {
        // The answer is complete, so a server that does not close the response is no failure.
        let _ = timeout(LAST_BYTES_WAIT, pass_rest(&mut response, &mut framer, sender)).await;
    }
    if let Some(end) = reader.finish(framing) {
        has_end = true;
        open.succeed();
        *has_begun = true;
        for bytes in held {
            sender.frame(Delivery { bytes, pieces: Vec::new() }).await;
        }
        let pieces = vec![end];
        count(upstream, &pieces);
        sender.frame(Delivery { bytes: Bytes::new(), pieces }).await;
    }
    if has_end { Ok(()) } else { Err(Failure::Malformed { reason: "the response ends before the answer does" }) }
}

/// Passes on the bytes after the end of an answer.
async fn pass_rest(response: &mut reqwest::Response, framer: &mut Framer, sender: &Sender) {
    let mut is_open = true;
    while is_open {
        let chunk = response.chunk().await.ok().flatten();
        is_open = chunk.is_some_and(|chunk| framer.push(&chunk).is_ok());
        while let Some(bytes) = framer.next().or_else(|| if is_open { None } else { framer.finish() }) {
            sender.frame(Delivery { bytes, pieces: Vec::new() }).await;
        }
    }
}

/// Reads a frame. A large one is parsed on a thread for blocking work.
async fn read(mut reader: Reader, framing: Framing, bytes: &Bytes) -> (Reader, Result<Vec<Piece>, Failure>) {
    if bytes.len() < LARGE_FRAME_BYTES {
        let pieces = reader.read(framing, bytes);
        return (reader, pieces);
    }
    let bytes = bytes.clone();
    let parsing = tokio::task::spawn_blocking(move || {
        let pieces = reader.read(framing, &bytes);
        (reader, pieces)
    });
    // An error means that the daemon is shutting down.
    parsing.await.unwrap_or_else(|_| (Reader::Usage, Err(Failure::Closed { detail: String::new() })))
}

fn count(upstream: &Upstream, pieces: &[Piece]) {
    for piece in pieces {
        if let Piece::End(usage) = piece {
            upstream.counters.add_usage(usage);
        }
    }
}

/// Whether an event has the usage and no part of an answer.
fn is_usage_only(frame: &[u8], framing: Framing) -> bool {
    #[derive(serde::Deserialize)]
    struct Chunk {
        choices: Vec<serde::de::IgnoredAny>,
        usage: Option<serde::de::IgnoredAny>,
    }
    let data = if framing == Framing::Events { crate::frames::event_data(frame) } else { None };
    let chunk = data.and_then(|data| serde_json::from_slice::<Chunk>(&data).ok());
    chunk.is_some_and(|chunk| chunk.choices.is_empty() && chunk.usage.is_some())
}

fn closed(error: &reqwest::Error) -> Failure {
    match crate::client::failure_of(error) {
        Failure::Connect { detail } => Failure::Closed { detail },
        other => other,
    }
}

#[cfg(test)]
mod tests;
