//! HTTP client of the daemon.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cairn_app::settings::Address;
use cairn_wire::{ErrorBody, ErrorCode};
use reqwest::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Timeout for connecting to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes per read of a file that is uploaded.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that are read ahead of a slow server.
const QUEUED_CHUNKS: usize = 4;

/// Client of a server, with the daemon token if the server is this user's daemon.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: String,
    /// The daemon token for `/app`; `None` if the server is not this user's daemon.
    token: Option<String>,
    /// The API key for another server.
    api_key: Option<String>,
    http: reqwest::Client,
}

/// An error response of the server.
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

/// Whether a streamed response ended with this error.
pub(crate) fn has_code(error: &anyhow::Error, code: ErrorCode) -> bool {
    error.downcast_ref::<ErrorBody>().is_some_and(|body| body.code == Some(code))
}

/// Whether the server answered with status 404.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == StatusCode::NOT_FOUND)
}

/// The connection broke in the middle of a response.
#[derive(Debug)]
pub(crate) struct StreamBroken(String);

impl std::fmt::Display for StreamBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the connection broke during the response: {}", self.0)
    }
}

impl std::error::Error for StreamBroken {}

impl Client {
    /// `ca_file`: PEM file of certificates to trust besides the system's.
    pub(crate) fn new(address: &Address, token: Option<String>, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let tls = match address.scheme {
            "https" => cairn_app::transfers::tls_config(ca_file)?,
            _ => without_trust(),
        };
        let mut builder = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).tls_backend_preconfigured(tls);
        if address.is_loopback() {
            // A proxy must not receive requests between two programs of one machine.
            builder = builder.no_proxy();
        }
        let http = builder.build().context("cannot set up the HTTP client")?;
        Ok(Self { base: address.to_string(), token, api_key: None, http })
    }

    /// Sends the API key of `CAIRN_API_KEY` if the server is not this user's daemon.
    pub(crate) fn with_api_key(self, api_key: Option<String>) -> anyhow::Result<Self> {
        let api_key = api_key.filter(|_| self.token.is_none());
        if api_key.as_ref().is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            bail!("CAIRN_API_KEY has a line break or another character that no API key has; copy the key again");
        }
        Ok(Self { api_key, ..self })
    }

    /// Checks that the server answers.
    ///
    /// # Errors
    /// The reason, without the server's address.
    pub(crate) async fn check(&self) -> anyhow::Result<()> {
        let response = self.http.head(&self.base).send().await.map_err(|error| anyhow!("{}", reason(&error)))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => bail!("it answers with status {status}"),
        }
    }

    /// Whether the server is this user's daemon, with access to `/app`.
    pub(crate) fn is_own_daemon(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the server's address and the daemon token.
    pub(crate) fn credentials(&self) -> (&str, Option<&str>) {
        (&self.base, self.token.as_deref())
    }

    /// Fails if the server is not this user's daemon. `feature` is the subject of the error, for example `importing a
    /// file`.
    pub(crate) fn require_own_daemon(&self, feature: &str) -> anyhow::Result<()> {
        match self.is_own_daemon() {
            true => Ok(()),
            false => bail!("{feature} needs Cairn's own daemon, but OLLAMA_HOST names another server"),
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let response = self.send(self.http.get(self.url(path))).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    /// Sends a GET request with a query.
    pub(crate) async fn get_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<T> {
        let url =
            reqwest::Url::parse_with_params(&self.url(path), query).context("cannot build the request's address")?;
        let response = self.send(self.http.get(url)).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> anyhow::Result<T> {
        let response = self.send(self.http.post(self.url(path)).json(body)).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    /// Sends a POST request that leaves nothing in the cache.
    pub(crate) async fn post_incognito<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> anyhow::Result<T> {
        let request = self.http.post(self.url(path)).header("X-Cairn-Incognito", "1").json(body);
        self.send(request).await?.json().await.context("the server's answer cannot be read")
    }

    /// Sends a POST request and ignores the response body.
    pub(crate) async fn post_without_response<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.post(self.url(path)).json(body)).await.map(drop)
    }

    /// Sends a DELETE request and returns the response.
    pub(crate) async fn delete_with_response<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> anyhow::Result<T> {
        let response = self.send(self.http.delete(self.url(path)).json(body)).await?;
        response.json().await.context("the server's answer cannot be read")
    }

    /// Sends a DELETE request and ignores the response body.
    pub(crate) async fn delete<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<()> {
        self.send(self.http.delete(self.url(path)).json(body)).await.map(drop)
    }

    /// Sends a POST request with a streamed response.
    pub(crate) async fn stream<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<Lines> {
        Ok(Lines { response: self.send(self.http.post(self.url(path)).json(body)).await?, read: Vec::new() })
    }

    /// Whether the server has a blob.
    pub(crate) async fn has_blob(&self, digest: &str) -> anyhow::Result<bool> {
        match self.send(self.http.head(self.url(&format!("/api/blobs/{digest}")))).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Uploads a file of `size_bytes` as a blob. Calls `on_progress` with the bytes sent.
    pub(crate) async fn send_blob(
        &self,
        digest: &str,
        path: &Path,
        size_bytes: u64,
        on_progress: &mut dyn FnMut(u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let (chunks, receiver) = mpsc::channel(QUEUED_CHUNKS);
        let (progress, mut counts) = mpsc::channel(QUEUED_CHUNKS);
        tokio::task::spawn_blocking(move || read_chunks(file, &chunks, &progress));
        let request = self.http.post(self.url(&format!("/api/blobs/{digest}")));
        let request = request.header(reqwest::header::CONTENT_LENGTH, size_bytes);
        let sent = self.send(request.body(reqwest::Body::wrap_stream(ReceiverStream::new(receiver))));
        let mut sent = std::pin::pin!(sent);
        on_progress(0)?;
        loop {
            tokio::select! {
                answer = &mut sent => {
                    answer?;
                    return on_progress(size_bytes);
                }
                Some(count) = counts.recv() => on_progress(count)?,
            }
        }
    }

    /// Keeps an attendance request open, so that the daemon does not shut down as idle while the returned task runs.
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
        let request = match self.token.as_ref().or(self.api_key.as_ref()) {
            Some(credential) => request.bearer_auth(credential),
            None => request,
        };
        let response = request
            .send()
            .await
            .map_err(|error| anyhow!("cannot reach the server at {}: {}", self.base, reason(&error)))?;
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

/// Sends the chunks of a file and the bytes sent, until the file ends or the receiver is dropped.
fn read_chunks(mut file: File, chunks: &mpsc::Sender<io::Result<Vec<u8>>>, progress: &mpsc::Sender<u64>) {
    let mut sent_bytes = 0;
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        match file.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                chunk.truncate(count);
                sent_bytes += count as u64;
                if chunks.blocking_send(Ok(chunk)).is_err() {
                    return;
                }
            }
            Err(error) => {
                // The receiver may have been dropped; then the error does not matter.
                let _ = chunks.blocking_send(Err(error));
                return;
            }
        }
        // A full queue skips this update; a later one has a higher count.
        let _ = progress.try_send(sent_bytes);
    }
}

/// TLS settings without certificates, for plain HTTP: reading the system's certificates would only slow every verb down.
fn without_trust() -> rustls::ClientConfig {
    let provider = rustls::crypto::ring::default_provider();
    rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for every version of TLS")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// Returns the innermost cause. The errors around it only state that sending failed.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    loop {
        match tls_error(cause) {
            Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
                return "its certificate is not trusted (set CAIRN_CA_FILE to a file with the issuer's certificate)"
                    .to_owned();
            }
            Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
                return "it does not use HTTPS".to_owned();
            }
            _ => {}
        }
        match cause.source() {
            Some(source) => cause = source,
            None => return cause.to_string(),
        }
    }
}

