//! The way in: chunks from the tiers become pages of a sequence.
//!
//! A recall begins where the pages in memory end. Its chunks are written into the sequence's own new pages and filed as if they had
//! been computed; whatever ends it early, the sequence goes on by computing the rest.

use std::ops::Range;
use std::time::Duration;

use cairn_tensor::{Backend, PAGE_TOKENS};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::tiers::Why;
use cairn_tier::{Choice, End, Key, Miss, Next, Place, Restored, Restoring};

use super::keep::Keeper;
use super::{Cache, Error, SeqId};
use crate::recomputed::{Because, Recomputed};

/// Why a recall finds what it was begun with.
const KEEPS: &str = "a recall is begun by a cache that keeps";

/// A recall under way. Dropping it ends it.
pub struct Recall {
    restoring: Restoring,
    /// Tokens that the sequence had in pages.
    have: usize,
    choice: Choice,
    began: Duration,
    farthest: Option<Place>,
}

impl std::fmt::Debug for Recall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recall").field("have", &self.have).field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl Recall {
    /// What was expected of it when it began.
    pub fn choice(&self) -> Choice {
        self.choice
    }
}

/// What a lookup in the tiers led to.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The recall that began, where it pays.
    pub recall: Option<Recall>,
    /// Tokens that will be computed whatever comes of it, by why.
    pub recomputed: Recomputed,
}

/// What a recall did, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Tokens that came beyond those in pages.
    pub tokens: usize,
    /// Tokens that were to come and did not.
    pub left: usize,
    /// The farthest place that gave some.
    pub farthest: Option<Place>,
    /// How long it took.
    pub took: Duration,
    /// How long computing what came would have taken, by what computing has taken lately.
    pub recompute: Duration,
}

/// What a recall has at the moment.
#[derive(Debug)]
pub enum Recalled {
    /// So many more tokens of the sequence, from there.
    Tokens(usize, Place),
    /// Nothing yet.
    Waiting,
    /// No more, and why.
    Ended(End),
    /// No more, since sequences in use hold all pages.
    NoPages(Error),
    /// No more, since a chunk is not made as this model's are.
    Misfit,
}

impl Recalled {
    /// Why the rest is computed, where there will be no more.
    pub fn because(&self) -> Option<Because> {
        match self {
            Self::Tokens(..) | Self::Waiting | Self::Ended(End::Complete) => None,
            Self::Ended(End::Deadline) => Some(Because::Deadline),
            Self::Ended(End::Missed(Miss::Damaged(_))) => Some(Because::Corrupt),
            Self::Ended(End::Missed(Miss::Other(_))) | Self::Misfit => Some(Because::Incompatible),
            Self::Ended(End::Missed(Miss::Absent | Miss::Tier(_)) | End::Closed) => Some(Because::Miss),
            Self::NoPages(_) => Some(Because::NoPages),
        }
    }
}

impl Cache {
    /// What the tiers have of this sequence's tokens beyond what it has, as far as bringing it back is quicker than computing it.
    pub fn recall(&mut self, seq: SeqId, tokens: &[u32]) -> Lookup {
        let have = self.len(seq);
        let usable = tokens.len().saturating_sub(1);
        let space = self.sequence(seq).whose.space.clone();
        let missing = |kept: usize, why| Recomputed::of(why, usable.saturating_sub(kept.max(have)));
        let Some(Keeper { keeping, costs, .. }) = &mut self.keeper else {
            return Lookup { recall: None, recomputed: missing(have, Because::Miss) };
        };
        let keys = tokens[..usable].iter().copied().map(Key::token).collect();
        let coverage = keeping.tiers.find_after(&keeping.within(space.as_deref()).prefix(keys), have);
        let kept = coverage.tokens();
        let mut recomputed = match keeping.tiers.why(&coverage, have) {
            Why::OtherArithmetic(_) | Why::Rounded | Why::Suspect => missing(kept, Because::Incompatible),
            _ => missing(kept, Because::Miss),
        };
        if kept <= have {
            keeping.tiers.touch(&coverage);
            return Lookup { recall: None, recomputed };
        }
        let choice = keeping.tiers.choose(costs, have, &coverage);
        let end = choice.map_or(have, |choice| choice.end);
        recomputed += Recomputed::of(Because::Cheaper, kept - end);
        let Some(choice) = choice else { return Lookup { recall: None, recomputed } };
        let began = keeping.tiers.clock().now();
        // Rows come by whole pages.
        let from = have / PAGE_TOKENS * PAGE_TOKENS;
        let restoring = keeping.tiers.restore(&coverage, from..end, choice.within);
        self.truncate(seq, from);
        Lookup { recall: Some(Recall { restoring, have, choice, began, farthest: None }), recomputed }
    }

    /// What came of a recall that has ended.
    pub fn outcome(&self, seq: SeqId, recall: &Recall) -> Outcome {
        let reached = self.len(seq);
        let keeper = self.keeper.as_ref().expect(KEEPS);
        Outcome {
            tokens: reached.saturating_sub(recall.have),
            left: recall.choice.end.saturating_sub(reached),
            farthest: recall.farthest,
            took: keeper.keeping.tiers.clock().now().saturating_sub(recall.began),
            recompute: keeper.costs.recompute(recall.have..reached.max(recall.have)),
        }
    }

    /// Takes note of what computing these positions of one sequence, and nothing else, took.
    pub fn computed(&mut self, tokens: Range<usize>, took: Duration) {
        if let Some(keeper) = &mut self.keeper {
            keeper.costs.computed(tokens, took);
        }
    }

    /// Brings the next chunk that has arrived into the sequence, without waiting for one.
    pub fn absorb(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: &[u32], recall: &mut Recall) -> Recalled {
        match recall.restoring.try_next() {
            Next::Waiting => Recalled::Waiting,
            Next::Ended(end) => Recalled::Ended(end),
            Next::Ready(restored) => {
                let taken = self.take(backend, seq, tokens, &restored);
                if let Recalled::Tokens(_, place) = taken {
                    recall.farthest = recall.farthest.max(Some(place));
                }
                taken
            }
        }
    }

    fn take(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: &[u32], restored: &Restored) -> Recalled {
        let have = self.len(seq);
        let first = restored.head().first_position as usize;
        let end = first + restored.rows();
        let keeper = self.keeper.as_ref().expect(KEEPS);
        let fits = restored.head().sections == keeper.geometry.sections(restored.head().keys.len())
            && restored.head().rows == keeper.keeping.rows;
        if !fits || !(first..end).contains(&have) || !first.is_multiple_of(CHUNK_TOKENS) || end >= tokens.len() {
            return Recalled::Misfit;
        }
        if let Err(error) = self.reserve(backend, seq, end - have) {
            return Recalled::NoPages(error);
        }
        let Keeper { keeping, geometry, .. } = self.keeper.as_ref().expect(KEEPS);
        let began = keeping.tiers.clock().now();
        let pages = have / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS);
        for index in pages.clone() {
            let page = self.pages(seq)[index];
            geometry.place(backend, page, restored.payload(), index - first / PAGE_TOKENS);
        }
        if restored.place() == Place::Ram {
            // What other places give is copied while the next is read.
            let bytes = geometry.chunk_bytes(pages.len() * PAGE_TOKENS);
            keeping.tiers.copied(Place::Ram, bytes, keeping.tiers.clock().now().saturating_sub(began));
        }
        self.advance(seq, &tokens[have..end]);
        Recalled::Tokens(end - have, restored.place())
    }
}
