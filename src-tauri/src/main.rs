//! The desktop app: a window, a tray icon, dialogs and notifications. The app is a client of the daemon.
//!
//! The window shows the same page that the daemon serves to browsers; the page uses the daemon's HTTP API itself. This
//! program has only functions that a page cannot have. Downloads and answers run in the daemon and do not depend on the
//! window.
#![forbid(unsafe_code)]
#![cfg_attr(all(windows, not(debug_assertions)), windows_subsystem = "windows")]

mod again;
mod choices;
mod client;
mod clipboard;
mod commands;
mod follow;
mod link;
mod news;
mod seen;
mod shell;
mod sidecar;
mod start;
mod tray;
mod update;
mod window;
mod words;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use sidecar::CairnProcess;
use start::Start;

/// Argument for a start at login: shows only the tray icon.
const HIDDEN: &str = "--hidden";

fn main() -> ExitCode {
    let hidden = std::env::args().any(|arg| arg == HIDDEN);
    let pending = sidecar::program().and_then(|program| CairnProcess::start(&program));
    let places = pending.as_ref().ok().map(|process| process.places.clone());
    let start = Start { hidden, places, pending };
    let result = match check_display() {
        Ok(()) => run(start),
        // The daemon is started without a window, too, because other clients can use it.
        Err(reason) => start.pending.and_then(CairnProcess::server).map_or_else(Err, |_| Err(anyhow::anyhow!(reason))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: cannot open the window: {error:#}");
            eprintln!("`cairn ui` opens the same page in a browser; `cairn run` starts a chat in the terminal.");
            ExitCode::FAILURE
        }
    }
}

/// Runs the app until the user quits. Catches the panic of a window toolkit without a display and returns an error.
fn run(start: Start) -> anyhow::Result<()> {
    match panic::catch_unwind(AssertUnwindSafe(|| start::run(start))) {
        Ok(result) => result,
        Err(_) => anyhow::bail!("cannot use the system's windows; the error of the window toolkit is above"),
    }
}

/// Fails if there is no display for a window.
#[cfg(any(windows, target_os = "macos"))]
fn check_display() -> Result<(), &'static str> {
    Ok(())
}

#[cfg(not(any(windows, target_os = "macos")))]
#[expect(clippy::disallowed_methods, reason = "the display is found by environment variables")]
fn check_display() -> Result<(), &'static str> {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("DISPLAY") || set("WAYLAND_DISPLAY") { Ok(()) } else { Err("there is no display") }
}
