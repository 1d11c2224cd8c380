//! Benchmark of the desktop app: time from start to interactive, idle memory of the app and the daemon, and package
//! size. `cargo xtask bench desktop` runs it.
//!
//! A start ends when the page has the message field. It is measured from the creation of the app's process, in
//! hundredths of a second, and includes the work of WebKitWebDriver. Cold means that no daemon runs and the app starts
//! one. After the first round, files are in the page cache in both cases.

#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), expect(unused, reason = "the virtual display requires Linux"))]

#[cfg(target_os = "linux")]
#[path = "../it/cairn.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
mod cairn;
#[cfg(target_os = "linux")]
mod deadline;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
mod homes;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
mod screen;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
mod session;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

#[cfg(target_os = "linux")]
use {
    cairn::{Home, kill},
    screen::Screen,
    session::Session,
};

/// Ticks of the process times in `/proc`; the same on every Linux architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// Idle time before memory is measured.
const IDLE: Duration = Duration::from_secs(30);

/// Command-line options.
struct Options {
    rounds: usize,
    /// Folder of `cairn` and `cairn-desktop`; by default the build folder.
    programs: Option<PathBuf>,
    /// Path of a `.deb`.
    package: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let mut options = Options { rounds: 5, programs: None, package: None };
    // `cargo bench` adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--rounds" => options.rounds = value.parse()?,
            "--programs" => options.programs = Some(std::path::absolute(value)?),
            "--package" => options.package = Some(value.into()),
            _ => bail!("unknown option {flag}; use --rounds, --programs, --package"),
        }
    }
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    measure(&options)
}

#[cfg(not(target_os = "linux"))]
fn measure(_: &Options) -> anyhow::Result<()> {
    bail!("the desktop benchmark requires Linux")
}

#[cfg(target_os = "linux")]
fn measure(options: &Options) -> anyhow::Result<()> {
    if let Some(folder) = &options.programs {
        cairn::PROGRAMS.set(folder.clone()).map_err(|_| anyhow::anyhow!("the program folder is already set"))?;
    }
    println!("programs: {}", cairn::program().with_file_name("").display());
    let Some(screen) = Screen::new() else { bail!("cannot measure without these programs") };
    let home = homes::home();
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        let (session, cold_s) = start(&screen, &home)?;
        drop(session);
        let (session, warm_s) = start(&screen, &home)?;
        println!("round {round}: without a daemon {cold_s:.2} s, with one {warm_s:.2} s");
        cold.push(cold_s);
        warm.push(warm_s);
        if round == options.rounds {
            memory(&screen, &home)?;
        }
        drop(session);
        let daemon = home.daemon_pid().context("the daemon wrote no file")?;
        kill(daemon, "-TERM");
        deadline::until("the daemon exited", || !kill(daemon, "-0"));
    }
    report("start to interactive, no daemon runs", cold);
    report("start to interactive, the daemon runs", warm);
    options.package.as_deref().map_or(Ok(()), package)
}

/// Starts the app; returns the session and the seconds until the message field appeared.
#[cfg(target_os = "linux")]
fn start<'a>(screen: &'a Screen, home: &'a Home) -> anyhow::Result<(Session<'a>, f64)> {
    let session = Session::open(screen, home);
    let now = std::fs::read_to_string("/proc/uptime")?;
    let now: f64 = now.split(' ').next().unwrap_or_default().parse().context("invalid /proc/uptime")?;
    let app = *screen.apps(home).first().context("the app does not run")?;
    let stat = std::fs::read_to_string(format!("/proc/{app}/stat"))?;
    // The program's name is in brackets and may contain spaces. The start time is the 22nd field, the 20th after the
    // name (proc_pid_stat(5)).
    let (_, fields) = stat.rsplit_once(") ").context("invalid /proc/PID/stat")?;
    let began: f64 =
        fields.split(' ').nth(19).unwrap_or_default().parse().context("invalid start time in /proc/PID/stat")?;
    Ok((session, now - began / TICKS_PER_SECOND))
}

/// Prints the memory of the app and the daemon after [`IDLE`], without the web view's processes.
#[cfg(target_os = "linux")]
fn memory(screen: &Screen, home: &Home) -> anyhow::Result<()> {
    std::thread::sleep(IDLE);
    let app = *screen.apps(home).first().context("the app does not run")?;
    let daemon = home.daemon_pid().context("the daemon wrote no file")?;
    for (name, pid) in [("app", app), ("daemon", daemon)] {
        let path = format!("/proc/{pid}/smaps_rollup");
        let rollup = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let mb = |what: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(what)).with_context(|| format!("no {what}"))?;
            let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("invalid number of kilobytes")?;
            anyhow::Ok(kib * 1024.0 / 1e6)
        };
        println!("{name}, idle for {} s: RSS {:.1} MB, PSS {:.1} MB", IDLE.as_secs(), mb("Rss:")?, mb("Pss:")?);
    }
    Ok(())
}

/// Prints the package size and the installed size.
fn package(file: &Path) -> anyhow::Result<()> {
    let bytes = file.metadata().with_context(|| format!("cannot find {}", file.display()))?.len();
    let mut field = Command::new("dpkg-deb");
    let output = field.arg("--field").arg(file).arg("Installed-Size").output().context("cannot start dpkg-deb")?;
    ensure!(output.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&output.stderr));
    let kib: f64 = String::from_utf8(output.stdout)?.trim().parse().context("the package has no installed size")?;
    println!("package: {:.1} MB, installed {:.1} MB ({})", bytes as f64 / 1e6, kib * 1024.0 / 1e6, file.display());
    Ok(())
}

fn report(what: &str, mut seconds: Vec<f64>) {
    seconds.sort_by(f64::total_cmp);
    let (least, most) = (seconds[0], seconds[seconds.len() - 1]);
    println!("{what}: median {:.2} s ({least:.2} to {most:.2}, {} rounds)", seconds[seconds.len() / 2], seconds.len());
}
