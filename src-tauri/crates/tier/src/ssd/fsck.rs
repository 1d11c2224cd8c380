//! Verification of a whole folder.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::{SsdTier, load, scan};
use crate::chunk::{ChunkId, Group};
use crate::tier::{Miss, StoredChunk, TierError};

/// Result of a check.
#[derive(Debug, Default)]
pub struct FsckReport {
    /// Number of valid chunks.
    pub whole: u64,
    /// Disk space of the valid chunks.
    pub whole_bytes: u64,
    /// Damaged files, with reasons.
    pub damaged: Vec<(PathBuf, &'static str)>,
    /// Unreadable files, with errors.
    pub unread: Vec<(PathBuf, String)>,
    /// Valid chunks that are useless because a preceding chunk is missing.
    pub orphans: Vec<ChunkId>,
    /// Disk space of the orphans.
    pub orphan_bytes: u64,
    /// Number of quarantined files.
    pub aside: u64,
    /// Number of files of other installations, which are not verified.
    pub foreign: u64,
}

impl SsdTier {
    /// Reads and verifies every chunk. With `fix`, removes damaged files and orphans, which only the owner can do.
    ///
    /// # Errors
    /// If the folder cannot be listed, or a file cannot be removed.
    pub fn fsck(&self, fix: bool) -> Result<FsckReport, TierError> {
        if fix {
            self.must_own()?;
        }
        let mut report = FsckReport { aside: self.quarantined_files().len() as u64, ..FsckReport::default() };
        let mut valid: HashMap<ChunkId, StoredChunk> = HashMap::new();
        let look = |path: &std::path::Path| {
            let blocks = self.disk.open_blocks(path).map_err(TierError::from)?;
            let own_name = |front: &crate::format::Preamble| {
                let is_own = self.layout.file(&front.head().id) == path;
                if is_own { Ok(()) } else { Err(Miss::Damaged("the file contains another chunk")) }
            };
            load::read(self, &*blocks, own_name).map(|(_, stored)| stored)
        };
        scan::each_file(self, look, |path, found| match found {
            Ok(stored) => drop(valid.insert(stored.id, stored)),
            Err(Miss::Foreign) => report.foreign += 1,
            Err(Miss::Damaged(why)) => report.damaged.push((path.to_owned(), why)),
            Err(miss) => report.unread.push((path.to_owned(), miss.to_string())),
        })?;
        report.whole = valid.len() as u64;
        report.whole_bytes = valid.values().map(|stored| stored.bytes).sum();
        let used = reachable(&valid);
        let orphans = valid.values().filter(|stored| !used.contains(&stored.id));
        for stored in orphans {
            report.orphans.push(stored.id);
            report.orphan_bytes += stored.bytes;
        }
        report.orphans.sort();
        report.damaged.sort();
        if fix {
            self.repair(&report)?;
        }
        Ok(report)
    }

    fn repair(&self, report: &FsckReport) -> Result<(), TierError> {
        let orphans = report.orphans.iter().map(|id| self.layout.file(id));
        let damaged = report.damaged.iter().map(|(path, _)| path.clone());
        let mut folders = HashSet::new();
        for path in damaged.chain(orphans).chain(self.quarantined_files()) {
            self.remove_file(&path)?;
            folders.extend(path.parent().map(ToOwned::to_owned));
        }
        // Abandoned drafts are useless.
        self.disk.remove_stale_temp_files(&self.layout.drafts())?;
        folders.iter().try_for_each(|folder| Ok(self.disk.sync_folder(folder)?))
    }
}

/// Returns the chunks that a sequence can use. A full-attention chunk needs all chunks before it. A window chunk is
/// usable without them, because only the last few are stored.
fn reachable(valid: &HashMap<ChunkId, StoredChunk>) -> HashSet<ChunkId> {
    let mut used: HashSet<ChunkId> = HashSet::new();
    let mut in_order: Vec<&StoredChunk> = valid.values().collect();
    in_order.sort_by_key(|stored| stored.first_position);
    for stored in in_order {
        let before = ChunkId { hash: stored.parent, ..stored.id };
        if stored.first_position == 0 || stored.id.group == Group::Window || used.contains(&before) {
            used.insert(stored.id);
        }
    }
    used
}
