//! Speed of a pull compared with `curl -o FILE && sync FILE`: `cargo xtask bench pull [--rounds 5] [--mib 2048]`.
//!
//! Both download the same bytes from the same local registry and finish when the bytes are on disk. Cairn's time is
//! that of `cairn pull` with a running daemon: get the manifest, download, verify the SHA-256, flush, and publish the
//! model.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cairn_store::{Digest, Layer, LayerKind, Manifest};
use cairn_testkit::Random;
use cairn_testkit::registry::{FakeRegistry, Faults};

use crate::{sorted, write_report};

/// Timeout for the first response of a daemon.
const START_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn run(folder: &Path, cairn: &Path, rounds: usize, mib: usize) -> anyhow::Result<()> {
    println!("a pull of {mib} MiB from this machine, {rounds} rounds, in turns");
    let registry = FakeRegistry::start(1, Faults::default())?;
    let digest = serve_model(&registry, mib << 20);
    let (mut pairs, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let theirs = curl(folder, &format!("http://{}/v2/library/m/blobs/{digest}", registry.host()))?;
        let (ours, peak_bytes) = pull(folder, cairn, &format!("{}/library/m", registry.host()))?;
        println!("cairn {ours:6.2} s   curl {theirs:6.2} s   peak memory {} MB", peak_bytes / 1_000_000);
        pairs.push((ours, theirs));
        peaks.push(peak_bytes);
    }
    let ratios = sorted(pairs.iter().map(|(ours, theirs)| ours / theirs));
    let (least, middle, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    println!("cairn takes {least:.2} / {middle:.2} / {most:.2} times as long as curl and sync (min / median / max)");
    let seconds = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).collect::<Vec<_>>();
    let report = serde_json::json!({
        "mib": mib, "cairn_s": seconds(|pair| pair.0), "curl_and_sync_s": seconds(|pair| pair.1), "ratios": ratios,
        "peak_memory_bytes": peaks,
    });
    write_report(folder, "pull", &[report])
}

/// Adds a model of this size to the registry. Returns the digest of its large blob.
fn serve_model(registry: &FakeRegistry, bytes: usize) -> Digest {
    let mut blob = vec![0; bytes];
    Random::new(1).fill(&mut blob);
    let blob: Arc<[u8]> = blob.into();
    let config: Arc<[u8]> = (*b"{}").into();
    let layer = |kind, bytes: &[u8]| Layer { kind, digest: Digest::of(bytes), size_bytes: bytes.len() as u64 };
    let (model, config_layer) = (layer(LayerKind::Model, &blob), layer(LayerKind::config(), &config));
    let digest = model.digest;
    registry.put_manifest("library/m", "latest", &Manifest::to_json(&config_layer, &[model]));
    registry.put_blob(&digest.to_string(), blob);
    registry.put_blob(&config_layer.digest.to_string(), config);
    digest
}

/// Seconds of `curl -o FILE URL && sync FILE`.
fn curl(folder: &Path, url: &str) -> anyhow::Result<f64> {
    let file = folder.join("curl.out");
    let began = Instant::now();
    let fetched = Command::new("curl").args(["--silent", "--fail", "-o"]).arg(&file).arg(url).status();
    ensure!(fetched.context("`curl` is needed for the comparison")?.success(), "curl failed");
    ensure!(Command::new("sync").arg(&file).status()?.success(), "sync failed");
    let seconds = began.elapsed().as_secs_f64();
    fs::remove_file(file)?;
    Ok(seconds)
}

/// Seconds of `cairn pull`, and the peak memory of the daemon in bytes.
fn pull(folder: &Path, cairn: &Path, model: &str) -> anyhow::Result<(f64, u64)> {
    let home = folder.join("home");
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(&home)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let command = |words: &[&str]| {
        let mut command = Command::new(cairn);
        command.args(words).env("CAIRN_HOME", &home).env("OLLAMA_HOST", format!("127.0.0.1:{port}"));
        command.env_remove("OLLAMA_MODELS").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let daemon = Daemon(command(&["serve"]).spawn()?);
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(began.elapsed() < START_WITHIN, "the daemon does not respond");
        std::thread::sleep(Duration::from_millis(20));
    }
    let began = Instant::now();
    ensure!(command(&["pull", "--insecure", "--force", model]).status()?.success(), "cairn pull failed");
    let seconds = began.elapsed().as_secs_f64();
    let peak_bytes = peak_bytes(daemon.0.id())?;
    drop(daemon);
    fs::remove_dir_all(home)?;
    Ok((seconds, peak_bytes))
}

/// A daemon that is killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Peak resident memory of a process in bytes: `VmHWM` of proc(5).
fn peak_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("/proc/PID/status has no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
