//! The desktop app: a window, a tray icon, dialogs and notifications around the daemon, of which it is a client.
//!
//! The page in the window is the one that the daemon also serves to browsers, and speaks to the daemon over HTTP by itself. Here
//! is only what a page cannot do. Whatever happens to the window, models that are on their way and answers that run are the
//! daemon's, and go on.
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
mod tray;
mod update;
mod window;
mod words;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use shell::Start;
use sidecar::Asked;

/// The word by which the system starts this with nothing but the tray, after a login.
const HIDDEN: &str = "--hidden";

fn main() -> ExitCode {
    let hidden = std::env::args().any(|arg| arg == HIDDEN);
    let asked = sidecar::program().and_then(|program| Asked::of(&program));
    let (places, pending) = match asked {
        Ok(asked) => (Some(asked.places.clone()), Ok(asked)),
        Err(error) => (None, Err(error)),
    };
    let start = Start { hidden, places, pending };
    let ended = match display() {
        Ok(()) => run(start),
        // The daemon comes all the same: it is of use without a window.
        Err(why) => start.pending.and_then(Asked::server).map_or_else(Err, |_| Err(anyhow::anyhow!(why))),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: the window cannot be opened: {error:#}");
            eprintln!(
                "Cairn's daemon does not need it: `cairn ui` opens the same page in a browser, `cairn run` chats here."
            );
            ExitCode::FAILURE
        }
    }
}

/// Runs the window until its user quits. Toolkits end programs where they find no screen; here that is an error like others.
fn run(start: Start) -> anyhow::Result<()> {
    match panic::catch_unwind(AssertUnwindSafe(|| shell::run(start))) {
        Ok(ended) => ended,
        Err(_) => anyhow::bail!("the system's windows could not be used; what they said is above"),
    }
}

/// Whether there is a screen to put a window on.
#[cfg(any(windows, target_os = "macos"))]
fn display() -> Result<(), &'static str> {
    Ok(())
}

#[cfg(not(any(windows, target_os = "macos")))]
#[expect(clippy::disallowed_methods, reason = "the system says by these where a screen is")]
fn display() -> Result<(), &'static str> {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("DISPLAY") || set("WAYLAND_DISPLAY") { Ok(()) } else { Err("there is no display") }
}
