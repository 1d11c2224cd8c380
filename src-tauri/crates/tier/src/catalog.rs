//! In-memory catalog of all chunks in all tiers, indexed by id and by leading keys.
//!
//! No I/O happens here. **Invariant:** a chunk has an entry as long as a tier has it, and the entries agree with each
//! tier's [`EvictionSet`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::chunk::{Chunk, ChunkId, Group, NumericClass};
use crate::eviction_set::EvictionSet;
use crate::identity::{Chain, ChunkHash};
use crate::key::Key;
use crate::owner::Owner;
use crate::policy::{self, ChunkStats, EvictionPolicy};
use crate::tier::{StoredChunk, TierKind};

/// All tiers, fastest first.
pub(crate) const TIER_KINDS: [TierKind; 3] = [TierKind::Ram, TierKind::Ssd, TierKind::Remote];
/// The tiers below RAM, which store chunks as files.
pub(crate) const LOWER_TIERS: [TierKind; 2] = [TierKind::Ssd, TierKind::Remote];
/// Number of neighbours in key order, on each side, that are checked for usable rows.
const NEIGHBOURS: usize = 4;
/// First value of the use counter in this run. Earlier uses are ranked by seconds since 1970, which are smaller.
const FIRST_USE: u64 = 1 << 40;

/// Catalog entry of a chunk.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) parent: ChunkHash,
    pub(crate) first_position: u64,
    pub(crate) tokens: u32,
    pub(crate) keys: Option<Arc<[Key]>>,
    pub(crate) class: NumericClass,
    /// By tier, whether the stored rows are rounded.
    pub(crate) lossy: [bool; 3],
    /// The rows, while RAM has them.
    pub(crate) ram: Option<Chunk>,
    /// Size of the rows.
    pub(crate) payload_bytes: u64,
    pub(crate) owners: BTreeSet<Owner>,
    pub(crate) pinned: bool,
    /// Number of running restores that use the chunk.
    pub(crate) leases: u32,
    pub(crate) hits: u32,
    /// Hits after a pause.
    pub(crate) returns: u32,
    /// Decayed number of hits, as of the last use.
    pub(crate) warmth: f64,
    pub(crate) last_use: u64,
    pub(crate) last_use_at: Duration,
    /// Wall-clock time, for expiry.
    pub(crate) last_use_unix_s: u64,
    /// Estimated time to recompute the chunk.
    pub(crate) recompute: Duration,
    /// Estimated time to recompute the chunk and all chunks before it, as far as known.
    pub(crate) prefix_recompute: Duration,
    /// A tier returned another chunk under this id. The chunk is no longer used.
    pub(crate) suspect: bool,
}

impl Entry {
    /// Returns the id of the preceding chunk.
    pub(crate) fn parent_id(&self, id: &ChunkId) -> ChunkId {
        ChunkId { hash: self.parent, ..*id }
    }

