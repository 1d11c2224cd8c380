//! The ways to a registry: proxies, TLS, and whose certificates are trusted.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Response;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::served::{Seen, Served, config, model, reply, router};
use crate::{
    Distrust, ManifestBytes, Proxies, Registry, SignIn, SourceError, Transport, TransportConfig, TransportError,
};

/// The manifest, as `address` has it on the way that `settings` describe.
async fn ask(address: &str, settings: TransportConfig) -> Result<ManifestBytes, SourceError> {
    let transport = Transport::new(settings).expect("the settings are right");
    Registry::at(address, true, &transport, SignIn::anonymous()).unwrap().manifest(&model()).await
}

fn by(proxies: Proxies) -> TransportConfig {
    TransportConfig { proxies, ..config() }
}

#[test]
fn variables_name_proxies() {
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
async fn a_server_that_speaks_plain_http_is_told_from_one_that_drops() {
    let served = Served::by(|_| reply(200, &[], "{}")).await;
    let got = ask(&format!("https://{}", served.place), config()).await;
    assert!(matches!(&got, Err(SourceError::Untrusted { distrust: Distrust::PlainHttp, .. })), "{got:?}");
}

#[tokio::test]
async fn plain_http_goes_through_a_proxy() {
    let proxy = Served::by(|_| reply(200, &[], "{}")).await;
    // There is no such host: only the proxy could know the way.
    let direct = ask("http://registry.test:81", by(Proxies::none())).await;
    assert!(matches!(direct, Err(SourceError::Broken { .. })), "{direct:?}");
    for url in [format!("http://me:secret@{}", proxy.place), proxy.place.clone()] {
        ask("http://registry.test:81", by(Proxies::all(&url, ""))).await.expect("the proxy answers");
    }
    let seen = proxy.seen();
    let line = "GET http://registry.test:81/v2/library/m/manifests/latest";
    assert_eq!(proxy.lines(), [line, line], "a proxy is asked for the whole address");
    assert_eq!(seen[0].header("proxy-authorization"), Some("Basic bWU6c2VjcmV0"), "with the password for it");
    assert_eq!(seen[1].header("proxy-authorization"), None, "where it has one");
}

#[tokio::test]
async fn some_hosts_are_reached_directly() {
    let (proxy, near) = (Served::by(|_| reply(200, &[], "{}")).await, Served::by(|_| reply(200, &[], "{}")).await);
    let through = |bypass: &str| by(Proxies::all(&proxy.url(""), bypass));
    ask(&near.url(""), through("")).await.expect("this machine itself");
    assert_eq!((near.seen().len(), proxy.seen().len()), (1, 0), "never through a proxy");
    for bypass in ["registry.test", ".test", "*", "other, registry.test"] {
        let got = ask("http://registry.test", through(bypass)).await;
        assert!(matches!(got, Err(SourceError::Broken { .. })), "{bypass:?}: nobody knows the way: {got:?}");
    }
    assert!(proxy.seen().is_empty(), "the proxy was not asked: {:?}", proxy.lines());
    ask("http://registry.test", through("other.test,10.0.0.0/8")).await.expect("others go through it");
}

#[test]
fn settings_that_are_wrong() {
    let error = Transport::new(by(Proxies::all("http://me:hunter2@[bad", ""))).expect_err("it is no address");
    assert!(matches!(error, TransportError::Proxy { .. }) && !error.to_string().contains("hunter2"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for path in [folder.path().join("absent"), file("empty", ""), file("text", "x"), file("broken", broken)] {
        let error =
            Transport::new(TransportConfig { extra_ca: Some(path.clone()), ..config() }).expect_err("it is unusable");
        assert!(error.to_string().contains(&path.display().to_string()), "it says which file: {error}");
    }
}

/// A registry over TLS for the host `registry.test`.
struct Secured {
    place: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// The file of its certificate.
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
            // A client that does not trust us goes away here.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Secured {
    async fn by(answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::with(rcgen::CertificateParams::new(["registry.test".to_owned()]).unwrap(), answer).await
    }

    async fn with(
        params: rcgen::CertificateParams,
        answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static,
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
        let place = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(answer);
        let routes = router(Arc::clone(&seen), move |seen| {
            let answer = Arc::clone(&answer);
            async move { answer(&seen) }
        });
        let tls = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(tls)) };
        tokio::spawn(async move { axum::serve(tls, routes).await });
        Self { place, seen, certificate, _folder: folder }
    }
}

/// A proxy that connects everybody to `to`, and remembers how it was asked.
async fn tunnel(to: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let (to, asked) = (to.to_owned(), Arc::new(Mutex::new(Vec::new())));
    let keep = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, keep) = (to.clone(), Arc::clone(&keep));
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                keep.lock().unwrap().push(String::from_utf8(head).unwrap());
                let mut server = TcpStream::connect(to).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                // Either side may hang up.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (place, asked)
}

