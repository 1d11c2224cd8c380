//! Lookup results: which chunks of a prompt are stored, in which tier, and how long a prefix they cover.
//!
//! Layers with full attention need all chunks from the first. Layers with a window need only the last chunks. A
//! restore may end at the longest prefix that both can serve, or at any shorter one that [`Coverage::longest_prefix`]
//! returns. The states of recurrent layers are stored with the rows of window layers, after the last token of a chunk. So a model with
//! such layers can continue only at the end of such a chunk, and needs no states but those.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{Catalog, Entry};
use crate::chunk::{ChunkId, Group, NumericClass};
use crate::identity::{CHUNK_TOKENS, Chain, ChunkHash, Fingerprint, Namespace};
use crate::key::Key;
use crate::tier::{ChunkRequest, TierKind};

/// Assumed chunk size if no chunk's size is known.
const UNKNOWN_BYTES: u64 = 32 << 20;

/// Layer kinds of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Whether some layers attend to all positions.
    pub full: bool,
    /// Size of the longest attention window in tokens, if some layers have a window. One token, if there are only states.
    pub window_tokens: Option<u64>,
    /// Whether some layers are recurrent. Their states are in the chunks of layers with a window.
    pub recurrent: bool,
}

impl Groups {
    /// Only layers that attend to all positions.
    pub const FULL: Self = Self { full: true, window_tokens: None, recurrent: false };
}

/// Rows of a prefix that a reader already has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResidentRows {
    /// Number of leading tokens whose rows of full-attention layers are present.
    pub tokens: usize,
    /// Positions whose rows of window layers are present.
    pub window: Range<usize>,
}

impl From<usize> for ResidentRows {
    /// All rows of the first `tokens` tokens.
    fn from(tokens: usize) -> Self {
        Self { tokens, window: 0..tokens }
    }
}

/// A lookup key. Clones share the keys.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// Namespace of the chunks.
    pub namespace: Namespace,
    /// Model and configuration.
    pub fingerprint: Fingerprint,
    /// Keys of the positions that may be restored. A prompt's last token is left out, since it must be computed to get
    /// logits.
    pub keys: Arc<[Key]>,
    /// Required arithmetic. `None` accepts any.
    pub class: Option<NumericClass>,
    /// Whether rounded rows are accepted.
    pub allow_lossy: bool,
    /// Layer kinds of the model.
    pub groups: Groups,
}

impl Prefix {
    /// Returns the chain at the start of the prefix.
    pub fn chain(&self) -> Chain {
        Chain::new(&self.namespace, &self.fingerprint)
    }

    /// Returns the chain before each chunk, and after the last. A lookup hashes nothing else, so this runs before the
    /// lock is taken.
    pub(crate) fn chains(&self) -> Vec<Chain> {
        let mut chain = self.chain();
        let mut chains = vec![chain.clone()];
        for keys in self.keys.chunks_exact(CHUNK_TOKENS) {
            chain.push(keys);
            chains.push(chain.clone());
        }
        chains
    }
}

/// A chunk to read, and the number of its rows to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreStep {
    /// Id of the chunk.
    pub id: ChunkId,
    /// Hash of the preceding chunk.
    pub parent: ChunkHash,
    /// Position of the first token.
    pub first_position: u64,
    /// Number of leading rows to use. Less than the chunk's length if the request diverges within the chunk.
    pub rows: usize,
    /// Fastest tier that has the chunk.
    pub tier: TierKind,
    /// Size of the rows, if known.
    pub bytes: Option<u64>,
}

/// Result of a lookup: the stored chunks of a prompt, and the tier of each.
#[derive(Clone, Debug)]
pub struct Coverage {
    prefix: Prefix,
    /// Rows that need not be stored, since the reader has them.
    held: ResidentRows,
    /// Contiguous chunks, from the one in which the reader's rows end.
    full: Vec<RestoreStep>,
    /// Indexed by chunk number.
    window: Vec<Option<RestoreStep>>,
    tokens: usize,
}

impl Coverage {
    /// Looks up a prefix. `chains` are [`Prefix::chains`], and the reader has the rows `held`. Unavailable tiers are
    /// skipped. `may_contain` returns whether the remote tier may have a chunk that the catalog does not list.
    pub(crate) fn of(
        catalog: &Catalog,
        prefix: &Prefix,
        chains: &[Chain],
        held: ResidentRows,
        is_unavailable: impl Fn(TierKind) -> bool,
        may_contain: impl Fn(&ChunkId) -> bool,
    ) -> Self {
        let lookup = ChunkLookup { catalog, prefix, is_unavailable: &is_unavailable, may_contain: &may_contain };
        let (mut full, mut window) = (Vec::new(), Vec::new());
        let mut contiguous = prefix.groups.full;
        let chunks = prefix.keys.len().div_ceil(CHUNK_TOKENS);
        let base = held.tokens / CHUNK_TOKENS * CHUNK_TOKENS;
        for index in 0..chunks {
            let rest = &prefix.keys[index * CHUNK_TOKENS..];
            let whole = chains.get(index + 1).map(Chain::last);
            let next =
                ChunkPosition { index, rest: &rest[..rest.len().min(CHUNK_TOKENS)], before: &chains[index], whole };
            if contiguous && index * CHUNK_TOKENS >= base {
                let step = lookup.step(Group::Full, &next);
                contiguous = step.as_ref().is_some_and(|step| step.rows == CHUNK_TOKENS);
                full.extend(step);
            }
            if prefix.groups.window_tokens.is_some() {
                window.push(lookup.step(Group::Window, &next));
            }
            if prefix.groups.full && !contiguous {
                break;
            }
        }
        let mut coverage = Self { prefix: prefix.clone(), held, full, window, tokens: 0 };
        coverage.tokens = coverage.longest_prefix(usize::MAX);
        coverage
    }

