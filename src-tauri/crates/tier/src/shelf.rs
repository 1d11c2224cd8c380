//! What one place holds: bytes, and the order in which chunks leave it.
//!
//! **Invariant:** a chunk of a [`Group::Full`] is offered as a victim only when none that continues it is on the same shelf, so what
//! stays is always a whole prefix. Windows need only their last chunks and are offered in plain order;
//! those whose prefix is gone come first, by the rank that the catalog gives them. Pinned chunks are not offered
//! as long as they fit into the quota.

use std::collections::{BTreeSet, HashMap};

use crate::chunk::{ChunkId, Group};

/// Pinned chunks may take this part of a budget: a quarter.
const PIN_PARTS: u64 = 4;

#[derive(Debug)]
struct Held {
    parent: ChunkId,
    bytes: u64,
    rank: u64,
    /// Pinned within the quota.
    fixed: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shelf {
    budget: u64,
    bytes: u64,
    fixed_bytes: u64,
    held: HashMap<ChunkId, Held>,
    /// How many chunks on this shelf continue this one, which need not be here itself.
    children: HashMap<ChunkId, u32>,
    /// Those that may leave, first first.
    victims: BTreeSet<(u64, ChunkId)>,
}

impl Shelf {
    /// An empty shelf for this many bytes. The budget only sets the quota of pins: whoever inserts looks at it first.
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            bytes: 0,
            fixed_bytes: 0,
            held: HashMap::new(),
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
        self.held.len()
    }

    pub(crate) fn holds(&self, id: &ChunkId) -> bool {
        self.held.contains_key(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.held.keys().copied()
    }

    /// Whether chunks here continue this one.
    pub(crate) fn is_continued(&self, id: &ChunkId) -> bool {
        self.children.contains_key(id)
    }

    /// Puts a chunk here, or says anew how many bytes it takes.
    pub(crate) fn insert(&mut self, id: ChunkId, parent: ChunkId, bytes: u64, rank: u64) {
        self.remove(&id);
        self.bytes += bytes;
        self.held.insert(id, Held { parent, bytes, rank, fixed: false });
        self.offer(&id);
        *self.children.entry(parent).or_default() += 1;
        if parent.group == Group::Full
            && let Some(held) = self.held.get(&parent)
        {
            self.victims.remove(&(held.rank, parent));
        }
    }

    /// Takes a chunk away and returns its bytes.
    pub(crate) fn remove(&mut self, id: &ChunkId) -> Option<u64> {
        let Held { parent, bytes, rank, fixed } = self.held.remove(id)?;
        self.victims.remove(&(rank, *id));
        self.bytes -= bytes;
        if fixed {
            self.fixed_bytes -= bytes;
        }
        if let Some(count) = self.children.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                self.children.remove(&parent);
                self.offer(&parent);
            }
        }
        Some(bytes)
    }

    /// Moves a chunk in the order.
    pub(crate) fn set_rank(&mut self, id: &ChunkId, rank: u64) {
        if let Some(held) = self.held.get_mut(id) {
            let before = std::mem::replace(&mut held.rank, rank);
            if self.victims.remove(&(before, *id)) {
                self.victims.insert((rank, *id));
            }
        }
    }

    /// Keeps a chunk from leaving, where the quota allows, or lets it go again. Returns whether it is kept from leaving.
    pub(crate) fn set_pinned(&mut self, id: &ChunkId, pinned: bool) -> bool {
        let Some(held) = self.held.get_mut(id) else { return false };
        let fits = self.fixed_bytes + held.bytes <= self.budget / PIN_PARTS;
        if held.fixed == pinned || (pinned && !fits) {
            return held.fixed;
        }
        held.fixed = pinned;
        if pinned {
            self.fixed_bytes += held.bytes;
            self.victims.remove(&(held.rank, *id));
        } else {
            self.fixed_bytes -= held.bytes;
            self.offer(id);
        }
        pinned
    }

    /// Those that may leave, first first.
    pub(crate) fn victims(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.victims.iter().map(|&(_, id)| id)
    }

    /// The one of these that was used longest ago, whether others here continue it or not.
    pub(crate) fn oldest(&self, which: impl Fn(&ChunkId) -> bool) -> Option<ChunkId> {
        let free = self.held.iter().filter(|(id, held)| !held.fixed && which(id));
        free.min_by_key(|(id, held)| (held.rank, **id)).map(|(id, _)| *id)
    }

    fn offer(&mut self, id: &ChunkId) {
        let Some(held) = self.held.get(id) else { return };
        if !held.fixed && (id.group == Group::Window || !self.children.contains_key(id)) {
            self.victims.insert((held.rank, *id));
        }
    }
}
