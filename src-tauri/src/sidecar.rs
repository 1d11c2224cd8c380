//! `cairn`, the program beside this one: it knows where things are, and finds the daemon or starts it, detached.
//!
//! `cairn desktop` prints two lines, which `wire` describes (`DesktopPlaces`, `DesktopServer`): folders at once, the daemon's
//! address when it answers. The daemon is no child of this process and outlives it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use cairn_wire::app::{DesktopPlaces, DesktopServer};
use serde::de::DeserializeOwned;

/// Where `cairn` is.
///
/// # Errors
/// It is not beside this program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("could not find the path of this program")?;
    let program = own.with_file_name(format!("cairn{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        bail!("{} is missing, and Cairn does not work without it", program.display());
    }
    Ok(program)
}

/// A `cairn desktop` that has said where things are.
pub(crate) struct Asked {
    pub(crate) places: DesktopPlaces,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Asked {
    /// Starts it, and reads its first line.
    ///
    /// # Errors
    /// It does not start, or says why there are no folders.
    pub(crate) fn of(program: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("desktop").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(windows)]
        {
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NO_WINDOW);
        }
        let mut child = command.spawn().with_context(|| format!("could not start {}", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let places = next(&mut lines, &mut child)?;
        Ok(Self { places, child, lines })
    }

    /// Waits until the daemon answers.
    ///
    /// # Errors
    /// Why there is none, in the words of `cairn`.
    pub(crate) fn server(mut self) -> anyhow::Result<DesktopServer> {
        let server = next(&mut self.lines, &mut self.child)?;
        // It has nothing more to say, and is gone in a moment.
        let _ = self.child.wait();
        Ok(server)
    }
}

/// The next line, or what was said instead.
fn next<T: DeserializeOwned>(lines: &mut BufReader<ChildStdout>, child: &mut Child) -> anyhow::Result<T> {
    let mut line = String::new();
    let read = lines.read_line(&mut line).context("could not read what cairn says")?;
    if read > 0 {
        return serde_json::from_str(&line).context("cairn says something that this version does not understand");
    }
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        let _ = errors.read_to_string(&mut said);
    }
    let status = child.wait().context("could not wait for cairn")?;
    let said = said.trim();
    let said = said.strip_prefix("Error: ").unwrap_or(said);
    if said.is_empty() { bail!("cairn ended without a word ({status})") } else { bail!("{said}") }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Asks a script in place of `cairn`, and returns the folder and the address it told, or its error.
    fn ask(script: &str) -> Result<(String, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("cairn");
        // Under another name first: a program that is open for writing cannot be started.
        let draft = folder.path().join("draft");
        std::fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::rename(&draft, &program).unwrap();
        let asked = Asked::of(&program).map_err(|error| error.to_string())?;
        let places = asked.places.config_folder.clone();
        asked.server().map(|server| (places, server.address)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_cairn_says_is_understood() {
        const PLACES: &str = r#"echo '{"config_folder":"/c","log_file":"/l/cairn.log"}'"#;
        const SERVER: &str = r#"echo '{"address":"http://127.0.0.1:1","token":"t"}'"#;
        let check = |script: &str, expected: Result<(&str, &str), &str>| match (ask(script), expected) {
            (Ok((folder, address)), Ok(expected)) => assert_eq!((&*folder, &*address), expected, "{script}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{part:?} is not in {error:?}"),
            (got, expected) => panic!("{script}: {got:?}, expected {expected:?}"),
        };
        check(&format!("{PLACES}; {SERVER}"), Ok(("/c", "http://127.0.0.1:1")));
        check("echo 'Error: this user has no home folder' >&2; exit 1", Err("this user has no home folder"));
        check(&format!("{PLACES}; echo 'Error: port taken' >&2; exit 1"), Err("port taken"));
        check(&format!("{PLACES}; exit 3"), Err("without a word"));
        check("echo hello", Err("does not understand"));
    }
}