    fn stats(&self, stored_chunks: usize) -> ChunkStats {
        ChunkStats {
            stored_chunks,
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

    /// Returns whether a request for this class may use the copy in `tier`.
    pub(crate) fn serves(&self, tier: TierKind, class: Option<&NumericClass>, allow_lossy: bool) -> bool {
        !self.suspect && class.is_none_or(|class| *class == self.class) && (allow_lossy || !self.lossy[tier as usize])
    }
}

/// The chunks that continue a chunk.
#[derive(Debug, Default)]
struct Continuations {
    /// Sorted by keys, so that the one with the longest common prefix is a neighbour of the request.
    by_keys: BTreeMap<Arc<[Key]>, ChunkHash>,
    /// Chunks whose keys were not read, by number of keys.
    keys_not_read: BTreeSet<(u32, ChunkHash)>,
}

/// See the module.
pub(crate) struct Catalog {
    entries: HashMap<ChunkId, Entry>,
    continuations: HashMap<ChunkId, Continuations>,
    tiers: [EvictionSet; 3],
    worth: Arc<dyn EvictionPolicy>,
    uses: u64,
}

impl Catalog {
    pub(crate) fn new(budgets: [u64; 3], worth: Arc<dyn EvictionPolicy>) -> Self {
        Self {
            entries: HashMap::new(),
            continuations: HashMap::new(),
            tiers: budgets.map(EvictionSet::new),
            worth,
            uses: FIRST_USE,
        }
    }

    pub(crate) fn worth(&self) -> &dyn EvictionPolicy {
        self.worth.as_ref()
    }

    pub(crate) fn tier(&self, tier: TierKind) -> &EvictionSet {
        &self.tiers[tier as usize]
    }

    /// Changes a tier's budget. Pins remain as far as the new quota allows.
    pub(crate) fn set_budget(&mut self, tier: TierKind, bytes: u64) {
        let pinned = self.entries.iter().filter(|(_, entry)| entry.pinned);
        let mut pinned: Vec<(u64, ChunkId)> = pinned.map(|(id, entry)| (entry.first_position, *id)).collect();
        // Pin leading chunks first: a pinned last chunk would keep all chunks before it, beyond the quota.
        pinned.sort_unstable();
        let chunks = &mut self.tiers[tier as usize];
        chunks.set_budget(bytes);
        for pins in [false, true] {
            for (_, id) in &pinned {
                chunks.set_pinned(id, pins);
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

    /// Returns the tiers that have a chunk, fastest first.
    pub(crate) fn tiers_of<'a>(&'a self, id: &'a ChunkId) -> impl Iterator<Item = TierKind> + 'a {
        TIER_KINDS.into_iter().filter(|&tier| self.tier(tier).contains(id))
    }

    /// Returns the chunks that continue this one.
    pub(crate) fn continuations(&self, id: &ChunkId) -> Vec<ChunkId> {
        let Some(next) = self.continuations.get(id) else { return Vec::new() };
        let hashes = next.by_keys.values().chain(next.keys_not_read.iter().map(|(_, hash)| hash));
        hashes.map(|&hash| ChunkId { hash, ..*id }).collect()
    }

    /// Adds a chunk to RAM. It must not be there.
    pub(crate) fn insert_ram(&mut self, chunk: Chunk) {
        let head = Arc::clone(&chunk.head);
        let bytes = head.payload_bytes();
        let entry = self.entry(head.id, || StoredChunk {
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
        entry.lossy[TierKind::Ram as usize] = head.flags.lossy;
        entry.ram = Some(chunk);
        self.add_to_tier(TierKind::Ram, head.id, bytes);
        self.set_keys(&head.id, &head.keys);
    }

    /// Records that a tier below RAM has a chunk.
    pub(crate) fn insert_lower(&mut self, tier: TierKind, stored: &StoredChunk) {
        let id = stored.id;
        self.entry(id, || stored.clone()).lossy[tier as usize] = stored.flags.lossy;
        self.add_to_tier(tier, id, stored.bytes);
        if let Some(keys) = &stored.keys {
            self.set_keys(&id, keys);
        }
    }

    /// Removes a chunk from RAM. The caller frees its rows without the lock.
    pub(crate) fn drop_ram(&mut self, id: &ChunkId) -> Option<Chunk> {
        let chunk = self.entries.get_mut(id)?.ram.take();
        self.tiers[TierKind::Ram as usize].remove(id);
        self.remove_if_absent(id);
        chunk
    }

    /// Records that a tier below RAM no longer has a chunk, and returns the size it had there.
    pub(crate) fn remove_from(&mut self, tier: TierKind, id: &ChunkId) -> Option<u64> {
        let bytes = self.tiers[tier as usize].remove(id);
        self.remove_if_absent(id);
        bytes
    }

    /// Returns usage statistics for the eviction policy.
    pub(crate) fn stats(&self, entry: &Entry) -> ChunkStats {
        entry.stats(self.entries.len())
    }

    /// Counts a hit; the caller must then call [`Catalog::touch`].
    pub(crate) fn count_hit(&mut self, id: &ChunkId, now: Duration) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let pause = now.saturating_sub(entry.last_use_at);
        entry.hits = entry.hits.saturating_add(1);
        entry.returns = entry.returns.saturating_add(u32::from(pause >= policy::RETURN_PAUSE));
        entry.warmth = policy::cooled(entry.warmth, pause) + 1.0;
    }

    /// Records a use.
    pub(crate) fn touch(&mut self, id: &ChunkId, now: Duration, unix_s: u64) {
        self.uses += 1;
        let uses = self.uses;
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.last_use = uses;
        entry.last_use_at = now;
        entry.last_use_unix_s = unix_s;
        self.rank(id);
    }

    /// Sets the last use that the index recorded before a restart.
    pub(crate) fn set_last_use(&mut self, id: &ChunkId, unix_s: u64) {
        // The use counter of this run starts above any number of seconds since 1970, so earlier uses rank lower.
        if let Some(entry) = self.entries.get_mut(id)
            && entry.last_use < FIRST_USE
        {
            entry.last_use = unix_s.min(FIRST_USE - 1);
            entry.last_use_unix_s = unix_s;
            self.rank(id);
        }
    }

    /// Updates a chunk's rank in all tiers.
    pub(crate) fn rank(&mut self, id: &ChunkId) {
        let Some(rank) = self.rank_of(id) else { return };
        self.tiers.iter_mut().for_each(|chunks| chunks.set_rank(id, rank));
    }

    /// Window chunks whose full-attention chunk is gone are useless, so they get the lowest rank.
    fn rank_of(&self, id: &ChunkId) -> Option<u64> {
        let entry = self.entries.get(id)?;
        let alone = id.group == Group::Window && !self.entries.contains_key(&id.in_group(Group::Full));
        Some(if alone { 0 } else { self.worth.rank(&self.stats(entry)) })
    }

    /// Pins or unpins a chunk. Returns whether it is now pinned in a tier.
    pub(crate) fn set_pinned(&mut self, id: &ChunkId, pinned: bool) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        entry.pinned = pinned;
        self.tiers.iter_mut().filter_map(|chunks| chunks.set_pinned(id, pinned).then_some(())).count() > 0
    }

    /// Returns the chunk after `parent` with the longest common prefix with `rest`, and the length of that prefix. `usable` returns
    /// whether a chunk can serve a prefix of this length.
    pub(crate) fn nearest(
        &self,
        parent: &ChunkId,
        chain: &Chain,
        rest: &[Key],
        usable: impl Fn(&ChunkId, &Entry, usize) -> bool,
    ) -> Option<(ChunkId, usize)> {
        let next = self.continuations.get(parent)?;
        let named = |hash: ChunkHash| ChunkId { hash, ..*parent };
        let serves = |hash: ChunkHash, rows: usize| {
            self.entries.get(&named(hash)).is_some_and(|entry| usable(&named(hash), entry, rows))
        };
        let before = next.by_keys.range::<[Key], _>((Bound::Unbounded, Bound::Included(rest))).rev().take(NEIGHBOURS);
        let after = next.by_keys.range::<[Key], _>((Bound::Excluded(rest), Bound::Unbounded)).take(NEIGHBOURS);
        let shared = |keys: &[Key]| keys.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let by_keys = before.chain(after).map(|(keys, &hash)| (hash, shared(keys)));
        let mut best = by_keys.filter(|&(hash, rows)| rows > 0 && serves(hash, rows)).max_by_key(|&(_, rows)| rows);
        let mut named_already: Option<(u32, ChunkHash)> = None;
        for &(tokens, hash) in next.keys_not_read.iter().rev() {
            let Some(head) = rest.get(..tokens as usize) else { continue };
            if best.is_some_and(|(_, rows)| rows >= head.len()) {
                break;
            }
            let name = match named_already {
                Some((same, name)) if same == tokens => name,
                _ => chain.peek(head),
            };
            named_already = Some((tokens, name));
            if name == hash && serves(hash, head.len()) {
                best = Some((hash, head.len()));
            }
        }
        best.map(|(hash, rows)| (named(hash), rows))
    }

    fn entry(&mut self, id: ChunkId, stored: impl FnOnce() -> StoredChunk) -> &mut Entry {
        let (continuations, entries) = (&mut self.continuations, &mut self.entries);
        entries.entry(id).or_insert_with(|| {
            let stored = stored();
            let parent = ChunkId { hash: stored.parent, ..id };
            continuations.entry(parent).or_default().keys_not_read.insert((stored.tokens, id.hash));
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

    /// Indexes a chunk by its keys, once they are known.
    pub(crate) fn set_keys(&mut self, id: &ChunkId, keys: &Arc<[Key]>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.keys.is_some() || entry.tokens as usize != keys.len() {
            return;
        }
        entry.keys = Some(Arc::clone(keys));
        let next = self.continuations.entry(entry.parent_id(id)).or_default();
        next.keys_not_read.remove(&(entry.tokens, id.hash));
        next.by_keys.insert(Arc::clone(keys), id.hash);
    }

    fn add_to_tier(&mut self, tier: TierKind, id: ChunkId, bytes: u64) {
        let rank = self.rank_of(&id).expect("the entry was just added");
        let entry = &self.entries[&id];
        let chunks = &mut self.tiers[tier as usize];
        chunks.insert(id, entry.parent_id(&id), bytes, rank);
        if entry.pinned {
            chunks.set_pinned(&id, true);
        }
        if id.group == Group::Full {
            self.rank(&id.in_group(Group::Window));
        }
    }

    /// Removes the entry of a chunk that no tier has.
    fn remove_if_absent(&mut self, id: &ChunkId) {
        if self.tiers_of(id).next().is_some() {
            return;
        }
        let Some(entry) = self.entries.remove(id) else { return };
        if id.group == Group::Full {
            self.rank(&id.in_group(Group::Window));
        }
        let parent = entry.parent_id(id);
        let Some(next) = self.continuations.get_mut(&parent) else { return };
        next.keys_not_read.remove(&(entry.tokens, id.hash));
        if let Some(keys) = &entry.keys
            && next.by_keys.get(keys) == Some(&id.hash)
        {
            next.by_keys.remove(keys);
        }
        if next.by_keys.is_empty() && next.keys_not_read.is_empty() {
            self.continuations.remove(&parent);
        }
    }
}
