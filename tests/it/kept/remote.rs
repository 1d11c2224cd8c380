//! A remote place, which is slow, fails, hangs, and is back: nobody waits for it, and all is well when it is.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{recalled, tokens};
use crate::cairn::{Daemon, Home, exchange, kill, program, succeeded};

/// A server of S3 from PyPI, which ends with the test.
struct Moto {
    child: Child,
    port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        // Nothing more can be done about one that does not end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// Starts it with the Python that `cargo xtask setup` made; none where that has no moto.
    fn start() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "the way to a server is a matter of the machine that tests")]
        let named = std::env::var_os("CAIRN_MOTO_PYTHON").map(PathBuf::from);
        let target = program().parent().and_then(Path::parent).map(Path::to_owned).expect("target/<profile>");
        let python = named.unwrap_or_else(|| target.join("clients/bin/python"));
        let has = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: {} has no moto: run `cargo xtask setup`", python.display());
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let mut command = Command::new(&python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let server = Self { child, port };
        let began = Instant::now();
        while exchange(port, "PUT", "/cairn", &[], "").is_none_or(|(status, _)| status != 200) {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not come up");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }
}

/// What a proxy does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    /// Passes them on after so long.
    Late(Duration),
    /// Answers that the server failed.
    Fail,
    /// Says nothing until the mood changes.
    Hang,
}

/// A proxy with moods before a server.
#[derive(Clone)]
struct Proxy {
    port: u16,
    mood: Arc<(Mutex<Mood>, Condvar)>,
}

