//! Progress at a terminal: a line for each blob, like Ollama's, with warnings above them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cairn_wire::ollama::PullLine;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::PullOutput;
use super::repeats::Repeats;
use crate::{output, progress};

/// Time between two frames of a spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Bars {
    all: MultiProgress,
    blobs: HashMap<String, ProgressBar>,
    /// Spinner of the current step.
    step: Option<ProgressBar>,
    problems: Repeats,
}

impl Bars {
    /// `None` if standard error is not a terminal.
    pub(super) fn new() -> Option<Self> {
        let target = ProgressDrawTarget::stderr();
        (!target.is_hidden()).then(|| Self {
            all: MultiProgress::with_draw_target(target),
            blobs: HashMap::new(),
            step: None,
            problems: Repeats::default(),
        })
    }

    fn add(&self, template: &str) -> ProgressBar {
        let style = ProgressStyle::with_template(template).expect("our own templates are well formed");
        let bar = self.all.add(ProgressBar::no_length());
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        bar
    }

    fn end_step(&mut self) {
        if let Some(step) = self.step.take() {
            step.finish();
        }
    }
}

impl PullOutput for Bars {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        if line.problem.is_some() {
            if let Some(line) = self.problems.line(&line.status, Instant::now()) {
                // A failure is ignored, because it cannot be reported.
                let _ = self.all.println(output::escape_controls(&line));
            }
            return Ok(());
        }
        if line.digest.is_empty() {
            self.end_step();
            let step = self.add("{msg} {spinner}");
            step.set_message(output::escape_controls(&line.status).into_owned());
            step.enable_steady_tick(SPINNER_INTERVAL);
            self.step = Some(step);
            return Ok(());
        }
        self.end_step();
        if !self.blobs.contains_key(&line.digest) {
            let bar = self.add("{wide_msg}");
            self.blobs.insert(line.digest.clone(), bar);
        }
        if let Some(bar) = self.blobs.get(&line.digest) {
            let speed = (line.bytes_per_second > 0).then_some(line.bytes_per_second as f64);
            bar.set_message(progress::line(&line.status, line.completed, line.total, speed));
            if line.completed == line.total {
                bar.finish();
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.end_step();
        for line in self.problems.rest() {
            // Ignored, as above.
            let _ = self.all.println(output::escape_controls(&line));
        }
        self.blobs.values().for_each(ProgressBar::abandon);
    }
}
