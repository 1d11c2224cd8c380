//! The process of a server that is a program.
//!
//! The program runs in a process group of its own, so that the programs that it starts end with it: `npx` and `uvx`, for example,
//! start the server as another process. Dropping a [`Child`] kills the group. The environment has only the variables that
//! programs need to find files and other programs, never the daemon's own settings, keys and proxies with passwords.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::LastLines;
use crate::limits::{EXIT_GRACE, MAX_STDERR_LINE_BYTES, MAX_STDERR_LINES, STDERR_CHUNK_BYTES, STDERR_PAUSE};
use crate::text::one_line;

/// Variables that a program inherits: those for finding programs and files, and for the language.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR", // Windows
    "APPDATA",
    "LOCALAPPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "PATHEXT",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];
/// Prefix of further variables for the language.
const LOCALE_PREFIX: &str = "LC_";

/// What programs get from the daemon.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The daemon's environment. Programs get a few of its variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Working folder; that of the daemon if it is `None`.
    pub folder: Option<PathBuf>,
}

impl Surroundings {
    /// Returns the variables that a program inherits.
    fn inherited(&self) -> impl Iterator<Item = &(OsString, OsString)> {
        self.environment.iter().filter(|(name, _)| {
            // Names of variables have no case on Windows.
            let name = name.to_string_lossy();
            let name = if cfg!(windows) { name.to_ascii_uppercase() } else { name.into_owned() };
            INHERITED.contains(&&*name) || name.starts_with(LOCALE_PREFIX)
        })
    }
}

/// A running program. Dropping it kills the program and those that it started.
#[derive(Debug)]
pub(crate) struct Child {
    group: Arc<Group>,
    stderr: Arc<Mutex<Tail>>,
    /// The exit status, once the program exited.
    exit: watch::Receiver<Option<String>>,
}

impl Child {
    /// Starts a program. Returns its input and output too.
    pub(crate) fn spawn(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        surroundings: &Surroundings,
    ) -> std::io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut program = Command::new(command);
        program.args(args).env_clear().envs(surroundings.inherited().map(|(name, value)| (name, value))).envs(env);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        if let Some(folder) = &surroundings.folder {
            program.current_dir(folder);
        }
        #[cfg(unix)]
        program.process_group(0);
        let mut process = program.spawn()?;
        let group = Arc::new(Group::new(process.id()));
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(std::io::Error::other("the program has no pipes"));
        };
        let tail = Arc::new(Mutex::new(Tail::default()));
        let reading = tokio::spawn(read_stderr(stderr, Arc::clone(&tail)));
        let (exited, exit) = watch::channel(None);
        let exiting = Arc::clone(&group);
        tokio::spawn(async move {
            let status = process.wait().await;
            // Programs that it started may have its output open, which would never end otherwise.
            exiting.kill();
            // Then the last lines are complete, unless another program has the pipe.
            let _ = timeout(EXIT_GRACE, reading).await;
            exited.send_replace(Some(status.map_or_else(|error| error.to_string(), |status| status.to_string())));
        });
        Ok((Self { group, stderr: tail, exit }, stdin, stdout))
    }

    /// Waits for the program's exit, at most for `grace`. Returns its exit status.
    pub(crate) async fn exited(&self, grace: Duration) -> Option<String> {
        let mut exit = self.exit.clone();
        let status = timeout(grace, exit.wait_for(Option::is_some)).await;
        status.ok()?.ok()?.clone()
    }

    pub(crate) fn kill(&self) {
        self.group.kill();
    }

    /// Last lines of standard error.
    pub(crate) fn last_lines(&self) -> LastLines {
        LastLines(self.stderr.lock().lines())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The process group of a program, until it is killed.
#[derive(Debug)]
struct Group(Mutex<Option<u32>>);

impl Group {
    fn new(id: Option<u32>) -> Self {
        Self(Mutex::new(id))
    }

    /// Kills all processes of the group, once: later the number may be that of another group.
    fn kill(&self) {
        if let Some(id) = self.0.lock().take() {
            kill_group(id);
        }
    }
}

#[cfg(unix)]
fn kill_group(id: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) else { return };
    // An error means that no process of the group is left.
    let _ = kill_process_group(group, Signal::KILL);
}

/// Kills the process and those that it started. Windows has no process groups; `taskkill` follows the parents.
#[cfg(windows)]
fn kill_group(id: u32) {
    let id = id.to_string();
    let command = std::process::Command::new("taskkill")
        .args(["/F", "/T", "/PID", &id])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = command {
        tracing::warn!(%error, "cannot kill the processes of an MCP server");
    }
}

/// Reads standard error to its end, so that the program never waits for it.
async fn read_stderr(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<Tail>>) {
    let mut chunk = vec![0; STDERR_CHUNK_BYTES];
    let mut since_pause = 0;
    loop {
        match stderr.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => {
                tail.lock().add(&chunk[..bytes]);
                since_pause += bytes;
            }
        }
        if since_pause >= STDERR_CHUNK_BYTES {
            since_pause = 0;
            tokio::time::sleep(STDERR_PAUSE).await;
        }
    }
}

/// The last lines of a stream of bytes.
#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<Vec<u8>>,
    /// The line in progress.
    line: Vec<u8>,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = MAX_STDERR_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.lines.push_back(line);
                if self.lines.len() > MAX_STDERR_LINES {
                    self.lines.pop_front();
                }
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let all = self.lines.iter().chain(std::iter::once(&self.line));
        let lines = all.map(|line| one_line(&String::from_utf8_lossy(line), MAX_STDERR_LINE_BYTES));
        lines.filter(|line| !line.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_has_the_last_lines_within_limits() {
        let mut tail = Tail::default();
        for number in 0..100 {
            tail.add(format!("line {number}\n").as_bytes());
        }
        tail.add(&vec![b'x'; 100_000]);
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_STDERR_LINES + 1);
        assert_eq!(lines[0], "line 80");
        assert_eq!(lines[MAX_STDERR_LINES].len(), MAX_STDERR_LINE_BYTES);
        assert!(tail.line.len() <= MAX_STDERR_LINE_BYTES, "memory is bounded without line breaks");
    }

    #[test]
    fn only_harmless_variables_are_inherited() {
        let names =
            ["PATH", "HOME", "LC_ALL", "CAIRN_TOKEN", "OPENAI_API_KEY", "HTTPS_PROXY", "LD_PRELOAD", "SSH_AUTH_SOCK"];
        let environment = names.iter().map(|name| (OsString::from(name), OsString::from("x"))).collect();
        let surroundings = Surroundings { environment, folder: None };
        let inherited: Vec<&OsString> = surroundings.inherited().map(|(name, _)| name).collect();
        assert_eq!(inherited, ["PATH", "HOME", "LC_ALL"]);
    }
}
