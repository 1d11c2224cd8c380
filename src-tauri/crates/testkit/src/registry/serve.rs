//! Serves one connection, with correct or faulty responses.

use std::fmt::Write as _;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{Endpoint, Fault, ReceivedRequest, Request, State};

/// Size of one write. Limits the bytes sent but not received when a client is killed.
const WRITE_BYTES: usize = 64 << 10;

/// Response with a blob.
struct BlobResponse<'a> {
    digest: &'a str,
    status: u16,
    headers: String,
    /// `Content-Length`.
    content_length: u64,
    bytes: &'a [u8],
    fault: Option<Fault>,
}

impl State {
    /// Serves requests until the client closes, or a fault ends the connection.
    pub(super) fn serve(&self, connection: &TcpStream, endpoint: Endpoint) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            if self.stopped.load(Ordering::SeqCst) || self.offline.load(Ordering::SeqCst) {
                return Ok(());
            }
            self.requests
                .lock()
                .push(ReceivedRequest { at_storage: endpoint == Endpoint::Storage, request: request.clone() });
            self.respond(connection, endpoint, &request)?;
        }
        Ok(())
    }

    fn respond(&self, to: &TcpStream, endpoint: Endpoint, request: &Request) -> io::Result<()> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if endpoint == Endpoint::Storage {
            return match path.strip_prefix("/storage/") {
                // An expired address, as with storage services after some minutes.
                Some(_) if query != format!("ticket=signature-{}", self.ticket.load(Ordering::SeqCst)) => {
                    plain(to, 403, "", b"expired")
                }
                Some(digest) => self.blob(to, request, digest),
                None => plain(to, 404, "", b""),
            };
        }
        if path == "/token" {
            let token = format!("{{\"token\":\"registry-token-{}\"}}", self.token.load(Ordering::SeqCst));
            return plain(to, 200, "Content-Type: application/json\r\n", token.as_bytes());
        }
        let Some(path) = path.strip_prefix("/v2/") else { return plain(to, 404, "", b"") };
        let (sign_in, redirect) = {
            let faults = self.faults.lock();
            (faults.sign_in, faults.redirect)
        };
        let token = format!("Bearer registry-token-{}", self.token.load(Ordering::SeqCst));
        if sign_in && request.header("authorization") != Some(&token) {
            return self.challenge(to, path);
        }
        if path.is_empty() {
            return plain(to, 200, "Content-Type: application/json\r\n", b"{}");
        }
        if let Some(status) = self.storm_status() {
            return self.refuse(to, path, status);
        }
        if path.contains("/manifests/") {
            let manifest = self.manifests.lock().get(path).cloned();
            let media = "Content-Type: application/vnd.docker.distribution.manifest.v2+json\r\n";
            return match manifest {
                Some(manifest) => plain(to, 200, media, body_of(request, &manifest)),
                None => plain(to, 404, "", br#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#),
            };
        }
        match path.rsplit_once("/blobs/") {
            // The registry responds to HEAD; only bodies are redirected.
            Some((_, digest)) if redirect && request.method != "HEAD" => {
                let ticket = self.ticket.load(Ordering::SeqCst);
                let location =
                    format!("Location: http://{}/storage/{digest}?ticket=signature-{ticket}\r\n", self.storage);
                plain(to, 307, &location, b"")
            }
            Some((_, digest)) => self.blob(to, request, digest),
            None => plain(to, 404, "", b""),
        }
    }

    fn challenge(&self, to: &TcpStream, path: &str) -> io::Result<()> {
        let repository = path.split("/manifests/").next().and_then(|path| path.split("/blobs/").next()).unwrap_or("");
        let challenge = format!(
            "WWW-Authenticate: Bearer realm=\"http://{}/token\",service=\"fake\",scope=\"repository:{repository}:pull\"\r\n",
            self.registry
        );
        plain(to, 401, &challenge, br#"{"errors":[{"code":"UNAUTHORIZED"}]}"#)
    }

    fn storm_status(&self) -> Option<u16> {
        let mut storm = self.storm.lock();
        let (left, status) = *storm;
        storm.0 = left.checked_sub(1)?;
        Some(status)
    }

    fn refuse(&self, to: &TcpStream, path: &str, status: u16) -> io::Result<()> {
        match status {
            401 => self.challenge(to, path),
            429 | 503 => plain(to, status, "Retry-After: 0\r\n", b"busy"),
            _ => plain(to, status, "", b"problem"),
        }
    }

    fn blob(&self, to: &TcpStream, request: &Request, digest: &str) -> io::Result<()> {
        let Some(blob) = self.blobs.lock().get(digest).cloned() else { return plain(to, 404, "", b"") };
        let total = blob.len() as u64;
        let fault = if request.method == "HEAD" { None } else { self.draw() };
        let etag = if fault == Some(Fault::OtherEtag) { "another" } else { digest };
        let mut headers =
            format!("Accept-Ranges: bytes\r\nETag: \"{etag}\"\r\nContent-Type: application/octet-stream\r\n");
        match fault {
            Some(Fault::Storm { status, responses }) => {
                *self.storm.lock() = (responses.saturating_sub(1), status);
                return self.refuse(to, &format!("library/m/blobs/{digest}"), status);
            }
            Some(Fault::Expire) => {
                self.token.fetch_add(1, Ordering::SeqCst);
                self.ticket.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        let range = request.range(total).filter(|_| fault != Some(Fault::IgnoreRange));
        let (status, first, end) = match range {
            None => (200, 0, total),
            Some((first, last)) if first < total && first <= last => (206, first, total.min(last + 1)),
            Some(_) => return plain(to, 416, &format!("Content-Range: bytes */{total}\r\n"), b""),
        };
        let late = u64::from(fault == Some(Fault::OffByOne) && status == 206 && end - first > 1);
        let first = first + late;
        if status == 206 {
            let _ = write!(headers, "Content-Range: bytes {first}-{}/{total}\r\n", end - 1);
        }
        let mut bytes = &blob[first as usize..end as usize];
        let mut content_length = bytes.len() as u64;
        match fault {
            Some(Fault::Short) => {
                bytes = &bytes[..self.below(bytes.len())];
                content_length = bytes.len() as u64;
            }
            Some(Fault::Long) => content_length += 1000,
            _ => {}
        }
        if request.method == "HEAD" {
            bytes = &[];
        }
        self.send(to, &BlobResponse { digest, status, headers, content_length, bytes, fault })
    }

    /// Sends a blob response at the configured rate and with its fault.
    fn send(&self, to: &TcpStream, response: &BlobResponse<'_>) -> io::Result<()> {
        let BlobResponse { digest, status, headers, content_length, bytes, fault } = response;
        head(to, *status, headers, *content_length)?;
        let rate = match fault {
            Some(Fault::Slow { bytes_per_second }) => Some(*bytes_per_second),
            _ => self.faults.lock().bytes_per_second,
        };
        let breaks = matches!(fault, Some(Fault::Drop | Fault::Stall(_)));
        let until = if breaks { self.below(bytes.len()) } else { bytes.len() };
        let flipped = (*fault == Some(Fault::Flip)).then(|| self.below(bytes.len()));
        let started = Instant::now();
        let mut sent = 0;
        for chunk in bytes[..until].chunks(WRITE_BYTES) {
            if self.stopped.load(Ordering::SeqCst) {
                return closed();
            }
            // Counted before the write, so that a client that has the bytes sees them counted.
            *self.sent_bytes.lock().entry((*digest).to_owned()).or_default() += chunk.len() as u64;
            match flipped.filter(|at| (sent..sent + chunk.len()).contains(at)) {
                Some(at) => {
                    let mut chunk = chunk.to_vec();
                    chunk[at - sent] ^= 1;
                    write(to, &chunk)?;
                }
                None => write(to, chunk)?,
            }
            sent += chunk.len();
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(sent as f64 / rate.max(1) as f64);
                thread::sleep(due.saturating_sub(started.elapsed()));
            }
        }
        match fault {
            Some(Fault::Stall(time)) => {
                thread::sleep(*time);
                closed()
            }
            Some(Fault::Drop) => closed(),
            Some(Fault::Long) => {
                write(to, &[0; 1000])?;
                closed()
            }
            _ => Ok(()),
        }
    }

    fn draw(&self) -> Option<Fault> {
        self.faults.lock().draw(&mut self.random.lock())
    }

    /// Returns a random position below `bytes`.
    fn below(&self, bytes: usize) -> usize {
        self.random.lock().below(bytes.max(1) as u64) as usize
    }
}

/// Returns an error that ends the connection.
fn closed() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}

fn body_of<'a>(request: &Request, body: &'a [u8]) -> &'a [u8] {
    if request.method == "HEAD" { &[] } else { body }
}

/// Sends a complete small response.
fn plain(to: &TcpStream, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
    head(to, status, headers, body.len() as u64)?;
    write(to, body)
}

fn head(to: &TcpStream, status: u16, headers: &str, content_bytes: u64) -> io::Result<()> {
    write(to, format!("HTTP/1.1 {status} -\r\n{headers}Content-Length: {content_bytes}\r\n\r\n").as_bytes())
}

fn write(mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)
}
