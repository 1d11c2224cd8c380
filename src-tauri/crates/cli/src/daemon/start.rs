//! Starts the daemon in the background and waits until it answers.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use cairn_app::settings::Address;
use cairn_disk::{Disk, Lock, LockError, RealDisk};

use super::{POLL_INTERVAL, READY_TIMEOUT, connect_own};
use crate::CliContext;
use crate::client::Client;

/// Lines of the log that an error shows.
const SHOWN_LINES: usize = 10;
/// Bytes at the end of the log that are searched for these lines.
const SHOWN_BYTES: u64 = 8 << 10;

/// Starts the daemon and returns a client once the daemon answers.
pub(super) async fn start(cli: &CliContext) -> anyhow::Result<(Client, Address)> {
    check_places(cli)?;
    let mut child = spawn(cli)?;
    let mut waited = Duration::ZERO;
    loop {
        if let Some(connected) = connect_own(cli).await? {
            return Ok(connected);
        }
        // The child ends at once if another daemon got the lock first. Then the check below finds the other daemon.
        let ended = child.try_wait().context("cannot get the state of the daemon")?;
        if let Some(status) = ended
            && connect_own(cli).await?.is_none()
        {
            bail!("the daemon ended during its start ({status}){}", last_lines(&cli.places.log_file()));
        }
        if waited >= READY_TIMEOUT {
            bail!("the daemon did not start within {READY_TIMEOUT:?}{}", last_lines(&cli.places.log_file()));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        waited += POLL_INTERVAL;
    }
}

/// Checks that the daemon can write its lock. Otherwise it could not write a log either and would end without an error.
fn check_places(cli: &CliContext) -> anyhow::Result<()> {
    const ADVICE: &str = "the daemon needs this folder; set CAIRN_HOME to a writable folder";
    RealDisk.create_dir_all(&cli.places.runtime).context(ADVICE)?;
    match Lock::try_acquire(&cli.places.daemon_lock()) {
        Ok(_) | Err(LockError::Held(_)) => Ok(()),
        Err(error) => Err(error).context(ADVICE),
    }
}

fn spawn(cli: &CliContext) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot get the path of this program")?;
    let log = cli.places.log_file();
    // Output before the log is set up, for example a panic, goes to the same file.
    let output = RealDisk.create_dir_all(&cli.places.logs).is_ok().then(|| crate::log::append(&log));
    let stream = |file: Option<&std::fs::File>| match file.map(std::fs::File::try_clone) {
        Some(Ok(file)) => Stdio::from(file),
        _ => Stdio::null(),
    };
    let output = output.and_then(Result::ok);
    let mut command = Command::new(program);
    command.args(["serve", "--detached"]).stdin(Stdio::null());
    command.stdout(stream(output.as_ref())).stderr(stream(output.as_ref()));
    #[cfg(windows)]
    {
        const DETACHED_PROCESS: u32 = 0x0000_0008;
        std::os::windows::process::CommandExt::creation_flags(&mut command, DETACHED_PROCESS);
    }
    command.spawn().context("cannot start the daemon")
}

/// Returns the last lines of the log for an error text; empty if there is no log.
fn last_lines(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    if shown.is_empty() {
        return String::new();
    }
    format!("; the end of its log, {}:\n  {}", log.display(), shown.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_error_shows_last_log_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert_eq!(last_lines(&log), "", "there is no log");
        let lines: Vec<String> = (0..2000).map(|line| format!("line {line}")).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        let text = last_lines(&log);
        assert!(text.ends_with("line 1998\n  line 1999"), "{text}");
        assert_eq!(text.lines().count(), SHOWN_LINES + 1, "only the end");
    }
}
