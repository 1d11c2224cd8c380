//! Progress as plain lines, for pipes and logs: one for each step, one when contents begin and end, and a few between.

use std::collections::HashMap;
use std::time::Instant;

use cairn_wire::ollama::PullLine;

use super::repeats::Repeats;
use super::{Show, begun};
use crate::output;

/// So many lines are said of one of the contents on its way.
const STEPS: u64 = 10;

#[derive(Default)]
pub(super) struct Lines {
    /// Of each of the contents, what was said last, in steps.
    said: HashMap<String, u64>,
    status: String,
    troubles: Repeats,
}

impl Show for Lines {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        if let Some(text) = self.text(line) {
            output::note(&text);
        }
        Ok(())
    }

    fn end(&mut self) {
        self.troubles.rest().iter().for_each(|line| output::note(line));
    }
}

impl Lines {
    /// What is to be said of it, if anything is.
    fn text(&mut self, line: &PullLine) -> Option<String> {
        if line.trouble.is_some() {
            return self.troubles.line(&line.status, Instant::now());
        }
        if line.digest.is_empty() {
            let new = self.status != line.status;
            line.status.clone_into(&mut self.status);
            return new.then(|| line.status.clone());
        }
        let step = (line.completed * STEPS).checked_div(line.total).unwrap_or(STEPS);
        match self.said.insert(line.digest.clone(), step) {
            None if step == STEPS => Some(format!("{}: complete", begun(line))),
            None => Some(begun(line)),
            Some(said) if said == step => None,
            Some(_) => Some(format!("{}: {}%", line.status, step * 100 / STEPS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lines_are_said() {
        let mut lines = Lines::default();
        let step = |status: &str| PullLine { status: status.to_owned(), ..PullLine::default() };
        let blob = |completed: u64| PullLine {
            digest: "sha256:6a".to_owned(),
            total: 1_000_000,
            completed,
            ..step("pulling 6a")
        };
        let mut said = Vec::new();
        said.extend(lines.text(&step("pulling manifest")));
        said.extend(lines.text(&step("pulling manifest")));
        for completed in (0..=1_000_000).step_by(10_000) {
            said.extend(lines.text(&blob(completed)));
        }
        let trouble = |text: &str| PullLine { trouble: Some(text.to_owned()), ..step(text) };
        assert!(lines.text(&trouble("nas: reset; trying again in 1 s")).is_some(), "trouble is told");
        assert!(lines.text(&trouble("nas: reset; trying again in 2 s")).is_none(), "and not for every stream");
        said.extend(lines.text(&step("success")));
        assert_eq!(said.len(), 13, "two steps, the beginning, and ten on the way: {said:?}");
        assert_eq!(said[1], "pulling 6a (1 MB)", "the size");
        assert_eq!(said[11], "pulling 6a: 100%", "the end");
    }
}
