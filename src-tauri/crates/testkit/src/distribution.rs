//! Docker's registry (Debian package `docker-registry`) as a child process of a test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::TokenServer;

/// Timeout of the start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Access control of a registry.
#[derive(Clone, Copy)]
pub enum Access<'a> {
    /// No authentication.
    Open,
    /// The users of a file in the format of `htpasswd -B`.
    Htpasswd(&'a str),
    /// Clients with a token of this server.
    Tokens(&'a TokenServer),
}

/// Running registry. Dropping it ends the process.
pub struct Distribution {
    child: Child,
    host: String,
    folder: TempDir,
}

impl Distribution {
    /// Starts a registry. Returns `None` and prints a line if the program is not installed.
    ///
    /// # Panics
    /// When it cannot be configured, or does not listen in time.
    #[must_use]
    pub fn start(access: Access<'_>) -> Option<Self> {
        let folder = TempDir::new().expect("a temporary folder can be made");
        // Ports are assigned in turn, so no other process gets this one meanwhile.
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let host = listener.local_addr().expect("it is bound").to_string();
        drop(listener);
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("the folder is writable");
            path.display().to_string()
        };
        let auth = match access {
            Access::Open => String::new(),
            Access::Htpasswd(users) => format!("auth: {{htpasswd: {{realm: x, path: {}}}}}\n", put("users", users)),
            Access::Tokens(server) => format!(
                "auth: {{token: {{realm: \"{}\", service: registry, issuer: tests, rootcertbundle: {}}}}}\n",
                server.realm(),
                put("ca.pem", server.certificate_pem())
            ),
        };
        let data = folder.path().join("data").display().to_string();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {data}}}\nhttp: {{addr: \"{host}\"}}\n{auth}"
        );
        let config = put("config.yml", &config);
        let spawned = Command::new("docker-registry")
            .args(["serve", &config])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = spawned else {
            eprintln!("skipped: docker-registry is not installed; `cargo xtask setup` installs it");
            return None;
        };
        let registry = Self { child, host, folder };
        let started = Instant::now();
        while TcpStream::connect(&registry.host).is_err() {
            assert!(started.elapsed() < START_TIMEOUT, "docker-registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    /// Returns `127.0.0.1:PORT`, the host in the names of its models.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the folder of its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Sends a plain `GET` without any code of Cairn, and returns the body. `headers` are complete lines with line
    /// ends.
    ///
    /// # Panics
    /// When the status is not 200.
    #[must_use]
    pub fn get(&self, path: &str, headers: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.host).expect("the registry listens");
        let accept = "Accept: application/vnd.docker.distribution.manifest.v2+json";
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n{accept}\r\n{headers}\r\n", self.host)
            .expect("the registry reads the request");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("the registry responds");
        let head = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a response has a header");
        assert!(
            response.starts_with(b"HTTP/1.0 200") || response.starts_with(b"HTTP/1.1 200"),
            "GET {path} did not return 200"
        );
        response.split_off(head + 4)
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a model's manifest with `skopeo` from a local registry, with the user and password in `credentials`. Returns
/// `None` and prints a line if the program is not installed. (`skopeo` copies no blobs of unknown media types.)
///
/// # Panics
/// When `skopeo` fails.
#[must_use]
pub fn skopeo_manifest(host: &str, repository: &str, credentials: &str) -> Option<Vec<u8>> {
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["inspect", "--raw", "--tls-verify=false", "--creds", credentials]);
    let Ok(output) = skopeo.arg(format!("docker://{host}/{repository}:latest")).output() else {
        eprintln!("skipped: skopeo is not installed; `cargo xtask setup` installs it");
        return None;
    };
    assert!(output.status.success(), "skopeo: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}
