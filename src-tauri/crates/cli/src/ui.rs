//! `cairn ui`: opens the interface in a browser.
//!
//! The address has a ticket behind its `#` that is good once and for a minute. It is printed, and opened where somebody sits
//! at a terminal; a script that reads it opens it as it likes.

use std::process::{Command, Stdio};

use cairn_wire::app::TicketResponse;

use crate::{Setting, args, daemon, output, terminal};

/// Programs that open an address in the user's browser, with what stands before the address.
const OPENERS: &[&[&str]] = if cfg!(windows) {
    &[&["rundll32", "url.dll,FileProtocolHandler"]]
} else if cfg!(target_os = "macos") {
    &[&["open"]]
} else {
    &[&["xdg-open"], &["gio", "open"]]
};

pub(crate) async fn open(setting: &Setting, args: &args::Ui) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("the interface")?;
    let TicketResponse { url } = client.post("/app/session/ticket", &()).await?;
    output::print(&format!("{url}\n"))?;
    if !args.no_open && terminal::is_watched() && !OPENERS.iter().any(|words| starts(words, &url)) {
        output::note("No browser could be started: open this address in one, within a minute.");
    }
    Ok(())
}

/// Starts a program with an address. It is left to itself: many a browser stays in front.
fn starts(words: &[&str], url: &str) -> bool {
    let Some((program, words)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(words).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
