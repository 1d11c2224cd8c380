//! What is kept of a prompt: which chunks, where, and how long a prefix of it they make.
//!
//! Layers that attend to everything need all chunks from the first on; layers that attend to a window need only the last few. The
//! longest prefix that both can serve is what may be brought back, or any shorter one that [`Coverage::longest`] gives.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{Catalog, Entry};
use crate::chunk::{ChunkId, Group, NumericClass};
use crate::identity::{CHUNK_TOKENS, Chain, ChunkHash, Fingerprint, Namespace};
use crate::key::Key;
use crate::tier::{Place, Wanted};

/// What a chunk is taken to have, where nothing tells.
const UNKNOWN_BYTES: u64 = 32 << 20;

/// Which state a model keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Whether layers attend to all positions.
    pub full: bool,
    /// How far back the layers look that attend to a window, in tokens, where there are any.
    pub window_tokens: Option<u64>,
}

impl Groups {
    /// Only layers that attend to all positions.
    pub const FULL: Self = Self { full: true, window_tokens: None };
}

/// What a reader has of a prefix already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Tokens from the first on of which it has the rows in layers that attend to all positions.
    pub tokens: usize,
    /// Positions of which it has the rows in layers that attend to a window.
    pub window: Range<usize>,
}

impl From<usize> for Held {
    /// All rows of so many tokens.
    fn from(tokens: usize) -> Self {
        Self { tokens, window: 0..tokens }
    }
}

/// What is looked up. Cloning shares the keys.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// Whose chunks.
    pub namespace: Namespace,
    /// Of which model, used in which way.
    pub fingerprint: Fingerprint,
    /// What stands at each position that may be brought back. A prompt's last token is left out, since it must run to give logits.
    pub keys: Arc<[Key]>,
    /// The arithmetic that must have computed the rows; none where another's may be used.
    pub class: Option<NumericClass>,
    /// Whether rounded rows may be used.
    pub lossy: bool,
    /// Which state the model keeps.
    pub groups: Groups,
}

impl Prefix {
    /// The chain of its chunks' names, at its beginning.
    pub fn chain(&self) -> Chain {
        Chain::new(&self.namespace, &self.fingerprint)
    }

