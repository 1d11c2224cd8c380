//! User commands: pin, prefetch and delete stored prefixes and owners, and clear tiers.
//!
//! A stored prefix is identified by its last full-attention chunk. Window chunks of the same tokens are treated
//! together with it.
//!
//! Deleting waits until the tiers below RAM have removed the chunks, so these methods may block. A deleted chunk is
//! not found any more from the start.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::Tiers;
use super::counters::Event;
use super::removed_chunks::RemovalReason;
use super::state::State;
use crate::catalog::{Entry, LOWER_TIERS, TIER_KINDS};
use crate::chunk::{ChunkId, Group};
use crate::identity::Fingerprint;
use crate::owner::Owner;
use crate::tier::TierKind;

/// A stored prefix: a chunk without continuations, and all chunks before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPrefix {
    /// The last chunk.
    pub last: ChunkId,
    /// Length in tokens.
    pub tokens: u64,
    /// Size of all rows. Other prefixes may share some of them.
    pub bytes: u64,
    /// Tiers that have all chunks.
    pub complete_in: Vec<TierKind>,
    /// Size of the rows in each tier that has some.
    pub bytes_by_tier: Vec<(TierKind, u64)>,
    /// Owners of the last chunk.
    pub owners: BTreeSet<Owner>,
    /// Whether the prefix is pinned.
    pub pinned: bool,
    /// Number of hits of the last chunk.
    pub hits: u32,
    /// Time of the last use, in seconds since 1970.
    pub last_use_unix_s: u64,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Number of deleted chunks.
    pub chunks: usize,
    /// Number of chunk files below RAM that are not removed yet, because a tier failed or was too slow. Their removal
    /// is retried.
    pub pending: usize,
}

/// Reason why a prefix cannot be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The prefix is not stored.
    #[error("the context is not stored")]
    Absent,
    /// Pins may use a quarter of a tier.
    #[error("pinned contexts would exceed a quarter of a tier")]
    Quota,
}

impl Tiers {
    /// Returns at most `limit` stored prefixes, most recently used first.
    pub fn stored_prefixes(&self, limit: usize) -> Vec<StoredPrefix> {
        let state = self.inner.lock();
        let leaf = |id: &ChunkId| id.group == Group::Full && state.catalog.continuations(id).is_empty();
        let leaves = state.catalog.entries().filter(|(id, _)| leaf(id));
        let mut leaves: Vec<_> = leaves.map(|(id, entry)| (std::cmp::Reverse(entry.last_use), *id)).collect();
        leaves.sort_unstable();
        leaves.iter().take(limit).filter_map(|(_, last)| state.context(last)).collect()
    }

    /// Loads a prefix into RAM as far as there is room.
    pub fn prefetch(&self, last: &ChunkId) {
        let now = self.inner.clock.now();
        let mut state = self.inner.lock();
        let path = state.path(last);
        state.prefetch(&path, now);
        drop(state);
        self.inner.work.notify_all();
    }

    /// Loads into RAM what a model will need first: its pinned prefixes, and its `most` most recently used ones.
    /// Returns the number of prefixes.
    pub fn prefetch_model(&self, fingerprint: &Fingerprint, most: usize) -> usize {
        let is_of_model = |id: &ChunkId, _: &Entry| id.fingerprint == *fingerprint;
        let pinned = self.prefetch_where(usize::MAX, |id, entry| is_of_model(id, entry) && entry.pinned);
        pinned + self.prefetch_where(most, |id, entry| is_of_model(id, entry) && !entry.pinned)
    }

    /// Loads an owner's prefixes into RAM as far as there is room, most recently used first. Returns the number of
    /// prefixes.
    pub fn prefetch_owner(&self, owner: &Owner) -> usize {
        self.prefetch_where(usize::MAX, |_, entry| entry.owners.contains(owner))
    }

    /// Loads at most `most` of the longest prefixes whose last chunk satisfies `matches`, most recently used first.
    fn prefetch_where(&self, most: usize, matches: impl Fn(&ChunkId, &Entry) -> bool) -> usize {
        let now = self.inner.clock.now();
        let mut state = self.inner.lock();
        let catalog = &state.catalog;
        if catalog.tier(TierKind::Ram).budget() == 0 {
            return 0;
        }
        let is_continued = |id: &ChunkId| {
            catalog.continuations(id).iter().any(|next| catalog.get(next).is_some_and(|entry| matches(next, entry)))
        };
        let last =
            catalog.entries().filter(|(id, entry)| id.group == Group::Full && matches(id, entry) && !is_continued(id));
        let mut last: Vec<_> = last.map(|(id, entry)| (std::cmp::Reverse(entry.last_use), *id)).collect();
        last.sort_unstable();
        last.truncate(most);
        for (_, id) in &last {
            let path = state.path(id);
            let below = |id: &ChunkId| state.catalog.get(id).is_some_and(|entry| entry.ram.is_none());
            if path.iter().any(below) {
                state.prefetch(&path, now);
            }
        }
        drop(state);
        self.inner.work.notify_all();
        last.len()
    }

