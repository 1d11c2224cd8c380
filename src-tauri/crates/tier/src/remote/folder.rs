//! A folder on a file server. Any call may hang there for as long as the server is away.
//!
//! Where a server is not mounted, its mount point is an empty folder of this machine. So a share gets a marker, a file in its root,
//! with the first chunk, and this machine remembers it: a folder without its marker is away, and not empty.
//!
//! There are no locks, because file servers' locks hang or are not there. A file is written under a name of its own in `drafts/` and
//! linked to its name, which fails where there is one; where links are not to be had it is renamed, which does no harm, since files
//! of one name are as good as each other. Drafts of machines that went away are removed a day later, by the server's own clock; they are
//! known by their names, since others may keep theirs in the same folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use super::files::{Files, Listed};
use crate::format::VERSION_FOLDER;
use crate::tier::TierError;

/// Threads: what the design allows for a place that hangs.
const THREADS: usize = 4;
/// The file in a share's root by which the share is known again.
const MARKER: &str = "cairn-kv-share";
/// How drafts' names begin, and how they end.
const DRAFT_PREFIX: &str = ".remote.";
const DRAFT_SUFFIX: &str = ".tmp";
/// A draft this much older than one of now has been left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// See the module.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    sweep: Once,
    /// Where this machine remembers what the marker says.
    remembered: Option<PathBuf>,
    /// What the marker said, once that is known.
    marker: Mutex<Option<Vec<u8>>>,
}

