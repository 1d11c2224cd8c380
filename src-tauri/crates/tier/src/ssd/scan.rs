//! Scans the folder, reading only the first blocks of each file.

use std::collections::HashSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use cairn_disk::allocated_bytes;

use super::file_cache::{FileStamp, FileState, cache_state, cached_state, stamp};
use super::layout::{Layout, SUFFIX};
use super::{SsdTier, load};
use crate::format::BLOCK_BYTES;
use crate::tier::{Miss, StoredChunk, TierError};

pub(super) fn scan(ssd: &SsdTier, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
    let look = |path: &Path| {
        let stamp = stamp(path);
        let state = stamp.and_then(|stamp| cached_state(ssd, path, stamp, FileState::clone));
        match state {
            Some(FileState::Chunk(stored)) => return Ok(stored),
            Some(FileState::Foreign) => return Err(Miss::Foreign),
            Some(FileState::Damaged) => {
                // This process may have become the owner since.
                ssd.quarantine(path);
                return Err(Miss::Damaged("the file was damaged when it was loaded"));
            }
            Some(FileState::Own) | None => {}
        }
        let found = stored(ssd, path);
        match &found {
            Ok(stored) => cache_state(ssd, path, stamp, FileState::Chunk(stored.clone())),
            Err(Miss::Foreign) => cache_state(ssd, path, stamp, FileState::Foreign),
            Err(_) => {}
        }
        found
    };
    let mut seen = HashSet::new();
    each_file(ssd, look, |path, found| {
        seen.insert(path.to_owned());
        found.into_iter().for_each(&mut *each);
    })?;
    ssd.heads.lock().retain(|path, _| seen.contains(path));
    Ok(())
}

/// Returns whether another installation wrote this file. Unreadable files count as not foreign.
pub(super) fn is_foreign(ssd: &SsdTier, path: &Path, stamp: FileStamp) -> bool {
    if let Some(foreign) = cached_state(ssd, path, stamp, |state| matches!(state, FileState::Foreign)) {
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
        Err(Miss::Foreign) => cache_state(ssd, path, Some(stamp), FileState::Foreign),
        Ok(_) | Err(Miss::Damaged(_)) => cache_state(ssd, path, Some(stamp), FileState::Own),
        Err(_) => {}
    }
    cached_state(ssd, path, stamp, |state| matches!(state, FileState::Foreign)).unwrap_or(false)
}

/// Inspects every chunk file on several threads and passes the results to `each` on this thread.
pub(super) fn each_file<T: Send>(
    ssd: &SsdTier,
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

/// Reads the metadata of a file. Quarantines a damaged file. For an encrypted file without a key the header is enough,
/// since the file takes space.
fn stored(ssd: &SsdTier, path: &Path) -> Result<StoredChunk, Miss> {
    let blocks = ssd.disk.open_blocks(path).map_err(TierError::from)?;
    let found = load::read_preamble(ssd, &*blocks).and_then(|(header, front)| {
        let its_own = ssd.layout.file(&header.id) == path;
        if its_own { Ok((header, front)) } else { Err(Miss::Damaged("the file contains another chunk")) }
    });
    if let Err(Miss::Damaged(_)) = found {
        ssd.quarantine(path);
    }
    let (header, front) = found?;
    let keys = front.map(|front| Arc::clone(&front.head().keys));
    Ok(StoredChunk { keys, ..header.stored(blocks.allocated_bytes().map_err(TierError::from)?) })
}

/// Returns the disk space of this installation's chunk files. A file that another process removes meanwhile counts as
/// 0.
pub(super) fn used_bytes(ssd: &SsdTier) -> Result<u64, TierError> {
    let files = folders_of_chunks(&ssd.layout)?.into_iter().flat_map(|folder| entries_of(&folder));
    let room = |path: PathBuf| {
        let found = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
        (!is_foreign(ssd, &path, FileStamp::of(&found))).then(|| allocated_bytes(&found))
    };
    Ok(files.filter(|path| is_chunk(path)).filter_map(room).sum())
}

/// Returns the folders that contain chunk files.
pub(super) fn folders_of_chunks(layout: &Layout) -> Result<Vec<PathBuf>, TierError> {
    let version = layout.version();
    let failed = |error| TierError::Failed(format!("cannot list {}: {error}", version.display()));
    let entries = std::fs::read_dir(&version).map_err(failed)?;
    let hidden = [layout.drafts(), layout.bad()];
    let models = entries.flatten().map(|entry| entry.path()).filter(|path| !hidden.contains(path));
    Ok(models.flat_map(|model| entries_of(&model)).filter(|path| path.is_dir()).collect())
}

/// Returns the files in a folder, or none if it cannot be listed.
pub(super) fn files_in(folder: &Path) -> Vec<PathBuf> {
    entries_of(folder).into_iter().filter(|path| path.is_file()).collect()
}

fn entries_of(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_chunk(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(SUFFIX))
}
