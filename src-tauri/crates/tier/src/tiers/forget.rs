//! What people ask for: contexts that stay, contexts and owners that go, and an end to everything.
//!
//! A context is named by its chunks in layers that attend to all positions. What windows are kept beside them share their fate.
//!
//! Deleting waits until the places below RAM have removed what they had, so these calls are for threads that may wait. What is
//! deleted is found by nobody from the first moment on.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::Tiers;
use super::state::State;
use super::status::{Event, Gone};
use crate::catalog::{Entry, LOWER, PLACES};
use crate::chunk::{ChunkId, Group};
use crate::identity::Fingerprint;
use crate::owner::Owner;
use crate::tier::Place;

/// A kept sequence: a chunk that no other continues, with all before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its last chunk.
    pub last: ChunkId,
    /// Tokens from the beginning.
    pub tokens: u64,
    /// Bytes of all its rows, some of which others share.
    pub bytes: u64,
    /// Where all of it is.
    pub places: Vec<Place>,
    /// Bytes of its rows in each place that has some.
    pub held: Vec<(Place, u64)>,
    /// Whose it is.
    pub owners: BTreeSet<Owner>,
    /// Whether it stays.
    pub pinned: bool,
    /// How often its last chunk was used again.
    pub hits: u32,
    /// When it was used last, in seconds since 1970.
    pub last_use_unix_s: u64,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Chunks that nobody finds any more.
    pub chunks: usize,
    /// Removals below RAM that have not been done yet: a place failed, or was too slow. They are tried again.
    pub left: usize,
}

/// Why a context is not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// It is not kept.
    #[error("it is not kept")]
    Absent,
    /// Pins may take a quarter of a place.
    #[error("pinned contexts may take a quarter of a place, which this would exceed")]
    Quota,
}

impl Tiers {
    /// The kept contexts, the last used first, at most `limit`.
    pub fn contexts(&self, limit: usize) -> Vec<Context> {
        let state = self.inner.lock();
        let leaf = |id: &ChunkId| id.group == Group::Full && state.catalog.continuations(id).is_empty();
        let leaves = state.catalog.entries().filter(|(id, _)| leaf(id));
        let mut leaves: Vec<_> = leaves.map(|(id, entry)| (std::cmp::Reverse(entry.last_use), *id)).collect();
        leaves.sort_unstable();
        leaves.iter().take(limit).filter_map(|(_, last)| state.context(last)).collect()
    }

    /// Brings a context up to RAM, as far as there is room, since somebody will want it soon.
    pub fn prefetch(&self, last: &ChunkId) {
        let now = self.inner.clock.now();
        let mut state = self.inner.lock();
        let path = state.path(last);
        state.prefetch(&path, now);
        drop(state);
        self.inner.work.notify_all();
    }

    /// Brings up to RAM, as far as there is room, what a model that begins to load will be asked for first: what is pinned, and the
    /// `most` contexts that were used last. Returns how many contexts that is.
    pub fn prefetch_model(&self, fingerprint: &Fingerprint, most: usize) -> usize {
        let theirs = |id: &ChunkId, _: &Entry| id.fingerprint == *fingerprint;
        let pinned = self.prefetch_where(usize::MAX, |id, entry| theirs(id, entry) && entry.pinned);
        pinned + self.prefetch_where(most, |id, entry| theirs(id, entry) && !entry.pinned)
    }

    /// Brings up to RAM, as far as there is room, what an owner has, the last used first: somebody opens a chat. Returns how many
    /// contexts that is.
    pub fn prefetch_owner(&self, owner: &Owner) -> usize {
        self.prefetch_where(usize::MAX, |_, entry| entry.owners.contains(owner))
    }

