//! Progress as plain lines, for pipes and logs: one line for each step, and a few lines for each blob.

use std::collections::HashMap;
use std::time::Instant;

use cairn_wire::ollama::PullLine;

use super::repeats::Repeats;
use super::{PullOutput, first_line};
use crate::output;

/// Number of progress lines per blob.
const STEPS: u64 = 10;

#[derive(Default)]
pub(super) struct Lines {
    /// Last printed step of each blob, by digest.
    printed: HashMap<String, u64>,
    status: String,
    problems: Repeats,
}

impl PullOutput for Lines {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        if let Some(text) = self.text(line) {
            output::note(&text);
        }
        Ok(())
    }

    fn end(&mut self) {
        self.problems.rest().iter().for_each(|line| output::note(line));
    }
}

impl Lines {
    /// Returns the text for a line; `None` if it adds nothing.
    fn text(&mut self, line: &PullLine) -> Option<String> {
        if line.problem.is_some() {
            return self.problems.line(&line.status, Instant::now());
        }
        if line.digest.is_empty() {
            let new = self.status != line.status;
            line.status.clone_into(&mut self.status);
            return new.then(|| line.status.clone());
        }
        let step = (line.completed * STEPS).checked_div(line.total).unwrap_or(STEPS);
        match self.printed.insert(line.digest.clone(), step) {
            None if step == STEPS => Some(format!("{}: complete", first_line(line))),
            None => Some(first_line(line)),
            Some(printed) if printed == step => None,
            Some(_) => Some(format!("{}: {}%", line.status, step * 100 / STEPS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_limited_per_blob() {
        let mut lines = Lines::default();
        let step = |status: &str| PullLine { status: status.to_owned(), ..PullLine::default() };
        let blob = |completed: u64| PullLine {
            digest: "sha256:6a".to_owned(),
            total: 1_000_000,
            completed,
            ..step("pulling 6a")
        };
        let mut printed = Vec::new();
        printed.extend(lines.text(&step("pulling manifest")));
        printed.extend(lines.text(&step("pulling manifest")));
        for completed in (0..=1_000_000).step_by(10_000) {
            printed.extend(lines.text(&blob(completed)));
        }
        let problem = |text: &str| PullLine { problem: Some(text.to_owned()), ..step(text) };
        assert!(lines.text(&problem("nas: reset; trying again in 1 s")).is_some(), "a new warning is printed");
        assert!(lines.text(&problem("nas: reset; trying again in 2 s")).is_none(), "a repeated warning is not");
        printed.extend(lines.text(&step("success")));
        assert_eq!(printed.len(), 13, "two steps, the first line of the blob and ten updates: {printed:?}");
        assert_eq!(printed[1], "pulling 6a (1 MB)", "the first line has the size");
        assert_eq!(printed[11], "pulling 6a: 100%", "the last update");
    }
}
