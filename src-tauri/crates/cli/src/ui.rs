//! `cairn ui`: opens the interface in a browser.
//!
//! The address has a ticket after its `#`, valid once and for one minute. It is printed, and opened only if standard
//! output is a terminal; a script can open the address itself.

use std::process::{Command, Stdio};

use cairn_wire::app::TicketResponse;

use crate::{CliContext, args, daemon, output, terminal};

/// Programs that open an address in the user's browser, with the arguments before the address.
const OPENERS: &[&[&str]] = if cfg!(windows) {
    &[&["rundll32", "url.dll,FileProtocolHandler"]]
} else if cfg!(target_os = "macos") {
    &[&["open"]]
} else {
    &[&["xdg-open"], &["gio", "open"]]
};

pub(crate) async fn open(cli: &CliContext, args: &args::Ui) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("the interface")?;
    let TicketResponse { url } = client.post("/app/session/ticket", &()).await?;
    output::print(&format!("{url}\n"))?;
    if !args.no_open && terminal::is_stdout_terminal() && !OPENERS.iter().any(|words| starts(words, &url)) {
        output::note("Cannot start a browser; open this address in one within a minute.");
    }
    Ok(())
}

/// Starts a program with an address, without waiting for its end. Returns whether it started.
fn starts(words: &[&str], url: &str) -> bool {
    let Some((program, words)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(words).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