    /// The chain before each chunk, and after the last. All that a lookup has to hash, so it is made without a lock.
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

/// A chunk of a prefix, and how much of it is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub id: ChunkId,
    /// The name of the chunk before it.
    pub parent: ChunkHash,
    /// Position of its first token.
    pub first_position: u64,
    /// Its first rows that are of use: fewer than it has where the request goes on differently.
    pub rows: usize,
    /// The nearest place that has it.
    pub place: Place,
    /// Bytes of its rows, or none where that is not known before it has been read.
    pub bytes: Option<u64>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Coverage {
    prefix: Prefix,
    /// What need not be kept here, since the reader has it.
    held: Held,
    /// From the chunk on in which the reader's rows end, without a hole.
    full: Vec<Step>,
    /// By number of the chunk.
    window: Vec<Option<Step>>,
    tokens: usize,
}

impl Coverage {
    /// Looks a prefix up, whose `chains` are [`Prefix::chains`] and of which the reader has what is `held`. Places that are
    /// `away` are not asked; `maybe` says whether a place may have a chunk that nobody listed.
    pub(crate) fn of(
        catalog: &Catalog,
        prefix: &Prefix,
        chains: &[Chain],
        held: Held,
        away: impl Fn(Place) -> bool,
        maybe: impl Fn(&ChunkId) -> bool,
    ) -> Self {
        let lookup = Lookup { catalog, prefix, away: &away, maybe: &maybe };
        let (mut full, mut window) = (Vec::new(), Vec::new());
        let mut contiguous = prefix.groups.full;
        let chunks = prefix.keys.len().div_ceil(CHUNK_TOKENS);
        let base = held.tokens / CHUNK_TOKENS * CHUNK_TOKENS;
        for index in 0..chunks {
            let rest = &prefix.keys[index * CHUNK_TOKENS..];
            let whole = chains.get(index + 1).map(Chain::last);
            let next = Next { index, rest: &rest[..rest.len().min(CHUNK_TOKENS)], before: &chains[index], whole };
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
        coverage.tokens = coverage.longest(usize::MAX);
        coverage
    }

    /// The longest prefix that can be brought back, in tokens.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// As much of it as this machine has.
    #[must_use]
    pub fn near(mut self) -> Self {
        let is_far = |step: &Step| step.place == Place::Remote;
        let near = self.full.iter().take_while(|step| !is_far(step)).count();
        self.full.truncate(near);
        for step in self.window.iter_mut().filter(|step| step.as_ref().is_some_and(is_far)) {
            *step = None;
        }
        self.tokens = self.longest(usize::MAX);
        self
    }

    /// What was looked up.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The longest prefix of at most `limit` tokens that can be brought back.
    pub fn longest(&self, limit: usize) -> usize {
        let base = self.held.tokens / CHUNK_TOKENS * CHUNK_TOKENS;
        let full_rows = (base + self.full.iter().map(|step| step.rows).sum::<usize>()).max(self.held.tokens);
        let mut end =
            limit.min(self.prefix.keys.len()).min(if self.prefix.groups.full { full_rows } else { usize::MAX });
        let Some(window_tokens) = self.prefix.groups.window_tokens else {
            return if self.prefix.groups.full { end } else { 0 };
        };
        let kept = |index: usize| self.window.get(index).and_then(Option::as_ref).map_or(0, |step| step.rows);
        let rows = |index: usize| kept(index).max(self.held_rows(index));
        while end > 0 {
            let last = (end - 1) / CHUNK_TOKENS;
            let reached = last * CHUNK_TOKENS + rows(last);
            if reached < end {
                end = reached;
                if rows(last) == 0 {
                    continue;
                }
            }
            let first = first_in_window(end, window_tokens) / CHUNK_TOKENS;
            match (first..last).rev().find(|&index| rows(index) < CHUNK_TOKENS) {
                Some(hole) => end = hole * CHUNK_TOKENS + rows(hole),
                None => return end,
            }
        }
        0
    }

    /// How many rows of a window's chunk the reader has, from the chunk's first on.
    fn held_rows(&self, index: usize) -> usize {
        let (first, held) = (index * CHUNK_TOKENS, &self.held.window);
        if held.contains(&first) { held.end.min(first + CHUNK_TOKENS) - first } else { 0 }
    }

    /// What must be read to have the positions `tokens`, in the order in which it is of use: of a chunk's positions, first the rows
    /// of windows, since those of other layers make them known. Whatever the window sees from the end that the reader does not
    /// have is part of it, before `tokens` too. The end must be one that [`Coverage::longest`] gave.
    pub fn steps(&self, tokens: Range<usize>) -> Vec<Step> {
        let in_use = |step: &Step, from: usize| {
            let first = step.first_position as usize;
            first < tokens.end && first + step.rows > from && from < tokens.end
        };
        let missing = |step: &Step| {
            let first = step.first_position as usize;
            self.held_rows(first / CHUNK_TOKENS) < (tokens.end - first).min(CHUNK_TOKENS)
        };
        let cut = |step: &Step| Step { rows: step.rows.min(tokens.end - step.first_position as usize), ..step.clone() };
        let full = self.full.iter().filter(|step| in_use(step, tokens.start));
        let seen = self.prefix.groups.window_tokens.map_or(0, |window| first_in_window(tokens.end, window));
        let window = self.window.iter().flatten().filter(|step| in_use(step, seen) && missing(step));
        let mut steps: Vec<Step> = full.chain(window).map(cut).collect();
        steps.sort_by_key(|step| (step.first_position, Reverse(step.id.group)));
        steps
    }

    /// Bytes that must be read to have the positions `tokens`, by place in the order of [`Place`]. A chunk is read as a whole. Those
    /// of unknown size are taken to be as large as the others.
    pub fn bytes(&self, tokens: Range<usize>) -> [u64; 3] {
        let steps = self.steps(tokens);
        let known = steps.iter().filter_map(|step| step.bytes);
        let usual = known.clone().sum::<u64>().checked_div(known.count() as u64).unwrap_or(UNKNOWN_BYTES);
        steps.iter().fold([0; 3], |mut sum, step| {
            sum[step.place as usize] += step.bytes.unwrap_or(usual);
            sum
        })
    }

    /// How to ask for the chunk of one of its steps.
    pub(crate) fn ask(&self, step: Step) -> Ask {
        let Prefix { keys, class, lossy, .. } = &self.prefix;
        let first = step.first_position as usize;
        let rows = first..first + step.rows;
        Ask { step, keys: Arc::clone(keys), rows, class: class.clone(), lossy: *lossy }
    }
}

/// A chunk that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) step: Step,
    pub(crate) keys: Arc<[Key]>,
    /// Which of the keys are those of the step.
    pub(crate) rows: Range<usize>,
    pub(crate) class: Option<NumericClass>,
    pub(crate) lossy: bool,
}

impl Ask {
    /// What the chunk must be.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            id: self.step.id,
            parent: self.step.parent,
            first_position: self.step.first_position,
            keys: &self.keys[self.rows.clone()],
            class: self.class.as_ref(),
            lossy: self.lossy,
        }
    }
}

