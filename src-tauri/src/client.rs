//! A client of the daemon: what the tray shows and wants goes over the same HTTP interface that the page uses.

use std::time::Duration;

use anyhow::{Context, bail};
use cairn_wire::ErrorBody;
use cairn_wire::app::DesktopServer;
use reqwest::{RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a connection to a program of this machine may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The daemon, and what opens its doors.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    server: DesktopServer,
    http: reqwest::Client,
}

impl Client {
    pub(crate) fn new(server: DesktopServer) -> anyhow::Result<Self> {
        // A proxy has no business between two programs of one machine, and neither has TLS.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .tls_backend_preconfigured(without_trust())
            .build()
            .context("could not set up the HTTP client")?;
        Ok(Self { server, http })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let response = self.send(self.http.get(self.url(path))).await?;
        response.json().await.context("the daemon's answer cannot be read")
    }

    /// Posts something of whose answer only the success matters.
    pub(crate) async fn tell<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.post(self.url(path)).json(body)).await.map(drop)
    }

    /// Changes something of whose answer only the success matters.
    pub(crate) async fn change<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.patch(self.url(path)).json(body)).await.map(drop)
    }

    /// Gets what comes line by line for as long as both ends live.
    pub(crate) async fn lines(&self, path: &str) -> anyhow::Result<Lines> {
        Ok(Lines { response: self.send(self.http.get(self.url(path))).await?, read: Vec::new() })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.address)
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = request.bearer_auth(&self.server.token).send().await.context("the daemon cannot be reached")?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.unwrap_or_default();
        match serde_json::from_str::<ErrorBody>(&body) {
            Ok(body) => bail!("{}", body.error),
            Err(_) => bail!("the daemon answered {status}"),
        }
    }
}

/// Lines of JSON as they come. A [`Lines::next`] that is dropped loses nothing.
pub(crate) struct Lines {
    response: Response,
    read: Vec<u8>,
}

impl Lines {
    /// The next one; `None` when the daemon has ended the answer.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).context("the daemon's line cannot be read");
            }
            match self.response.chunk().await.context("the daemon went away")? {
                Some(more) => self.read.extend_from_slice(&more),
                None => return Ok(None),
            }
        }
    }
}

/// TLS settings that trust nobody, so that no certificates of the system are read for a connection that needs none.
fn without_trust() -> rustls::ClientConfig {
    let provider = rustls::crypto::ring::default_provider();
    rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for every version of TLS")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}
