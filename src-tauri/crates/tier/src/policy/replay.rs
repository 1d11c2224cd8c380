//! What a place would have had of a trace's prompts: by the catalog as it is, and by one who knows the future.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::trace::Trace;
use crate::catalog::Catalog;
use crate::tier::Stored;
use crate::worth::PAUSE;
use crate::{ChunkHash, ChunkId, Fingerprint, Flags, Group, NumericClass, Place, WeightsDigest, Worth};

/// Bytes that stand for a chunk.
pub(super) const CHUNK_BYTES: u64 = 32 << 20;
/// Time to compute a token, and how much more each token before it adds.
const TOKEN_S: f64 = 5e-3;
const DEEPER: f64 = 1.0 / 16_384.0;

/// Tokens of all prompts that were there, in percent.
pub(super) fn percent(trace: &Trace, chunks: u64) -> f64 {
    100.0 * (chunks * trace.chunk_tokens) as f64 / trace.tokens() as f64
}

/// A catalog with the chunks of a trace, named by their numbers.
pub(super) struct Replay {
    pub(super) catalog: Catalog,
    fingerprint: Fingerprint,
    class: NumericClass,
    chunk_tokens: u64,
}

impl Replay {
    pub(super) fn new(trace: &Trace, budgets: [u64; 3], worth: Arc<dyn Worth>) -> Self {
        Self {
            catalog: Catalog::new(budgets, worth),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"trace".as_slice())]),
            class: NumericClass::new("trace").expect("a short name"),
            chunk_tokens: trace.chunk_tokens,
        }
    }

    pub(super) fn id(&self, chunk: Option<u32>) -> ChunkId {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&chunk.map_or(0, |chunk| chunk + 1).to_le_bytes());
        ChunkId { fingerprint: self.fingerprint, hash: ChunkHash::from_bytes(hash), group: Group::Full }
    }

    pub(super) fn put(&mut self, place: Place, chunks: &[u32], index: usize) {
        let id = self.id(Some(chunks[index]));
        let parent = self.id(index.checked_sub(1).map(|before| chunks[before])).hash;
        let first_position = index as u64 * self.chunk_tokens;
        let stored = Stored {
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
        self.catalog.put_lower(place, &stored);
        let seconds = TOKEN_S * self.chunk_tokens as f64 * (1.0 + DEEPER * first_position as f64);
        if let Some(entry) = self.catalog.get_mut(&id) {
            entry.recompute = Duration::from_secs_f64(seconds);
        }
    }
}

/// Chunks that a place of so many would have had.
pub(super) fn kept(trace: &Trace, capacity: u64, worth: Arc<dyn Worth>) -> u64 {
    let place = Place::Ssd;
    let mut replay = Replay::new(trace, [0, capacity * CHUNK_BYTES, 0], worth);
    let mut hits = 0;
    for request in &trace.requests {
        let chunks = &request.chunks;
        let have =
            chunks.iter().take_while(|&&chunk| replay.catalog.shelf(place).holds(&replay.id(Some(chunk)))).count();
        hits += have as u64;
        for index in have..chunks.len() {
            replay.put(place, chunks, index);
        }
        // The last first, so that a prefix is never older than what continues it.
        for (index, &chunk) in chunks.iter().enumerate().rev() {
            let id = replay.id(Some(chunk));
            if index < have {
                replay.catalog.count_hit(&id, request.at);
            }
            replay.catalog.touch(&id, request.at, 0);
        }
        while replay.catalog.shelf(place).bytes() > capacity * CHUNK_BYTES {
            let victim = replay.catalog.shelf(place).victims().next().expect("what is held has an end");
            replay.catalog.drop_lower(place, &victim);
        }
    }
    hits
}

/// Chunks that the best place of so many would have had, if chunks could be kept without those before them (Belady's MIN).
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

/// A folder below RAM, and what it costs to keep it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folder {
    /// Chunks that RAM holds.
    pub(super) ram: u64,
    /// Chunks that the folder holds.
    pub(super) ssd: u64,
    /// Whether RAM is lost each night, but for so many chunks that are written at last.
    pub(super) nightly: Option<usize>,
    /// Whether all that is new is written at once.
    pub(super) through: bool,
    /// Chunks that may be written each day as soon as a conversation goes on.
    pub(super) early: u64,
}

