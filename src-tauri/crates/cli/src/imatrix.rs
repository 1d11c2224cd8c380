//! `cairn imatrix MODEL TEXTFILE`: computes an importance matrix for `cairn create --imatrix`. Works without the daemon if the model
//! is a file.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cairn_app::library::imatrix::{self, MAX_TEXT_BYTES};
use cairn_convert::Modelfile;
use cairn_convert::modelfile::Command;
use cairn_wire::ollama::{ShowRequest, ShowResponse};

use crate::progress::eta;
use crate::{CliContext, args, daemon, model, output};

/// Time between two updates of the progress line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn compute(cli: &CliContext, args: &args::Imatrix) -> anyhow::Result<()> {
    let text = read_text(&args.text)?;
    let path = model_path(cli, &args.model).await?;
    let dataset = args.text.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (target, chunks) = (args.output.clone(), args.chunks);
    let started = Instant::now();
    let work = move || -> anyhow::Result<_> {
        let mut file = Vec::new();
        let mut line = ProgressLine { started, drawn: None };
        let computed =
            imatrix::compute(&path, (&dataset, &text), chunks, &mut file, &mut |done, all| line.show(done, all));
        line.clear();
        let computed = computed?;
        std::fs::write(&target, &file).with_context(|| format!("cannot write {}", target.display()))?;
        Ok((computed, target))
    };
    let (computed, target) = tokio::task::spawn_blocking(work).await.context("the computation was aborted")??;
    output::note(&format!(
        "{}: {} tensors, {} chunks, {} tokens in {:.0} s",
        target.display(),
        computed.tensors,
        computed.chunks,
        computed.tokens,
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// A line with the progress, redrawn in place at a terminal.
struct ProgressLine {
    started: Instant,
    drawn: Option<Instant>,
}

impl ProgressLine {
    fn show(&mut self, done: usize, all: usize) {
        let now = Instant::now();
        let is_due = self.drawn.is_none_or(|drawn| now.duration_since(drawn) >= REDRAW_INTERVAL);
        if !io::stderr().is_terminal() || !is_due {
            return;
        }
        self.drawn = Some(now);
        let line = line(done, all, now.duration_since(self.started).as_secs_f64());
        // A failure is ignored, because it cannot be reported.
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Formats percent, tokens, speed and ETA.
fn line(done: usize, all: usize, seconds: f64) -> String {
    let speed = done as f64 / seconds.max(0.001);
    let left = (all - done) as f64 / speed.max(0.001);
    let percent = done * 100 / all.max(1);
    format!("computing {percent:3}% {done}/{all} tokens  {speed:.0} tokens/s  {}", eta(left))
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let unread = || format!("cannot read {}", path.display());
    let file = std::fs::File::open(path).with_context(unread)?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes).with_context(unread)?;
    ensure!(
        bytes.len() as u64 <= MAX_TEXT_BYTES,
        "{} is longer than {} MiB, the limit for a text; a few megabytes are enough",
        path.display(),
        MAX_TEXT_BYTES >> 20
    );
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8 text", path.display()))
}

/// Returns the path of a model's file: the argument itself, or the file of a model in the library.
async fn model_path(cli: &CliContext, text: &str) -> anyhow::Result<PathBuf> {
    if model::is_path(text) {
        return Ok(PathBuf::from(text));
    }
    let client = daemon::connect_or_start(cli).await?;
    if !client.is_own_daemon() {
        bail!("cannot read the file of {text}: OLLAMA_HOST names another server; name a file instead");
    }
    let request = ShowRequest { model: text.to_owned(), ..ShowRequest::default() };
    let shown: ShowResponse = client.post("/api/show", &request).await?;
    let commands = Modelfile::parse(shown.modelfile.as_bytes())?.commands;
    let from = commands.into_iter().find_map(|command| match command {
        Command::From(path) => Some(PathBuf::from(path)),
        _ => None,
    });
    match from.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("the model {text} has no file on this machine; name a file instead"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_has_speed_and_eta() {
        assert_eq!(line(1000, 4000, 10.0), "computing  25% 1000/4000 tokens  100 tokens/s  30s");
        assert_eq!(line(0, 4088, 0.0), "computing   0% 0/4088 tokens  0 tokens/s  99h+");
    }
}
