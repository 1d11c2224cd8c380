//! Time to the first token of a prompt that is restored from disk, compared with computing it:
//! `cargo xtask bench kv-ttft [--shape 0.6b|1b|8b-8layers] [--tokens 1024|4096|16384]`.
//!
//! A prompt is computed, its rows are written and its model is unloaded. Each round then opens the folder as a
//! restarted daemon does, loads the model and sends the same prompt. All but its last token must come from disk past
//! the page cache, and the answer must be equal. Weights stay in the page cache on both sides. Each time is appended to
//! `kv-ttft.jsonl`, and a later call resumes from there; remove the file to start over.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_tier::SsdOptions;
use serde_json::{Value, json};

use super::bars::{Bar, median, report};
use super::{Options, Running, Shape, block_on, place};

const SHAPES: [&str; 3] = ["0.6b", "1b", "8b-8layers"];
/// Tokens of a prompt, number of times it is computed, and the largest allowed ratio of restore time to compute time.
const LENGTHS: [(usize, usize, f64); 3] = [(1024, 3, 0.10), (4096, 1, 0.04), (16_384, 1, 0.02)];
const RESTORES: usize = 5;
/// Tokens of each answer, to be compared.
const ANSWER: usize = 8;
/// More than the rows of any of these prompts.
const RAM_BYTES: u64 = 3 << 30;

pub(crate) fn run(folder: &Path, options: &Options) -> anyhow::Result<()> {
    let journal = Journal(folder.join("kv-ttft.jsonl"));
    let mut bars = Vec::new();
    let names: Vec<&str> = options.shape.as_deref().map_or(SHAPES.to_vec(), |name| vec![name]);
    // Long prompts last: a benchmark that is stopped early has the most results.
    for (tokens, computes, bar) in
        LENGTHS.into_iter().filter(|length| options.tokens.is_none_or(|only| only == length.0))
    {
        for name in &names {
            let cell = Cell { shape: super::shape(name)?, tokens, computes, folder, journal: &journal };
            block_on(cell.measure())?;
            let (restored, computed) = (cell.times("restored")?, cell.times("computed")?);
            let ratio = median(&restored) / median(&computed);
            let figure = format!("{ratio:.4} ({:.0} ms / {:.2} s)", median(&restored) * 1e3, median(&computed));
            bars.push(Bar::new(format!("{name}, {tokens} tokens"), format!("<= {bar:.2}"), figure, ratio <= bar));
        }
    }
    report(&bars)
}

/// One shape at one length.
struct Cell<'a> {
    shape: Shape,
    tokens: usize,
    computes: usize,
    folder: &'a Path,
    journal: &'a Journal,
}

impl Cell<'_> {
    async fn measure(&self) -> anyhow::Result<()> {
        let chunks = self.folder.join(format!("kv-ttft-{}-{}", self.shape.name, self.tokens));
        let restores = self.times("restored")?.len();
        if restores < RESTORES && !chunks.join("whole").exists() {
            if chunks.exists() {
                fs::remove_dir_all(&chunks)?;
            }
            self.compute(Some(&chunks)).await?;
            fs::write(chunks.join("whole"), "")?;
        }
        while self.times("computed")?.len() < self.computes {
            self.compute(None).await?;
        }
        for _ in restores..RESTORES {
            self.restore(&chunks).await?;
        }
        if chunks.exists() {
            fs::remove_dir_all(&chunks)?;
        }
        Ok(())
    }

    fn times(&self, way: &str) -> anyhow::Result<Vec<f64>> {
        let rows = self.journal.rows(self.shape.name, self.tokens, way)?;
        rows.iter().map(|row| row["first_token_s"].as_f64().context("a row without its time")).collect()
    }

    /// Sends the prompt to a newly loaded model. Weights are read into the page cache before.
    async fn ask(&self, running: &Running, way: &str) -> anyhow::Result<Value> {
        running.ask(self.shape.prompt(1, 16), 1, |_, _| ()).await?;
        let answer = running.ask(self.shape.prompt(2, self.tokens), ANSWER, |_, _| ()).await?;
        Ok(json!({
            "shape": self.shape.name, "tokens": self.tokens, "way": way, "first_token_s": answer.first.as_secs_f64(),
            "ssd_tokens": answer.finish.usage.restored.ssd_tokens, "restore_s": answer.finish.usage.restored.wait_ns as f64 / 1e9,
            "answer": answer.finish.tokens,
        }))
    }

    /// Computes the prompt and stores its rows if requested.
    async fn compute(&self, chunks: Option<&Path>) -> anyhow::Result<()> {
        let tiers = chunks.map(|chunks| place::open(chunks, RAM_BYTES, SsdOptions::default(), true)).transpose()?;
        let kept = tiers.as_ref().map(place::kept);
        let running = Running::load(&self.shape, self.folder, kept, self.tokens + 64).await?;
        let row = self.ask(&running, "computed").await?;
        ensure!(row["ssd_tokens"] == 0, "nothing was stored, but rows were restored: {row}");
        running.unload().await?;
        if let Some(tiers) = tiers {
            place::close(&tiers);
        }
        self.journal.add(&row)
    }

    async fn restore(&self, chunks: &Path) -> anyhow::Result<()> {
        // Without a RAM budget, nothing is prefetched while the model loads: all rows come from disk after the request.
        let tiers = place::open(chunks, 0, SsdOptions::default(), true)?;
        let running = Running::load(&self.shape, self.folder, Some(place::kept(&tiers)), self.tokens + 64).await?;
        let row = self.ask(&running, "restored").await?;
        ensure!(row["ssd_tokens"] == self.tokens - 1, "all but the last token must come from disk: {row}");
        for computed in self.journal.rows(self.shape.name, self.tokens, "computed")? {
            ensure!(computed["answer"] == row["answer"], "the answers differ: {computed} and {row}");
        }
        running.unload().await?;
        place::close(&tiers);
        self.journal.add(&row)
    }
}

/// Measurements, one JSON object per line.
struct Journal(PathBuf);

impl Journal {
    fn rows(&self, shape: &str, tokens: usize, way: &str) -> anyhow::Result<Vec<Value>> {
        if !self.0.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&self.0)?;
        let rows = text.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
        Ok(rows
            .into_iter()
            .filter(|row| row["shape"] == shape && row["tokens"] == tokens && row["way"] == way)
            .collect())
    }

    fn add(&self, row: &Value) -> anyhow::Result<()> {
        println!("{row}");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.0)?;
        Ok(writeln!(file, "{row}")?)
    }
}