/// Chunks that RAM and a folder would have had, and chunks that were written.
pub(super) fn written(trace: &Trace, folder: Folder, worth: Arc<dyn Worth>) -> (u64, u64) {
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
            let ids: Vec<ChunkId> = replay.catalog.shelf(Place::Ram).ids().collect();
            let mut only_here: Vec<_> =
                ids.iter().copied().filter(|id| !replay.catalog.shelf(Place::Ssd).holds(id)).collect();
            let worth = |id: &ChunkId| {
                replay.catalog.get(id).map(|entry| {
                    (!replay.catalog.worth().deserves(&replay.catalog.facts(entry), Place::Ssd), entry.first_position)
                })
            };
            only_here.sort_by_key(worth);
            only_here.truncate(last);
            for id in only_here {
                writes += replay.write(paths[&id]);
            }
            for id in ids {
                replay.catalog.drop_lower(Place::Ram, &id);
            }
            replay.trim(Place::Ssd, folder.ssd, |_, _| 0);
        }
        let chunks = request.chunks.as_slice();
        let held = |&&chunk: &&u32| replay.catalog.places(&replay.id(Some(chunk))).next().is_some();
        let have = chunks.iter().take_while(held).count();
        hits += have as u64;
        for (index, &chunk) in chunks.iter().enumerate() {
            let id = replay.id(Some(chunk));
            paths.insert(id, (chunks, index));
            if !replay.catalog.shelf(Place::Ram).holds(&id) {
                replay.put(Place::Ram, chunks, index);
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
            let again = replay.catalog.get(&replay.id(Some(chunks[index]))).is_some_and(|entry| entry.hits > 0);
            // What goes on is written with its last turn, since it is idle before it goes on again.
            let goes_on = have > 0 && !folder.through;
            if replay.deserves(&replay.id(Some(chunks[index]))) || (early < folder.early && (again || goes_on)) {
                let more = replay.write((chunks, index));
                (writes, early) = (writes + more, early + more);
            }
        }
        while replay.catalog.shelf(Place::Ram).bytes() > folder.ram * CHUNK_BYTES {
            let victim = replay.ram_victim(request.at);
            if replay.deserves(&victim) {
                writes += replay.write(paths[&victim]);
            }
            replay.catalog.drop_lower(Place::Ram, &victim);
        }
        replay.trim(Place::Ssd, folder.ssd, |_, _| 0);
    }
    (hits, writes)
}

impl Replay {
    fn deserves(&self, id: &ChunkId) -> bool {
        let worth = self.catalog.worth();
        self.catalog.get(id).is_some_and(|entry| worth.deserves(&self.catalog.facts(entry), Place::Ssd))
    }

    /// What leaves RAM next: as `tiers/keep.rs` has it.
    fn ram_victim(&self, now: Duration) -> ChunkId {
        let shelf = self.catalog.shelf(Place::Ram);
        let copied = |id: &ChunkId| self.catalog.shelf(Place::Ssd).holds(id);
        let last = shelf.victims().next().expect("what is held has an end");
        let under_way = self.catalog.get(&last).is_some_and(|entry| now < entry.last_use_at + PAUSE);
        let lost = !copied(&last) && !self.deserves(&last) && under_way;
        Some(last).filter(|_| !lost).or_else(|| shelf.oldest(copied)).unwrap_or(last)
    }

    /// Writes a chunk with all before it, and returns how many those are that were not there.
    fn write(&mut self, (chunks, index): (&[u32], usize)) -> u64 {
        let mut written = 0;
        for before in 0..=index {
            if !self.catalog.shelf(Place::Ssd).holds(&self.id(Some(chunks[before]))) {
                self.put(Place::Ssd, chunks, before);
                written += 1;
            }
        }
        written
    }

    /// Empties a place until it holds so many chunks, and sums up what `leaves` says of those that leave.
    fn trim(&mut self, place: Place, capacity: u64, leaves: impl Fn(&mut Self, &ChunkId) -> u64) -> u64 {
        let mut sum = 0;
        while self.catalog.shelf(place).bytes() > capacity * CHUNK_BYTES {
            let victim = self.catalog.shelf(place).victims().next().expect("what is held has an end");
            sum += leaves(self, &victim);
            self.catalog.drop_lower(place, &victim);
        }
        sum
    }
}
