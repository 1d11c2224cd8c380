//! The files of the daemon's log, and their last lines.
//!
//! `cairn.log` is the newest file. When it is full it is renamed to `cairn.1.log`, and so on. Prompts and answers are never logged.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::SystemInfo;

/// Number of log files, with the newest.
pub const LOG_FILES: usize = 5;
/// Bytes of a file that [`SystemInfo::log`] reads at most.
const MAX_READ_BYTES: u64 = 1 << 20;

/// The end of the daemon's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The newest file.
    pub path: PathBuf,
    /// The last lines, oldest first.
    pub lines: Vec<String>,
}

impl SystemInfo {
    /// Returns at most `count` lines of the log. Blocks.
    ///
    /// # Errors
    /// If a file exists and cannot be read.
    pub fn log(&self, count: usize) -> io::Result<LogEnd> {
        let path = self.settings.places().log_file();
        let lines = last_log_lines(&path, count, MAX_READ_BYTES)?;
        Ok(LogEnd { path, lines })
    }
}

/// Returns the path of a log file; 0 is the newest.
#[must_use]
pub fn log_file(newest: &Path, number: usize) -> PathBuf {
    match number {
        0 => newest.to_owned(),
        number => newest.with_extension(format!("{number}.log")),
    }
}

/// Returns the last lines of the log, oldest first. Older files are read while the newer ones have fewer lines. Of each file, at most
/// `max_bytes` are read.
///
/// # Errors
/// If a file exists and cannot be read.
pub fn last_log_lines(newest: &Path, count: usize, max_bytes: u64) -> io::Result<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for number in 0..LOG_FILES {
        let Some(missing) = count.checked_sub(lines.len()).filter(|missing| *missing > 0) else { break };
        let text = match read_end(&log_file(newest, number), max_bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            read => read?,
        };
        let older: Vec<&str> = text.lines().collect();
        let older = &older[older.len().saturating_sub(missing)..];
        lines.splice(..0, older.iter().map(|line| (*line).to_owned()));
    }
    Ok(lines)
}

/// Reads the whole lines among the last bytes of a file.
fn read_end(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(max_bytes);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may have lost its beginning.
    let whole = if skipped > 0 { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    Ok(whole.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_continue_in_older_files() {
        let folder = tempfile::tempdir().unwrap();
        let newest = folder.path().join("cairn.log");
        std::fs::write(&newest, "4\n5\n").unwrap();
        std::fs::write(folder.path().join("cairn.1.log"), "2\n3\n").unwrap();
        std::fs::write(folder.path().join("cairn.2.log"), "1\n").unwrap();
        let check = |count: usize, expected: &[&str]| {
            assert_eq!(last_log_lines(&newest, count, u64::MAX).unwrap(), expected, "{count} lines");
        };
        check(0, &[]);
        check(1, &["5"]);
        check(3, &["3", "4", "5"]);
        check(99, &["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn only_whole_lines_of_the_end_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let newest = folder.path().join("cairn.log");
        std::fs::write(&newest, "first line\nsecond\nthird\n").unwrap();
        assert_eq!(last_log_lines(&newest, 9, 15).unwrap(), ["second", "third"], "the first line is cut");
        assert_eq!(last_log_lines(&newest, 9, 3).unwrap(), [""; 0], "no whole line");
        assert_eq!(last_log_lines(&folder.path().join("none.log"), 9, 3).unwrap(), [""; 0], "no file");
    }
}