impl Folder {
    /// The folder at `root`, which must be there when it is used: where a server is mounted. It is not touched yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), sweep: Once::new(), remembered: None, marker: Mutex::default() }
    }

    /// Has the share's marker remembered in a file of this machine, whose folder is made where there is none.
    #[must_use]
    pub fn remembered_in(self, file: PathBuf) -> Self {
        Self { remembered: Some(file), ..self }
    }

    /// Makes sure that the share is mounted. One that never was used has no marker yet, and gets one with this text.
    fn mounted(&self, new_marker: Option<&str>) -> std::io::Result<()> {
        fs::read_dir(&self.root)?;
        let Some(remembered) = &self.remembered else { return Ok(()) };
        let path = self.root.join(MARKER);
        let mut known = self.marker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_none() {
            known = none_if_absent(fs::read(remembered))?;
        }
        let found = none_if_absent(fs::read(&path))?;
        let away = |what: &str| {
            let how = format!("if it is to be used as it is, remove {}", remembered.display());
            std::io::Error::new(ErrorKind::HostUnreachable, format!("{what} ({how})"))
        };
        let marker = match (known, found, new_marker) {
            (Some(known), Some(found), _) if known == found => known,
            (Some(_), Some(_), _) => return Err(away("another share is mounted here than before")),
            (Some(_), None, _) => return Err(away("the share is not mounted")),
            (None, Some(found), _) => found,
            (None, None, None) => return Ok(()),
            (None, None, Some(text)) => {
                let made = new_file(&path).and_then(|mut file| file.write_all(text.as_bytes()).and(file.sync_all()));
                match made {
                    // Another machine was faster.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made?,
                }
                fs::read(&path)?
            }
        };
        let mut held = self.marker.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            remembered.parent().map_or(Ok(()), make_folder)?;
            fs::write(remembered, &marker)?;
            *held = Some(marker);
        }
        Ok(())
    }

    fn drafts(&self) -> PathBuf {
        self.root.join(VERSION_FOLDER).join("drafts")
    }

    /// Writes a file under a passing name.
    fn write(&self, file: &[u8], draft: &str) -> std::io::Result<PathBuf> {
        // Where the mount is gone, nothing is to be written in its place.
        self.mounted(Some(draft))?;
        make_folder(&self.drafts())?;
        let path = self.drafts().join(format!("{DRAFT_PREFIX}{draft}{DRAFT_SUFFIX}"));
        let mut made = new_file(&path)?;
        let written = made.write_all(file).and_then(|()| made.metadata()?.modified());
        if written.is_err() {
            // It is of no use; if it cannot be removed either, it is swept later.
            let _ = fs::remove_file(&path);
        }
        let now = written?;
        self.sweep.call_once(|| self.sweep(now));
        Ok(path)
    }

    fn sweep(&self, now: SystemTime) {
        let is_draft = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name.starts_with(DRAFT_PREFIX) && name.ends_with(DRAFT_SUFFIX))
        };
        for entry in entries(&self.drafts()).into_iter().flatten().filter(is_draft) {
            let modified = entry.metadata().and_then(|found| found.modified());
            let age = modified.ok().and_then(|then| now.duration_since(then).ok());
            if age.is_some_and(|age| age > LEFT_BEHIND) {
                // Whoever comes next tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes a file and has `publish` give it its name.
    fn put<T>(
        &self,
        name: &str,
        file: &[u8],
        draft: &str,
        publish: impl FnOnce(&Path, &Path) -> std::io::Result<T>,
    ) -> Result<T, TierError> {
        let path = self.root.join(name);
        let put = || {
            let draft = self.write(file, draft)?;
            let published = path.parent().map_or(Ok(()), make_folder).and_then(|()| publish(&draft, &path));
            // It is gone already where it was renamed.
            let _ = fs::remove_file(&draft);
            published
        };
        put().map_err(|error| failed(&path, &error))
    }
}

impl Files for Folder {
    fn threads(&self) -> usize {
        THREADS
    }

    fn list(&self, each: &mut dyn FnMut(&str, Listed) -> bool, _within: Duration) -> Result<(), TierError> {
        let version = self.root.join(VERSION_FOLDER);
        let mut listed = || -> std::io::Result<()> {
            self.mounted(None)?;
            for model in entries(&version)?.into_iter().filter(|entry| entry.file_name() != "drafts") {
                for part in folders_in(&model.path())? {
                    for file in entries(&part.path())? {
                        let Some(found) = file.metadata().ok().filter(fs::Metadata::is_file) else { continue };
                        let changed = found.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                        let listed = Listed { bytes: found.len(), stamp: changed.as_nanos() as u64 };
                        let names = [model.file_name(), part.file_name(), file.file_name()];
                        let names: Option<Vec<&str>> = names.iter().map(|name| name.to_str()).collect();
                        let Some(names) = names else { continue };
                        if !each(&format!("{VERSION_FOLDER}/{}", names.join("/")), listed) {
                            return Ok(());
                        }
                    }
                }
            }
            Ok(())
        };
        listed().map_err(|error| failed(&version, &error))
    }

    fn read(
        &self,
        name: &str,
        part: Range<u64>,
        _within: Duration,
        heard: &dyn Fn(),
    ) -> Result<Option<Vec<u8>>, TierError> {
        let path = self.root.join(name);
        let read = || -> std::io::Result<Vec<u8>> {
            // A pipe that somebody put there would hang, and a link may lead anywhere.
            if !fs::symlink_metadata(&path)?.is_file() {
                return Err(ErrorKind::NotFound.into());
            }
            let mut file = File::open(&path)?;
            heard();
            file.seek(SeekFrom::Start(part.start))?;
            let mut bytes = Vec::new();
            file.take(part.end.saturating_sub(part.start)).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            // Where the mount is gone, so are all files: that is not an absent chunk.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.mounted(None).map(|()| None).map_err(|error| failed(&self.root, &error))
            }
            Err(error) => Err(failed(&path, &error)),
        }
    }

    fn create(&self, name: &str, file: Vec<u8>, draft: &str, _within: Duration) -> Result<bool, TierError> {
        self.put(name, &file, draft, |draft, path| match fs::hard_link(draft, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            // No links here.
            Err(_) => fs::rename(draft, path).map(|()| true),
        })
    }

    fn replace(&self, name: &str, file: Vec<u8>, draft: &str, _within: Duration) -> Result<(), TierError> {
        self.put(name, &file, draft, |draft, path| fs::rename(draft, path))
    }

    fn remove(&self, name: &str, _within: Duration) -> Result<(), TierError> {
        let path = self.root.join(name);
        let removed = match fs::remove_file(&path) {
            // The name is not to come back after a power cut of the server.
            Ok(()) => path.parent().map_or(Ok(()), sync_folder),
            Err(error) if error.kind() == ErrorKind::NotFound => self.mounted(None),
            Err(error) => Err(error),
        };
        removed.map_err(|error| failed(&path, &error))
    }
}

/// Nothing where there is no such file.
fn none_if_absent<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that was not there, for this user only.
fn new_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

fn folders_in(path: &Path) -> std::io::Result<Vec<fs::DirEntry>> {
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    Ok(entries(path)?.into_iter().filter(is_folder).collect())
}

/// What a folder holds; nothing where there is none, which is how a place begins.
fn entries(path: &Path) -> std::io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(path) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> TierError {
    let why = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => TierError::Full(why),
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => TierError::Away(why),
        _ => TierError::Failed(why),
    }
}
