//! What the desktop app costs its user: the time from its start until they can write, the memory of the app and of the daemon while
//! nothing happens, and what the package takes. `cargo xtask bench desktop` runs this.
//!
//! A start is over when the page has the field for messages. It is counted from the moment at which the kernel made the app's
//! process, in hundredths of a second, and includes what WebKitWebDriver does between the two, so that it is never told too short.
//! Cold means that no daemon runs and the app starts one; files are in the system's memory after the first round in both cases.

#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), expect(unused, reason = "the screen that nobody sees is Linux's"))]

#[cfg(target_os = "linux")]
#[path = "../it/cairn.rs"]
#[expect(dead_code, reason = "the journeys use the rest")]
mod cairn;
#[cfg(target_os = "linux")]
mod deadline;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the journeys use the rest")]
mod homes;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the journeys use the rest")]
mod screen;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the journeys use the rest")]
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

/// Of a process's times in `/proc`, on every machine that Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// How long nothing happens before memory is looked at.
const IDLE: Duration = Duration::from_secs(30);

/// What was asked for.
struct Asked {
    rounds: usize,
    /// The folder with `cairn` and `cairn-desktop`; absent, that in which this was built.
    programs: Option<PathBuf>,
    /// A `.deb`.
    package: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let mut asked = Asked { rounds: 5, programs: None, package: None };
    // `cargo bench` adds a word of its own.
    let mut args = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--rounds" => asked.rounds = value.parse()?,
            "--programs" => asked.programs = Some(std::path::absolute(value)?),
            "--package" => asked.package = Some(value.into()),
            _ => bail!("{flag} is not known; there are --rounds, --programs, --package"),
        }
    }
    ensure!(asked.rounds > 0, "no round measures nothing");
    measure(&asked)
}

#[cfg(not(target_os = "linux"))]
fn measure(_: &Asked) -> anyhow::Result<()> {
    bail!("the desktop app is measured on Linux, where there is a screen that nobody sees")
}

#[cfg(target_os = "linux")]
fn measure(asked: &Asked) -> anyhow::Result<()> {
    if let Some(folder) = &asked.programs {
        cairn::PROGRAMS.set(folder.clone()).map_err(|_| anyhow::anyhow!("the programs were looked for already"))?;
    }
    println!("programs: {}", cairn::program().with_file_name("").display());
    let Some(screen) = Screen::new() else { bail!("nothing is measured without these programs") };
    let home = homes::home();
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for round in 1..=asked.rounds {
        let (session, cold_s) = start(&screen, &home)?;
        drop(session);
        let (session, warm_s) = start(&screen, &home)?;
        println!("round {round}: without a daemon {cold_s:.2} s, with one {warm_s:.2} s");
        cold.push(cold_s);
        warm.push(warm_s);
        if round == asked.rounds {
            memory(&screen, &home)?;
        }
        drop(session);
        let daemon = home.daemon_pid().context("the daemon wrote no file")?;
        kill(daemon, "-TERM");
        deadline::until("the daemon is gone", || !kill(daemon, "-0"));
    }
    report("start to interactive, no daemon runs", cold);
    report("start to interactive, the daemon runs", warm);
    asked.package.as_deref().map_or(Ok(()), package)
}

/// Starts the app, and says after how many seconds its user could write.
#[cfg(target_os = "linux")]
fn start<'a>(screen: &'a Screen, home: &'a Home) -> anyhow::Result<(Session<'a>, f64)> {
    let session = Session::open(screen, home);
    let now = std::fs::read_to_string("/proc/uptime")?;
    let now: f64 = now.split(' ').next().unwrap_or_default().parse().context("the time since the system's start")?;
    let app = *screen.apps(home).first().context("the app does not run")?;
    let stat = std::fs::read_to_string(format!("/proc/{app}/stat"))?;
    // The program's name is in brackets and may have blanks; the time is the 22nd field, the 20th behind it (proc_pid_stat(5)).
    let (_, fields) = stat.rsplit_once(") ").context("the process's state")?;
    let began: f64 = fields.split(' ').nth(19).unwrap_or_default().parse().context("the process's start")?;
    Ok((session, now - began / TICKS_PER_SECOND))
}

/// Tells the memory of both processes, once nothing has happened for a while. The web view's own processes are not theirs.
#[cfg(target_os = "linux")]
fn memory(screen: &Screen, home: &Home) -> anyhow::Result<()> {
    std::thread::sleep(IDLE);
    let app = *screen.apps(home).first().context("the app does not run")?;
    let daemon = home.daemon_pid().context("the daemon wrote no file")?;
    for (name, pid) in [("app", app), ("daemon", daemon)] {
        let path = format!("/proc/{pid}/smaps_rollup");
        let rollup = std::fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
        let mb = |what: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(what)).with_context(|| format!("no {what}"))?;
            let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("kilobytes")?;
            anyhow::Ok(kib * 1024.0 / 1e6)
        };
        println!("{name}, idle for {} s: RSS {:.1} MB, PSS {:.1} MB", IDLE.as_secs(), mb("Rss:")?, mb("Pss:")?);
    }
    Ok(())
}

/// Tells how large the package is, and what it takes when it is installed.
fn package(file: &Path) -> anyhow::Result<()> {
    let bytes = file.metadata().with_context(|| format!("{} is not there", file.display()))?.len();
    let mut field = Command::new("dpkg-deb");
    let said = field.arg("--field").arg(file).arg("Installed-Size").output().context("dpkg-deb does not start")?;
    ensure!(said.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&said.stderr));
    let kib: f64 = String::from_utf8(said.stdout)?.trim().parse().context("the package says no installed size")?;
    println!("package: {:.1} MB, installed {:.1} MB ({})", bytes as f64 / 1e6, kib * 1024.0 / 1e6, file.display());
    Ok(())
}

fn report(what: &str, mut seconds: Vec<f64>) {
    seconds.sort_by(f64::total_cmp);
    let (least, most) = (seconds[0], seconds[seconds.len() - 1]);
    println!("{what}: median {:.2} s ({least:.2} to {most:.2}, {} rounds)", seconds[seconds.len() / 2], seconds.len());
}