#[tokio::test]
async fn tls_goes_through_a_proxy_to_who_is_trusted() {
    let secured = Secured::by(|_| reply(200, &[], "{}")).await;
    let (proxy, asked) = tunnel(&secured.place).await;
    let proxies = Proxies::all(&format!("http://me:secret@{proxy}"), "");
    let trusting = TransportConfig { extra_ca: Some(secured.certificate.clone()), ..by(proxies.clone()) };
    ask("https://registry.test", trusting).await.expect("its certificate is in the file");
    let head = asked.lock().unwrap()[0].clone();
    assert!(head.starts_with("CONNECT registry.test:443 HTTP/1.1\r\n"), "a tunnel is asked for: {head}");
    assert!(head.to_ascii_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0"), "with the password: {head}");
    assert_eq!(secured.seen.lock().unwrap()[0].header("proxy-authorization"), None, "which the registry does not see");

    let got = ask("https://registry.test", by(proxies.clone())).await;
    let distrust = Distrust::UnknownAuthority;
    check_distrust(got, "registry.test", distrust);
    let trusting = TransportConfig { extra_ca: Some(secured.certificate.clone()), ..by(proxies) };
    let got = ask("https://another.test", trusting).await;
    let distrust = Distrust::OtherHost { wanted: "another.test".to_owned(), names: vec!["registry.test".to_owned()] };
    check_distrust(got, "another.test", distrust);
    assert_eq!(secured.seen.lock().unwrap().len(), 1, "who is not trusted is not asked");
}

fn check_distrust(got: Result<ManifestBytes, SourceError>, asked: &str, expected: Distrust) {
    match got {
        Err(SourceError::Untrusted { host, distrust }) => assert_eq!((host.as_str(), distrust), (asked, expected)),
        other => panic!("{asked} must not be trusted: {other:?}"),
    }
}

#[tokio::test]
async fn certificates_have_their_time() {
    let check = async |from: i32, to: i32, expected: Distrust| {
        let mut params = rcgen::CertificateParams::new(["registry.test".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let secured = Secured::with(params, |_| reply(200, &[], "{}")).await;
        let (proxy, _) = tunnel(&secured.place).await;
        let proxies = Proxies::all(&format!("http://{proxy}"), "");
        let trusting = TransportConfig { extra_ca: Some(secured.certificate.clone()), ..by(proxies) };
        check_distrust(ask("https://registry.test", trusting).await, "registry.test", expected);
    };
    check(2001, 2002, Distrust::Expired).await;
    check(3001, 3002, Distrust::NotYetValid).await;
}

#[tokio::test]
async fn tls_does_not_lead_back_to_plain_http() {
    let plain = Served::by(|_| reply(200, &[], "{}")).await;
    let target = plain.url("/x");
    let secured = Secured::by(move |_| reply(302, &[("Location", &target)], "")).await;
    let (proxy, _) = tunnel(&secured.place).await;
    let settings = TransportConfig { extra_ca: Some(secured.certificate.clone()), ..by(Proxies::all(&proxy, "")) };
    let got = ask("https://registry.test", settings).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("https to http")), "{got:?}");
    assert!(plain.seen().is_empty(), "it was not asked");
}