impl Proxy {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let proxy = Self { port, mood: Arc::new((Mutex::new(Mood::Well), Condvar::new())) };
        let moods = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let moods = moods.clone();
                std::thread::spawn(move || moods.serve(client, server));
            }
        });
        proxy
    }

    fn set(&self, mood: Mood) {
        *self.mood.0.lock().expect("nobody panics with it") = mood;
        self.mood.1.notify_all();
    }

    /// Passes a connection's bytes on in both directions, as the mood is when they come.
    fn serve(&self, mut client: TcpStream, server: u16) -> Option<()> {
        let mut to_server = TcpStream::connect(("127.0.0.1", server)).ok()?;
        let (mut from_server, mut to_client) = (to_server.try_clone().ok()?, client.try_clone().ok()?);
        std::thread::spawn(move || {
            // Whoever ends it, it is over.
            let _ = std::io::copy(&mut from_server, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        let mut piece = [0; 64 << 10];
        loop {
            let count = client.read(&mut piece).ok().filter(|count| *count > 0)?;
            let mood = self.mood.0.lock().expect("nobody panics with it");
            let mood = *self.mood.1.wait_while(mood, |mood| *mood == Mood::Hang).expect("nobody panics with it");
            match mood {
                Mood::Late(span) => std::thread::sleep(span),
                Mood::Fail => {
                    let refusal =
                        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    client.write_all(refusal).ok()?;
                    client.shutdown(Shutdown::Both).ok()?;
                    return to_server.shutdown(Shutdown::Both).ok();
                }
                Mood::Well | Mood::Hang => {}
            }
            to_server.write_all(&piece[..count]).ok()?;
        }
    }
}

/// A number of the tiers', from `/metrics`.
fn metric(home: &Home, name: &str) -> Option<f64> {
    let bearer = home.bearer()?;
    let (_, answer) = exchange(home.port, "GET", "/metrics", &[("Authorization", &bearer)], "")?;
    let line = answer.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until a place has so many chunks.
fn holds(home: &Home, tier: &str, chunks: f64) {
    let until = Instant::now() + Duration::from_secs(30);
    while metric(home, &format!("kvtier_chunks{{tier=\"{tier}\"}}")).is_none_or(|found| found < chunks) {
        assert!(Instant::now() < until, "{tier} has not {chunks} chunks");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the remote place is known to have so many chunks.
fn scanned(home: &Home, chunks: f64) {
    holds(home, "remote", chunks);
}

/// A prompt that shares nothing with those of other seeds, what the model says to it, and how long that took.
fn ask(daemon: &Daemon<'_>, seed: u64) -> (Value, Duration) {
    let prompt = (0..700).map(|word| format!("{} ", (word + 17 * seed) * 7919 % (1000 + seed))).collect::<String>();
    let request = json!({
        "model": "m", "prompt": format!("{seed} {prompt}"), "raw": true, "stream": false,
        "options": {"num_predict": 8, "num_ctx": 4096, "temperature": 0}
    });
    let began = Instant::now();
    let answer = daemon.post("/api/generate", &request).expect("the daemon lives");
    let took = began.elapsed();
    (serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}")), took)
}

fn ns(answer: &Value, field: &str) -> Duration {
    Duration::from_nanos(answer[field].as_u64().unwrap_or_default())
}

/// Ends a daemon well, so that what it computed is written.
fn end(mut daemon: Daemon<'_>) {
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("it is ours").success(), "it ends well: {}", daemon.log());
}

/// A home whose prefixes are kept in a remote place alone.
fn home(remote: &str) -> Home {
    let home = Home::new();
    let home = home.with("CAIRN_KV_WEIGH", "0").with("OLLAMA_KV_TIERING", "1");
    home.with("OLLAMA_KV_TIER_LOCAL_GB", "0").with("OLLAMA_KV_TIER_REMOTE", remote)
}

/// Starts a daemon, with a model.
fn import(home: &Home) -> Daemon<'_> {
    let model = home.folder.path().join("m.gguf");
    let spec = cairn_testkit::ModelSpec { context: 4096, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &model).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    daemon
}

/// What a daemon answers that knows nothing and keeps it.
fn computed(home: &Home, seed: u64) -> Value {
    let daemon = home.serve();
    let (answer, _) = ask(&daemon, seed);
    // An unloaded model hands over what it computed; then there is all the time for that which the end has.
    succeeded(&home.run(&["stop", "m"]));
    holds(home, "ram", 2.0);
    end(daemon);
    answer
}

/// How much longer an answer may take than one that is computed: 100 ms, and what a machine that is busy with other things may add. The
/// places here keep everybody waiting for far longer.
const MARGIN: Duration = Duration::from_millis(100 + 2400);
/// How long a slow server takes.
const LATE: Duration = Duration::from_secs(10);

#[test]
fn an_s3_server_keeps_what_was_computed_and_may_fail() {
    let Some(server) = Moto::start() else { return };
    let proxy = Proxy::before(server.port);
    let home = home("s3://cairn/prefixes")
        .with("AWS_ACCESS_KEY_ID", "key")
        .with("AWS_SECRET_ACCESS_KEY", "secret")
        .with("AWS_REGION", "us-east-1")
        .with("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", proxy.port));
    end(import(&home));
    // What was computed is written at the end at the latest.
    let first: Vec<Value> = (1..=5).map(|seed| computed(&home, seed)).collect();

    // Nothing local is left but the secrets and the model.
    let forget = || drop(std::fs::remove_dir_all(home.folder.path().join("cache")));
    let check = |answer: &Value, seed: usize, why: &str| {
        assert_eq!(answer["response"], first[seed - 1]["response"], "{why}: the same answer: {answer}");
    };
    forget();
    let daemon = home.serve();
    scanned(&home, 10.0);
    let (restored, _) = ask(&daemon, 1);
    let prompt = tokens(&restored, "prompt_eval_count");
    // All that could be written within the second that an end takes at most.
    assert!((512..prompt).contains(&recalled(&restored)), "it comes from the server: {restored}");
    check(&restored, 1, "restored");
    drop(daemon);

    // From here on it is asked where that pays. It is slow, and then it is not.
    let home = home.with("CAIRN_KV_WEIGH", "1");
    let forget = || drop(std::fs::remove_dir_all(home.folder.path().join("cache")));
    let daemon = home.serve();
    scanned(&home, 10.0);
    proxy.set(Mood::Late(LATE));
    let (computed, recompute) = ask(&daemon, 101);
    let (late, took) = ask(&daemon, 2);
    check(&late, 2, "a slow server");
    assert!(took <= recompute + MARGIN, "a slow server: {took:?}, and {recompute:?} to compute it");
    let (decode, alone) = (ns(&late, "eval_duration"), ns(&computed, "eval_duration"));
    assert!(decode <= 3 * alone + Duration::from_millis(500), "decode is as fast: {decode:?} and {alone:?}");
    drop(daemon);

    for (seed, mood) in [(3, Mood::Fail), (4, Mood::Hang)] {
        forget();
        proxy.set(Mood::Well);
        let daemon = home.serve();
        scanned(&home, 10.0);
        proxy.set(mood);
        let (_, recompute) = ask(&daemon, 100 + seed as u64);
        let (answer, took) = ask(&daemon, seed as u64);
        check(&answer, seed, "a server in trouble");
        assert_eq!(tokens(&answer, "remote_tokens"), 0, "{mood:?}: nothing comes: {answer}");
        assert!(took <= recompute + MARGIN, "{mood:?}: {took:?}, and {recompute:?} to compute it");
        proxy.set(Mood::Well);
    }

    // And when it is well again, what it has is found.
    let home = home.with("CAIRN_KV_WEIGH", "0");
    let daemon = home.serve();
    scanned(&home, 10.0);
    let (back, _) = ask(&daemon, 5);
    assert!(recalled(&back) > 0, "it is back: {back}");
    check(&back, 5, "it is back");
}

#[test]
fn a_share_that_hangs_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let share = folder.path().join("share");
    std::fs::create_dir(&share).expect("it is writable");
    let home = home(&share.to_string_lossy());
    end(import(&home));
    let (first, second) = (computed(&home, 1), computed(&home, 2));
    let home = home.with("CAIRN_KV_WEIGH", "1");
    let daemon = home.serve();
    scanned(&home, 4.0);

    // A pipe that nobody writes to in the marker's place: whoever looks whether the share is there hangs, as at a server that is away.
    // That is looked at whenever a file is not found.
    let chunks = cairn_testkit::chunk_files(&share);
    assert!(chunks.len() >= 4, "{chunks:?}");
    let all: Vec<PathBuf> = chunks.into_iter().chain([share.join("cairn-kv-share")]).collect();
    let aside = |path: &Path| path.with_extension("aside");
    all.iter().for_each(|path| std::fs::rename(path, aside(path)).expect("it is there"));
    let marker = all.last().expect("it is the last");
    assert!(Command::new("mkfifo").arg(marker).status().expect("it starts").success(), "a pipe is made");
    let (_, recompute) = ask(&daemon, 101);
    let (answer, took) = ask(&daemon, 1);
    assert_eq!(answer["response"], first["response"], "the same answer: {answer}");
    assert!(took <= recompute + MARGIN, "{took:?}, and {recompute:?} to compute it");
    drop(daemon);

    all.iter().for_each(|path| std::fs::rename(aside(path), path).expect("it is there"));
    let home = home.with("CAIRN_KV_WEIGH", "0");
    let daemon = home.serve();
    scanned(&home, 4.0);
    let (back, _) = ask(&daemon, 2);
    assert!(recalled(&back) > 0, "it is back: {back}");
    assert_eq!(back["response"], second["response"], "with the same answer: {back}");
}
