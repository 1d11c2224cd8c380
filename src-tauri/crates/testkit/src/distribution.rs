//! Docker's own registry, Debian's `docker-registry`, as a process of a test's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::TokenServer;

/// How long it may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);

/// Who may use a registry.
#[derive(Clone, Copy)]
pub enum Access<'a> {
    /// Anybody.
    Open,
    /// Those of a file as `htpasswd -B` writes them.
    Htpasswd(&'a str),
    /// Who has a token of this server.
    Tokens(&'a TokenServer),
}

/// A running registry, ended when it is dropped.
pub struct Distribution {
    child: Child,
    host: String,
    folder: TempDir,
}

impl Distribution {
    /// Starts one. `None`, and a line that says so, where the machine has no such program.
    ///
    /// # Panics
    /// When it cannot be set up, or does not begin.
    #[must_use]
    pub fn start(access: Access<'_>) -> Option<Self> {
        let folder = TempDir::new().expect("a temporary folder can be made");
        // Nothing else takes the port in the moment between, as ports go round.
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
            eprintln!("skipped: there is no docker-registry here; `cargo xtask setup` installs it");
            return None;
        };
        let running = Self { child, host, folder };
        let began = Instant::now();
        while TcpStream::connect(&running.host).is_err() {
            assert!(began.elapsed() < BEGINS_WITHIN, "docker-registry does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(running)
    }

    /// `127.0.0.1:PORT`, the host of names of its models.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where it keeps what it is sent.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The body that a plain `GET` is answered with, by nothing of ours. `headers` are whole lines, each with its end.
    ///
    /// # Panics
    /// When the answer is another than 200.
    #[must_use]
    pub fn get(&self, path: &str, headers: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let accept = "Accept: application/vnd.docker.distribution.manifest.v2+json";
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n{accept}\r\n{headers}\r\n", self.host).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer has a head");
        assert!(answer.starts_with(b"HTTP/1.0 200") || answer.starts_with(b"HTTP/1.1 200"), "{path} is not there");
        answer.split_off(head + 4)
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A model's manifest as `skopeo` reads it from a registry on this machine, for the user and password in `credentials`. `None`,
/// and a line that says so, where the machine has no such program. (It copies no contents of types that it does not know.)
///
/// # Panics
/// When `skopeo` fails.
#[must_use]
pub fn skopeo_manifest(host: &str, repository: &str, credentials: &str) -> Option<Vec<u8>> {
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["inspect", "--raw", "--tls-verify=false", "--creds", credentials]);
    let Ok(output) = skopeo.arg(format!("docker://{host}/{repository}:latest")).output() else {
        eprintln!("skipped: there is no skopeo here; `cargo xtask setup` installs it");
        return None;
    };
    assert!(output.status.success(), "skopeo: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}
