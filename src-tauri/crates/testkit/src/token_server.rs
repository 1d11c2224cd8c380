//! Token server for Docker's registry. A client with the password gets a token, signed by a key that the registry
//! trusts.
//!
//! Specifications: Docker's token authentication; RFC 7519 for the tokens, which are signed with ES256.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use rcgen::{CertifiedKey, KeyPair, SigningKey};

use crate::registry::Request;

/// Running token server. Dropping it stops it.
pub struct TokenServer {
    address: SocketAddr,
    certificate_pem: String,
    state: Arc<State>,
}

struct State {
    /// Expected value of `Authorization`.
    expected_authorization: String,
    key: CertifiedKey<KeyPair>,
    requests: Mutex<Vec<Request>>,
    stopped: AtomicBool,
}

impl TokenServer {
    /// Starts a server with a single user.
    ///
    /// # Panics
    /// When no key can be generated or no port is free.
    #[must_use]
    pub fn start(user: &str, password: &str) -> Self {
        let key = rcgen::generate_simple_self_signed(["tests".to_owned()]).expect("a key can be generated");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let certificate_pem = key.cert.pem();
        let expected_authorization = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let state = Arc::new(State {
            expected_authorization,
            key,
            requests: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let state = Arc::clone(&serving);
                // A client may disconnect at any time; that is not an error.
                thread::spawn(move || drop(state.serve(&connection)));
            }
        });
        Self { address, certificate_pem, state }
    }

    /// Returns `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the address in the registry's challenges.
    #[must_use]
    pub fn realm(&self) -> String {
        format!("http://{}/token", self.address)
    }

    /// Returns the certificate that the registry must trust.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Creates a token for read access to a repository.
    #[must_use]
    pub fn token(&self, repository: &str) -> String {
        self.state.token(&format!("/token?scope=repository:{repository}:pull"))
    }

    /// Returns all received requests.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().clone()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect(self.address));
    }
}

impl State {
    fn serve(&self, mut connection: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let (status, body) = match request.header("authorization") == Some(&self.expected_authorization) {
                true => (200, format!("{{\"token\":\"{}\"}}", self.token(&request.target))),
                false => (401, r#"{"details":"incorrect username or password"}"#.to_owned()),
            };
            self.requests.lock().push(request);
            let length = body.len();
            write!(
                connection,
                "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            )?;
        }
        Ok(())
    }

    /// Creates a token for the scopes in the request.
    fn token(&self, target: &str) -> String {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let mut access = Vec::new();
        for scope in query.split('&').filter_map(|pair| pair.strip_prefix("scope=")) {
            let scope = scope.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
            // An invalid scope grants nothing.
            let [kind, name, actions] = scope.split(':').collect::<Vec<_>>()[..] else { continue };
            let actions: Vec<_> = actions.split(',').collect();
            access.push(serde_json::json!({ "type": kind, "name": name, "actions": actions }));
        }
        // A long validity, because the registry uses the real clock.
        let claims = serde_json::json!({
            "iss": "tests", "sub": "u", "aud": "registry", "nbf": 0, "iat": 0, "exp": 4_102_444_800_u64, "jti": "1",
            "access": access,
        });
        let header = serde_json::json!({ "typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(self.key.cert.der())] });
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.key.signing_key.sign(signed.as_bytes()).expect("the key signs");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(fixed_size_signature(&signature)))
    }
}

/// Converts a DER-encoded ECDSA signature to two numbers of 32 bytes each.
fn fixed_size_signature(der: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    // A sequence of two integers, each with tag, length, and an optional leading zero.
    let mut rest = &der[2..];
    for _ in 0..2 {
        let (number, after) = rest[2..].split_at(usize::from(rest[1]));
        let bytes = &number[number.len().saturating_sub(32)..];
        numbers.extend(vec![0; 32 - bytes.len()]);
        numbers.extend_from_slice(bytes);
        rest = after;
    }
    numbers
}
