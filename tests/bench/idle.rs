//! Wake-ups of an idle daemon with a loaded model: `cargo xtask bench idle`. Linux only.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

/// Wake-ups per second of the whole process that are acceptable.
const MAX_WAKE_UPS: f64 = 5.0;
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for the work that follows a start and a load.
const SETTLE: Duration = Duration::from_secs(3);
const MEASURE: Duration = Duration::from_secs(20);

/// A daemon that is killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended; that is not an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a daemon in a new home, loads the built-in model, and counts voluntary context switches by thread name.
pub(crate) fn run(folder: &Path, cairn: &Path) -> anyhow::Result<()> {
    let home = std::path::absolute(folder.join("idle-home"))?;
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(&home)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut serve = Command::new(cairn);
    serve.arg("serve").env("CAIRN_HOME", &home).env("OLLAMA_HOST", format!("127.0.0.1:{port}"));
    serve.env_remove("OLLAMA_MODELS").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = Daemon(serve.spawn()?);
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(began.elapsed() < START_TIMEOUT, "the daemon does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    load(port)?;
    std::thread::sleep(SETTLE);
    let before = wake_ups(daemon.0.id())?;
    std::thread::sleep(MEASURE);
    let after = wake_ups(daemon.0.id())?;
    let mut total = 0.0;
    // The count of a name falls when one of its threads ends.
    for (thread, count) in &after {
        let rate = count.saturating_sub(*before.get(thread).unwrap_or(&0)) as f64 / MEASURE.as_secs_f64();
        println!("{thread:<20} {rate:>7.2} wake-ups/s");
        total += rate;
    }
    println!("{:<20} {total:>7.2} wake-ups/s", "total");
    super::write_report(folder, "idle", &[json!({ "wake_ups_per_s": total })])?;
    ensure!(total <= MAX_WAKE_UPS, "{total:.2} wake-ups/s, at most {MAX_WAKE_UPS} are allowed");
    Ok(())
}

/// Loads the built-in model, without a keep-alive limit.
fn load(port: u16) -> anyhow::Result<()> {
    let body = json!({ "model": "pebble", "stream": false, "keep_alive": -1 }).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let length = body.len();
    let head = format!(
        "POST /api/generate HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    ensure!(reply.contains("\"done_reason\":\"load\""), "the model is not loaded: {reply}");
    Ok(())
}

/// Voluntary context switches of a process by thread name.
fn wake_ups(process: u32) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).context("this bench needs Linux")? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let thread = field("Name:").context("a thread without a name")?;
        let count: u64 = field("voluntary_ctxt_switches:").context("no count of context switches")?.parse()?;
        *counts.entry(thread.to_owned()).or_default() += count;
    }
    Ok(counts)
}
