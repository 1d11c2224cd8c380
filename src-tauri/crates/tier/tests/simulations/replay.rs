//! Replays traces: cache hits of the real catalog, and of an optimal cache.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::trace::Trace;
use crate::catalog::Catalog;
use crate::policy::{RETURN_PAUSE, WriteClaim};
use crate::tier::StoredChunk;
use crate::{ChunkHash, ChunkId, EvictionPolicy, Fingerprint, Flags, Group, NumericClass, TierKind, WeightsDigest};

/// Simulated size of a chunk.
pub(super) const CHUNK_BYTES: u64 = 32 << 20;
/// Time to compute a token, and its relative increase per preceding token.
const TOKEN_S: f64 = 5e-3;
const DEEPER: f64 = 1.0 / 16_384.0;

/// Returns the share of all prompt tokens that were hits, in percent.
pub(super) fn percent(trace: &Trace, chunks: u64) -> f64 {
    100.0 * (chunks * trace.chunk_tokens) as f64 / trace.tokens() as f64
}

/// A catalog that contains chunks of a trace, identified by number.
pub(super) struct Replay {
    pub(super) catalog: Catalog,
    fingerprint: Fingerprint,
    class: NumericClass,
    chunk_tokens: u64,
}

impl Replay {
    pub(super) fn new(trace: &Trace, budgets: [u64; 3], worth: Arc<dyn EvictionPolicy>) -> Self {
        Self {
            catalog: Catalog::new(budgets, worth),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"trace".as_slice())]),
            class: NumericClass::new("trace").expect("the name is short"),
            chunk_tokens: trace.chunk_tokens,
        }
    }

    pub(super) fn id(&self, chunk: Option<u32>) -> ChunkId {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&chunk.map_or(0, |chunk| chunk + 1).to_le_bytes());
        ChunkId { fingerprint: self.fingerprint, hash: ChunkHash::from_bytes(hash), group: Group::Full }
    }

    pub(super) fn put(&mut self, tier: TierKind, chunks: &[u32], index: usize) {
        let id = self.id(Some(chunks[index]));
        let parent = self.id(index.checked_sub(1).map(|before| chunks[before])).hash;
        let first_position = index as u64 * self.chunk_tokens;
        let stored = StoredChunk {
            id,
            parent,
            first_position,
            tokens: self.chunk_tokens as u32,
            bytes: CHUNK_BYTES,
            class: self.class.clone(),
            flags: Flags::default(),
            created_unix_s: 0,
            keys: None,
        };
        self.catalog.insert_lower(tier, &stored);
        let seconds = |chunks: usize| {
            let tokens = (chunks as u64 * self.chunk_tokens) as f64;
            TOKEN_S * tokens * (1.0 + DEEPER * tokens / 2.0)
        };
        if let Some(entry) = self.catalog.get_mut(&id) {
            entry.recompute = Duration::from_secs_f64(seconds(index + 1) - seconds(index));
            entry.prefix_recompute = Duration::from_secs_f64(seconds(index + 1));
        }
    }
}

/// Counts the chunk hits of a cache with this capacity.
pub(super) fn kept(trace: &Trace, capacity: u64, worth: Arc<dyn EvictionPolicy>) -> u64 {
    let tier = TierKind::Ssd;
    let mut replay = Replay::new(trace, [0, capacity * CHUNK_BYTES, 0], worth);
    let mut hits = 0;
    for request in &trace.requests {
        let chunks = &request.chunks;
        let have =
            chunks.iter().take_while(|&&chunk| replay.catalog.tier(tier).contains(&replay.id(Some(chunk)))).count();
        hits += have as u64;
        for index in have..chunks.len() {
            replay.put(tier, chunks, index);
        }
        // Last chunk first, so that a prefix is never older than its continuation.
        for (index, &chunk) in chunks.iter().enumerate().rev() {
            let id = replay.id(Some(chunk));
            if index < have {
                replay.catalog.count_hit(&id, request.at);
            }
            replay.catalog.touch(&id, request.at, 0);
        }
        while replay.catalog.tier(tier).bytes() > capacity * CHUNK_BYTES {
            let victim = replay.catalog.tier(tier).victims().next().expect("a cache that is not empty has a victim");
            replay.catalog.remove_from(tier, &victim);
        }
    }
    hits
}

/// Counts the chunk hits of an optimal cache, if chunks could be stored without their prefix (Belady's MIN).
pub(super) fn best(trace: &Trace, capacity: u64) -> u64 {
    const NEVER: usize = usize::MAX;
    let uses: Vec<u32> = trace.requests.iter().flat_map(|request| request.chunks.iter().copied()).collect();
    let mut next = vec![NEVER; uses.len()];
    let mut seen = vec![NEVER; trace.chunks as usize];
    for (at, &chunk) in uses.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut seen[chunk as usize], at);
    }
    let mut held: BTreeSet<(usize, u32)> = BTreeSet::new();
    let mut hits = 0;
    for (at, &chunk) in uses.iter().enumerate() {
        hits += u64::from(held.remove(&(at, chunk)));
        if next[at] != NEVER {
            held.insert((next[at], chunk));
        }
        if held.len() as u64 > capacity {
            held.pop_last();
        }
    }
    hits
}

/// A simulated disk tier below RAM.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTarget {
    /// Capacity of RAM, in chunks.
    pub(super) ram: u64,
    /// Capacity of the disk, in chunks.
    pub(super) ssd: u64,
    /// If set, RAM is cleared each night after writing this many chunks.
    pub(super) nightly: Option<usize>,
    /// Whether every new chunk is written at once.
    pub(super) through: bool,
    /// Chunks per day that may be written as soon as a conversation continues.
    pub(super) early: u64,
}

