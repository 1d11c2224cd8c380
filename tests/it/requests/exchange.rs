//! Requests as raw bytes, and responses with a deadline.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Most bytes of a response that are read.
const MAX_READ_BYTES: usize = 8 << 20;
/// A client leaves a stream without news for this long.
pub(super) const SHORT_PATIENCE: Duration = Duration::from_millis(40);

/// How the body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// `Content-Length` is correct.
    Length,
    /// One chunk.
    Chunked,
    /// `Content-Length` has this many bytes more or fewer than the body.
    WrongLength(i64),
    /// A chunk with a size that is not a number.
    BadChunk,
    /// No header about the body.
    None,
}

/// A request before it is written.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: Vec<u8>,
    /// Path and query.
    pub(super) target: Vec<u8>,
    pub(super) version: &'static str,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    pub(super) framing: Framing,
    /// Bytes that the client sends at all; `None` for all. Then it closes its side of the connection.
    pub(super) cut: Option<usize>,
    /// How long the client waits for more of a stream.
    pub(super) patience: Duration,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Response(Response),
    /// The daemon closed the connection without a response.
    Closed,
    /// No response head, or an incomplete body with a length, at the deadline.
    Late,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
    /// Whether the client left before the end of the stream.
    pub(super) left_early: bool,
}

impl Request {
    pub(super) fn new(port: u16, method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            version: "HTTP/1.1",
            headers: vec![
                ("Host".into(), format!("127.0.0.1:{port}").into_bytes()),
                ("Connection".into(), b"close".to_vec()),
            ],
            body: Vec::new(),
            framing: Framing::Length,
            cut: None,
            patience: SHORT_PATIENCE,
        }
    }

    pub(super) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.set_header(name, value.as_bytes());
        self
    }

    pub(super) fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces a header, or adds it.
    pub(super) fn set_header(&mut self, name: &str, value: &[u8]) {
        self.remove_header(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn remove_header(&mut self, name: &str) {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    /// Whether a server must read this as one complete request.
    pub(super) fn is_complete(&self) -> bool {
        const ABOUT_FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "expect", "upgrade", "host"];
        let is_plain = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | 0x80..=0xff));
        let is_token =
            |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        let has_plain_headers = self.headers.len() < 50
            && self.headers.iter().all(|(name, value)| {
                is_token(name.as_bytes())
                    && is_plain(value)
                    && (name == "Host" || !ABOUT_FRAMING.contains(&&*name.to_lowercase()))
            });
        self.cut.is_none()
            && matches!(self.framing, Framing::Length | Framing::Chunked)
            && self.version == "HTTP/1.1"
            && is_token(&self.method)
            && self.target.starts_with(b"/")
            && self.target.iter().all(|byte| matches!(byte, b'!'..=b'~'))
            && has_plain_headers
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&self.method[..], b" ", &self.target, b" ", self.version.as_bytes(), b"\r\n"].concat();
        for (name, value) in &self.headers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        let length = self.body.len();
        match self.framing {
            Framing::Length => bytes.extend(format!("Content-Length: {length}\r\n\r\n").bytes()),
            Framing::WrongLength(more) => {
                let length = i64::try_from(length).unwrap_or(i64::MAX).saturating_add(more);
                bytes.extend(format!("Content-Length: {length}\r\n\r\n").bytes());
            }
            Framing::Chunked => bytes.extend(format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n").bytes()),
            Framing::BadChunk => bytes.extend(b"Transfer-Encoding: chunked\r\n\r\nzz;\r\n"),
            Framing::None => bytes.extend(b"\r\n"),
        }
        bytes.extend(&self.body);
        if self.framing == Framing::Chunked {
            // A chunk of no bytes is the last one.
            bytes.extend(if length == 0 { &b"\r\n"[..] } else { b"\r\n0\r\n\r\n" });
        }
        bytes.truncate(self.cut.unwrap_or(usize::MAX));
        bytes
    }

    /// Sends the request and reads its response.
    pub(super) fn send(&self, port: u16, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the daemon accepts connections");
        stream.set_write_timeout(Some(limit)).expect("the timeout is not zero");
        // The daemon may refuse a request before it is complete.
        let _ = stream.write_all(&self.to_bytes());
        if !self.is_complete() {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let is_head = self.method == b"HEAD";
        let mut reader = Reader { stream, bytes: Vec::new() };
        let Some(length) = reader.head(deadline) else {
            return if reader.is_over(deadline) { Outcome::Late } else { Outcome::Closed };
        };
        let head = String::from_utf8_lossy(&reader.bytes[..length]).into_owned();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let mut response = Response { status, head, body: Vec::new(), left_early: false };
        let is_empty = is_head || matches!(status, 204 | 304) || status < 200;
        let body_length = match response.header("content-length") {
            _ if is_empty => Some(0),
            length => length.and_then(|length| length.parse().ok()),
        };
        match body_length {
            Some(body_length) => {
                let is_whole = reader.body(deadline, |body| body.len() >= body_length, length);
                if !is_whole && reader.is_over(deadline) {
                    return Outcome::Late;
                }
            }
            None => {
                let is_chunked = response.header("transfer-encoding").is_some();
                let is_end = |body: &[u8]| is_chunked && body.ends_with(b"0\r\n\r\n");
                response.left_early = !reader.stream_body(deadline, self.patience, is_end, length);
            }
        }
        response.body = reader.bytes.split_off(length);
        Outcome::Response(response)
    }
}

