//! llama.cpp, through a Python process that stays open.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

/// A running `llama.py`.
pub(crate) struct Peer {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts Python.
    pub(crate) fn start(python: &Path) -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("parity/llama.py");
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

    /// The logits of all positions of all prompts, one after the other, with keys and values of the type `cache`.
    pub(crate) fn logits(
        &mut self,
        model: &Path,
        prompts: &[Vec<u32>],
        cache: &str,
        vocabulary: usize,
    ) -> anyhow::Result<Vec<f32>> {
        let out = model.with_extension("logits");
        let job = serde_json::json!({ "model": model, "prompts": prompts, "cache": cache, "out": out });
        writeln!(self.jobs, "{job}").context("llama.py has ended")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let answer: serde_json::Value = serde_json::from_str(&answer).context("llama.py has failed")?;
        ensure!(answer["vocabulary"] == vocabulary, "llama.cpp sees another vocabulary: {answer}");
        let logits = floats(&std::fs::read(&out)?);
        std::fs::remove_file(&out)?;
        let positions: usize = prompts.iter().map(Vec::len).sum();
        ensure!(logits.len() == positions * vocabulary, "llama.cpp gave {} logits", logits.len());
        Ok(logits)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input closes; this is for the case that it hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}
