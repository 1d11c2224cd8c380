//! What is kept where, in memory: every chunk of every place, found by its name or by the keys that it begins with.
//!
//! Nothing here reads or writes. **Invariant:** a chunk is listed as long as some place has it; each place's [`Shelf`] and the
//! entries say the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::chunk::{Chunk, ChunkId, Group, NumericClass};
use crate::identity::{Chain, ChunkHash};
use crate::key::Key;
use crate::owner::Owner;
use crate::shelf::Shelf;
use crate::tier::{Place, Stored};
use crate::worth::{self, Facts, Worth};

/// Places in order.
pub(crate) const PLACES: [Place; 3] = [Place::Ram, Place::Ssd, Place::Remote];
/// Chunks below RAM are kept as bytes only.
pub(crate) const LOWER: [Place; 2] = [Place::Ssd, Place::Remote];
/// How many neighbours in key order are looked at on each side for one whose rows may be used.
const NEIGHBOURS: usize = 4;
/// The first use of a run; what was used before counts in seconds since 1970.
const FIRST_USE: u64 = 1 << 40;

/// All that is known of a chunk.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) parent: ChunkHash,
    pub(crate) first_position: u64,
    pub(crate) tokens: u32,
    pub(crate) keys: Option<Arc<[Key]>>,
    pub(crate) class: NumericClass,
    /// By place, whether its rows were rounded there.
    pub(crate) lossy: [bool; 3],
    /// Its rows, while RAM has it.
    pub(crate) ram: Option<Chunk>,
    /// Bytes of its rows.
    pub(crate) payload_bytes: u64,
    pub(crate) owners: BTreeSet<Owner>,
    pub(crate) pinned: bool,
    /// Restores that it is part of.
    pub(crate) leases: u32,
    pub(crate) hits: u32,
    /// Hits after a pause.
    pub(crate) returns: u32,
    /// Hits, of which half are forgotten every few hours: as of the last use.
    pub(crate) warmth: f64,
    pub(crate) last_use: u64,
    pub(crate) last_use_at: Duration,
    /// By the wall clock, for expiry.
    pub(crate) last_use_unix_s: u64,
    /// What computing it again would take.
    pub(crate) recompute: Duration,
    /// What computing it and all before it would take, as far as that is known.
    pub(crate) prefix_recompute: Duration,
    /// A place gave something else under this name: it is not offered any more.
    pub(crate) suspect: bool,
}

impl Entry {
    /// The name of the chunk before it.
    pub(crate) fn parent_id(&self, id: &ChunkId) -> ChunkId {
        ChunkId { hash: self.parent, ..*id }
    }

    fn facts(&self, kept: usize) -> Facts {
        Facts {
            kept,
            warmth: self.warmth,
            last_use: self.last_use,
            last_use_at: self.last_use_at,
            hits: self.hits,
            returns: self.returns,
            bytes: self.payload_bytes,
            recompute: self.recompute,
            owned: !self.owners.is_empty(),
            pinned: self.pinned,
        }
    }

    /// Whether somebody who wants this class, or any, may use its rows from there.
    pub(crate) fn serves(&self, place: Place, class: Option<&NumericClass>, lossy: bool) -> bool {
        !self.suspect && class.is_none_or(|class| *class == self.class) && (lossy || !self.lossy[place as usize])
    }
}

/// What continues a chunk.
#[derive(Debug, Default)]
struct Continuations {
    /// In the order of their keys, so that the one that shares the most with a request is a neighbour of it.
    known: BTreeMap<Arc<[Key]>, ChunkHash>,
    /// By the number of their keys, which were not read.
    unread: BTreeSet<(u32, ChunkHash)>,
}

/// See the module.
pub(crate) struct Catalog {
    entries: HashMap<ChunkId, Entry>,
    continuations: HashMap<ChunkId, Continuations>,
    shelves: [Shelf; 3],
    worth: Arc<dyn Worth>,
    uses: u64,
}

impl Catalog {
    pub(crate) fn new(budgets: [u64; 3], worth: Arc<dyn Worth>) -> Self {
        Self {
            entries: HashMap::new(),
            continuations: HashMap::new(),
            shelves: budgets.map(Shelf::new),
            worth,
            uses: FIRST_USE,
        }
    }

    pub(crate) fn worth(&self) -> &dyn Worth {
        self.worth.as_ref()
    }

    pub(crate) fn shelf(&self, place: Place) -> &Shelf {
        &self.shelves[place as usize]
    }

    /// Lets a place go by another budget. Pins stay as far as its quota allows.
    pub(crate) fn set_budget(&mut self, place: Place, bytes: u64) {
        let pinned = self.entries.iter().filter(|(_, entry)| entry.pinned);
        let mut pinned: Vec<(u64, ChunkId)> = pinned.map(|(id, entry)| (entry.first_position, *id)).collect();
        // Beginnings first: an end that stays would keep all before it, however many they are.
        pinned.sort_unstable();
        let shelf = &mut self.shelves[place as usize];
        shelf.set_budget(bytes);
        for pins in [false, true] {
            for (_, id) in &pinned {
                shelf.set_pinned(id, pins);
            }
        }
    }

