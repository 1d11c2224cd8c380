//! Faults of a daemon's environment, one after another: kills, restarts, a full disk, a wrong clock, and little memory.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Soak;
use super::memory_limit::MemoryLimit;
use crate::cairn::{Daemon, Home, kill};

/// Load between two faults.
const PAUSE: Duration = Duration::from_secs(6);
/// Duration of a fault that is not a kill.
const FAULT: Duration = Duration::from_secs(5);

/// Replaces the wall clock of programs. Debian's package `faketime` contains it.
const CLOCK_LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];
const CLOCK_FILE: &str = "clock";

/// Lets the test change the daemon's wall clock, if the library is installed.
pub(super) fn with_clock(home: Home) -> Home {
    let Some(library) = CLOCK_LIBRARIES.iter().find(|library| Path::new(library).exists()) else {
        eprintln!("skipped: jumps of the clock need the package faketime");
        return home;
    };
    let file = home.folder.path().join(CLOCK_FILE);
    fs::write(&file, "+0").expect("the home is writable");
    home.with("LD_PRELOAD", *library)
        .with("FAKETIME_TIMESTAMP_FILE", file.to_string_lossy())
        .with("FAKETIME_CACHE_DURATION", "1")
        .with("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .with("NO_FAKE_STAT", "1")
}

/// Injects faults until a time.
pub(super) fn run<'a>(soak: &'a Soak, daemon: &mut Daemon<'a>, until: Instant) {
    for round in 0.. {
        std::thread::sleep(PAUSE);
        if Instant::now() > until {
            break;
        }
        match round % 5 {
            0 => restart(soak, daemon, "-KILL"),
            1 => full_disk(soak),
            2 => wrong_clock(soak),
            3 => little_memory(soak, daemon),
            _ => restart(soak, daemon, "-TERM"),
        }
    }
}

/// Ends the daemon by a signal and starts it again.
fn restart<'a>(soak: &'a Soak, daemon: &mut Daemon<'a>, signal: &str) {
    soak.is_up.store(false, Ordering::SeqCst);
    assert!(kill(daemon.child.id(), signal), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    if daemon.log().contains("panicked") {
        soak.violation(format!("a panic: {}", daemon.log()));
    }
    *daemon = soak.home.serve();
    soak.incarnation.fetch_add(1, Ordering::SeqCst);
    soak.is_up.store(true, Ordering::SeqCst);
    soak.count(format!("fault: restart after {signal}"));
}

fn full_disk(soak: &Soak) {
    let Some(disk) = &soak.disk else { return };
    disk.fill(0);
    std::thread::sleep(FAULT);
    disk.free_space();
    soak.count("fault: full disk");
}

/// Sets the clock forwards and then backwards.
fn wrong_clock(soak: &Soak) {
    let file = soak.home.folder.path().join(CLOCK_FILE);
    if !file.exists() {
        return;
    }
    for offset in ["+400d", "-30d", "+0"] {
        fs::write(&file, offset).expect("the home is writable");
        std::thread::sleep(FAULT / 2);
    }
    soak.count("fault: clock");
}

fn little_memory(soak: &Soak, daemon: &Daemon<'_>) {
    let Some(limit) = MemoryLimit::above_use(daemon.child.id()) else { return };
    std::thread::sleep(FAULT);
    drop(limit);
    soak.count("fault: little memory");
}
