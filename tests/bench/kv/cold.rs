//! Time to resume a long conversation after the daemon was killed: `cargo xtask bench kv-cold [--shape 0.6b] [--tokens
//! 16384]`.
//!
//! The first call computes the conversation and stores it on disk. Its home stays in the target folder for later calls.
//! Each round kills the daemon, drops the weights from the page cache and starts a daemon. A short prompt measures the
//! load. The conversation then measures the restore from disk, because this daemon has no RAM tier. After another kill,
//! the conversation is sent first.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Options;
use super::bars::{Bar, median, report};

const ROUNDS: usize = 5;
/// Timeout for the first response of a daemon.
const START_WITHIN: Duration = Duration::from_secs(20);
/// Writes of an idle conversation are complete after this time: they start after 30 s.
const QUIET: Duration = Duration::from_secs(40);
/// Most tokens that may be computed: a new turn.
const COMPUTED_TOKENS: u64 = 16;

pub(crate) fn run(folder: &Path, cairn: &Path, options: &Options) -> anyhow::Result<()> {
    let shape = super::shape(options.shape.as_deref().unwrap_or("0.6b"))?;
    let tokens = options.tokens.unwrap_or(16_384);
    let home =
        Home { cairn, path: std::path::absolute(folder.join(format!("kv-cold-{}-{tokens}", shape.name)))?, tokens };
    let prompt = home.prepare(&shape.file(folder)?)?;
    let (mut load, mut restore, mut cold) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        home.drop_weights()?;
        let daemon = home.serve(Some("0"))?;
        load.push(home.ask(&daemon, "green", 1)?.first_s);
        let kept = home.ask(&daemon, &format!("{prompt} what"), 1)?;
        home.check(&kept)?;
        restore.push(kept.end["restore_duration"].as_f64().context("no restore_duration")? / 1e9);
        drop(daemon);
        home.drop_weights()?;
        let daemon = home.serve(None)?;
        let answer = home.ask(&daemon, &format!("{prompt} what"), 1)?;
        home.check(&answer)?;
        cold.push(answer.first_s);
        println!(
            "load and a short prompt {:.3} s, restore {:.3} s, the conversation after a restart {:.3} s",
            load[load.len() - 1],
            restore[restore.len() - 1],
            answer.first_s
        );
    }
    let (load, cold) = (median(&load), median(&cold));
    let bar = |what: &str, limit: f64| {
        let name = "first token after a kill and a restart";
        Bar::new(name, format!("<= load + {what}"), format!("{cold:.3} s, of {limit:.3} s"), cold <= limit)
    };
    // The last conversation is prefetched while the weights are read.
    report(&[bar("1.2 x restore", load + 1.2 * median(&restore)), bar("150 ms", load + 0.15)])
}

/// The files of a daemon, kept over restarts.
struct Home<'a> {
    cairn: &'a Path,
    path: PathBuf,
    tokens: usize,
}

