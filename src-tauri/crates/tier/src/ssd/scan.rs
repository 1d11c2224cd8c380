//! Finding what is there, from the first blocks alone.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::SystemTime;

use cairn_disk::room_of;

use super::layout::{Layout, SUFFIX};
use super::{Ssd, load, locked};
use crate::format::BLOCK_BYTES;
use crate::tier::{Miss, Stored, TierError};

/// What is known of files. A file is never changed, so one that is still the same has not to be read again: scans come every half
/// minute, while answers are computed, what is taken is counted before each write, and a folder has thousands of files.
pub(super) type Heads = HashMap<PathBuf, (Same, Known)>;

/// By what a file is known to be the one that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Same {
    inode: u64,
    len_bytes: u64,
    modified: Option<SystemTime>,
}

impl Same {
    fn of(found: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(found);
        #[cfg(not(unix))]
        let inode = 0;
        Self { inode, len_bytes: found.len(), modified: found.modified().ok() }
    }
}

/// What is known of a file that was looked at.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// A chunk, and what a scan tells of it.
    Chunk(Stored),
    /// Not another installation's. Nobody looked any further yet.
    Ours,
    /// Another installation's.
    Foreign,
    /// It was damaged when it was loaded.
    Spoiled,
}

pub(super) fn scan(ssd: &Ssd, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
    let look = |path: &Path| {
        let same = same(path);
        let known = same.and_then(|same| known(ssd, path, same, Known::clone));
        match known {
            Some(Known::Chunk(stored)) => return Ok(stored),
            Some(Known::Foreign) => return Err(Miss::Foreign),
            Some(Known::Spoiled) => {
                // Who was a guest then may be the owner now.
                ssd.put_aside(path);
                return Err(Miss::Damaged("it was damaged when it was loaded"));
            }
            Some(Known::Ours) | None => {}
        }
        let found = stored(ssd, path);
        match &found {
            Ok(stored) => note(ssd, path, same, Known::Chunk(stored.clone())),
            Err(Miss::Foreign) => note(ssd, path, same, Known::Foreign),
            Err(_) => {}
        }
        found
    };
    let mut seen = HashSet::new();
    each_file(ssd, look, |path, found| {
        seen.insert(path.to_owned());
        found.into_iter().for_each(&mut *each);
    })?;
    locked(&ssd.heads).retain(|path, _| seen.contains(path));
    Ok(())
}

pub(super) fn same(path: &Path) -> Option<Same> {
    std::fs::metadata(path).ok().map(|found| Same::of(&found))
}

/// Remembers what a file is for as long as it stays the same; nothing where there was none.
pub(super) fn note(ssd: &Ssd, path: &Path, same: Option<Same>, known: Known) {
    locked(&ssd.heads).extend(same.map(|same| (path.to_owned(), (same, known))));
}

/// What is remembered of a file that is still the same.
fn known<T>(ssd: &Ssd, path: &Path, same: Same, tell: impl FnOnce(&Known) -> T) -> Option<T> {
    locked(&ssd.heads).get(path).filter(|(then, _)| *then == same).map(|(_, known)| tell(known))
}

/// Whether another installation keeps this file. What cannot be read is not known to be.
pub(super) fn is_foreign(ssd: &Ssd, path: &Path, same: Same) -> bool {
    if let Some(foreign) = known(ssd, path, same, |known| matches!(known, Known::Foreign)) {
        return foreign;
    }
    let read = || {
        let blocks = ssd.disk.open_blocks(path).map_err(TierError::from)?;
        let mut work = ssd.work(BLOCK_BYTES);
        let header = load::read_header(ssd, &*blocks, &mut work.buffer[..BLOCK_BYTES]);
        ssd.put_back(work);
        header
    };
    match read() {
        Err(Miss::Foreign) => note(ssd, path, Some(same), Known::Foreign),
        Ok(_) | Err(Miss::Damaged(_)) => note(ssd, path, Some(same), Known::Ours),
        Err(_) => {}
    }
    known(ssd, path, same, |known| matches!(known, Known::Foreign)).unwrap_or(false)
}

/// Looks at every file of a chunk on several threads, and hands what they find to `each` on this one. What is damaged is put aside.
pub(super) fn each_file<T: Send>(
    ssd: &Ssd,
    look: impl Fn(&Path) -> Result<T, Miss> + Sync,
    mut each: impl FnMut(&Path, Result<T, Miss>),
) -> Result<(), TierError> {
    let folders = folders_of_chunks(&ssd.layout)?;
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::sync_channel(64);
    std::thread::scope(|scope| {
        for _ in 0..ssd.options.threads.clamp(1, folders.len().max(1)) {
            let (sender, folders, next, look) = (sender.clone(), &folders, &next, &look);
            scope.spawn(move || {
                while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for path in files_in(folder).into_iter().filter(|path| is_chunk(path)) {
                        let found = look(&path);
                        if sender.send((path, found)).is_err() {
                            return;
                        }
                    }
                }
            });
        }
        drop(sender);
        for (path, found) in receiver {
            each(&path, found);
        }
    });
    Ok(())
}

/// What a file's first blocks tell. A damaged file is put aside. Of one that is sealed with a key that is not there the header is
/// enough: it takes room as the others do.
fn stored(ssd: &Ssd, path: &Path) -> Result<Stored, Miss> {
    let blocks = ssd.disk.open_blocks(path).map_err(TierError::from)?;
    let found = load::read_front(ssd, &*blocks).and_then(|(header, front)| {
        let its_own = ssd.layout.file(&header.id) == path;
        if its_own { Ok((header, front)) } else { Err(Miss::Damaged("another chunk lies under this name")) }
    });
    if let Err(Miss::Damaged(_)) = found {
        ssd.put_aside(path);
    }
    let (header, front) = found?;
    let keys = front.map(|front| Arc::clone(&front.head().keys));
    Ok(Stored { keys, ..header.stored(blocks.room_bytes().map_err(TierError::from)?) })
}

/// Room that files of chunks take which are not another installation's. One that another process removes meanwhile takes none.
pub(super) fn taken_bytes(ssd: &Ssd) -> Result<u64, TierError> {
    let files = folders_of_chunks(&ssd.layout)?.into_iter().flat_map(|folder| entries_of(&folder));
    let room = |path: PathBuf| {
        let found = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
        (!is_foreign(ssd, &path, Same::of(&found))).then(|| room_of(&found))
    };
    Ok(files.filter(|path| is_chunk(path)).filter_map(room).sum())
}

/// The folders that files of chunks lie in.
pub(super) fn folders_of_chunks(layout: &Layout) -> Result<Vec<PathBuf>, TierError> {
    let version = layout.version();
    let failed = |error| TierError::Failed(format!("could not list {}: {error}", version.display()));
    let entries = std::fs::read_dir(&version).map_err(failed)?;
    let hidden = [layout.drafts(), layout.bad()];
    let models = entries.flatten().map(|entry| entry.path()).filter(|path| !hidden.contains(path));
    Ok(models.flat_map(|model| entries_of(&model)).filter(|path| path.is_dir()).collect())
}

/// The files in a folder; none where it cannot be listed.
pub(super) fn files_in(folder: &Path) -> Vec<PathBuf> {
    entries_of(folder).into_iter().filter(|path| path.is_file()).collect()
}

fn entries_of(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_chunk(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(SUFFIX))
}
