//! A folder on a file server. Any call may hang while the server is down.
//!
//! If a share is not mounted, its mount point is an empty local folder. The first write therefore creates a marker
//! file in the share's root, and this machine remembers its content: a folder without the right marker is unavailable,
//! not empty.
//!
//! No file locks are used, because they hang or are missing on file servers. A file is written under a unique name in
//! `drafts/` and hard-linked to its final name, which fails if that exists. Without hard links it is renamed, which is
//! harmless because files of equal name are equivalent. Abandoned drafts are removed after a day by the server's
//! clock. Other programs may store files there, so only names of this module's form are removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::file_store::{FileEntry, FileStore};
use crate::format::VERSION_FOLDER;
use crate::tier::TierError;

/// Number of threads: the maximum for a store that may hang.
const THREADS: usize = 4;
/// Name of the marker file in a share's root.
const MARKER: &str = "cairn-kv-share";
/// Prefix and suffix of drafts' names.
const DRAFT_PREFIX: &str = ".remote.";
const DRAFT_SUFFIX: &str = ".tmp";
/// Age after which a draft counts as abandoned.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// File store in a folder on a file server. Any call may hang.
#[derive(Debug)]
pub struct SharedFolder {
    root: PathBuf,
    sweep: Once,
    /// Local file that remembers the marker's content.
    unscanned_rows: Option<PathBuf>,
    /// Content of the marker, once verified.
    marker: Mutex<Option<Vec<u8>>>,
}

impl SharedFolder {
    /// The folder at `root`, the mount point of a share. Does not access it yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), sweep: Once::new(), unscanned_rows: None, marker: Mutex::default() }
    }

    /// Remembers the share's marker in this local file. Its folder is created if missing.
    #[must_use]
    pub fn remembered_in(self, file: PathBuf) -> Self {
        Self { unscanned_rows: Some(file), ..self }
    }

    /// Verifies that the share is mounted. `new_marker` is written if neither the share nor this machine has a marker.
    fn mounted(&self, new_marker: Option<&str>) -> std::io::Result<()> {
        fs::read_dir(&self.root)?;
        let Some(unscanned_rows) = &self.unscanned_rows else { return Ok(()) };
        let path = self.root.join(MARKER);
        let mut known = self.marker.lock().clone();
        if known.is_none() {
            known = none_if_absent(fs::read(unscanned_rows))?;
        }
        let found = none_if_absent(fs::read(&path))?;
        let unavailable = |what: &str| {
            let how = format!("to use this share, remove {}", unscanned_rows.display());
            std::io::Error::new(ErrorKind::HostUnreachable, format!("{what} ({how})"))
        };
        let marker = match (known, found, new_marker) {
            (Some(known), Some(found), _) if known == found => known,
            (Some(_), Some(_), _) => return Err(unavailable("another share than before is mounted here")),
            (Some(_), None, _) => return Err(unavailable("the share is not mounted")),
            (None, Some(found), _) => found,
            (None, None, None) => return Ok(()),
            (None, None, Some(text)) => {
                let made = new_file(&path).and_then(|mut file| file.write_all(text.as_bytes()).and(file.sync_all()));
                match made {
                    // Another machine created it first.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made?,
                }
                fs::read(&path)?
            }
        };
        let mut marker_slot = self.marker.lock();
        if marker_slot.is_none() {
            unscanned_rows.parent().map_or(Ok(()), make_folder)?;
            fs::write(unscanned_rows, &marker)?;
            *marker_slot = Some(marker);
        }
        Ok(())
    }

    fn drafts(&self) -> PathBuf {
        self.root.join(VERSION_FOLDER).join("drafts")
    }

    /// Writes a draft.
    fn write(&self, file: &[u8], draft: &str) -> std::io::Result<PathBuf> {
        // Nothing must be written into the mount point of an unmounted share.
        self.mounted(Some(draft))?;
        make_folder(&self.drafts())?;
        let path = self.drafts().join(format!("{DRAFT_PREFIX}{draft}{DRAFT_SUFFIX}"));
        let mut made = new_file(&path)?;
        let written = made.write_all(file).and_then(|()| made.metadata()?.modified());
        if written.is_err() {
            // If the partial draft cannot be removed now, a later sweep removes it.
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
                // A later sweep tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes a draft and calls `publish` with its path and the final path.
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
            // The draft is gone if it was renamed.
            let _ = fs::remove_file(&draft);
            published
        };
        put().map_err(|error| failed(&path, &error))
    }
}

impl FileStore for SharedFolder {
    fn threads(&self) -> usize {
        THREADS
    }

    fn list(&self, each: &mut dyn FnMut(&str, FileEntry) -> bool, _within: Duration) -> Result<(), TierError> {
        let version = self.root.join(VERSION_FOLDER);
        let mut listed = || -> std::io::Result<()> {
            self.mounted(None)?;
            for model in entries(&version)?.into_iter().filter(|entry| entry.file_name() != "drafts") {
                for part in folders_in(&model.path())? {
                    for file in entries(&part.path())? {
                        let Some(found) = file.metadata().ok().filter(fs::Metadata::is_file) else { continue };
                        let changed = found.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                        let listed = FileEntry { bytes: found.len(), stamp: changed.as_nanos() as u64 };
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
            // Opening a pipe would hang, and a symbolic link may lead anywhere.
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
            // In an unmounted share every file is missing; that is not an absent chunk.
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
            // Hard links are not supported.
            Err(_) => fs::rename(draft, path).map(|()| true),
        })
    }

    fn replace(&self, name: &str, file: Vec<u8>, draft: &str, _within: Duration) -> Result<(), TierError> {
        self.put(name, &file, draft, |draft, path| fs::rename(draft, path))
    }

    fn remove(&self, name: &str, _within: Duration) -> Result<(), TierError> {
        let path = self.root.join(name);
        let removed = match fs::remove_file(&path) {
            // Makes the removal durable on the server.
            Ok(()) => path.parent().map_or(Ok(()), sync_folder),
            Err(error) if error.kind() == ErrorKind::NotFound => self.mounted(None),
            Err(error) => Err(error),
        };
        removed.map_err(|error| failed(&path, &error))
    }
}

/// Maps a missing file to `None`.
fn none_if_absent<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a new file that only this user can access.
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

/// Lists a folder; a missing folder is empty.
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
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => TierError::Unavailable(why),
        _ => TierError::Failed(why),
    }
}
