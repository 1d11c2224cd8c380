//! Finding what is there, from the first blocks alone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::layout::{Layout, SUFFIX};
use super::{Ssd, load};
use crate::tier::{Miss, Stored, TierError};

pub(super) fn scan(ssd: &Ssd, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
    each_file(
        ssd,
        |path| stored(ssd, path),
        |_, found| {
            if let Ok(stored) = found {
                each(stored);
            }
        },
    )
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

/// Room that files of chunks take. One that another process removes meanwhile takes none.
pub(super) fn taken_bytes(ssd: &Ssd) -> Result<u64, TierError> {
    let files = folders_of_chunks(&ssd.layout)?.into_iter().flat_map(|folder| entries_of(&folder));
    let room = |path: PathBuf| ssd.disk.open_blocks(&path).and_then(|blocks| blocks.room_bytes()).unwrap_or(0);
    Ok(files.filter(|path| is_chunk(path)).map(room).sum())
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