/// Returns the TLS error in an I/O error, which may be in another I/O error. The source of an I/O error is not the error
/// in it, but the source of that.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => tls_error(error.get_ref()?),
        None => error.downcast_ref(),
    }
}

/// Lines of a streamed response.
pub(crate) struct Lines {
    response: Response,
    read: Vec<u8>,
}

impl Lines {
    /// Returns the next line; `None` at the end.
    ///
    /// # Errors
    /// The connection breaks, or the line is an error or invalid.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return parse(&line).map(Some);
            }
            match self.response.chunk().await.map_err(|error| StreamBroken(reason(&error)))? {
                Some(more) => self.read.extend_from_slice(&more),
                None if self.read.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                None => return parse(&std::mem::take(&mut self.read)).map(Some),
            }
        }
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> anyhow::Result<T> {
    if let Ok(error) = serde_json::from_slice::<ErrorBody>(line) {
        return Err(error.into());
    }
    serde_json::from_slice(line).context("the server's answer cannot be read")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cairn_wire::ollama::VersionResponse;

    #[test]
    fn api_key_that_cannot_be_sent_is_refused_by_the_name_of_its_variable() {
        let client = |token: Option<&str>| Client::new(&Address::default(), token.map(str::to_owned), None).unwrap();
        for key in ["cairn_00\ncairn_11", "cairn_00\r", "cairn_\u{e9}"] {
            let error = client(None).with_api_key(Some(key.to_owned())).expect_err("refused").to_string();
            assert!(error.contains("CAIRN_API_KEY") && !error.contains("cairn_00"), "{error}");
            assert!(client(Some("t")).with_api_key(Some(key.to_owned())).is_ok(), "the key is not sent");
        }
        assert!(client(None).with_api_key(Some("cairn_00".to_owned())).is_ok());
    }

    #[test]
    fn stream_line_with_error_is_returned_as_error() {
        let version = parse::<VersionResponse>(b"{\"version\":\"1\"}\n").unwrap();
        assert_eq!(version.version, "1", "the expected value");
        let error = parse::<VersionResponse>(b"{\"error\":\"no\"}\n").unwrap_err();
        assert_eq!(error.to_string(), "no", "the server's error text");
    }

    /// Starts an HTTPS server for `localhost` that answers each connection with a version. Returns its address.
    pub(crate) async fn start_https(certificate: &Path) -> Address {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(certificate, cert.pem()).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust the certificate closes the connection here.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let body = r#"{"version":"1"}"#;
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Address::parse(&format!("https://localhost:{port}")).unwrap()
    }

    #[tokio::test]
    async fn https_server_needs_trusted_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = folder.path().join("ca.pem");
        let address = start_https(&certificate).await;
        let get = async |ca_file: Option<&Path>| {
            Client::new(&address, None, ca_file).unwrap().get::<VersionResponse>("/api/version").await
        };
        assert_eq!(get(Some(&certificate)).await.unwrap().version, "1", "the certificate is in the file");
        let error = get(None).await.unwrap_err().to_string();
        assert!(error.contains("certificate") && error.contains("https://localhost"), "{error}");
        let error = Client::new(&address, None, Some(&folder.path().join("absent"))).unwrap_err().to_string();
        assert!(error.contains("absent"), "the error names the file: {error}");
    }
}
