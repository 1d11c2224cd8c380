//! Client of a Python process that computes reference results: each line to it is a job in JSON, each line from it a
//! result.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;
use serde_json::Value;

/// A running script.
pub struct Peer {
    child: Child,
    /// What it is called in errors.
    name: String,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a script, `parity/llama.py` for instance, of the folder of tests.
    ///
    /// # Errors
    /// Python cannot be started.
    ///
    /// # Panics
    /// Never: both pipes are requested.
    pub fn start(python: &Path, script: &str) -> anyhow::Result<Self> {
        Self::start_with(python, script, &[])
    }

    /// As [`Peer::start`], with arguments.
    ///
    /// # Errors
    /// Python cannot be started.
    ///
    /// # Panics
    /// Never: both pipes are requested.
    pub fn start_with(python: &Path, script: &str, args: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} does not start", python.display()))?;
        let jobs = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { child, name: script.to_owned(), jobs, answers })
    }

    /// Sends a job and returns the result.
    ///
    /// # Errors
    /// The script has exited or its result is not JSON.
    pub fn ask(&mut self, job: &Value) -> anyhow::Result<Value> {
        writeln!(self.jobs, "{job}").with_context(|| format!("{} has ended", self.name))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        serde_json::from_str(&answer).with_context(|| format!("{} has failed", self.name))
    }

    /// Sends a job that writes a file to the path in its field `out`. Returns the result and the content of the file,
    /// which is deleted.
    ///
    /// # Errors
    /// As [`Peer::ask`], or the file is missing.
    pub fn ask_for_file(&mut self, mut job: Value, out: &Path) -> anyhow::Result<(Value, Vec<u8>)> {
        job["out"] = serde_json::to_value(out)?;
        let answer = self.ask(&job)?;
        let bytes =
            std::fs::read(out).with_context(|| format!("{} wrote no {}: {answer}", self.name, out.display()))?;
        std::fs::remove_file(out)?;
        Ok((answer, bytes))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It exits when its input closes, unless it hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
