//! What outlives a restart and is in no file: the index, and when it is written.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::state::State;
use super::status::Gone;
use super::{Config, Inner};
use crate::catalog::LOWER;
use crate::chunk::ChunkId;
use crate::index::{Index, Row};
use crate::tier::Place;

/// How often uses are written.
pub(super) const BATCH_SPAN: Duration = Duration::from_secs(5);

/// The index, and what it knows. Without one, or where another process has it, nothing is remembered.
pub(super) fn open(config: &Config) -> (Option<Index>, HashMap<ChunkId, Row>) {
    let index = config.index.as_deref().and_then(|path| Index::open(path).ok());
    let rows = index.as_ref().and_then(|index| index.rows().ok()).unwrap_or_default();
    (index, rows)
}

/// Bytes that a place is said to have been written before it was, so that the index is not written with each chunk.
const PROMISE_BYTES: u64 = 64 << 20;

impl Inner {
    /// Has the index say that so much was written today, and a little more, before it is. After a crash the rest of it counts as
    /// written: a day's limit holds.
    pub(super) fn promise_day(&self, place: Place) {
        let Some(index) = &self.index else { return };
        let cap = self.config.lower(place).and_then(|lower| lower.daily_bytes);
        let mut state = self.lock();
        let hand = state.hand_mut(place);
        let (day, bytes) = (hand.written.0, hand.written.1 + hand.saving.map_or(0, |(_, bytes)| bytes));
        if hand.promised.0 == day && bytes <= hand.promised.1 {
            return;
        }
        hand.promised = (day, bytes.saturating_add(PROMISE_BYTES).min(cap.unwrap_or(u64::MAX).max(bytes)));
        let promised = hand.promised;
        drop(state);
        // It may fail: then a restart counts anew.
        let _ = index.write_written(place, promised);
    }

    /// Has the index say what was written, and no more.
    pub(super) fn write_days(&self) {
        let Some(index) = &self.index else { return };
        for place in LOWER {
            let written = self.lock().hand(place).written;
            if written.0 > 0 {
                // As above.
                let _ = index.write_written(place, written);
            }
        }
    }

    /// Writes what has changed, without the lock. The index may fail: then a restart forgets what it would have said.
    pub(super) fn write_index(&self, durable: bool) {
        let mut state = self.lock();
        let ids = std::mem::take(&mut state.dirty);
        let Some(index) = &self.index else { return };
        let leaving = state.leaving();
        let rows: Vec<(ChunkId, Option<Row>)> = ids.into_iter().map(|id| (id, state.row(&id, &leaving))).collect();
        drop(state);
        if !rows.is_empty() {
            let _ = index.write(rows.iter().map(|(id, row)| (id, row.as_ref())), durable);
        }
    }

    /// Writes whose a chunk is, before a file of it is made.
    pub(super) fn write_owners(&self, id: &ChunkId) {
        let Some(index) = &self.index else { return };
        let row = self.lock().row(id, &HashSet::new());
        if row.as_ref().is_some_and(|row| !row.owners.is_empty()) {
            let _ = index.write([(id, row.as_ref())], true);
        }
    }
}

impl State {
    /// What is to be remembered of a chunk; none where it is gone.
    fn row(&self, id: &ChunkId, leaving: &HashSet<ChunkId>) -> Option<Row> {
        if let Some(entry) = self.catalog.get(id) {
            return Some(Row {
                last_use_unix_s: entry.last_use_unix_s,
                hits: entry.hits,
                recompute: entry.recompute,
                prefix_recompute: entry.prefix_recompute,
                pinned: entry.pinned,
                doomed: false,
                owners: entry.owners.iter().cloned().collect(),
            });
        }
        let unmet = self.remembered.get(id).cloned();
        unmet.or_else(|| leaving.contains(id).then(|| Row { doomed: true, ..Row::default() }))
    }

    /// Has chunks removed as soon as a scan meets them, of which only the index knows so far. `leave` takes owners away that want them no
    /// more, and says whether it did; what others own stays.
    pub(super) fn doom_unmet(&mut self, leave: impl Fn(&mut Vec<crate::Owner>) -> bool) {
        for (id, row) in &mut self.remembered {
            if leave(&mut row.owners) {
                row.doomed |= row.owners.is_empty();
                self.dirty.insert(*id);
            }
        }
    }

    /// How much is to be removed of which only the index knows; at least one where all of an unknown place is.
    pub(super) fn unmet_doomed(&self) -> usize {
        let purges = LOWER.into_iter().filter(|&place| self.hand(place).purges).count();
        let doomed = || self.remembered.values().filter(|row| row.doomed).count();
        if self.unknown_places() == 0 { 0 } else { purges + doomed() }
    }

    /// Places that have not told what they have.
    fn unknown_places(&self) -> usize {
        LOWER.into_iter().filter(|&place| self.hand(place).present && !self.hand(place).known).count()
    }

    /// What was written of late.
    pub(super) fn recall_days(&mut self, index: &Index) {
        for place in LOWER {
            if let Ok(Some(written)) = index.written(place) {
                let hand = self.hand_mut(place);
                (hand.written, hand.promised) = (written, written);
            }
        }
    }

    /// What is to be removed.
    fn leaving(&self) -> HashSet<ChunkId> {
        LOWER.into_iter().flat_map(|place| self.hand(place).leaving()).collect()
    }

    /// What is remembered of chunks that no place has is forgotten, once all that is there has been seen.
    pub(super) fn forget_unmet(&mut self) {
        if !self.hand(Place::Remote).present {
            let unmet = std::mem::take(&mut self.remembered);
            self.dirty.extend(unmet.into_keys());
        }
    }

    /// Applies what was remembered of a chunk that was found by a scan.
    pub(super) fn recall(&mut self, id: &ChunkId) {
        let Some(row) = self.remembered.remove(id) else { return };
        if row.doomed {
            // Another place may have it, too.
            if self.unknown_places() > 0 {
                self.remembered.insert(*id, row);
            }
            self.forget(id, Gone::Deleted);
            return;
        }
        let Some(entry) = self.catalog.get_mut(id) else { return };
        for owner in &row.owners {
            owner.join(&mut entry.owners);
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
