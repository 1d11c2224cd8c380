//! HTTP client of the daemon. The tray uses the same API as the page.

use std::time::Duration;

use anyhow::{Context, bail};
use cairn_wire::ErrorBody;
use cairn_wire::app::DesktopServer;
use reqwest::{RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Timeout for connecting to the daemon, which runs on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Client with the daemon's address and token.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    server: DesktopServer,
    http: reqwest::Client,
}

impl Client {
    pub(crate) fn new(server: DesktopServer) -> anyhow::Result<Self> {
        // Two programs of one machine need neither a proxy nor TLS.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .tls_backend_preconfigured(without_trust())
            .build()
            .context("cannot set up the HTTP client")?;
        Ok(Self { server, http })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let response = self.send(self.http.get(self.url(path))).await?;
        response.json().await.context("cannot parse the daemon's response")
    }

    /// Sends a POST request and ignores the response body.
    pub(crate) async fn post<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.post(self.url(path)).json(body)).await.map(drop)
    }

    /// Sends a PATCH request and ignores the response body.
    pub(crate) async fn patch<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.patch(self.url(path)).json(body)).await.map(drop)
    }

    /// Sends a GET request with a streamed response.
    pub(crate) async fn lines(&self, path: &str) -> anyhow::Result<Lines> {
        Ok(Lines { response: self.send(self.http.get(self.url(path))).await?, read: Vec::new() })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.address)
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = request.bearer_auth(&self.server.token).send().await.context("cannot reach the daemon")?;
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

/// Lines of a streamed JSON response. [`Lines::next`] is cancel-safe.
pub(crate) struct Lines {
    response: Response,
    read: Vec<u8>,
}

impl Lines {
    /// Returns the next line; `None` at the end of the response.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).context("cannot parse a line of the daemon");
            }
            match self.response.chunk().await.context("the connection to the daemon broke")? {
                Some(more) => self.read.extend_from_slice(&more),
                None => return Ok(None),
            }
        }
    }
}

/// TLS settings without certificates. The client uses plain HTTP, so the system's certificates are not read.
fn without_trust() -> rustls::ClientConfig {
    let provider = rustls::crypto::ring::default_provider();
    rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for every version of TLS")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}
