//! Reasons for cache misses.

use super::removed_chunks::RemovalReason;
use super::{State, Tiers};
use crate::chunk::{ChunkId, Group, NumericClass};
use crate::coverage::{Coverage, Prefix};
use crate::identity::{CHUNK_TOKENS, Chain};
use crate::key::Key;
use crate::tier::TierKind;

/// Reason why a lookup covers no more of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// The whole prefix is covered.
    FullHit,
    /// The stored chunk has other keys from this position on.
    Diverged {
        /// The position, in tokens from the start.
        position: usize,
        /// The stored key, or `None` if the chunk ends there.
        stored: Option<Key>,
        /// The requested key.
        requested: Key,
    },
    /// Another arithmetic computed the next chunk.
    NumericClass(NumericClass),
    /// The rows of the next chunk are rounded.
    Lossy,
    /// A tier returned another chunk under the next chunk's id.
    Mismatch,
    /// The tier of the next chunk is unavailable.
    Unavailable(TierKind),
    /// The next chunk was removed.
    Removed(RemovalReason),
    /// The next chunk was never stored, or removed too long ago.
    NeverStored,
}

/// Result of [`Tiers::trace`].
#[derive(Clone, Debug)]
pub struct LookupTrace {
    /// The covered part of the prefix.
    pub coverage: Coverage,
    /// The layers whose chunk is missing first.
    pub group: Group,
    /// Reason why the coverage ends.
    pub reason: MissReason,
}

impl Tiers {
    /// Returns why a coverage ends, for a reader that has the first `have` tokens.
    pub fn miss_reason(&self, coverage: &Coverage, have: usize) -> MissReason {
        let (prefix, position) = (coverage.prefix(), coverage.tokens().max(have));
        if position >= prefix.keys.len() {
            return MissReason::FullHit;
        }
        let chain = chain_before(prefix, position);
        self.inner.lock().miss_reason(prefix, chain, Group::Full, position, self.inner.clock.now())
    }

    /// Looks up a prefix and explains where the coverage ends.
    pub fn trace(&self, prefix: &Prefix) -> LookupTrace {
        let (coverage, chains) = (self.lookup(prefix), prefix.chains());
        let state = self.inner.lock();
        let tokens = coverage.tokens();
        if tokens == prefix.keys.len() {
            return LookupTrace { coverage, group: Group::Full, reason: MissReason::FullHit };
        }
        let only_full = Prefix { groups: crate::Groups { window_tokens: None, ..prefix.groups }, ..prefix.clone() };
        let unavailable = |_| false;
        let full_is_short = prefix.groups.full
            && Coverage::of(&state.catalog, &only_full, &chains, crate::ResidentRows::default(), unavailable, |_| {
                false
            })
            .tokens()
                <= tokens;
        let group = if full_is_short || prefix.groups.window_tokens.is_none() { Group::Full } else { Group::Window };
        let reason = state.miss_reason(prefix, chain_before(prefix, tokens), group, tokens, self.inner.clock.now());
        drop(state);
        LookupTrace { coverage, group, reason }
    }
}

/// Returns the chain before the chunk at a position.
fn chain_before(prefix: &Prefix, position: usize) -> Chain {
    let mut chain = prefix.chain();
    prefix.keys[..position / CHUNK_TOKENS * CHUNK_TOKENS].chunks(CHUNK_TOKENS).for_each(|keys| {
        chain.push(keys);
    });
    chain
}

impl State {
    /// Returns why the chunk at a position, after the chunks of `chain`, is not found.
    fn miss_reason(
        &self,
        prefix: &Prefix,
        chain: Chain,
        group: Group,
        position: usize,
        now: std::time::Duration,
    ) -> MissReason {
        let first = position / CHUNK_TOKENS * CHUNK_TOKENS;
        let rest = &prefix.keys[first..prefix.keys.len().min(first + CHUNK_TOKENS)];
        let parent = ChunkId { fingerprint: prefix.fingerprint, hash: chain.last(), group };
        let id = ChunkId { hash: chain.peek(rest), ..parent };
        if let Some(gone) = self.removed_chunks.reason(&id).filter(|_| self.catalog.get(&id).is_none()) {
            return MissReason::Removed(gone);
        }
        let Some((kept, shared)) = self.catalog.nearest(&parent, &chain, rest, |_, _, _| true) else {
            let other =
                self.catalog.continuations(&parent).into_iter().find_map(|id| self.catalog.get(&id)?.keys.clone());
            return match other {
                Some(keys) => {
                    MissReason::Diverged { position: first, stored: keys.first().copied(), requested: rest[0] }
                }
                None => MissReason::NeverStored,
            };
        };
        let Some(entry) = self.catalog.get(&kept) else { return MissReason::NeverStored };
        let unavailable = self.catalog.tiers_of(&kept).next().filter(|&tier| self.is_unavailable(tier, now));
        if prefix.class.as_ref().is_some_and(|class| *class != entry.class) {
            MissReason::NumericClass(entry.class.clone())
        } else if entry.suspect {
            MissReason::Mismatch
        } else if let Some(tier) = unavailable {
            MissReason::Unavailable(tier)
        } else if !self
            .catalog
            .tiers_of(&kept)
            .any(|tier| entry.serves(tier, prefix.class.as_ref(), prefix.allow_lossy))
        {
            MissReason::Lossy
        } else if shared < rest.len() {
            let keys = entry.keys.as_deref().unwrap_or_default();
            MissReason::Diverged {
                position: first + shared,
                stored: keys.get(shared).copied(),
                requested: rest[shared],
            }
        } else {
            MissReason::NeverStored
        }
    }
}
