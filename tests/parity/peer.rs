//! llama.cpp, through a Python process that stays open.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

/// A running `llama.py`.
pub struct Peer {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts Python.
    pub fn start(python: &Path) -> anyhow::Result<Self> {
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

    /// The logits of all positions of all prompts, one after the other.
    pub fn logits(&mut self, model: &Path, prompts: &[Vec<u32>], vocabulary: usize) -> anyhow::Result<Vec<f32>> {
        let out = model.with_extension("logits");
        let job = serde_json::json!({ "model": model, "prompts": prompts, "out": out });
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

/// Keeps the last and every 64th position of each prompt, as little-endian f32, with the tokens beside them.
pub fn record(
    folder: &Path,
    name: &str,
    prompts: &[Vec<u32>],
    logits: &[f32],
    vocabulary: usize,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = name.replace(' ', "-");
    std::fs::write(folder.join(format!("{name}.json")), serde_json::to_string(prompts)?)?;
    let mut kept = Vec::new();
    let mut rows = logits.chunks_exact(vocabulary);
    for prompt in prompts {
        for at in 0..prompt.len() {
            let row = rows.next().context("there is a row for each position")?;
            if it::cases::recorded(at, prompt.len()) {
                kept.extend(row.iter().flat_map(|logit| logit.to_le_bytes()));
            }
        }
    }
    std::fs::write(folder.join(format!("{name}.f32")), kept)?;
    Ok(())
}