    pub(crate) fn get(&self, id: &ChunkId) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &ChunkId) -> Option<&mut Entry> {
        self.entries.get_mut(id)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&ChunkId, &Entry)> {
        self.entries.iter()
    }

    /// Where a chunk is, nearest first.
    pub(crate) fn places<'a>(&'a self, id: &'a ChunkId) -> impl Iterator<Item = Place> + 'a {
        PLACES.into_iter().filter(|&place| self.shelf(place).holds(id))
    }

    /// Names of the chunks that continue this one.
    pub(crate) fn continuations(&self, id: &ChunkId) -> Vec<ChunkId> {
        let Some(next) = self.continuations.get(id) else { return Vec::new() };
        let hashes = next.known.values().chain(next.unread.iter().map(|(_, hash)| hash));
        hashes.map(|&hash| ChunkId { hash, ..*id }).collect()
    }

    /// Puts a chunk's rows into RAM. It must not be there.
    pub(crate) fn put_ram(&mut self, chunk: Chunk) {
        let head = Arc::clone(&chunk.head);
        let bytes = head.payload_bytes();
        let entry = self.entry(head.id, || Stored {
            id: head.id,
            parent: head.parent,
            first_position: head.first_position,
            tokens: head.keys.len() as u32,
            bytes,
            class: head.class.clone(),
            flags: head.flags,
            created_unix_s: head.created_unix_s,
            keys: Some(Arc::clone(&head.keys)),
        });
        entry.payload_bytes = bytes;
        entry.lossy[Place::Ram as usize] = head.flags.lossy;
        entry.ram = Some(chunk);
        self.shelve(Place::Ram, head.id, bytes);
        self.learn(&head.id, &head.keys);
    }

    /// Notes that a place below RAM has a chunk.
    pub(crate) fn put_lower(&mut self, place: Place, stored: &Stored) {
        let id = stored.id;
        self.entry(id, || stored.clone()).lossy[place as usize] = stored.flags.lossy;
        self.shelve(place, id, stored.bytes);
        if let Some(keys) = &stored.keys {
            self.learn(&id, keys);
        }
    }

    /// Takes a chunk out of RAM. The caller frees its rows where nobody waits.
    pub(crate) fn drop_ram(&mut self, id: &ChunkId) -> Option<Chunk> {
        let chunk = self.entries.get_mut(id)?.ram.take();
        self.shelves[Place::Ram as usize].remove(id);
        self.unlist(id);
        chunk
    }

    /// Notes that a place below RAM has a chunk no more, and returns what it took there.
    pub(crate) fn drop_lower(&mut self, place: Place, id: &ChunkId) -> Option<u64> {
        let bytes = self.shelves[place as usize].remove(id);
        self.unlist(id);
        bytes
    }

    /// What is known of a chunk's use.
    pub(crate) fn facts(&self, entry: &Entry) -> Facts {
        entry.facts(self.entries.len())
    }

    /// Counts that a chunk was of use once more; [`Catalog::touch`] is to follow.
    pub(crate) fn count_hit(&mut self, id: &ChunkId, now: Duration) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let pause = now.saturating_sub(entry.last_use_at);
        entry.hits = entry.hits.saturating_add(1);
        entry.returns = entry.returns.saturating_add(u32::from(pause >= worth::PAUSE));
        entry.warmth = worth::cooled(entry.warmth, pause) + 1.0;
    }

    /// Notes a use now.
    pub(crate) fn touch(&mut self, id: &ChunkId, now: Duration, unix_s: u64) {
        self.uses += 1;
        let uses = self.uses;
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.last_use = uses;
        entry.last_use_at = now;
        entry.last_use_unix_s = unix_s;
        self.rank(id);
    }

    /// Sets the use that was noted before a restart.
    pub(crate) fn set_last_use(&mut self, id: &ChunkId, unix_s: u64) {
        // Uses of this run count from far above any second since 1970, so what was used before comes before.
        if let Some(entry) = self.entries.get_mut(id)
            && entry.last_use < FIRST_USE
        {
            entry.last_use = unix_s.min(FIRST_USE - 1);
            entry.last_use_unix_s = unix_s;
            self.rank(id);
        }
    }

    /// Asks again what a chunk is worth.
    pub(crate) fn rank(&mut self, id: &ChunkId) {
        let Some(rank) = self.rank_of(id) else { return };
        self.shelves.iter_mut().for_each(|shelf| shelf.set_rank(id, rank));
    }

    /// Windows of a prefix that is not kept any more serve nobody, so they leave before all else.
    fn rank_of(&self, id: &ChunkId) -> Option<u64> {
        let entry = self.entries.get(id)?;
        let alone = id.group == Group::Window && !self.entries.contains_key(&id.in_group(Group::Full));
        Some(if alone { 0 } else { self.worth.rank(&self.facts(entry)) })
    }

    /// Pins a chunk or lets it go; returns whether some place keeps it now.
    pub(crate) fn set_pinned(&mut self, id: &ChunkId, pinned: bool) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        entry.pinned = pinned;
        self.shelves.iter_mut().filter_map(|shelf| shelf.set_pinned(id, pinned).then_some(())).count() > 0
    }

    /// The usable chunk after `parent` that shares the most leading keys with `rest`, and how many those are.
    pub(crate) fn nearest(
        &self,
        parent: &ChunkId,
        chain: &Chain,
        rest: &[Key],
        usable: impl Fn(&ChunkId, &Entry) -> bool,
    ) -> Option<(ChunkId, usize)> {
        let next = self.continuations.get(parent)?;
        let named = |hash: ChunkHash| ChunkId { hash, ..*parent };
        let serves = |hash: ChunkHash| self.entries.get(&named(hash)).is_some_and(|entry| usable(&named(hash), entry));
        let before = next.known.range::<[Key], _>((Bound::Unbounded, Bound::Included(rest))).rev().take(NEIGHBOURS);
        let after = next.known.range::<[Key], _>((Bound::Excluded(rest), Bound::Unbounded)).take(NEIGHBOURS);
        let shared = |keys: &[Key]| keys.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let by_keys = before.chain(after).filter(|&(_, &hash)| serves(hash)).map(|(keys, &hash)| (hash, shared(keys)));
        let mut best = by_keys.filter(|&(_, rows)| rows > 0).max_by_key(|&(_, rows)| rows);
        let mut named_already: Option<(u32, ChunkHash)> = None;
        for &(tokens, hash) in next.unread.iter().rev() {
            let Some(head) = rest.get(..tokens as usize) else { continue };
            if best.is_some_and(|(_, rows)| rows >= head.len()) {
                break;
            }
            let name = match named_already {
                Some((same, name)) if same == tokens => name,
                _ => chain.peek(head),
            };
            named_already = Some((tokens, name));
            if name == hash && serves(hash) {
                best = Some((hash, head.len()));
            }
        }
        best.map(|(hash, rows)| (named(hash), rows))
    }

    fn entry(&mut self, id: ChunkId, stored: impl FnOnce() -> Stored) -> &mut Entry {
        let (continuations, entries) = (&mut self.continuations, &mut self.entries);
        entries.entry(id).or_insert_with(|| {
            let stored = stored();
            let parent = ChunkId { hash: stored.parent, ..id };
            continuations.entry(parent).or_default().unread.insert((stored.tokens, id.hash));
            Entry {
                parent: stored.parent,
                first_position: stored.first_position,
                tokens: stored.tokens,
                keys: None,
                class: stored.class,
                lossy: [false; 3],
                ram: None,
                payload_bytes: stored.bytes,
                owners: BTreeSet::new(),
                pinned: false,
                leases: 0,
                hits: 0,
                returns: 0,
                warmth: 0.0,
                last_use: stored.created_unix_s.min(FIRST_USE - 1),
                last_use_at: Duration::ZERO,
                last_use_unix_s: stored.created_unix_s,
                recompute: Duration::ZERO,
                prefix_recompute: Duration::ZERO,
                suspect: false,
            }
        })
    }

    /// Files a chunk under its keys, now that they are known.
    pub(crate) fn learn(&mut self, id: &ChunkId, keys: &Arc<[Key]>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.keys.is_some() || entry.tokens as usize != keys.len() {
            return;
        }
        entry.keys = Some(Arc::clone(keys));
        let next = self.continuations.entry(entry.parent_id(id)).or_default();
        next.unread.remove(&(entry.tokens, id.hash));
        next.known.insert(Arc::clone(keys), id.hash);
    }

    fn shelve(&mut self, place: Place, id: ChunkId, bytes: u64) {
        let rank = self.rank_of(&id).expect("the caller has just entered it");
        let entry = &self.entries[&id];
        let shelf = &mut self.shelves[place as usize];
        shelf.insert(id, entry.parent_id(&id), bytes, rank);
        if entry.pinned {
            shelf.set_pinned(&id, true);
        }
        if id.group == Group::Full {
            self.rank(&id.in_group(Group::Window));
        }
    }

    /// Forgets a chunk that no place has.
    fn unlist(&mut self, id: &ChunkId) {
        if self.places(id).next().is_some() {
            return;
        }
        let Some(entry) = self.entries.remove(id) else { return };
        if id.group == Group::Full {
            self.rank(&id.in_group(Group::Window));
        }
        let parent = entry.parent_id(id);
        let Some(next) = self.continuations.get_mut(&parent) else { return };
        next.unread.remove(&(entry.tokens, id.hash));
        if let Some(keys) = &entry.keys
            && next.known.get(keys) == Some(&id.hash)
        {
            next.known.remove(keys);
        }
        if next.known.is_empty() && next.unread.is_empty() {
            self.continuations.remove(&parent);
        }
    }
}
