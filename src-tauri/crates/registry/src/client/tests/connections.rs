//! Connections: proxies, TLS, and trusted certificates.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Response;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tests::test_server::{RecordedRequest, TestServer, config, model, reply, router};
use crate::{
    Credentials, FetchedManifest, Proxies, Registry, SourceError, TlsError, Transport, TransportConfig, TransportError,
};

/// Fetches the manifest from `address` with these settings.
async fn fetch_manifest(address: &str, settings: TransportConfig) -> Result<FetchedManifest, SourceError> {
    let transport = Transport::new(settings).expect("the settings are valid");
    Registry::from_address(address, true, &transport, Credentials::anonymous()).unwrap().manifest(&model()).await
}

fn with_proxies(proxies: Proxies) -> TransportConfig {
    TransportConfig { proxies, ..config() }
}

#[test]
fn proxies_are_read_from_variables() {
    let check = |variables: &[(&str, &str)], expected: Proxies| {
        let read = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(Proxies::from_variables(read), expected, "{variables:?}");
    };
    let all = |url: &str, bypass: &str| Proxies::all(url, bypass);
    check(&[], Proxies::none());
    check(&[("http_proxy", " "), ("ALL_PROXY", "")], Proxies::none());
    check(&[("all_proxy", "http://p")], all("http://p", ""));
    check(&[("HTTP_PROXY", "http://p"), ("HTTPS_PROXY", "http://p"), ("NO_PROXY", "a,b")], all("http://p", "a,b"));
    check(&[("http_proxy", "http://p"), ("HTTP_PROXY", "http://q"), ("ALL_PROXY", "http://p")], all("http://p", ""));
    check(&[("https_proxy", "http://p"), ("http_proxy", "http://p"), ("all_proxy", "http://q")], all("http://p", ""));
}

#[tokio::test]
async fn plain_http_on_https_address_is_detected() {
    let served = TestServer::start(|_| reply(200, &[], "{}")).await;
    let got = fetch_manifest(&format!("https://{}", served.address), config()).await;
    assert!(matches!(&got, Err(SourceError::Untrusted { cause: TlsError::PlainHttp, .. })), "{got:?}");
}

#[tokio::test]
async fn plain_http_request_uses_proxy() {
    let proxy = TestServer::start(|_| reply(200, &[], "{}")).await;
    // The host does not exist, so only the proxy can respond.
    let direct = fetch_manifest("http://registry.test:81", with_proxies(Proxies::none())).await;
    assert!(matches!(direct, Err(SourceError::Broken { .. })), "{direct:?}");
    for url in [format!("http://me:secret@{}", proxy.address), proxy.address.clone()] {
        fetch_manifest("http://registry.test:81", with_proxies(Proxies::all(&url, "")))
            .await
            .expect("the proxy responds");
    }
    let seen = proxy.requests();
    let line = "GET http://registry.test:81/v2/library/m/manifests/latest";
    assert_eq!(proxy.request_lines(), [line, line], "a proxy receives the absolute URL");
    assert_eq!(seen[0].header("proxy-authorization"), Some("Basic bWU6c2VjcmV0"), "the proxy's password");
    assert_eq!(seen[1].header("proxy-authorization"), None, "no password");
}

#[tokio::test]
async fn bypassed_hosts_are_reached_directly() {
    let (proxy, near) =
        (TestServer::start(|_| reply(200, &[], "{}")).await, TestServer::start(|_| reply(200, &[], "{}")).await);
    let through = |bypass: &str| with_proxies(Proxies::all(&proxy.url(""), bypass));
    fetch_manifest(&near.url(""), through("")).await.expect("a loopback address");
    assert_eq!((near.requests().len(), proxy.requests().len()), (1, 0), "loopback never uses a proxy");
    for bypass in ["registry.test", ".test", "*", "other, registry.test"] {
        let got = fetch_manifest("http://registry.test", through(bypass)).await;
        assert!(
            matches!(got, Err(SourceError::Broken { .. })),
            "{bypass:?}: the host cannot be reached directly: {got:?}"
        );
    }
    assert!(proxy.requests().is_empty(), "the proxy got no request: {:?}", proxy.request_lines());
    fetch_manifest("http://registry.test", through("other.test,10.0.0.0/8")).await.expect("other hosts use the proxy");
}