    /// Returns the length of the longest prefix that can be restored, in tokens.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Drops the chunks that only the remote tier has.
    #[must_use]
    pub fn without_remote(mut self) -> Self {
        let is_far = |step: &RestoreStep| step.tier == TierKind::Remote;
        let near = self.full.iter().take_while(|step| !is_far(step)).count();
        self.full.truncate(near);
        for step in self.window.iter_mut().filter(|step| step.as_ref().is_some_and(is_far)) {
            *step = None;
        }
        self.tokens = self.longest_prefix(usize::MAX);
        self
    }

    /// Returns the lookup key.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Returns the length of the longest restorable prefix of at most `limit` tokens.
    pub fn longest_prefix(&self, limit: usize) -> usize {
        let base = self.held.tokens / CHUNK_TOKENS * CHUNK_TOKENS;
        let full_rows = (base + self.full.iter().map(|step| step.rows).sum::<usize>()).max(self.held.tokens);
        let rows = if self.prefix.groups.full { full_rows } else { usize::MAX };
        let mut end = self.with_states(limit.min(self.prefix.keys.len()).min(rows));
        let Some(window_tokens) = self.prefix.groups.window_tokens else {
            return if self.prefix.groups.full { end } else { 0 };
        };
        let stored_rows = |index: usize| self.window.get(index).and_then(Option::as_ref).map_or(0, |step| step.rows);
        let rows = |index: usize| stored_rows(index).max(self.held_rows(index));
        while end > 0 {
            let last = (end - 1) / CHUNK_TOKENS;
            let reached = last * CHUNK_TOKENS + rows(last);
            if reached < end {
                end = self.with_states(reached);
                if rows(last) == 0 || end < reached {
                    continue;
                }
            }
            let first = first_in_window(end, window_tokens) / CHUNK_TOKENS;
            match (first..last).rev().find(|&index| rows(index) < CHUNK_TOKENS) {
                Some(hole) => end = self.with_states(hole * CHUNK_TOKENS + rows(hole)),
                None => return end,
            }
        }
        0
    }

    /// Returns the longest prefix of at most `limit` tokens that ends where the states of recurrent layers are present.
    fn with_states(&self, limit: usize) -> usize {
        if !self.prefix.groups.recurrent {
            return limit;
        }
        let stored = self.window.iter().flatten().map(|step| step.first_position as usize + step.rows);
        let ends = stored.chain([self.held.tokens]);
        ends.filter(|&end| end <= limit).max().unwrap_or(0)
    }

    /// Returns how many leading rows of a window chunk the reader has.
    fn held_rows(&self, index: usize) -> usize {
        let (first, held) = (index * CHUNK_TOKENS, &self.held.window);
        if held.contains(&first) { held.end.min(first + CHUNK_TOKENS) - first } else { 0 }
    }

    /// Returns the chunks to read for the positions `tokens`, in the order of use. For equal positions the window
    /// chunk comes first, because the full-attention chunk publishes the positions. Window chunks before `tokens` are
    /// included if the window at the end reaches them and the reader lacks them. The end must be a value that
    /// [`Coverage::longest_prefix`] returned.
    pub fn steps(&self, tokens: Range<usize>) -> Vec<RestoreStep> {
        let in_use = |step: &RestoreStep, from: usize| {
            let first = step.first_position as usize;
            first < tokens.end && first + step.rows > from && from < tokens.end
        };
        let missing = |step: &RestoreStep| {
            let first = step.first_position as usize;
            self.held_rows(first / CHUNK_TOKENS) < (tokens.end - first).min(CHUNK_TOKENS)
        };
        let cut = |step: &RestoreStep| RestoreStep {
            rows: step.rows.min(tokens.end - step.first_position as usize),
            ..step.clone()
        };
        let full = self.full.iter().filter(|step| in_use(step, tokens.start));
        let seen = self.prefix.groups.window_tokens.map_or(0, |window| first_in_window(tokens.end, window));
        let window = self.window.iter().flatten().filter(|step| in_use(step, seen) && missing(step));
        let mut steps: Vec<RestoreStep> = full.chain(window).map(cut).collect();
        steps.sort_by_key(|step| (step.first_position, Reverse(step.id.group)));
        steps
    }

