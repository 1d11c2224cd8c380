//! Runs the `cairn` program under test: its subcommands, and one daemon per test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Overrides the folder of the programs; by default the one in which this test was built.
pub(crate) static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();

/// Returns the path of `cairn`, built beside this test.
pub(crate) fn program() -> PathBuf {
    let beside = || {
        let test = std::env::current_exe().expect("the test executable has a path");
        test.parent().and_then(Path::parent).expect("tests are built into target/<profile>/deps").to_owned()
    };
    let program = PROGRAMS.get_or_init(beside).join("cairn");
    assert!(program.exists(), "{} is missing: run the tests with `cargo xtask test`", program.display());
    program
}

/// Decodes the output of a program, lossily.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts that a command succeeded and returns its stdout.
pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Asserts that a command failed with exit code 1 and `part` in its stderr, and returns its stderr.
pub(crate) fn refused(output: &Output, part: &str) -> String {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "the command must fail: {}", text(&output.stdout));
    assert!(stderr.contains(part), "{part:?} is missing from {stderr:?}");
    stderr
}

/// A temporary Cairn home with a port that was free at creation. Dropping it kills its daemon.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    env: Vec<(&'static str, String)>,
    /// A wrapper program with its arguments that runs `cairn`; empty to run `cairn` directly.
    through: Vec<String>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback has a free port").port();
        Self {
            folder: TempDir::new().expect("a temporary folder can be made"),
            port,
            env: Vec::new(),
            through: Vec::new(),
        }
    }

    /// Sets an environment variable for all commands of this home.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Runs all commands of this home through a wrapper that replaces itself by `cairn`.
    #[cfg(target_os = "linux")]
    pub(crate) fn through(mut self, words: Vec<String>) -> Self {
        self.through = words;
        self
    }

    /// Returns a command that runs `cairn` with these arguments.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = match self.through.split_first() {
            Some((first, more)) => {
                let mut command = Command::new(first);
                command.args(more).arg(program());
                command
            }
            None => Command::new(program()),
        };
        command
            .args(words)
            .env("CAIRN_HOME", self.folder.path())
            .env("OLLAMA_HOST", format!("127.0.0.1:{}", self.port))
            .env_remove("OLLAMA_MODELS")
            // The disk of the test machine may be nearly full.
            .env("CAIRN_KV_RESERVE", "1M")
            .stdin(Stdio::null());
        // Only tests of the tiers store KV chunks on the disk.
        if !self.env.iter().any(|(name, _)| name.starts_with("OLLAMA_KV_TIER")) {
            command.env("OLLAMA_KV_TIERING", "0");
        }
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    /// Runs `cairn` and waits for its output.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("cairn starts")
    }

    /// Runs `cairn` with text on its standard input.
    pub(crate) fn run_with_input(&self, words: &[&str], input: &str) -> Output {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cairn starts");
        child.stdin.take().expect("the stream is piped").write_all(input.as_bytes()).expect("cairn reads its input");
        child.wait_with_output().expect("cairn ends")
    }

    /// Starts `cairn serve` and waits until it answers.
    pub(crate) fn serve(&self) -> Daemon<'_> {
        let log = std::fs::File::create(self.folder.path().join("serve.log")).expect("the home is writable");
        let child = self.command(&["serve"]).stdout(Stdio::null()).stderr(log).spawn().expect("cairn starts");
        let mut daemon = Daemon { child, home: self };
        let deadline = Instant::now() + Duration::from_secs(20);
        while daemon.get("/").is_none() {
            let ended = daemon.child.try_wait().expect("the child process can be polled");
            assert!(ended.is_none() && Instant::now() < deadline, "serve does not answer: {}", daemon.log());
            std::thread::sleep(Duration::from_millis(30));
        }
        daemon
    }

    /// Returns the daemon's process id from `daemon.json`.
    pub(crate) fn daemon_pid(&self) -> Option<u32> {
        u32::try_from(self.daemon_file()?["pid"].as_u64()?).ok()
    }

    /// Returns the `Authorization` header with the daemon token.
    pub(crate) fn bearer(&self) -> Option<String> {
        Some(format!("Bearer {}", self.daemon_file()?["token"].as_str()?))
    }

    fn daemon_file(&self) -> Option<serde_json::Value> {
        let file = find(self.folder.path(), "daemon.json")?;
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(pid) = self.daemon_pid() {
            kill(pid, "-KILL");
        }
    }
}

/// Returns a file of this name in a folder or below it.
pub(crate) fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() { find(&path, name) } else { (entry.file_name() == name).then_some(path) }
    })
}

/// Sends a signal and returns whether the process existed. Uses the shell's built-in `kill`, because not every machine
/// has the program.
pub(crate) fn kill(pid: u32, signal: &str) -> bool {
    let words = ["-c", "kill \"$0\" \"$1\"", signal, &pid.to_string()];
    Command::new("sh").args(words).stderr(Stdio::null()).status().expect("a shell starts").success()
}

/// A running `cairn serve`; killed when dropped.
pub(crate) struct Daemon<'a> {
    pub(crate) child: Child,
    home: &'a Home,
}

impl Daemon<'_> {
    /// Returns the body of a GET response.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        request(self.home.port, "GET", path, "")
    }

    /// Returns the body of a POST response.
    pub(crate) fn post(&self, path: &str, body: &serde_json::Value) -> Option<String> {
        request(self.home.port, "POST", path, &body.to_string())
    }

    /// Returns the body of a DELETE response.
    pub(crate) fn delete(&self, path: &str, body: &serde_json::Value) -> Option<String> {
        request(self.home.port, "DELETE", path, &body.to_string())
    }

    /// Sends a POST and returns the connection, to read a streamed response.
    pub(crate) fn post_streaming(&self, path: &str, body: &serde_json::Value) -> TcpStream {
        send(self.home.port, "POST", path, &[], &body.to_string()).expect("the daemon accepts connections")
    }

    /// Returns the daemon's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.folder.path().join("serve.log")).unwrap_or_default()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and returns the connection, to read a streamed response.
pub(crate) fn send(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(120))).ok()?;
    let length = body.len();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}");
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").ok()?;
    Some(stream)
}

/// Sends a request and returns the status and body of the response.
pub(crate) fn exchange(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    let mut answer = String::new();
    send(port, method, path, headers, body)?.read_to_string(&mut answer).ok()?;
    status_and_body(&answer)
}

/// Returns the status and the decoded body of a complete response.
pub(crate) fn status_and_body(response: &str) -> Option<(u16, String)> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Some((status, if chunked { unchunk(body) } else { body.to_owned() }))
}

fn request(port: u16, method: &str, path: &str, body: &str) -> Option<String> {
    exchange(port, method, path, &[], body).map(|(_, body)| body)
}

/// Decodes a chunked body (RFC 9112, section 7.1).
fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        let Some(chunk) = rest.get(..size).filter(|_| size > 0) else { break };
        whole += chunk;
        body = rest.get(size + 2..).unwrap_or("");
    }
    whole
}
