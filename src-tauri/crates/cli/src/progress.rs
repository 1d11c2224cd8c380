//! A progress line at a terminal, for operations that take more than a second.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::{human, terminal};

/// Delay before the first line; short operations show none.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// Time between two updates of the line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Number of recent samples that the speed is computed from.
const SAMPLES: usize = 50;
/// Columns of the bar.
const BAR_COLUMNS: usize = 24;
/// Columns of the bar in a narrow terminal.
const SHORT_BAR_COLUMNS: usize = 8;
/// Fewest columns for the stage; the bar is dropped before the stage gets shorter.
const LEAST_STAGE_COLUMNS: usize = 7;

/// A progress line that is redrawn in place.
pub(crate) struct Progress {
    is_terminal: bool,
    started: Instant,
    drawn: Option<Instant>,
    samples: VecDeque<(Instant, u64)>,
    stage: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            started: Instant::now(),
            drawn: None,
            samples: VecDeque::new(),
            stage: String::new(),
        }
    }

    /// Updates the line. `done` and `total` are in bytes.
    pub(crate) fn show(&mut self, stage: &str, done: u64, total: u64) {
        let now = Instant::now();
        if !self.is_terminal || self.drawn.is_some_and(|drawn| now.duration_since(drawn) < REDRAW_INTERVAL) {
            return;
        }
        if self.stage != stage {
            self.samples.clear();
            stage.clone_into(&mut self.stage);
        }
        self.samples.push_back((now, done));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        if now.duration_since(self.started) < INITIAL_DELAY {
            return;
        }
        self.drawn = Some(now);
        // A failure is ignored, because it cannot be reported.
        let line = fit_line(stage, done, total, self.speed(), terminal::width_of(&io::stderr()));
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    /// Speed in bytes per second; `None` until there are two samples.
    fn speed(&self) -> Option<f64> {
        let ((first, from), (last, to)) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.duration_since(*first).as_secs_f64();
        (seconds > 0.0).then(|| to.saturating_sub(*from) as f64 / seconds)
    }

    /// Erases the line.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Formats a line like Ollama's: stage, percent, bar, bytes done and total, speed and ETA.
pub(crate) fn line(stage: &str, done: u64, total: u64, speed: Option<f64>) -> String {
    let share = share(done, total);
    let bar = bar(share, BAR_COLUMNS);
    let mut line = format!("{stage} {:3.0}% {bar} {}/{}", share * 100.0, human::bytes(done), human::bytes(total));
    if let Some(speed) = speed.filter(|speed| *speed >= 1.0) {
        let left = total.saturating_sub(done) as f64 / speed;
        line += &format!("  {}/s  {}", human::bytes(speed as u64), eta(left));
    }
    line
}

/// Formats a line that is shorter than the terminal, because a wrapped line cannot be redrawn. Drops speed and ETA
/// first, then shortens bar and stage, then drops the bar.
fn fit_line(stage: &str, done: u64, total: u64, speed: Option<f64>, columns: usize) -> String {
    let fits = |line: &String| line.chars().count() < columns;
    let whole = [speed, None].into_iter().map(|speed| line(stage, done, total, speed)).find(fits);
    if let Some(whole) = whole {
        return whole;
    }
    let share = share(done, total);
    let percent = format!(" {:3.0}%", share * 100.0);
    let sizes = format!("{percent} {} {}/{}", bar(share, SHORT_BAR_COLUMNS), human::bytes(done), human::bytes(total));
    let room = |rest: &str| columns.saturating_sub(rest.chars().count() + 1);
    match room(&sizes) >= LEAST_STAGE_COLUMNS {
        true => format!("{}{sizes}", truncate(stage, room(&sizes))),
        false => format!("{}{percent}", truncate(stage, room(&percent))),
    }
}

/// Truncates a text to `columns` columns, with an ellipsis.
fn truncate(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn share(done: u64, total: u64) -> f64 {
    if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) }
}

fn bar(share: f64, columns: usize) -> String {
    let full = (share * columns as f64) as usize;
    format!("▕{}{}▏", "█".repeat(full), " ".repeat(columns - full))
}

/// Formats the time left, in at most two units.
pub(crate) fn eta(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..360_000 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => "99h+".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_has_bar_speed_and_eta() {
        let half = line("copying", 2_500_000_000, 5_000_000_000, Some(500_000_000.0));
        assert_eq!(half, "copying  50% ▕████████████            ▏ 2.5 GB/5 GB  500 MB/s  5s", "half done");
        assert!(line("hashing", 0, 0, None).contains("100%"), "an empty total is complete");
        let check = |seconds: f64, text: &str| assert_eq!(eta(seconds), text, "{seconds}");
        check(0.2, "1s");
        check(90.0, "1m30s");
        check(7_500.0, "2h05m");
        check(1e9, "99h+");
    }

    #[test]
    fn progress_line_is_shorter_than_terminal() {
        let digest = format!("copying file sha256:{}", "60b7e467".repeat(8));
        let check = |stage: &str, columns: usize, expected: &str| {
            let line = fit_line(stage, 120_000_000, 240_000_000, Some(30_000_000.0), columns);
            assert_eq!(line, expected, "{stage} in {columns} columns");
            assert!(line.chars().count() < columns, "a full last column would wrap the line: {line}");
        };
        let whole = "copying  50% ▕████████████            ▏ 120 MB/240 MB  30 MB/s  4s";
        check("copying", 80, whole);
        check("copying", 60, "copying  50% ▕████████████            ▏ 120 MB/240 MB");
        check("copying", 40, "copying  50% ▕████    ▏ 120 MB/240 MB");
        check("copying", 24, "copying  50%");
        check("copying", 10, "cop…  50%");
        check(&digest, 80, "copying file sha256:60b7e46760b7e46760b7e46760b7…  50% ▕████    ▏ 120 MB/240 MB");
        check(&digest, 40, "copying …  50% ▕████    ▏ 120 MB/240 MB");
    }
}
