//! The program `cairn` in the app's folder. `cairn desktop` reports the folders, and connects to the daemon or starts
//! it.
//!
//! `cairn desktop` prints two lines of JSON: `DesktopPlaces` at once, and `DesktopServer` when the daemon answers. The
//! daemon is not a child of this process and outlives it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use cairn_wire::app::{DesktopPlaces, DesktopServer};
use serde::de::DeserializeOwned;

/// Returns the path of `cairn`.
///
/// # Errors
/// `cairn` is not in the folder of this program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot get the path of this program")?;
    let program = own.with_file_name(format!("cairn{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        bail!("{} is missing; install Cairn again", program.display());
    }
    Ok(program)
}

/// A `cairn desktop` process that has reported the folders.
pub(crate) struct CairnProcess {
    pub(crate) places: DesktopPlaces,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl CairnProcess {
    /// Starts the process and reads its first line.
    ///
    /// # Errors
    /// The process cannot be started or reports an error.
    pub(crate) fn start(program: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("desktop").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(windows)]
        {
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NO_WINDOW);
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let places = next(&mut lines, &mut child)?;
        Ok(Self { places, child, lines })
    }

    /// Waits until the daemon answers.
    ///
    /// # Errors
    /// The error that `cairn` reports.
    pub(crate) fn server(mut self) -> anyhow::Result<DesktopServer> {
        let server = next(&mut self.lines, &mut self.child)?;
        // The process ends after its second line.
        let _ = self.child.wait();
        Ok(server)
    }
}

/// Reads the next line.
///
/// # Errors
/// The text of standard error if the process ended without a line.
fn next<T: DeserializeOwned>(lines: &mut BufReader<ChildStdout>, child: &mut Child) -> anyhow::Result<T> {
    let mut line = String::new();
    let read = lines.read_line(&mut line).context("cannot read the output of cairn")?;
    if read > 0 {
        return serde_json::from_str(&line).context("cannot parse the output of cairn; install Cairn again");
    }
    let mut errors = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut errors);
    }
    let status = child.wait().context("cannot wait for cairn")?;
    let error = errors.trim();
    let error = error.strip_prefix("Error: ").unwrap_or(error);
    if error.is_empty() { bail!("cairn ended without an error message ({status})") } else { bail!("{error}") }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Runs a script in place of `cairn`. Returns the folder and the address that it reports, or its error.
    fn run(script: &str) -> Result<(String, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("cairn");
        // Written under another name first, because a program that is open for writing cannot be started.
        let draft = folder.path().join("draft");
        std::fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::rename(&draft, &program).unwrap();
        let process = CairnProcess::start(&program).map_err(|error| error.to_string())?;
        let places = process.places.config_folder.clone();
        process.server().map(|server| (places, server.address)).map_err(|error| error.to_string())
    }

    #[test]
    fn cairn_output_is_parsed_or_returned_as_error() {
        const PLACES: &str = r#"echo '{"config_folder":"/c","log_file":"/l/cairn.log"}'"#;
        const SERVER: &str = r#"echo '{"address":"http://127.0.0.1:1","token":"t"}'"#;
        let check = |script: &str, expected: Result<(&str, &str), &str>| match (run(script), expected) {
            (Ok((folder, address)), Ok(expected)) => assert_eq!((&*folder, &*address), expected, "{script}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{part:?} is not in {error:?}"),
            (got, expected) => panic!("{script}: {got:?}, expected {expected:?}"),
        };
        check(&format!("{PLACES}; {SERVER}"), Ok(("/c", "http://127.0.0.1:1")));
        check("echo 'Error: this user has no home folder' >&2; exit 1", Err("this user has no home folder"));
        check(&format!("{PLACES}; echo 'Error: port taken' >&2; exit 1"), Err("port taken"));
        check(&format!("{PLACES}; exit 3"), Err("without an error message"));
        check("echo hello", Err("cannot parse the output"));
    }
}