    /// Brings up the longest contexts whose last chunk is such a one, at most `most`, the last used first.
    fn prefetch_where(&self, most: usize, such: impl Fn(&ChunkId, &Entry) -> bool) -> usize {
        let now = self.inner.clock.now();
        let mut state = self.inner.lock();
        let catalog = &state.catalog;
        if catalog.shelf(Place::Ram).budget() == 0 {
            return 0;
        }
        let goes_on = |id: &ChunkId| {
            catalog.continuations(id).iter().any(|next| catalog.get(next).is_some_and(|entry| such(next, entry)))
        };
        let last = catalog.entries().filter(|(id, entry)| id.group == Group::Full && such(id, entry) && !goes_on(id));
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

    /// Keeps a context from being evicted or forgotten, or lets it go again.
    ///
    /// # Errors
    /// Where it is not kept, or would take too much.
    pub fn pin(&self, last: &ChunkId, pinned: bool) -> Result<(), PinError> {
        let now = self.inner.clock.now();
        let mut state = self.inner.lock();
        let path = state.path(last);
        if path.is_empty() {
            return Err(PinError::Absent);
        }
        if pinned {
            let all = state.with_windows(path);
            let news: Vec<ChunkId> =
                all.into_iter().filter(|id| state.catalog.get(id).is_some_and(|entry| !entry.pinned)).collect();
            let fits = news.iter().all(|id| state.catalog.set_pinned(id, true));
            if !fits {
                for id in &news {
                    state.catalog.set_pinned(id, false);
                }
                return Err(PinError::Quota);
            }
            state.enqueue_below(&self.inner.config, last, now);
            for id in news.iter().filter(|id| id.group == Group::Window) {
                state.enqueue_below(&self.inner.config, id, now);
            }
            state.dirty.extend(news);
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
        Ok(())
    }

    /// Notes that a chunk, with all before it, is this owner's too. Returns whether it is kept.
    pub fn own(&self, id: &ChunkId, owner: &Owner) -> bool {
        let mut state = self.inner.lock();
        state.own(id, owner);
        state.catalog.get(id).is_some()
    }

    /// Deletes a context, but for the part of it that others continue. Waits at most this long for it to be removed everywhere.
    pub fn forget(&self, last: &ChunkId, within: Duration) -> Deleted {
        let mut state = self.inner.lock();
        let mut doomed = HashSet::new();
        for id in state.path(last) {
            if state.catalog.continuations(&id).iter().any(|next| !doomed.contains(next)) {
                break;
            }
            doomed.insert(id);
        }
        let chunks = state.delete(&doomed);
        drop(state);
        Deleted { chunks, left: self.removed(within) }
    }

    /// Deletes all that only this owner has, and what continues it. What others have too stays. Waits at most this long for it to be
    /// removed everywhere.
    pub fn forget_owner(&self, owner: &Owner, within: Duration) -> Deleted {
        let mut state = self.inner.lock();
        let theirs = state.catalog.entries().filter(|(_, entry)| entry.owners.contains(owner));
        let theirs: Vec<ChunkId> = theirs.map(|(id, _)| *id).collect();
        let mut rest = Vec::new();
        for id in theirs {
            state.dirty.insert(id);
            if let Some(entry) = state.catalog.get_mut(&id) {
                entry.owners.remove(owner);
                rest.extend(entry.owners.is_empty().then_some(id));
            }
        }
        // A window stays as long as the chunk beside it does.
        rest.retain(|id| id.group == Group::Full || state.catalog.get(&id.in_group(Group::Full)).is_none());
        let mut doomed = HashSet::new();
        while let Some(id) = rest.pop() {
            if doomed.insert(id) {
                // What nobody owns and nobody could reach any more goes too.
                let unowned = |next: &ChunkId| state.catalog.get(next).is_some_and(|entry| entry.owners.is_empty());
                rest.extend(state.catalog.continuations(&id).into_iter().filter(unowned));
            }
        }
        let chunks = state.delete(&doomed);
        state.doom_unmet(|owners| {
            owners.iter().position(|other| other == owner).map(|at| owners.swap_remove(at)).is_some()
        });
        state.counts.tell(&Event::Forgotten(owner.clone()));
        drop(state);
        Deleted { chunks, left: self.removed(within) }
    }

    /// Deletes everything. Waits at most this long for it to be removed everywhere.
    pub fn clear(&self, within: Duration) -> Deleted {
        let mut state = self.inner.lock();
        let all = state.catalog.entries().map(|(id, _)| *id).collect();
        let chunks = state.delete(&all);
        state.doom_unmet(|owners| {
            owners.clear();
            true
        });
        for place in LOWER {
            let hand = state.hand_mut(place);
            hand.purges = hand.present && !hand.known;
        }
        state.ghosts.clear();
        state.counts.tell(&Event::Cleared);
        drop(state);
        Deleted { chunks, left: self.removed(within) }
    }

    /// Empties one place; what others have too stays there. Waits at most this long for it to be removed.
    pub fn clear_place(&self, place: Place, within: Duration) -> Deleted {
        let mut state = self.inner.lock();
        let there: Vec<ChunkId> = state.catalog.entries().map(|(id, _)| *id).collect();
        let there: Vec<ChunkId> = there.into_iter().filter(|id| state.catalog.shelf(place).holds(id)).collect();
        for id in &there {
            match place {
                Place::Ram => state.drop_ram(id, Gone::Deleted),
                Place::Ssd | Place::Remote => state.remove_lower(place, id, Gone::Deleted),
            }
        }
        drop(state);
        Deleted { chunks: there.len(), left: self.removed(within) }
    }

    /// Waits until nothing is left to be removed, but for what failed. Returns how much is left.
    fn removed(&self, within: Duration) -> usize {
        self.inner.work.notify_all();
        // Should this process end before they are removed, the next one does it.
        self.inner.write_index(true);
        let is_busy = |state: &State, place: Place| {
            let hand = state.hand(place);
            hand.is_removing() || hand.present && hand.scanned_at.is_none() && state.unmet_doomed() > 0
        };
        let waits = |state: &State| LOWER.iter().any(|&place| is_busy(state, place));
        let state = self.inner.lock();
        let waited = self.inner.done.wait_timeout_while(state, within, |state| waits(state) && state.closing.is_none());
        let state = waited.expect("as in lock").0;
        LOWER.iter().map(|&place| state.hand(place).removals_left()).sum::<usize>() + state.unmet_doomed()
    }
}

impl State {
    /// A chunk and all that are kept before it, the last first.
    fn path(&self, last: &ChunkId) -> Vec<ChunkId> {
        let (mut path, mut next) = (Vec::new(), *last);
        while let Some(entry) = self.catalog.get(&next) {
            path.push(next);
            next = entry.parent_id(&next);
        }
        path
    }

    /// These chunks, and what is kept of the same tokens in layers with a window.
    fn with_windows(&self, ids: impl IntoIterator<Item = ChunkId>) -> Vec<ChunkId> {
        let groups = |id: ChunkId| BTreeSet::from([id, id.in_group(Group::Window)]);
        ids.into_iter().flat_map(groups).filter(|id| self.catalog.get(id).is_some()).collect()
    }

    fn context(&self, last: &ChunkId) -> Option<Context> {
        let entry = self.catalog.get(last)?;
        let path = self.path(last);
        let all = self.with_windows(path.iter().copied());
        let everywhere = |place: &Place| path.iter().all(|id| self.catalog.shelf(*place).holds(id));
        let bytes = |id: &ChunkId| Some(self.catalog.get(id)?.payload_bytes);
        let held = |place: Place| {
            let there = all.iter().filter(|id| self.catalog.shelf(place).holds(id));
            (place, there.filter_map(bytes).sum::<u64>())
        };
        Some(Context {
            last: *last,
            tokens: entry.first_position + u64::from(entry.tokens),
            bytes: all.iter().filter_map(bytes).sum(),
            places: PLACES.into_iter().filter(everywhere).collect(),
            held: PLACES.into_iter().map(held).filter(|(_, bytes)| *bytes > 0).collect(),
            owners: entry.owners.clone(),
            pinned: entry.pinned,
            hits: entry.hits,
            last_use_unix_s: entry.last_use_unix_s,
        })
    }

    fn delete(&mut self, doomed: &HashSet<ChunkId>) -> usize {
        let all: HashSet<ChunkId> = self.with_windows(doomed.iter().copied()).into_iter().collect();
        all.iter().for_each(|id| self.forget(id, Gone::Deleted));
        all.len()
    }
}