#[test]
fn invalid_settings_are_refused() {
    let error =
        Transport::new(with_proxies(Proxies::all("http://me:hunter2@[bad", ""))).expect_err("an invalid proxy address");
    assert!(matches!(error, TransportError::Proxy { .. }) && !error.to_string().contains("hunter2"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for path in [folder.path().join("absent"), file("empty", ""), file("text", "x"), file("broken", broken)] {
        let error = Transport::new(TransportConfig { extra_ca: Some(path.clone()), ..config() })
            .expect_err("an unusable certificate file");
        assert!(error.to_string().contains(&path.display().to_string()), "the error names the file: {error}");
    }
}

/// A TLS server for the host `registry.test`.
struct TlsServer {
    address: String,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    /// The certificate file.
    certificate: PathBuf,
    _folder: tempfile::TempDir,
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else { continue };
            // A client that does not trust the certificate closes the connection here.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl TlsServer {
    async fn start(answer: impl Fn(&RecordedRequest) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::start_with(rcgen::CertificateParams::new(["registry.test".to_owned()]).unwrap(), answer).await
    }

    async fn start_with(
        params: rcgen::CertificateParams,
        answer: impl Fn(&RecordedRequest) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        let signing_key = rcgen::KeyPair::generate().unwrap();
        let cert = params.self_signed(&signing_key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let certificate = folder.path().join("ca.pem");
        std::fs::write(&certificate, cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], PrivateKeyDer::Pkcs8(signing_key.serialize_der().into()))
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(answer);
        let routes = router(Arc::clone(&seen), move |seen| {
            let answer = Arc::clone(&answer);
            async move { answer(&seen) }
        });
        let tls = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(tls)) };
        tokio::spawn(async move { axum::serve(tls, routes).await });
        Self { address, seen, certificate, _folder: folder }
    }
}

/// A proxy that tunnels all connections to `to` and records the requests.
async fn tunnel(to: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (to, requests) = (to.to_owned(), Arc::new(Mutex::new(Vec::new())));
    let recorded = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, recorded) = (to.clone(), Arc::clone(&recorded));
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                recorded.lock().unwrap().push(String::from_utf8(head).unwrap());
                let mut server = TcpStream::connect(to).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                // Either side may close the connection.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, requests)
}

#[tokio::test]
async fn tls_through_proxy_requires_trusted_certificate() {
    let server = TlsServer::start(|_| reply(200, &[], "{}")).await;
    let (proxy, requests) = tunnel(&server.address).await;
    let proxies = Proxies::all(&format!("http://me:secret@{proxy}"), "");
    let trusting = TransportConfig { extra_ca: Some(server.certificate.clone()), ..with_proxies(proxies.clone()) };
    fetch_manifest("https://registry.test", trusting).await.expect("the certificate is in the file");
    let head = requests.lock().unwrap()[0].clone();
    assert!(head.starts_with("CONNECT registry.test:443 HTTP/1.1\r\n"), "a tunnel is requested: {head}");
    assert!(
        head.to_ascii_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0"),
        "with the proxy's password: {head}"
    );
    assert_eq!(server.seen.lock().unwrap()[0].header("proxy-authorization"), None, "the registry does not receive it");

    let got = fetch_manifest("https://registry.test", with_proxies(proxies.clone())).await;
    let cause = TlsError::UnknownIssuer;
    check_untrusted(got, "registry.test", cause);
    let trusting = TransportConfig { extra_ca: Some(server.certificate.clone()), ..with_proxies(proxies) };
    let got = fetch_manifest("https://another.test", trusting).await;
    let cause = TlsError::WrongHost { requested: "another.test".to_owned(), names: vec!["registry.test".to_owned()] };
    check_untrusted(got, "another.test", cause);
    assert_eq!(server.seen.lock().unwrap().len(), 1, "an untrusted server gets no request");
}

fn check_untrusted(got: Result<FetchedManifest, SourceError>, requested: &str, expected: TlsError) {
    match got {
        Err(SourceError::Untrusted { host, cause }) => assert_eq!((host.as_str(), cause), (requested, expected)),
        other => panic!("{requested}: expected Untrusted, got {other:?}"),
    }
}

#[tokio::test]
async fn certificate_outside_validity_period_is_rejected() {
    let check = async |from: i32, to: i32, expected: TlsError| {
        let mut params = rcgen::CertificateParams::new(["registry.test".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let server = TlsServer::start_with(params, |_| reply(200, &[], "{}")).await;
        let (proxy, _) = tunnel(&server.address).await;
        let proxies = Proxies::all(&format!("http://{proxy}"), "");
        let trusting = TransportConfig { extra_ca: Some(server.certificate.clone()), ..with_proxies(proxies) };
        check_untrusted(fetch_manifest("https://registry.test", trusting).await, "registry.test", expected);
    };
    check(2001, 2002, TlsError::Expired).await;
    check(3001, 3002, TlsError::NotYetValid).await;
}

#[tokio::test]
async fn redirect_from_https_to_http_is_refused() {
    let plain = TestServer::start(|_| reply(200, &[], "{}")).await;
    let target = plain.url("/x");
    let server = TlsServer::start(move |_| reply(302, &[("Location", &target)], "")).await;
    let (proxy, _) = tunnel(&server.address).await;
    let settings =
        TransportConfig { extra_ca: Some(server.certificate.clone()), ..with_proxies(Proxies::all(&proxy, "")) };
    let got = fetch_manifest("https://registry.test", settings).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("https to http")), "{got:?}");
    assert!(plain.requests().is_empty(), "the http server got no request");
}
