//! Checking a folder to the last byte.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::{Ssd, load, scan};
use crate::chunk::{ChunkId, Group};
use crate::tier::{Miss, Stored, TierError};

/// What lies in a folder.
#[derive(Debug, Default)]
pub struct Report {
    /// Chunks that are what was written.
    pub whole: u64,
    /// The room that those take.
    pub whole_bytes: u64,
    /// Files that are not, and why.
    pub damaged: Vec<(PathBuf, &'static str)>,
    /// Files that could not be read, and why.
    pub unread: Vec<(PathBuf, String)>,
    /// Whole chunks that nobody can use, because a chunk before them is not there.
    pub orphans: Vec<ChunkId>,
    /// The room that those take.
    pub orphan_bytes: u64,
    /// Damaged files that were put aside before.
    pub aside: u64,
    /// Files that other installations keep here. They are not looked at any further.
    pub foreign: u64,
}

impl Ssd {
    /// Reads every chunk and says what is there. With `fix`, what is damaged or of no use is removed; only the owner can.
    ///
    /// # Errors
    /// Where the folder cannot be listed, or something cannot be removed.
    pub fn fsck(&self, fix: bool) -> Result<Report, TierError> {
        if fix {
            self.must_own()?;
        }
        let mut report = Report { aside: self.aside().len() as u64, ..Report::default() };
        let mut there: HashMap<ChunkId, Stored> = HashMap::new();
        let look = |path: &std::path::Path| {
            let blocks = self.disk.open_blocks(path).map_err(TierError::from)?;
            let own_name = |front: &crate::format::Front| {
                let is_own = self.layout.file(&front.head().id) == path;
                if is_own { Ok(()) } else { Err(Miss::Damaged("another chunk lies under this name")) }
            };
            load::read(self, &*blocks, own_name).map(|(_, stored)| stored)
        };
        scan::each_file(self, look, |path, found| match found {
            Ok(stored) => drop(there.insert(stored.id, stored)),
            Err(Miss::Foreign) => report.foreign += 1,
            Err(Miss::Damaged(why)) => report.damaged.push((path.to_owned(), why)),
            Err(miss) => report.unread.push((path.to_owned(), miss.to_string())),
        })?;
        report.whole = there.len() as u64;
        report.whole_bytes = there.values().map(|stored| stored.bytes).sum();
        let used = reachable(&there);
        let orphans = there.values().filter(|stored| !used.contains(&stored.id));
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

    fn repair(&self, report: &Report) -> Result<(), TierError> {
        let orphans = report.orphans.iter().map(|id| self.layout.file(id));
        let damaged = report.damaged.iter().map(|(path, _)| path.clone());
        let mut folders = HashSet::new();
        for path in damaged.chain(orphans).chain(self.aside()) {
            self.remove_file(&path)?;
            folders.extend(path.parent().map(ToOwned::to_owned));
        }
        // What was half written is not missed after a power cut.
        self.disk.remove_dead_drafts(&self.layout.drafts())?;
        folders.iter().try_for_each(|folder| Ok(self.disk.sync_folder(folder)?))
    }
}

/// The chunks that a sequence can use. One of full attention takes all before it; of a window only the last few are kept, so one of
/// those is of use alone.
fn reachable(there: &HashMap<ChunkId, Stored>) -> HashSet<ChunkId> {
    let mut used: HashSet<ChunkId> = HashSet::new();
    let mut in_order: Vec<&Stored> = there.values().collect();
    in_order.sort_by_key(|stored| stored.first_position);
    for stored in in_order {
        let before = ChunkId { hash: stored.parent, ..stored.id };
        if stored.first_position == 0 || stored.id.group == Group::Window || used.contains(&before) {
            used.insert(stored.id);
        }
    }
    used
}
