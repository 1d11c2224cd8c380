//! llama.cpp, through a Python process that stays open.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use cairn_convert::FileType;

/// A running `llama.py`.
pub(crate) struct Peer {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts Python.
    pub(crate) fn start(python: &Path) -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("quantise/llama.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} does not start", python.display()))?;
        let jobs = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { child, jobs, answers })
    }

    /// The model at `path` as llama.cpp quantises it, and the seconds that took.
    pub(crate) fn quantise(&mut self, path: &Path, target: FileType, threads: usize) -> anyhow::Result<(Vec<u8>, f64)> {
        let out = path.with_extension("llama.gguf");
        let job = serde_json::json!({ "model": path, "file_type": target.number(), "threads": threads, "out": out });
        writeln!(self.jobs, "{job}").context("llama.py has ended")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let answer: serde_json::Value = serde_json::from_str(&answer).context("llama.py has failed")?;
        ensure!(answer["done"] == true, "llama.cpp cannot make {target} of {}", path.display());
        let bytes = std::fs::read(&out)?;
        std::fs::remove_file(&out)?;
        Ok((bytes, answer["seconds"].as_f64().context("llama.py tells the time")?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input closes; this is for the case that it hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