/// The first position that a layer with this window still sees from position `end`.
fn first_in_window(end: usize, window_tokens: u64) -> usize {
    end.saturating_sub(usize::try_from(window_tokens).unwrap_or(usize::MAX))
}

struct Lookup<'a> {
    catalog: &'a Catalog,
    prefix: &'a Prefix,
    away: &'a dyn Fn(Place) -> bool,
    /// Whether a place may have a chunk that the catalog does not know.
    maybe: &'a dyn Fn(&ChunkId) -> bool,
}

/// The next positions of a prefix.
struct Next<'a> {
    /// Number of the chunk.
    index: usize,
    /// Keys from there on, at most a chunk's.
    rest: &'a [Key],
    /// Names what came before.
    before: &'a Chain,
    /// The name that a chunk of all these positions has, where they fill one.
    whole: Option<ChunkHash>,
}

impl Lookup<'_> {
    /// The chunk for the next positions.
    fn step(&self, group: Group, next: &Next<'_>) -> Option<Step> {
        let parent = ChunkId { fingerprint: self.prefix.fingerprint, hash: next.before.last(), group };
        let found = |id, rows, place, bytes| Step {
            id,
            parent: parent.hash,
            first_position: (next.index * CHUNK_TOKENS) as u64,
            rows,
            place,
            bytes,
        };
        if let Some(hash) = next.whole {
            let id = ChunkId { hash, ..parent };
            let entry = self.catalog.get(&id);
            if let Some((entry, place)) = entry.and_then(|entry| Some((entry, self.place(&id, entry)?))) {
                return Some(found(id, CHUNK_TOKENS, place, Some(entry.payload_bytes)));
            }
            if entry.is_none() && (self.maybe)(&id) {
                return Some(found(id, CHUNK_TOKENS, Place::Remote, None));
            }
        }
        let usable = |id: &ChunkId, entry: &Entry| self.place(id, entry).is_some();
        let (id, rows) = self.catalog.nearest(&parent, next.before, next.rest, usable)?;
        let entry = self.catalog.get(&id)?;
        Some(found(id, rows, self.place(&id, entry)?, Some(entry.payload_bytes)))
    }

    /// The nearest place that can be asked for a chunk, where the request may use it.
    fn place(&self, id: &ChunkId, entry: &Entry) -> Option<Place> {
        let Prefix { class, lossy, .. } = self.prefix;
        let serves = |place: &Place| !(self.away)(*place) && entry.serves(*place, class.as_ref(), *lossy);
        self.catalog.places(id).find(serves)
    }
}
