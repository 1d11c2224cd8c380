//! Metadata that survives a restart and is in no chunk file: the index, and when it is written.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::removed_chunks::RemovalReason;
use super::state::State;
use super::{Config, Inner};
use crate::catalog::LOWER_TIERS;
use crate::chunk::ChunkId;
use crate::index::{Index, IndexError, IndexRow};
use crate::tier::TierKind;

/// How often usage is written to the index.
pub(super) const INDEX_WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Opens the index and reads its rows. If it cannot be opened, metadata is not persisted.
pub(super) fn open(config: &Config) -> (Result<Option<Index>, IndexError>, HashMap<ChunkId, IndexRow>) {
    let index = config.index_path.as_deref().map(Index::open).transpose();
    let rows = index.as_ref().ok().and_then(Option::as_ref).and_then(|index| index.rows().ok()).unwrap_or_default();
    (index, rows)
}

/// Bytes that the index counts as written in advance, so that it need not be written with each chunk.
const RESERVE_BYTES: u64 = 64 << 20;

impl Inner {
    /// Stores today's written bytes, plus a reserve, in the index before the write. After a crash the reserve counts
    /// as written, so the daily limit holds.
    pub(super) fn reserve_daily_write(&self, tier: TierKind) {
        let Some(index) = &self.index else { return };
        let cap = self.config.lower(tier).and_then(|lower| lower.daily_write_bytes);
        let mut state = self.lock();
        let lower_state = state.lower_mut(tier);
        let (day, bytes) =
            (lower_state.written.0, lower_state.written.1 + lower_state.saving.map_or(0, |(_, bytes)| bytes));
        if lower_state.reserved.0 == day && bytes <= lower_state.reserved.1 {
            return;
        }
        lower_state.reserved = (day, bytes.saturating_add(RESERVE_BYTES).min(cap.unwrap_or(u64::MAX).max(bytes)));
        let promised = lower_state.reserved;
        drop(state);
        // If this fails, a restart counts from 0.
        let _ = index.write_written(tier, promised);
    }

    /// Stores the exact written bytes in the index.
    pub(super) fn write_daily_totals(&self) {
        let Some(index) = &self.index else { return };
        for tier in LOWER_TIERS {
            let written = self.lock().lower(tier).written;
            if written.0 > 0 {
                // If this fails, the reserve counts as written.
                let _ = index.write_written(tier, written);
            }
        }
    }

    /// Writes changed rows to the index, without holding the lock. Errors are ignored: a restart then loses the
    /// metadata.
    pub(super) fn write_index(&self, durable: bool) {
        let _order = self.index_writes.lock();
        let mut state = self.lock();
        let ids = std::mem::take(&mut state.dirty);
        let Some(index) = &self.index else { return };
        let leaving = state.pending_removals();
        let rows: Vec<(ChunkId, Option<IndexRow>)> = ids.into_iter().map(|id| (id, state.row(&id, &leaving))).collect();
        drop(state);
        if !rows.is_empty() {
            let _ = index.write(rows.iter().map(|(id, row)| (id, row.as_ref())), durable);
        }
    }

    /// Writes a chunk's owners to the index before its file is written.
    pub(super) fn write_owners(&self, id: &ChunkId) {
        let Some(index) = &self.index else { return };
        let _order = self.index_writes.lock();
        let row = self.lock().row(id, &HashSet::new());
        if row.as_ref().is_some_and(|row| !row.owners.is_empty()) {
            let _ = index.write([(id, row.as_ref())], true);
        }
    }
}

impl State {
    /// Returns the row to store for a chunk, or `None` if the chunk is gone.
    fn row(&self, id: &ChunkId, leaving: &HashSet<ChunkId>) -> Option<IndexRow> {
        if let Some(entry) = self.catalog.get(id) {
            return Some(IndexRow {
                last_use_unix_s: entry.last_use_unix_s,
                hits: entry.hits,
                recompute: entry.recompute,
                prefix_recompute: entry.prefix_recompute,
                pinned: entry.pinned,
                is_deleted: false,
                owners: entry.owners.iter().cloned().collect(),
            });
        }
        let unscanned = self.unscanned_rows.get(id).cloned();
        unscanned.or_else(|| leaving.contains(id).then(|| IndexRow { is_deleted: true, ..IndexRow::default() }))
    }

    /// Marks chunks for deletion that are known only from the index, so that the next scan removes them. `leave`
    /// removes owners from a row and returns whether it did. Rows with other owners stay.
    pub(super) fn mark_unscanned_deleted(&mut self, leave: impl Fn(&mut Vec<crate::Owner>) -> bool) {
        for (id, row) in &mut self.unscanned_rows {
            if leave(&mut row.owners) {
                row.is_deleted |= row.owners.is_empty();
                self.dirty.insert(*id);
            }
        }
    }

    /// Returns the number of deletions of chunks that no scan has found yet, counting a tier that will be purged as
    /// one.
    pub(super) fn unscanned_deletions(&self) -> usize {
        let purges = LOWER_TIERS.into_iter().filter(|&tier| self.lower(tier).purge_on_scan).count();
        let deleted = || self.unscanned_rows.values().filter(|row| row.is_deleted).count();
        if self.unscanned_tiers() == 0 { 0 } else { purges + deleted() }
    }

    /// Returns the number of tiers that were not scanned yet.
    fn unscanned_tiers(&self) -> usize {
        LOWER_TIERS.into_iter().filter(|&tier| self.lower(tier).is_configured && !self.lower(tier).is_scanned).count()
    }

    /// Loads today's written bytes from the index.
    pub(super) fn load_daily_writes(&mut self, index: &Index) {
        for tier in LOWER_TIERS {
            if let Ok(Some(written)) = index.written(tier) {
                let lower_state = self.lower_mut(tier);
                (lower_state.written, lower_state.reserved) = (written, written);
            }
        }
    }

    /// Returns the chunks that are being removed.
    fn pending_removals(&self) -> HashSet<ChunkId> {
        LOWER_TIERS.into_iter().flat_map(|tier| self.lower(tier).pending_removals()).collect()
    }

    /// Drops the rows of chunks that no tier has, once all tiers were scanned.
    pub(super) fn drop_unscanned_rows(&mut self) {
        if !self.lower(TierKind::Remote).is_configured {
            let unscanned = std::mem::take(&mut self.unscanned_rows);
            self.dirty.extend(unscanned.into_keys());
        }
    }

    /// Applies the stored row of a chunk that a scan found.
    pub(super) fn apply_row(&mut self, id: &ChunkId) {
        let Some(row) = self.unscanned_rows.remove(id) else { return };
        if row.is_deleted {
            // Another tier may have the chunk, too.
            if self.unscanned_tiers() > 0 {
                self.unscanned_rows.insert(*id, row);
            }
            self.forget(id, RemovalReason::Deleted);
            return;
        }
        let Some(entry) = self.catalog.get_mut(id) else { return };
        for owner in &row.owners {
            owner.add_to(&mut entry.owners);
        }
        entry.hits = entry.hits.max(row.hits);
        entry.recompute = row.recompute;
        entry.prefix_recompute = row.prefix_recompute;
        self.catalog.set_last_use(id, row.last_use_unix_s);
        if row.pinned {
            self.catalog.set_pinned(id, true);
        }
    }
}