/// Counts chunk hits in RAM and on disk, and chunks written.
pub(super) fn written(trace: &Trace, folder: WriteTarget, worth: Arc<dyn EvictionPolicy>) -> (u64, u64) {
    let mut replay = Replay::new(trace, [folder.ram * CHUNK_BYTES, folder.ssd * CHUNK_BYTES, 0], worth);
    let (mut hits, mut writes, mut day, mut early) = (0, 0, 0, 0);
    let mut paths = HashMap::new();
    for request in &trace.requests {
        let today = request.at.as_secs() / (24 * 3600);
        let next_day = today != std::mem::replace(&mut day, today);
        if next_day {
            early = 0;
        }
        if next_day && let Some(last) = folder.nightly {
            let ids: Vec<ChunkId> = replay.catalog.tier(TierKind::Ram).ids().collect();
            let mut only_here: Vec<_> =
                ids.iter().copied().filter(|id| !replay.catalog.tier(TierKind::Ssd).contains(id)).collect();
            let worth = |id: &ChunkId| {
                replay.catalog.get(id).map(|entry| {
                    (
                        !replay.catalog.worth().should_write(&replay.catalog.stats(entry), TierKind::Ssd),
                        entry.first_position,
                    )
                })
            };
            only_here.sort_by_key(worth);
            only_here.truncate(last);
            for id in only_here {
                writes += replay.write(paths[&id]);
            }
            for id in ids {
                replay.catalog.remove_from(TierKind::Ram, &id);
            }
            replay.trim(TierKind::Ssd, folder.ssd, |_, _| 0);
        }
        let chunks = request.chunks.as_slice();
        let held = |&&chunk: &&u32| replay.catalog.tiers_of(&replay.id(Some(chunk))).next().is_some();
        let have = chunks.iter().take_while(held).count();
        hits += have as u64;
        for (index, &chunk) in chunks.iter().enumerate() {
            let id = replay.id(Some(chunk));
            paths.insert(id, (chunks, index));
            if !replay.catalog.tier(TierKind::Ram).contains(&id) {
                replay.put(TierKind::Ram, chunks, index);
            }
            if folder.through {
                writes += replay.write((chunks, index));
            }
        }
        for (index, &chunk) in chunks.iter().enumerate().rev() {
            let id = replay.id(Some(chunk));
            if index < have {
                replay.catalog.count_hit(&id, request.at);
            }
            replay.catalog.touch(&id, request.at, 0);
        }
        for index in 0..chunks.len() {
            let id = replay.id(Some(chunks[index]));
            let stats = replay.catalog.get(&id).map(|entry| (replay.catalog.stats(entry), entry.prefix_recompute));
            let claim = stats.map_or(WriteClaim::None, |(stats, prefix)| WriteClaim::of(&stats, prefix));
            // New chunks of a conversation that continues are written too.
            let claim = claim.or_continues(|| (have > 0).then_some(WriteClaim::Reused));
            if replay.should_write(&id) || early < claim.share_of(folder.early) {
                let more = replay.write((chunks, index));
                (writes, early) = (writes + more, early + more);
            }
        }
        while replay.catalog.tier(TierKind::Ram).bytes() > folder.ram * CHUNK_BYTES {
            let victim = replay.ram_victim(request.at);
            if replay.should_write(&victim) {
                writes += replay.write(paths[&victim]);
            }
            replay.catalog.remove_from(TierKind::Ram, &victim);
        }
        replay.trim(TierKind::Ssd, folder.ssd, |_, _| 0);
    }
    (hits, writes)
}

impl Replay {
    fn should_write(&self, id: &ChunkId) -> bool {
        let worth = self.catalog.worth();
        self.catalog.get(id).is_some_and(|entry| worth.should_write(&self.catalog.stats(entry), TierKind::Ssd))
    }

    /// Selects the next chunk to evict from RAM, as `tiers/ram.rs` does.
    fn ram_victim(&self, now: Duration) -> ChunkId {
        let chunks = self.catalog.tier(TierKind::Ram);
        let copied = |id: &ChunkId| self.catalog.tier(TierKind::Ssd).contains(id);
        let last = chunks.victims().next().expect("a cache that is not empty has a victim");
        let under_way = self.catalog.get(&last).is_some_and(|entry| now < entry.last_use_at + RETURN_PAUSE);
        let lost = !copied(&last) && !self.should_write(&last) && under_way;
        Some(last).filter(|_| !lost).or_else(|| chunks.oldest(copied)).unwrap_or(last)
    }

    /// Writes a chunk and its missing prefix, and returns the number of chunks written.
    fn write(&mut self, (chunks, index): (&[u32], usize)) -> u64 {
        let mut written = 0;
        for before in 0..=index {
            if !self.catalog.tier(TierKind::Ssd).contains(&self.id(Some(chunks[before]))) {
                self.put(TierKind::Ssd, chunks, before);
                written += 1;
            }
        }
        written
    }

    /// Evicts chunks down to the capacity, and returns the sum of what `leaves` returns for them.
    fn trim(&mut self, tier: TierKind, capacity: u64, leaves: impl Fn(&mut Self, &ChunkId) -> u64) -> u64 {
        let mut sum = 0;
        while self.catalog.tier(tier).bytes() > capacity * CHUNK_BYTES {
            let victim = self.catalog.tier(tier).victims().next().expect("a cache that is not empty has a victim");
            sum += leaves(self, &victim);
            self.catalog.remove_from(tier, &victim);
        }
        sum
    }
}
