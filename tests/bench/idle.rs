//! Wake-ups of an idle daemon with a loaded model: `cargo xtask bench idle`. Linux only.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use it::daemon::Daemon;
use serde_json::json;

/// Wake-ups per second of the whole process that are acceptable.
const MAX_WAKE_UPS: f64 = 5.0;
/// Time for the work that follows a start and a load.
const SETTLE: Duration = Duration::from_secs(3);
const MEASURE: Duration = Duration::from_secs(20);

/// Starts a daemon in a new home, loads the built-in model, and counts voluntary context switches by thread name.
pub(crate) fn run(folder: &Path, cairn: &Path) -> anyhow::Result<()> {
    let daemon = Daemon::start(cairn, &folder.join("idle-home"))?;
    load(&daemon)?;
    std::thread::sleep(SETTLE);
    let before = wake_ups(daemon.process())?;
    std::thread::sleep(MEASURE);
    let after = wake_ups(daemon.process())?;
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
fn load(daemon: &Daemon) -> anyhow::Result<()> {
    let reply = daemon.post("/api/generate", &json!({ "model": "pebble", "stream": false, "keep_alive": -1 }))?;
    ensure!(reply["done_reason"] == "load", "the model is not loaded: {reply}");
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
