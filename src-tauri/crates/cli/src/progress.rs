//! How far something has come, in one line at a terminal: only for what takes more than a second, and only where a person
//! looks.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::human;

/// Before it, nobody has begun to wonder.
const SILENT: Duration = Duration::from_secs(1);
/// Between two lines.
const REDRAW_EVERY: Duration = Duration::from_millis(100);
/// The speed is that of the last so many samples.
const SAMPLES: usize = 50;
/// Columns of the bar.
const BAR_COLUMNS: usize = 24;

/// A line that is redrawn.
pub(crate) struct Progress {
    watched: bool,
    started: Instant,
    drawn: Option<Instant>,
    samples: VecDeque<(Instant, u64)>,
    stage: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            watched: io::stderr().is_terminal(),
            started: Instant::now(),
            drawn: None,
            samples: VecDeque::new(),
            stage: String::new(),
        }
    }

    /// Tells how far it has come.
    pub(crate) fn show(&mut self, stage: &str, done: u64, total: u64) {
        let now = Instant::now();
        if !self.watched || self.drawn.is_some_and(|drawn| now.duration_since(drawn) < REDRAW_EVERY) {
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
        if now.duration_since(self.started) < SILENT {
            return;
        }
        self.drawn = Some(now);
        // Nobody can be told when this fails.
        let _ = write!(io::stderr(), "\r{}\x1b[K", line(stage, done, total, self.speed()));
    }

    /// Bytes per second, once that can be told.
    fn speed(&self) -> Option<f64> {
        let ((first, from), (last, to)) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.duration_since(*first).as_secs_f64();
        (seconds > 0.0).then(|| to.saturating_sub(*from) as f64 / seconds)
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Ollama's form: the stage, percent, a bar, what is here of how much, and how long the rest takes.
pub(crate) fn line(stage: &str, done: u64, total: u64, speed: Option<f64>) -> String {
    let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let full = (share * BAR_COLUMNS as f64) as usize;
    let bar = format!("{}{}", "█".repeat(full), " ".repeat(BAR_COLUMNS - full));
    let mut line = format!("{stage} {:3.0}% ▕{bar}▏ {}/{}", share * 100.0, human::bytes(done), human::bytes(total));
    if let Some(speed) = speed.filter(|speed| *speed >= 1.0) {
        let left = total.saturating_sub(done) as f64 / speed;
        line += &format!("  {}/s  {}", human::bytes(speed as u64), eta(left));
    }
    line
}

/// Time that is left, in two units at most.
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
    fn a_line_has_bar_speed_and_time_left() {
        let half = line("copying", 2_500_000_000, 5_000_000_000, Some(500_000_000.0));
        assert_eq!(half, "copying  50% ▕████████████            ▏ 2.5 GB/5 GB  500 MB/s  5s", "half-way");
        assert!(line("hashing", 0, 0, None).contains("100%"), "nothing to do is done");
        let check = |seconds: f64, text: &str| assert_eq!(eta(seconds), text, "{seconds}");
        check(0.2, "1s");
        check(90.0, "1m30s");
        check(7_500.0, "2h05m");
        check(1e9, "99h+");
    }
}
