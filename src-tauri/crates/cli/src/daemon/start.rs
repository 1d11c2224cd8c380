//! Starting the daemon in the background, and waiting until it answers.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use cairn_app::settings::Address;
use cairn_disk::{Disk, Lock, LockError, RealDisk};

use super::{LOOK_EVERY, READY_WITHIN, own};
use crate::Setting;
use crate::client::Client;

/// Lines of the log that an error shows.
const SHOWN_LINES: usize = 10;
/// The end of the log in which they are looked for.
const SHOWN_BYTES: u64 = 8 << 10;

/// Starts the daemon and returns a client of it once it answers.
pub(super) async fn start(setting: &Setting) -> anyhow::Result<(Client, Address)> {
    check_places(setting)?;
    let mut child = spawn(setting)?;
    let mut waited = Duration::ZERO;
    loop {
        if let Some(reached) = own(setting).await? {
            return Ok(reached);
        }
        // It may have ended because another one was faster; then that one is found above.
        let ended = child.try_wait().context("could not look after the daemon")?;
        if let Some(status) = ended
            && own(setting).await?.is_none()
        {
            bail!("the daemon ended at once ({status}){}", last_lines(&setting.places.log_file()));
        }
        if waited >= READY_WITHIN {
            bail!("the daemon did not start within {READY_WITHIN:?}{}", last_lines(&setting.places.log_file()));
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
}

/// Where the daemon cannot keep its lock, it cannot keep a log either, and would end without a word.
fn check_places(setting: &Setting) -> anyhow::Result<()> {
    const ADVICE: &str = "the daemon needs this folder; set CAIRN_HOME to one that can be written";
    RealDisk.create_dir_all(&setting.places.runtime).context(ADVICE)?;
    match Lock::try_acquire(&setting.places.daemon_lock()) {
        Ok(_) | Err(LockError::Held(_)) => Ok(()),
        Err(error) => Err(error).context(ADVICE),
    }
}

fn spawn(setting: &Setting) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("could not find the path of this program")?;
    let log = setting.places.log_file();
    // What the daemon says before its log works, a panic for instance, goes to the same file.
    let output = RealDisk
        .create_dir_all(&setting.places.logs)
        .is_ok()
        .then(|| OpenOptions::new().create(true).append(true).open(&log));
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
    command.spawn().context("could not start the daemon")
}

/// The end of the log, for an error's text.
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
    fn an_error_shows_the_end_of_the_log() {
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