impl Response {
    /// Returns a header's value. The first of several counts.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (other, value) = line.split_once(':')?;
            other.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

struct Reader {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Reader {
    fn is_over(&self, deadline: Instant) -> bool {
        Instant::now() >= deadline
    }

    /// Reads once. Returns whether there were bytes; `None` at a timeout.
    fn read(&mut self, timeout: Duration) -> Option<bool> {
        self.stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1)))).expect("the timeout is not zero");
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(length) => {
                self.bytes.extend(&buffer[..length]);
                Some(length > 0)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(_) => Some(false),
        }
    }

    /// Reads until the end of the head and returns its length.
    fn head(&mut self, deadline: Instant) -> Option<usize> {
        loop {
            if let Some(at) = self.bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                return Some(at + 4);
            }
            self.read(deadline.saturating_duration_since(Instant::now())).filter(|more| *more)?;
        }
    }

    /// Reads until the body is complete. Returns whether it is.
    fn body(&mut self, deadline: Instant, is_end: impl Fn(&[u8]) -> bool, head: usize) -> bool {
        while !is_end(&self.bytes[head..]) {
            let more = self.read(deadline.saturating_duration_since(Instant::now()));
            if more != Some(true) || self.bytes.len() > MAX_READ_BYTES {
                return false;
            }
        }
        true
    }

    /// Reads a stream until its end, until it pauses for longer than `patience`, or for 20 times that. Returns whether it ended.
    fn stream_body(
        &mut self,
        deadline: Instant,
        patience: Duration,
        is_end: impl Fn(&[u8]) -> bool,
        head: usize,
    ) -> bool {
        let deadline = deadline.min(Instant::now() + 20 * patience);
        while !is_end(&self.bytes[head..]) {
            match self.read(patience) {
                Some(true) if self.bytes.len() <= MAX_READ_BYTES && !self.is_over(deadline) => {}
                Some(false) => return true,
                _ => return false,
            }
        }
        true
    }
}

/// Shows bytes of a request with escapes, shortened.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 1500;
        write!(f, "{}", self.0[..self.0.len().min(SHOWN)].escape_ascii())?;
        match self.0.len() > SHOWN {
            true => write!(f, "... ({} bytes)", self.0.len()),
            false => Ok(()),
        }
    }
}
