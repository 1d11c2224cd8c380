//! `cairn logs`: prints the end of the daemon's log, and follows it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use cairn_app::system::last_log_lines;

use crate::{CliContext, args, output};

/// Time between two checks of the file.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn print(cli: &CliContext, args: &args::Logs) -> anyhow::Result<()> {
    let path = cli.places.log_file();
    if args.path {
        return output::print(&format!("{}\n", path.display()));
    }
    if !path.exists() {
        bail!("there is no log at {}: no daemon has run yet", path.display());
    }
    let mut follower = Follower::at_end(&path)?;
    let lines = last_log_lines(&path, args.lines, u64::MAX);
    let lines = lines.with_context(|| format!("cannot read the log {}", path.display()))?;
    output::print(&lines.into_iter().map(|line| line + "\n").collect::<String>())?;
    if !args.follow {
        return Ok(());
    }
    // A log without new lines must not keep the program running after its reader has ended.
    while !output::is_reader_gone() {
        tokio::time::sleep(POLL_INTERVAL).await;
        let text = follower.read()?;
        if !text.is_empty() {
            output::print(&text)?;
        }
    }
    Ok(())
}

/// Reads new text of the log. A full log is renamed and replaced by an empty file.
struct Follower {
    path: PathBuf,
    file: File,
    position: u64,
    /// Bytes at the end of the file that begin a character.
    incomplete: Vec<u8>,
}

impl Follower {
    fn at_end(path: &Path) -> anyhow::Result<Self> {
        let mut file = File::open(path).with_context(|| format!("cannot read the log {}", path.display()))?;
        let position = file.seek(SeekFrom::End(0)).context("cannot read the log")?;
        Ok(Self { path: path.to_owned(), file, position, incomplete: Vec::new() })
    }

    /// Returns the new text: of the open file, and of the file that has replaced it.
    fn read(&mut self) -> anyhow::Result<String> {
        let mut text = self.read_file()?;
        // Between the rename and the creation there is no file.
        if let Ok(newest) = File::open(&self.path)
            && self.is_replaced_by(&newest).context("cannot read the log")?
        {
            // The last lines may have been written after the read and before the rename.
            text += &self.read_file()?;
            text += &String::from_utf8_lossy(&std::mem::take(&mut self.incomplete));
            (self.file, self.position) = (newest, 0);
            text += &self.read_file()?;
        }
        Ok(text)
    }

    /// Whether the file at the path is another one, or was cut.
    fn is_replaced_by(&self, newest: &File) -> std::io::Result<bool> {
        let (ours, theirs) = (self.file.metadata()?, newest.metadata()?);
        Ok(identity(&ours) != identity(&theirs) || theirs.len() < self.position)
    }

    fn read_file(&mut self) -> anyhow::Result<String> {
        let mut bytes = std::mem::take(&mut self.incomplete);
        self.position += self.file.read_to_end(&mut bytes).context("cannot read the log")? as u64;
        self.incomplete = bytes.split_off(bytes.len() - incomplete_bytes(&bytes));
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Identity of a file, which stays the same when the file is renamed or extended.
#[cfg(unix)]
fn identity(file: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

/// Identity of a file, which stays the same when the file is renamed or extended.
#[cfg(not(unix))]
fn identity(file: &fs::Metadata) -> Option<std::time::SystemTime> {
    file.created().ok()
}

/// Returns the number of bytes at the end that begin an incomplete character.
fn incomplete_bytes(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    let begins = |count: &usize| match std::str::from_utf8(&bytes[bytes.len() - count..]) {
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
        Ok(_) => false,
    };
    (1..=longest).find(begins).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;

    #[test]
    fn follower_reads_across_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.log");
        fs::write(&path, "old\n").unwrap();
        let mut follower = Follower::at_end(&path).unwrap();
        assert_eq!(follower.read().unwrap(), "", "nothing is new");
        let append = |text: &str| {
            use std::io::Write;
            log::append(&path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        append("one\n");
        assert_eq!(follower.read().unwrap(), "one\n", "appended");
        append("two\n");
        fs::rename(&path, folder.path().join("cairn.1.log")).unwrap();
        fs::write(&path, "three\n").unwrap();
        assert_eq!(follower.read().unwrap(), "two\nthree\n", "the end of the old file, then the new one");
    }

    #[test]
    fn follower_notices_a_longer_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.log");
        fs::write(&path, "old\n").unwrap();
        let mut follower = Follower::at_end(&path).unwrap();
        fs::rename(&path, folder.path().join("cairn.1.log")).unwrap();
        assert_eq!(follower.read().unwrap(), "", "there is no file");
        fs::write(&path, "a new file that is longer than the old one\n").unwrap();
        assert_eq!(follower.read().unwrap(), "a new file that is longer than the old one\n");
        fs::write(&path, "cut\n").unwrap();
        assert_eq!(follower.read().unwrap(), "cut\n", "the same file, cut and written again");
    }

    #[test]
    fn character_in_two_reads_stays_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.log");
        fs::write(&path, "").unwrap();
        let mut follower = Follower::at_end(&path).unwrap();
        let mut read_after = |bytes: &[u8]| {
            use std::io::Write;
            log::append(&path).unwrap().write_all(bytes).unwrap();
            follower.read().unwrap()
        };
        for letter in ["é", "漢", "🦀"] {
            for split in 1..letter.len() {
                let (first, second) = letter.as_bytes().split_at(split);
                assert_eq!(read_after(first), "", "{letter} is incomplete");
                assert_eq!(read_after(second), letter);
            }
        }
        assert_eq!(read_after(b"a\xe6\xbc"), "a");
        assert_eq!(read_after(b"b\xff"), "\u{fffd}b\u{fffd}", "bytes that are no character");
    }
}