    /// Pins a prefix, which protects it from eviction and expiry, or unpins it.
    ///
    /// # Errors
    /// If the prefix is not stored, or the pin quota is exceeded.
    pub fn set_pinned(&self, last: &ChunkId, pinned: bool) -> Result<(), PinError> {
        let now = self.inner.clock.now();
        let mut state = self.inner.lock();
        let path = state.path(last);
        if path.is_empty() {
            return Err(PinError::Absent);
        }
        if pinned {
            let all = state.with_windows(path);
            let newly_pinned: Vec<ChunkId> =
                all.into_iter().filter(|id| state.catalog.get(id).is_some_and(|entry| !entry.pinned)).collect();
            let fits = newly_pinned.iter().all(|id| state.catalog.set_pinned(id, true));
            if !fits {
                for id in &newly_pinned {
                    state.catalog.set_pinned(id, false);
                }
                return Err(PinError::Quota);
            }
            state.enqueue_lower(&self.inner.config, last, now);
            for id in newly_pinned.iter().filter(|id| id.group == Group::Window) {
                state.enqueue_lower(&self.inner.config, id, now);
            }
            state.dirty.extend(newly_pinned);
        } else {
            for id in path {
                let shared = state
                    .catalog
                    .continuations(&id)
                    .iter()
                    .any(|next| state.catalog.get(next).is_some_and(|e| e.pinned));
                if shared {
                    break;
                }
                for id in state.with_windows([id]) {
                    state.catalog.set_pinned(&id, false);
                    state.dirty.insert(id);
                }
            }
        }
        drop(state);
        self.inner.work.notify_all();
        // A crash must not lose the pin.
        self.inner.write_index(true);
        Ok(())
    }

    /// Adds an owner to a chunk and all chunks before it. Returns whether the chunk is stored.
    pub fn add_owner(&self, id: &ChunkId, owner: &Owner) -> bool {
        let mut state = self.inner.lock();
        state.add_owner(id, owner);
        state.catalog.get(id).is_some()
    }

    /// Deletes a prefix, except for the part that others continue. Waits at most `within` for the files to be removed.
    pub fn forget(&self, last: &ChunkId, within: Duration) -> Deletion {
        let mut state = self.inner.lock();
        let mut to_delete = HashSet::new();
        for id in state.path(last) {
            if state.catalog.continuations(&id).iter().any(|next| !to_delete.contains(next)) {
                break;
            }
            to_delete.insert(id);
        }
        let chunks = state.delete(&to_delete);
        drop(state);
        Deletion { chunks, pending: self.wait_removed(within) }
    }

    /// Deletes the chunks that only this owner has, and their continuations without owners. Shared chunks stay. Waits
    /// at most `within` for the files to be removed.
    pub fn forget_owner(&self, owner: &Owner, within: Duration) -> Deletion {
        let mut state = self.inner.lock();
        let owned = state.catalog.entries().filter(|(_, entry)| entry.owners.contains(owner));
        let owned: Vec<ChunkId> = owned.map(|(id, _)| *id).collect();
        let mut rest = Vec::new();
        for id in owned {
            state.dirty.insert(id);
            if let Some(entry) = state.catalog.get_mut(&id) {
                entry.owners.remove(owner);
                rest.extend(entry.owners.is_empty().then_some(id));
            }
        }
        // A window chunk stays as long as the full-attention chunk beside it.
        rest.retain(|id| id.group == Group::Full || state.catalog.get(&id.in_group(Group::Full)).is_none());
        let mut to_delete = HashSet::new();
        while let Some(id) = rest.pop() {
            if to_delete.insert(id) {
                // A continuation without owners would be unreachable.
                let unowned = |next: &ChunkId| state.catalog.get(next).is_some_and(|entry| entry.owners.is_empty());
                rest.extend(state.catalog.continuations(&id).into_iter().filter(unowned));
            }
        }
        let chunks = state.delete(&to_delete);
        state.mark_unscanned_deleted(|owners| {
            owners.iter().position(|other| other == owner).map(|at| owners.swap_remove(at)).is_some()
        });
        state.counts.emit(&Event::OwnerForgotten(owner.clone()));
        drop(state);
        Deletion { chunks, pending: self.wait_removed(within) }
    }