/// A daemon that is killed on drop, without time to write anything.
struct Daemon {
    child: Child,
    port: u16,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer: time to its first token, and its last message.
struct Answer {
    first_s: f64,
    end: Value,
}

impl Home<'_> {
    /// Computes and stores the conversation, unless an earlier call did.
    fn prepare(&self, model: &Path) -> anyhow::Result<String> {
        let text = self.path.join("conversation.txt");
        if text.exists() {
            return Ok(fs::read_to_string(text)?);
        }
        if self.path.exists() {
            fs::remove_dir_all(&self.path)?;
        }
        fs::create_dir_all(&self.path)?;
        let daemon = self.serve(None)?;
        let imported = self.command(daemon.port, &["import"]).arg(model).arg("m").status()?;
        ensure!(imported.success(), "the model cannot be imported");
        let words = ["stone", "river", "paper", "light", "water", "house", "memory", "number", "green", "world"];
        let said = |count: usize| {
            let mut random = cairn_testkit::Random::from_name(1, "conversation");
            (0..count).map(|_| words[random.below(words.len() as u64) as usize]).collect::<Vec<_>>().join(" ")
        };
        let few =
            self.ask(&daemon, &said(256), 1)?.end["prompt_eval_count"].as_f64().context("no prompt_eval_count")?;
        let prompt = said((self.tokens as f64 * 256.0 / few) as usize);
        eprintln!("the conversation is computed once; later calls find it");
        let answer = self.ask(&daemon, &prompt, 8)?;
        eprintln!("{} tokens in {:.0} s", answer.end["prompt_eval_count"], answer.first_s);
        // A conversation with one request is written only at the end.
        self.ask(&daemon, &format!("{prompt} and what else"), 1)?;
        let (mut bytes, mut since) = (0, Instant::now());
        while since.elapsed() < QUIET || bytes == 0 {
            ensure!(since.elapsed() < 4 * QUIET, "nothing is written to {}", self.path.display());
            std::thread::sleep(Duration::from_secs(1));
            let now = folder_bytes(&self.path.join("kept"))?;
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            }
        }
        drop(daemon);
        fs::write(text, &prompt)?;
        Ok(prompt)
    }

    fn command(&self, port: u16, words: &[&str]) -> Command {
        let mut command = Command::new(self.cairn);
        command.args(words).env("CAIRN_HOME", &self.path).env("OLLAMA_HOST", format!("127.0.0.1:{port}"));
        command.env("OLLAMA_KV_TIER_LOCAL", self.path.join("kept")).env("OLLAMA_KV_TIER_LOCAL_GB", "16");
        command.env_remove("OLLAMA_MODELS").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts a daemon with this RAM budget of the cache, or with the default.
    fn serve(&self, ram: Option<&str>) -> anyhow::Result<Daemon> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(self.path.join("serve.log"))?;
        let mut serve = self.command(port, &["serve"]);
        serve.stderr(log).envs(ram.map(|ram| ("CAIRN_KV_RAM", ram)));
        let daemon = Daemon { child: serve.spawn()?, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(began.elapsed() < START_WITHIN, "the daemon does not respond");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// Sends a prompt and measures the time to the first line of the answer.
    fn ask(&self, daemon: &Daemon, prompt: &str, tokens: usize) -> anyhow::Result<Answer> {
        let options = json!({ "num_predict": tokens, "num_ctx": self.tokens + 512, "temperature": 0 });
        let body =
            json!({ "model": "m", "prompt": prompt, "raw": true, "stream": true, "options": options }).to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", daemon.port))?;
        let head = format!(
            "POST /api/generate HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let began = Instant::now();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let (mut first_s, mut end) = (None, Value::Null);
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if line.starts_with('{') {
                first_s.get_or_insert(began.elapsed().as_secs_f64());
                end = serde_json::from_str(&line)?;
            }
        }
        ensure!(end["done"] == true, "the answer does not end: {end}");
        Ok(Answer { first_s: first_s.context("no answer")?, end })
    }

    /// Checks that the conversation was restored. Rows from RAM were prefetched from disk while the model loaded.
    fn check(&self, answer: &Answer) -> anyhow::Result<()> {
        let count = |name: &str| answer.end[name].as_u64().unwrap_or(0);
        let computed = count("prompt_eval_count").saturating_sub(count("cached_tokens"));
        ensure!(computed <= COMPUTED_TOKENS, "{computed} tokens were computed: {}", answer.end);
        Ok(())
    }

    /// Drops the weights from the page cache with dd(1).
    fn drop_weights(&self) -> anyhow::Result<()> {
        for file in large_files(&self.path)? {
            let dropped = Command::new("dd")
                .arg(format!("if={}", file.display()))
                .args(["of=/dev/null", "iflag=nocache", "count=0", "status=none"])
                .status();
            ensure!(dropped.context("`dd` is needed")?.success(), "dd failed");
        }
        Ok(())
    }
}

/// Blobs below a folder.
fn large_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            found.extend(large_files(&path)?);
        } else if kind.is_file() && entry.metadata()?.len() > 64 << 20 {
            found.push(path);
        }
    }
    Ok(found)
}

fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        // Files that are being written have temporary names.
        let Ok(about) = entry.as_ref().map_err(drop).and_then(|entry| entry.metadata().map_err(drop)) else { continue };
        bytes += if about.is_dir() { folder_bytes(&entry?.path())? } else { about.len() };
    }
    Ok(bytes)
}
