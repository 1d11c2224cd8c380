//! A remote tier that is slow, fails, hangs and recovers: answers are not delayed, and chunks are restored afterwards.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{restored_tokens, tokens};
use crate::cairn::{Daemon, Home, exchange, kill, program, succeeded};

/// An S3 server from PyPI (`moto`), killed when dropped.
struct Moto {
    child: Child,
    port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        // Errors cannot be handled here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// Starts the server with the Python of `cargo xtask setup`; `None` if that has no moto.
    fn start() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "the path is a setting of the test machine")]
        let configured = std::env::var_os("CAIRN_MOTO_PYTHON").map(PathBuf::from);
        let target = program().parent().and_then(Path::parent).map(Path::to_owned).expect("target/<profile>");
        let python = configured.unwrap_or_else(|| target.join("clients/bin/python"));
        let has = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: {} has no moto: run `cargo xtask setup`", python.display());
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let mut command = Command::new(&python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
        let server = Self { child, port };
        let began = Instant::now();
        while exchange(port, "PUT", "/cairn", &[], "").is_none_or(|(status, _)| status != 200) {
            assert!(began.elapsed() < Duration::from_secs(60), "timeout: the server does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }
}

/// Behaviour of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyMode {
    Forward,
    /// Forwards requests after a delay.
    Delay(Duration),
    /// Answers with status 500.
    Fail,
    /// Answers nothing until the mode changes.
    Hang,
}

/// A TCP proxy whose behaviour can be changed.
#[derive(Clone)]
struct Proxy {
    port: u16,
    mode: Arc<(Mutex<ProxyMode>, Condvar)>,
}

impl Proxy {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("the listener is bound").port();
        let proxy = Self { port, mode: Arc::new((Mutex::new(ProxyMode::Forward), Condvar::new())) };
        let shared = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let proxy = shared.clone();
                std::thread::spawn(move || proxy.serve(client, server));
            }
        });
        proxy
    }

    fn set(&self, mode: ProxyMode) {
        *self.mode.0.lock().expect("the lock is not poisoned") = mode;
        self.mode.1.notify_all();
    }

    /// Forwards a connection in both directions. The mode applies to each read.
    fn serve(&self, mut client: TcpStream, server: u16) -> Option<()> {
        let mut to_server = TcpStream::connect(("127.0.0.1", server)).ok()?;
        let (mut from_server, mut to_client) = (to_server.try_clone().ok()?, client.try_clone().ok()?);
        std::thread::spawn(move || {
            // Either side may close the connection.
            let _ = std::io::copy(&mut from_server, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        let mut buffer = [0; 64 << 10];
        loop {
            let count = client.read(&mut buffer).ok().filter(|count| *count > 0)?;
            let mode = self.mode.0.lock().expect("the lock is not poisoned");
            let mode =
                *self.mode.1.wait_while(mode, |mode| *mode == ProxyMode::Hang).expect("the lock is not poisoned");
            match mode {
                ProxyMode::Delay(span) => std::thread::sleep(span),
                ProxyMode::Fail => {
                    let refusal =
                        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    client.write_all(refusal).ok()?;
                    client.shutdown(Shutdown::Both).ok()?;
                    return to_server.shutdown(Shutdown::Both).ok();
                }
                ProxyMode::Forward | ProxyMode::Hang => {}
            }
            to_server.write_all(&buffer[..count]).ok()?;
        }
    }
}

/// Returns the first value of a metric from `/metrics`.
fn metric(home: &Home, name: &str) -> Option<f64> {
    let bearer = home.bearer()?;
    let (_, answer) = exchange(home.port, "GET", "/metrics", &[("Authorization", &bearer)], "")?;
    let line = answer.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until a tier has at least this many chunks.
fn wait_for_chunks(home: &Home, tier: &str, chunks: f64) {
    let until = Instant::now() + Duration::from_secs(30);
    while metric(home, &format!("kvtier_chunks{{tier=\"{tier}\"}}")).is_none_or(|found| found < chunks) {
        assert!(Instant::now() < until, "timeout: tier {tier} has fewer than {chunks} chunks");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the remote tier lists at least this many chunks.
fn wait_for_remote(home: &Home, chunks: f64) {
    wait_for_chunks(home, "remote", chunks);
}

/// Sends a prompt that shares no prefix with other seeds; returns the response and its duration.
fn ask(daemon: &Daemon<'_>, seed: u64) -> (Value, Duration) {
    let prompt = (0..700).map(|word| format!("{} ", (word + 17 * seed) * 7919 % (1000 + seed))).collect::<String>();
    let request = json!({
        "model": "m", "prompt": format!("{seed} {prompt}"), "raw": true, "stream": false,
        "options": {"num_predict": 8, "num_ctx": 4096, "temperature": 0}
    });
    let began = Instant::now();
    let answer = daemon.post("/api/generate", &request).expect("the daemon answers");
    let took = began.elapsed();
    (serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}")), took)
}

fn ns(answer: &Value, field: &str) -> Duration {
    Duration::from_nanos(answer[field].as_u64().unwrap_or_default())
}

/// Shuts a daemon down, which flushes its chunks.
fn shut_down(mut daemon: Daemon<'_>) {
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("the process exits").success(), "the exit code is 0: {}", daemon.log());
}

/// Returns a home with a remote tier and no SSD tier.
fn home(remote: &str) -> Home {
    let home = Home::new();
    let home = home.with("CAIRN_KV_WEIGH", "0").with("OLLAMA_KV_TIERING", "1");
    home.with("OLLAMA_KV_TIER_LOCAL_GB", "0").with("OLLAMA_KV_TIER_REMOTE", remote)
}

/// Starts a daemon and imports the model `m`.
fn import(home: &Home) -> Daemon<'_> {
    let model = home.folder.path().join("m.gguf");
    let spec = cairn_testkit::ModelSpec { context: 4096, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &model).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    daemon
}

/// Computes a prompt without a cache, flushes it to the remote tier and returns the response.
fn computed(home: &Home, seed: u64) -> Value {
    let daemon = home.serve();
    let (answer, _) = ask(&daemon, seed);
    // Unloading moves the chunks to RAM before the shutdown, which then has all its time for the remote tier.
    succeeded(&home.run(&["stop", "m"]));
    wait_for_chunks(home, "ram", 2.0);
    shut_down(daemon);
    answer
}

/// Allowed delay compared with a recomputed answer: 100 ms, plus a margin for busy test machines. The faults here last
/// much longer.
const MARGIN: Duration = Duration::from_millis(100 + 2400);
/// Delay of the slow server.
const SERVER_DELAY: Duration = Duration::from_secs(10);

#[test]
fn s3_tier_restores_prefixes_and_tolerates_failures() {
    let Some(server) = Moto::start() else { return };
    let proxy = Proxy::before(server.port);
    let home = home("s3://cairn/prefixes")
        .with("AWS_ACCESS_KEY_ID", "key")
        .with("AWS_SECRET_ACCESS_KEY", "secret")
        .with("AWS_REGION", "us-east-1")
        .with("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", proxy.port));
    shut_down(import(&home));
    // The shutdown flushes at the latest.
    let first: Vec<Value> = (1..=5).map(|seed| computed(&home, seed)).collect();

    // Deletes all local chunks, but not the secrets and the model.
    let forget = || drop(std::fs::remove_dir_all(home.folder.path().join("cache")));
    let check = |answer: &Value, seed: usize, why: &str| {
        assert_eq!(answer["response"], first[seed - 1]["response"], "{why}: the same answer: {answer}");
    };
    forget();
    let daemon = home.serve();
    wait_for_remote(&home, 10.0);
    let (restored, _) = ask(&daemon, 1);
    let prompt = tokens(&restored, "prompt_eval_count");
    // A shutdown flushes for at most one second.
    assert!((512..prompt).contains(&restored_tokens(&restored)), "restored from the server: {restored}");
    check(&restored, 1, "restored");
    drop(daemon);

    // From here on the remote tier is used only where that is faster. A slow server must not delay answers.
    let home = home.with("CAIRN_KV_WEIGH", "1");
    let forget = || drop(std::fs::remove_dir_all(home.folder.path().join("cache")));
    let daemon = home.serve();
    wait_for_remote(&home, 10.0);
    proxy.set(ProxyMode::Delay(SERVER_DELAY));
    let (computed, recompute) = ask(&daemon, 101);
    let (late, took) = ask(&daemon, 2);
    check(&late, 2, "a slow server");
    assert!(took <= recompute + MARGIN, "a slow server: {took:?}, and {recompute:?} to compute it");
    let (decode, alone) = (ns(&late, "eval_duration"), ns(&computed, "eval_duration"));
    assert!(decode <= 3 * alone + Duration::from_millis(500), "decode is not slowed down: {decode:?} and {alone:?}");
    drop(daemon);

    for (seed, mode) in [(3, ProxyMode::Fail), (4, ProxyMode::Hang)] {
        forget();
        proxy.set(ProxyMode::Forward);
        let daemon = home.serve();
        wait_for_remote(&home, 10.0);
        proxy.set(mode);
        let (_, recompute) = ask(&daemon, 100 + seed as u64);
        let (answer, took) = ask(&daemon, seed as u64);
        check(&answer, seed, "a server that fails");
        assert_eq!(tokens(&answer, "remote_tokens"), 0, "{mode:?}: no remote hit: {answer}");
        assert!(took <= recompute + MARGIN, "{mode:?}: {took:?}, and {recompute:?} to compute it");
        proxy.set(ProxyMode::Forward);
    }

    // After recovery the chunks are restored.
    let home = home.with("CAIRN_KV_WEIGH", "0");
    let daemon = home.serve();
    wait_for_remote(&home, 10.0);
    let (back, _) = ask(&daemon, 5);
    assert!(restored_tokens(&back) > 0, "restored: {back}");
    check(&back, 5, "restored");
}

#[test]
fn hanging_share_does_not_delay_answers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let share = folder.path().join("share");
    std::fs::create_dir(&share).expect("the folder is writable");
    let home = home(&share.to_string_lossy());
    shut_down(import(&home));
    let (first, second) = (computed(&home, 1), computed(&home, 2));
    let home = home.with("CAIRN_KV_WEIGH", "1");
    let daemon = home.serve();
    wait_for_remote(&home, 4.0);

    // A pipe without a writer in place of the marker: reading the marker hangs, as on a dead server. The tier reads the
    // marker after each missing file.
    let chunks = cairn_testkit::chunk_files(&share);
    assert!(chunks.len() >= 4, "{chunks:?}");
    let all: Vec<PathBuf> = chunks.into_iter().chain([share.join("cairn-kv-share")]).collect();
    let hidden = |path: &Path| path.with_extension("hidden");
    all.iter().for_each(|path| std::fs::rename(path, hidden(path)).expect("the file exists"));
    let marker = all.last().expect("the list is not empty");
    assert!(Command::new("mkfifo").arg(marker).status().expect("mkfifo starts").success(), "mkfifo succeeds");
    let (_, recompute) = ask(&daemon, 101);
    let (answer, took) = ask(&daemon, 1);
    assert_eq!(answer["response"], first["response"], "the same answer: {answer}");
    assert!(took <= recompute + MARGIN, "{took:?}, and {recompute:?} to compute it");
    drop(daemon);

    all.iter().for_each(|path| std::fs::rename(hidden(path), path).expect("the file exists"));
    let home = home.with("CAIRN_KV_WEIGH", "0");
    let daemon = home.serve();
    wait_for_remote(&home, 4.0);
    let (back, _) = ask(&daemon, 2);
    assert!(restored_tokens(&back) > 0, "restored: {back}");
    assert_eq!(back["response"], second["response"], "the same answer: {back}");
}