    /// Returns the bytes to read for the positions `tokens`, by tier in the order of [`TierKind`]. Chunks are read
    /// whole. An unknown size is assumed to be the average of the others.
    pub fn bytes(&self, tokens: Range<usize>) -> [u64; 3] {
        let steps = self.steps(tokens);
        let sizes = steps.iter().filter_map(|step| step.bytes);
        let usual = sizes.clone().sum::<u64>().checked_div(sizes.count() as u64).unwrap_or(UNKNOWN_BYTES);
        steps.iter().fold([0; 3], |mut sum, step| {
            sum[step.tier as usize] += step.bytes.unwrap_or(usual);
            sum
        })
    }

    /// Converts a step into a read request.
    pub(crate) fn read_request(&self, step: RestoreStep) -> ReadRequest {
        let Prefix { keys, class, allow_lossy: lossy, .. } = &self.prefix;
        let first = step.first_position as usize;
        let rows = first..first + step.rows;
        ReadRequest { step, keys: Arc::clone(keys), rows, class: class.clone(), allow_lossy: *lossy }
    }
}

/// A request to read one chunk.
#[derive(Clone, Debug)]
pub(crate) struct ReadRequest {
    pub(crate) step: RestoreStep,
    pub(crate) keys: Arc<[Key]>,
    /// Range of the step's positions in `keys`.
    pub(crate) rows: Range<usize>,
    pub(crate) class: Option<NumericClass>,
    pub(crate) allow_lossy: bool,
}

impl ReadRequest {
    /// Returns the identity that the chunk must have.
    pub(crate) fn wanted(&self) -> ChunkRequest<'_> {
        ChunkRequest {
            id: self.step.id,
            parent: self.step.parent,
            first_position: self.step.first_position,
            keys: &self.keys[self.rows.clone()],
            class: self.class.as_ref(),
            allow_lossy: self.allow_lossy,
        }
    }
}

/// Returns the first position that a layer with this window attends to from position `end`.
fn first_in_window(end: usize, window_tokens: u64) -> usize {
    end.saturating_sub(usize::try_from(window_tokens).unwrap_or(usize::MAX))
}

struct ChunkLookup<'a> {
    catalog: &'a Catalog,
    prefix: &'a Prefix,
    is_unavailable: &'a dyn Fn(TierKind) -> bool,
    /// Whether the remote tier may have a chunk that the catalog does not list.
    may_contain: &'a dyn Fn(&ChunkId) -> bool,
}

/// A position at a chunk border.
struct ChunkPosition<'a> {
    /// Chunk number.
    index: usize,
    /// The next keys, at most one chunk.
    rest: &'a [Key],
    /// Chain of the preceding chunks.
    before: &'a Chain,
    /// Hash of the whole chunk of these keys, if they fill one.
    whole: Option<ChunkHash>,
}

impl ChunkLookup<'_> {
    /// Finds the best chunk for the next positions.
    fn step(&self, group: Group, next: &ChunkPosition<'_>) -> Option<RestoreStep> {
        let parent = ChunkId { fingerprint: self.prefix.fingerprint, hash: next.before.last(), group };
        let found = |id, rows, tier, bytes| RestoreStep {
            id,
            parent: parent.hash,
            first_position: (next.index * CHUNK_TOKENS) as u64,
            rows,
            tier,
            bytes,
        };
        if let Some(hash) = next.whole {
            let id = ChunkId { hash, ..parent };
            let entry = self.catalog.get(&id);
            if let Some((entry, tier)) = entry.and_then(|entry| Some((entry, self.nearest_tier(&id, entry)?))) {
                return Some(found(id, CHUNK_TOKENS, tier, Some(entry.payload_bytes)));
            }
            if entry.is_none() && (self.may_contain)(&id) {
                return Some(found(id, CHUNK_TOKENS, TierKind::Remote, None));
            }
        }
        let has_states = self.prefix.groups.recurrent && group == Group::Window;
        let usable = |id: &ChunkId, entry: &Entry, rows: usize| {
            self.nearest_tier(id, entry).is_some() && (!has_states || rows == entry.tokens as usize)
        };
        let (id, rows) = self.catalog.nearest(&parent, next.before, next.rest, usable)?;
        let entry = self.catalog.get(&id)?;
        Some(found(id, rows, self.nearest_tier(&id, entry)?, Some(entry.payload_bytes)))
    }

    /// Returns the fastest available tier whose copy the request may use.
    fn nearest_tier(&self, id: &ChunkId, entry: &Entry) -> Option<TierKind> {
        let Prefix { class, allow_lossy: lossy, .. } = self.prefix;
        let serves = |tier: &TierKind| !(self.is_unavailable)(*tier) && entry.serves(*tier, class.as_ref(), *lossy);
        self.catalog.tiers_of(id).find(serves)
    }
}
