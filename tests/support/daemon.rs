//! A daemon in a home of its own, for comparisons with other programs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Timeout for the first response.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A daemon that is killed on drop.
pub struct Daemon {
    child: Child,
    cairn: PathBuf,
    home: PathBuf,
    port: u16,
}

impl Daemon {
    /// Starts a daemon of the program `cairn` with a new home. An earlier home is removed.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(cairn: &Path, home: &Path) -> anyhow::Result<Self> {
        let home = std::path::absolute(home)?;
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = command(cairn, &home, port).arg("serve").spawn();
        let child = child.with_context(|| format!("{} does not start", cairn.display()))?;
        let daemon = Self { child, cairn: cairn.to_owned(), home, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(began.elapsed() < START_TIMEOUT, "the daemon does not respond");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Runs a subcommand of `cairn`.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        let output = command(&self.cairn, &self.home, self.port).args(words).stderr(Stdio::piped()).output()?;
        ensure!(output.status.success(), "cairn {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Runs a subcommand of `cairn` and returns its output.
    ///
    /// # Errors
    /// It fails.
    pub fn output(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut command = command(&self.cairn, &self.home, self.port);
        let output = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
        ensure!(output.status.success(), "cairn {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Sends a request without a body to the API of Cairn's own clients.
    ///
    /// # Errors
    /// There is no response, or it is not JSON.
    pub fn app(&self, method: &str, path: &str) -> anyhow::Result<Value> {
        let file: Value = serde_json::from_slice(&fs::read(self.home.join("run/daemon.json"))?)?;
        let token = file["token"].as_str().context("the daemon has no token")?;
        self.exchange(method, path, &format!("Authorization: Bearer {token}\r\n"), "")
    }

    /// Sends a request and returns the body of the response, also of an error.
    ///
    /// # Errors
    /// There is no response, or it is not JSON.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.exchange("POST", path, "Content-Type: application/json\r\n", &body.to_string())
    }

    fn exchange(&self, method: &str, path: &str, headers: &str, body: &str) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let (length, port) = (body.len(), self.port);
        let head =
            format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n{headers}Content-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (_, body) = response.split_once("\r\n\r\n").context("the response has no body")?;
        serde_json::from_str(body).with_context(|| format!("the response is not JSON: {body}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended; that is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(cairn: &Path, home: &Path, port: u16) -> Command {
    let mut command = Command::new(cairn);
    command.env("CAIRN_HOME", home).env("OLLAMA_HOST", format!("127.0.0.1:{port}")).env_remove("OLLAMA_MODELS");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
