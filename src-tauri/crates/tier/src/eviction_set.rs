//! The chunks of one tier: their total size, and their eviction order.
//!
//! **Invariant:** a chunk of [`Group::Full`] is an eviction candidate only if no chunk that continues it is in the
//! set, so the rest is always whole prefixes. Window chunks are candidates in plain rank order; the catalog gives
//! window chunks without a prefix the lowest rank. Pinned chunks are not candidates while they fit into the pin quota.

use std::collections::{BTreeSet, HashMap};

use crate::chunk::{ChunkId, Group};

/// Pinned chunks may use a quarter of the budget.
const PIN_PARTS: u64 = 4;

#[derive(Debug)]
struct EvictionEntry {
    parent: ChunkId,
    bytes: u64,
    rank: u64,
    /// Pinned, and within the quota.
    is_pinned: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EvictionSet {
    budget: u64,
    bytes: u64,
    pinned_bytes: u64,
    entries: HashMap<ChunkId, EvictionEntry>,
    /// Number of chunks in this set that continue this chunk, which may be absent itself.
    children: HashMap<ChunkId, u32>,
    /// Eviction candidates, by rank.
    victims: BTreeSet<(u64, ChunkId)>,
}

impl EvictionSet {
    /// Creates an empty set. The budget only determines the pin quota; callers check it before inserting.
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            bytes: 0,
            pinned_bytes: 0,
            entries: HashMap::new(),
            children: HashMap::new(),
            victims: BTreeSet::new(),
        }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn contains(&self, id: &ChunkId) -> bool {
        self.entries.contains_key(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.entries.keys().copied()
    }

    /// Returns whether chunks in this set continue this one.
    pub(crate) fn has_children(&self, id: &ChunkId) -> bool {
        self.children.contains_key(id)
    }

    /// Inserts a chunk, or updates its size.
    pub(crate) fn insert(&mut self, id: ChunkId, parent: ChunkId, bytes: u64, rank: u64) {
        self.remove(&id);
        self.bytes += bytes;
        self.entries.insert(id, EvictionEntry { parent, bytes, rank, is_pinned: false });
        self.add_candidate(&id);
        *self.children.entry(parent).or_default() += 1;
        if parent.group == Group::Full
            && let Some(entry) = self.entries.get(&parent)
        {
            self.victims.remove(&(entry.rank, parent));
        }
    }

    /// Removes a chunk and returns its size.
    pub(crate) fn remove(&mut self, id: &ChunkId) -> Option<u64> {
        let EvictionEntry { parent, bytes, rank, is_pinned } = self.entries.remove(id)?;
        self.victims.remove(&(rank, *id));
        self.bytes -= bytes;
        if is_pinned {
            self.pinned_bytes -= bytes;
        }
        if let Some(count) = self.children.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                self.children.remove(&parent);
                self.add_candidate(&parent);
            }
        }
        Some(bytes)
    }

    /// Changes a chunk's rank.
    pub(crate) fn set_rank(&mut self, id: &ChunkId, rank: u64) {
        if let Some(entry) = self.entries.get_mut(id) {
            let before = std::mem::replace(&mut entry.rank, rank);
            if self.victims.remove(&(before, *id)) {
                self.victims.insert((rank, *id));
            }
        }
    }

    /// Pins a chunk if the quota allows, or unpins it. Returns whether the chunk is pinned now.
    pub(crate) fn set_pinned(&mut self, id: &ChunkId, pinned: bool) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        let fits = self.pinned_bytes + entry.bytes <= self.budget / PIN_PARTS;
        if entry.is_pinned == pinned || (pinned && !fits) {
            return entry.is_pinned;
        }
        entry.is_pinned = pinned;
        if pinned {
            self.pinned_bytes += entry.bytes;
            self.victims.remove(&(entry.rank, *id));
        } else {
            self.pinned_bytes -= entry.bytes;
            self.add_candidate(id);
        }
        pinned
    }

    /// Returns the eviction candidates, lowest rank first.
    pub(crate) fn victims(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.victims.iter().map(|&(_, id)| id)
    }

    /// Returns the least recently used chunk that satisfies `which`, even if others continue it.
    pub(crate) fn oldest(&self, which: impl Fn(&ChunkId) -> bool) -> Option<ChunkId> {
        let free = self.entries.iter().filter(|(id, entry)| !entry.is_pinned && which(id));
        free.min_by_key(|(id, entry)| (entry.rank, **id)).map(|(id, _)| *id)
    }

    fn add_candidate(&mut self, id: &ChunkId) {
        let Some(entry) = self.entries.get(id) else { return };
        if !entry.is_pinned && (id.group == Group::Window || !self.children.contains_key(id)) {
            self.victims.insert((entry.rank, *id));
        }
    }
}
