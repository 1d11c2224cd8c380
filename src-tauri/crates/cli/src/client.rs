//! A client of the daemon's HTTP interfaces.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cairn_app::settings::Address;
use cairn_wire::ErrorBody;
use reqwest::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::stop;

/// How long a connection to a server may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces that may wait for a slow server before reading waits too.
const WAITING_PIECES: usize = 4;

/// A server, and what opens its doors.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: String,
    /// What `/app` wants to see; none when the server is not our daemon.
    token: Option<String>,
    http: reqwest::Client,
}

/// A refusal by the server.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

/// The server went away in the middle of an answer.
#[derive(Debug)]
pub(crate) struct BrokenOff(String);

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the answer broke off: {}", self.0)
    }
}

impl std::error::Error for BrokenOff {}

impl Client {
    pub(crate) fn new(address: &Address, token: Option<String>) -> anyhow::Result<Self> {
        if address.scheme == "https" {
            bail!("{address}: https is not supported yet by this version of Cairn");
        }
        let mut builder =
            reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).tls_backend_preconfigured(without_trust());
        if address.is_loopback() {
            // A proxy has no business between two programs of one machine.
            builder = builder.no_proxy();
        }
        let http = builder.build().context("could not set up the HTTP client")?;
        Ok(Self { base: address.to_string(), token, http })
    }

    /// Is anybody there?
    pub(crate) async fn answers(&self) -> bool {
        self.http.head(&self.base).send().await.is_ok_and(|response| response.status().is_success())
    }

    /// Is this our own daemon, whose `/app` is open to us?
    pub(crate) fn is_ours(&self) -> bool {
        self.token.is_some()
    }

    /// The server's address, and what opens `/app` there.
    pub(crate) fn door(&self) -> (&str, Option<&str>) {
        (&self.base, self.token.as_deref())
    }

    /// Refuses what only our own daemon can do, in words such as `importing a file`.
    pub(crate) fn must_be_ours(&self, what: &str) -> anyhow::Result<()> {
        match self.is_ours() {
            true => Ok(()),
            false => bail!("{what} needs Cairn's own daemon, and OLLAMA_HOST names another server"),
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let response = self.send(self.http.get(self.url(path))).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    /// Gets what is at a path with a query.
    pub(crate) async fn get_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<T> {
        let url = reqwest::Url::parse_with_params(&self.url(path), query).context("that is no address")?;
        let response = self.send(self.http.get(url)).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> anyhow::Result<T> {
        let response = self.send(self.http.post(self.url(path)).json(body)).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    /// Posts what has an answer without a body.
    pub(crate) async fn tell<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.post(self.url(path)).json(body)).await.map(drop)
    }

    /// Asks for something to be deleted, and hears what was.
    pub(crate) async fn delete_told<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> anyhow::Result<T> {
        let response = self.send(self.http.delete(self.url(path)).json(body)).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    /// Asks for something to be deleted.
    pub(crate) async fn delete<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.delete(self.url(path)).json(body)).await.map(drop)
    }

    /// Posts what is answered by a stream.
    pub(crate) async fn stream<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<Lines> {
        Ok(Lines { response: self.send(self.http.post(self.url(path)).json(body)).await?, read: Vec::new() })
    }

    /// Whether the server has contents of that digest.
    pub(crate) async fn has_blob(&self, digest: &str) -> anyhow::Result<bool> {
        match self.send(self.http.head(self.url(&format!("/api/blobs/{digest}")))).await {
            Ok(_) => Ok(true),
            Err(error) if stop::is_not_found(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends contents of that digest, `size_bytes` of them, as they are read; `copied` is told how many went.
    pub(crate) async fn send_blob(
        &self,
        digest: &str,
        path: &Path,
        size_bytes: u64,
        copied: &mut dyn FnMut(u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let file = File::open(path).with_context(|| format!("could not read {}", path.display()))?;
        let (pieces, receiver) = mpsc::channel(WAITING_PIECES);
        let (told, mut counts) = mpsc::channel(WAITING_PIECES);
        tokio::task::spawn_blocking(move || read(file, &pieces, &told));
        let request = self.http.post(self.url(&format!("/api/blobs/{digest}")));
        let request = request.header(reqwest::header::CONTENT_LENGTH, size_bytes);
        let sent = self.send(request.body(reqwest::Body::wrap_stream(ReceiverStream::new(receiver))));
        let mut sent = std::pin::pin!(sent);
        copied(0)?;
        loop {
            tokio::select! {
                answer = &mut sent => {
                    answer?;
                    return copied(size_bytes);
                }
                Some(count) = counts.recv() => copied(count)?,
            }
        }
    }

    /// Tells our daemon that somebody is here, for as long as the returned task runs.
    pub(crate) fn attend(&self) -> tokio::task::JoinHandle<()> {
        let client = self.clone();
        tokio::spawn(async move {
            let Ok(mut answer) = client.send(client.http.get(client.url("/app/attend"))).await else { return };
            while let Ok(Some(_)) = answer.chunk().await {}
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Response> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request
            .send()
            .await
            .map_err(|error| anyhow!("could not reach the server at {}: {}", self.base, root(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.unwrap_or_default();
        let text = match serde_json::from_str::<ErrorBody>(&body) {
            Ok(refusal) => refusal.error,
            Err(_) if body.is_empty() => status.to_string(),
            Err(_) => body,
        };
        Err(Refusal { status, text }.into())
    }
}

/// Hands on a file's contents, and how many bytes went, until nobody takes them.
fn read(mut file: File, pieces: &mpsc::Sender<io::Result<Vec<u8>>>, told: &mpsc::Sender<u64>) {
    let mut sent_bytes = 0;
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        match file.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => {
                piece.truncate(count);
                sent_bytes += count as u64;
                if pieces.blocking_send(Ok(piece)).is_err() {
                    return;
                }
            }
            Err(error) => {
                // Nobody is left to be told when this fails.
                let _ = pieces.blocking_send(Err(error));
                return;
            }
        }
        // Whoever is slow to draw hears of a later piece.
        let _ = told.try_send(sent_bytes);
    }
}

/// TLS settings that trust nobody. The daemon is spoken to over plain HTTP, and reading the system's certificates would
/// only make every verb slower.
fn without_trust() -> rustls::ClientConfig {
    let provider = rustls::crypto::ring::default_provider();
    rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for every version of TLS")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// The innermost reason; the layers around it say only that sending failed.
fn root(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

/// Lines of a streamed answer.
pub(crate) struct Lines {
    response: Response,
    read: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end. A line that is an error is returned as one.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return parse(&line).map(Some);
            }
            match self.response.chunk().await.map_err(|error| BrokenOff(root(&error)))? {
                Some(more) => self.read.extend_from_slice(&more),
                None if self.read.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                None => return parse(&std::mem::take(&mut self.read)).map(Some),
            }
        }
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> anyhow::Result<T> {
    if let Ok(error) = serde_json::from_slice::<ErrorBody>(line) {
        bail!("{}", error.error);
    }
    serde_json::from_slice(line).context("the server's answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::ollama::VersionResponse;

    #[test]
    fn a_line_may_be_an_error() {
        let version = parse::<VersionResponse>(b"{\"version\":\"1\"}\n").unwrap();
        assert_eq!(version.version, "1", "what was expected");
        let error = parse::<VersionResponse>(b"{\"error\":\"no\"}\n").unwrap_err();
        assert_eq!(error.to_string(), "no", "what went wrong, in the server's words");
    }
}