    /// Deletes everything. Waits at most `within` for the files to be removed.
    pub fn clear(&self, within: Duration) -> Deletion {
        let mut state = self.inner.lock();
        let all = state.catalog.entries().map(|(id, _)| *id).collect();
        let chunks = state.delete(&all);
        state.mark_unscanned_deleted(|owners| {
            owners.clear();
            true
        });
        for tier in LOWER_TIERS {
            let lower_state = state.lower_mut(tier);
            lower_state.purge_on_scan = lower_state.is_configured && !lower_state.is_scanned;
        }
        state.removed_chunks.clear();
        state.counts.emit(&Event::Cleared);
        drop(state);
        Deletion { chunks, pending: self.wait_removed(within) }
    }

    /// Clears one tier; copies in other tiers stay. Waits at most `within` for the files to be removed.
    pub fn clear_tier(&self, tier: TierKind, within: Duration) -> Deletion {
        let mut state = self.inner.lock();
        let ids: Vec<ChunkId> = state.catalog.entries().map(|(id, _)| *id).collect();
        let ids: Vec<ChunkId> = ids.into_iter().filter(|id| state.catalog.tier(tier).contains(id)).collect();
        for id in &ids {
            match tier {
                TierKind::Ram => state.drop_ram(id, RemovalReason::Deleted),
                TierKind::Ssd | TierKind::Remote => state.remove_lower(tier, id, RemovalReason::Deleted),
            }
        }
        drop(state);
        Deletion { chunks: ids.len(), pending: self.wait_removed(within) }
    }

    /// Waits until all removals are done or have failed. Returns the number of pending removals.
    fn wait_removed(&self, within: Duration) -> usize {
        self.inner.work.notify_all();
        // If the process ends before the removals are done, the next one continues them.
        self.inner.write_index(true);
        let is_busy = |state: &State, tier: TierKind| {
            let lower_state = state.lower(tier);
            lower_state.is_removing()
                || lower_state.is_configured && lower_state.scanned_at.is_none() && state.unscanned_deletions() > 0
        };
        let waits = |state: &State| LOWER_TIERS.iter().any(|&tier| is_busy(state, tier));
        let mut state = self.inner.lock();
        self.inner.done.wait_while_for(&mut state, |state| waits(state) && state.closing.is_none(), within);
        LOWER_TIERS.iter().map(|&tier| state.lower(tier).removal_count()).sum::<usize>() + state.unscanned_deletions()
    }
}

impl State {
    /// Returns a chunk and all stored chunks before it, last first.
    fn path(&self, last: &ChunkId) -> Vec<ChunkId> {
        let (mut path, mut next) = (Vec::new(), *last);
        while let Some(entry) = self.catalog.get(&next) {
            path.push(next);
            next = entry.parent_id(&next);
        }
        path
    }

    /// Returns these chunks and the window chunks of the same tokens.
    fn with_windows(&self, ids: impl IntoIterator<Item = ChunkId>) -> Vec<ChunkId> {
        let groups = |id: ChunkId| BTreeSet::from([id, id.in_group(Group::Window)]);
        ids.into_iter().flat_map(groups).filter(|id| self.catalog.get(id).is_some()).collect()
    }

    fn context(&self, last: &ChunkId) -> Option<StoredPrefix> {
        let entry = self.catalog.get(last)?;
        let path = self.path(last);
        let all = self.with_windows(path.iter().copied());
        let everywhere = |tier: &TierKind| path.iter().all(|id| self.catalog.tier(*tier).contains(id));
        let bytes = |id: &ChunkId| Some(self.catalog.get(id)?.payload_bytes);
        let size_in = |tier: TierKind| {
            let stored = all.iter().filter(|id| self.catalog.tier(tier).contains(id));
            (tier, stored.filter_map(bytes).sum::<u64>())
        };
        Some(StoredPrefix {
            last: *last,
            tokens: entry.first_position + u64::from(entry.tokens),
            bytes: all.iter().filter_map(bytes).sum(),
            complete_in: TIER_KINDS.into_iter().filter(everywhere).collect(),
            bytes_by_tier: TIER_KINDS.into_iter().map(size_in).filter(|(_, bytes)| *bytes > 0).collect(),
            owners: entry.owners.clone(),
            pinned: entry.pinned,
            hits: entry.hits,
            last_use_unix_s: entry.last_use_unix_s,
        })
    }

    fn delete(&mut self, to_delete: &HashSet<ChunkId>) -> usize {
        let all: HashSet<ChunkId> = self.with_windows(to_delete.iter().copied()).into_iter().collect();
        all.iter().for_each(|id| self.forget(id, RemovalReason::Deleted));
        all.len()
    }
}
