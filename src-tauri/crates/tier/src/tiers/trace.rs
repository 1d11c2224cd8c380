//! Why a prefix is not found, or no more of it.

use std::collections::{HashMap, VecDeque};

use super::status::Gone;
use super::{State, Tiers};
use crate::chunk::{ChunkId, Group, NumericClass};
use crate::coverage::{Coverage, Prefix};
use crate::identity::{CHUNK_TOKENS, Chain};
use crate::key::Key;
use crate::tier::Place;

/// Names that are remembered after their chunks have gone.
const REMEMBERED: usize = 16 << 10;

/// Why a prefix is found so far and no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// All of it is found.
    Whole,
    /// What is kept goes on with something else from this position on.
    Changed {
        /// The position, in tokens from the beginning.
        at: usize,
        /// What is kept there; none where it ends.
        kept: Option<Key>,
        /// What was asked for there.
        asked: Key,
    },
    /// The next chunk was computed by another arithmetic.
    OtherArithmetic(NumericClass),
    /// The next chunk's rows were rounded.
    Rounded,
    /// A place gave something else under the next chunk's name.
    Suspect,
    /// The next chunk's place does not answer.
    Away(Place),
    /// The next chunk was kept once.
    Gone(Gone),
    /// The next chunk was never kept, or so long ago that nobody remembers.
    NeverStored,
}

/// What [`Tiers::trace`] found.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What is kept of the prefix.
    pub coverage: Coverage,
    /// Which state was missing first.
    pub group: Group,
    /// Why it is not more.
    pub why: Why,
}

/// Names of chunks that no place has any more, the latest.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    order: VecDeque<ChunkId>,
    why: HashMap<ChunkId, Gone>,
}

impl Ghosts {
    pub(super) fn add(&mut self, id: ChunkId, why: Gone) {
        if self.why.insert(id, why).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.why.remove(&oldest);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Tiers {
    /// Why a coverage ends where it does, for a reader who has its first `have` tokens.
    pub fn why(&self, coverage: &Coverage, have: usize) -> Why {
        let (prefix, position) = (coverage.prefix(), coverage.tokens().max(have));
        if position >= prefix.keys.len() {
            return Why::Whole;
        }
        let chain = chain_before(prefix, position);
        self.inner.lock().why(prefix, chain, Group::Full, position, self.inner.clock.now())
    }

    /// What is kept of a prefix and why it is not more, for people.
    pub fn trace(&self, prefix: &Prefix) -> Trace {
        let (coverage, chains) = (self.find(prefix), prefix.chains());
        let state = self.inner.lock();
        let tokens = coverage.tokens();
        if tokens == prefix.keys.len() {
            return Trace { coverage, group: Group::Full, why: Why::Whole };
        }
        let only_full = Prefix { groups: crate::Groups { window_tokens: None, ..prefix.groups }, ..prefix.clone() };
        let away = |_| false;
        let full_is_short = prefix.groups.full
            && Coverage::of(&state.catalog, &only_full, &chains, crate::Held::default(), away, |_| false).tokens()
                <= tokens;
        let group = if full_is_short || prefix.groups.window_tokens.is_none() { Group::Full } else { Group::Window };
        let why = state.why(prefix, chain_before(prefix, tokens), group, tokens, self.inner.clock.now());
        drop(state);
        Trace { coverage, group, why }
    }
}

/// Names what comes before the chunk of a position.
fn chain_before(prefix: &Prefix, position: usize) -> Chain {
    let mut chain = prefix.chain();
    prefix.keys[..position / CHUNK_TOKENS * CHUNK_TOKENS].chunks(CHUNK_TOKENS).for_each(|keys| {
        chain.push(keys);
    });
    chain
}

impl State {
    /// Why the chunk at a position, before which stands what `chain` names, is not found.
    fn why(&self, prefix: &Prefix, chain: Chain, group: Group, position: usize, now: std::time::Duration) -> Why {
        let first = position / CHUNK_TOKENS * CHUNK_TOKENS;
        let rest = &prefix.keys[first..prefix.keys.len().min(first + CHUNK_TOKENS)];
        let parent = ChunkId { fingerprint: prefix.fingerprint, hash: chain.last(), group };
        let id = ChunkId { hash: chain.peek(rest), ..parent };
        if let Some(gone) = self.ghosts.why.get(&id).filter(|_| self.catalog.get(&id).is_none()) {
            return Why::Gone(*gone);
        }
        let Some((kept, shared)) = self.catalog.nearest(&parent, &chain, rest, |_, _| true) else {
            let other =
                self.catalog.continuations(&parent).into_iter().find_map(|id| self.catalog.get(&id)?.keys.clone());
            return match other {
                Some(keys) => Why::Changed { at: first, kept: keys.first().copied(), asked: rest[0] },
                None => Why::NeverStored,
            };
        };
        let Some(entry) = self.catalog.get(&kept) else { return Why::NeverStored };
        let away = self.catalog.places(&kept).next().filter(|&place| self.is_away(place, now));
        if prefix.class.as_ref().is_some_and(|class| *class != entry.class) {
            Why::OtherArithmetic(entry.class.clone())
        } else if entry.suspect {
            Why::Suspect
        } else if let Some(place) = away {
            Why::Away(place)
        } else if !self.catalog.places(&kept).any(|place| entry.serves(place, prefix.class.as_ref(), prefix.lossy)) {
            Why::Rounded
        } else if shared < rest.len() {
            let keys = entry.keys.as_deref().unwrap_or_default();
            Why::Changed { at: first + shared, kept: keys.get(shared).copied(), asked: rest[shared] }
        } else {
            Why::NeverStored
        }
    }
}
