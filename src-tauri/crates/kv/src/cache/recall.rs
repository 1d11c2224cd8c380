//! The way in: chunks from the tiers become pages of a sequence.
//!
//! A recall begins where the rows in memory end. Its chunks are written into the sequence's own new pages and filed as if they had
//! been computed; whatever ends it early, the sequence goes on by computing the rest.
//!
//! Where some layers have a window, only those of their rows come that the end of the recall sees. Other pages are filed without
//! them, and pages that lay in memory without them are replaced by copies that have them. So nothing of such a recall is of use
//! before its end, and its tokens are told only then.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use cairn_tensor::{Backend, PAGE_TOKENS, PageId};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::tiers::Why;
use cairn_tier::{Choice, End, Group, Key, Miss, Next, Place, Restored, Restoring};

use super::keep::Keeper;
use super::{Cache, Error, Known, SeqId};
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
    /// Rows of windows, which wait for the others of their chunk.
    window: Option<Restored>,
    /// Where tokens came from that have not been told.
    came: Vec<(usize, Place)>,
    /// What is to be told before anything else.
    told: VecDeque<Recalled>,
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
    /// So many more tokens of the sequence, from there. None where what came is of use only with what is still to come.
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
            Self::Ended(End::Deadline | End::Silence) => Some(Because::Deadline),
            Self::Ended(End::Missed(Miss::Damaged(_))) => Some(Because::Corrupt),
            Self::Ended(End::Missed(Miss::Other(_))) | Self::Misfit => Some(Because::Incompatible),
            Self::Ended(End::Missed(Miss::Absent | Miss::Foreign | Miss::Tier(_)) | End::Closed) => Some(Because::Miss),
            Self::NoPages(_) => Some(Because::NoPages),
        }
    }
}

impl Cache {
    /// What the tiers have of this sequence's tokens beyond what it has, as far as bringing it back is quicker than computing it.
    pub fn recall(&mut self, seq: SeqId, tokens: &[u32]) -> Lookup {
        self.look_up(seq, tokens, false)
    }

    /// As [`Cache::recall`], of what this machine's own tiers have: for a sequence that computes because a place far away kept it waiting.
    pub fn recall_near(&mut self, seq: SeqId, tokens: &[u32]) -> Option<Recall> {
        self.look_up(seq, tokens, true).recall
    }

    fn look_up(&mut self, seq: SeqId, tokens: &[u32], only_near: bool) -> Lookup {
        let have = self.len(seq);
        let usable = tokens.len().saturating_sub(1);
        let space = self.sequence(seq).whose.space.clone();
        let missing = |kept: usize, why| Recomputed::of(why, usable.saturating_sub(kept.max(have)));
        let keys: Vec<Key> = tokens[..usable].iter().copied().map(Key::token).collect();
        let known = self
            .window_tokens
            .map(|_| self.known(self.trie.root_of(self.sequence(seq).node), &keys))
            .filter(|known| known.tokens > have);
        let in_memory = known.as_ref().map_or(have, |known| known.tokens);
        let held = self.held(seq, in_memory);
        let Some(Keeper { keeping, costs, .. }) = &mut self.keeper else {
            return Lookup { recall: None, recomputed: missing(have, Because::Miss) };
        };
        let coverage = keeping.tiers.find_after(&keeping.within(space.as_deref()).prefix(keys.into()), held);
        let coverage = if only_near { coverage.near() } else { coverage };
        let kept = coverage.tokens();
        let mut recomputed = match keeping.tiers.why(&coverage, have) {
            Why::OtherArithmetic(_) | Why::Rounded | Why::Suspect => missing(kept, Because::Incompatible),
            _ => missing(kept, Because::Miss),
        };
        if kept <= have {
            if !only_near {
                keeping.tiers.touch(&coverage);
            }
            return Lookup { recall: None, recomputed };
        }
        let choice = keeping.tiers.choose(costs, have, &coverage);
        let end = choice.map_or(have, |choice| choice.end);
        recomputed += Recomputed::of(Because::Cheaper, kept - end);
        let Some(choice) = choice else { return Lookup { recall: None, recomputed } };
        let began = keeping.tiers.clock().now();
        // Rows come by whole pages.
        let from = if end > in_memory { in_memory / PAGE_TOKENS * PAGE_TOKENS } else { end };
        let restoring = keeping.tiers.restore(&coverage, from..end, choice.within);
        let whole = self.sequence(seq).published * PAGE_TOKENS;
        self.cut(seq, if known.is_some() { whole } else { from.min(have) });
        if self.window_tokens.is_some() {
            // The page that holds the end went too, and from its beginning layers with a window may see a hole.
            let sequence = self.sequence(seq);
            let usable = self.usable_end(&sequence.pages, sequence.keys.len());
            self.sequence_mut(seq).usable = Some(usable);
        }
        if let Some(known) = known {
            self.adopt(seq, &known, &tokens[..from]);
        }
        let (window, came, told) = (None, Vec::new(), VecDeque::new());
        let recall = Recall { restoring, have, choice, began, farthest: None, window, came, told };
        Lookup { recall: Some(recall), recomputed }
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

    /// Lets a sequence of whole pages go on with those that the trie knows, up to the end of these tokens.
    fn adopt(&mut self, seq: SeqId, known: &Known, tokens: &[u32]) {
        let first = self.sequence(seq).published;
        for &node in &known.nodes[first..tokens.len().div_ceil(PAGE_TOKENS)] {
            let page = self.trie.page(node);
            self.hold(page);
            self.sequence_mut(seq).pages.push(page);
        }
        let sequence = self.sequence_mut(seq);
        sequence.keys.extend(tokens[first * PAGE_TOKENS..].iter().copied().map(Key::token));
        sequence.published = tokens.len() / PAGE_TOKENS;
        if let Some(last) = sequence.published.checked_sub(1) {
            sequence.node = known.nodes[last];
        }
    }

    /// Brings the next chunk that has arrived into the sequence, without waiting for one.
    pub fn absorb(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: &[u32], recall: &mut Recall) -> Recalled {
        if let Some(next) = recall.told.pop_front() {
            return next;
        }
        let last = match recall.restoring.try_next() {
            Next::Waiting => return Recalled::Waiting,
            Next::Ended(end) => Recalled::Ended(end),
            Next::Ready(restored) => match self.take(backend, seq, tokens, recall, restored) {
                Ok(taken) => {
                    if let Recalled::Tokens(_, place) = taken {
                        recall.farthest = recall.farthest.max(Some(place));
                    }
                    return taken;
                }
                Err(refused) => refused,
            },
        };
        self.finish(seq, recall, last)
    }

    /// Tells of the tokens that a recall brought, if that has not been done, and then of its end.
    fn finish(&mut self, seq: SeqId, recall: &mut Recall, last: Recalled) -> Recalled {
        let before = self.len(seq);
        let mut gained = self.settle(seq) - before;
        while let Some((tokens, place)) = recall.came.pop() {
            // The first place stands for what lay in memory and was of no use without what came from there.
            let theirs = if recall.came.is_empty() { gained } else { tokens.min(gained) };
            gained -= theirs;
            if theirs > 0 {
                recall.told.push_back(Recalled::Tokens(theirs, place));
            }
        }
        recall.told.push_back(last);
        recall.told.pop_front().expect("the end was just put there")
    }

    fn take(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        tokens: &[u32],
        recall: &mut Recall,
        restored: Restored,
    ) -> Result<Recalled, Recalled> {
        let (first, place) = (restored.head().first_position as usize, restored.place());
        let (have, end) = (self.sequence(seq).keys.len(), first + restored.rows());
        let group = restored.head().id.group;
        if !self.fits(&restored) || !first.is_multiple_of(CHUNK_TOKENS) || end >= tokens.len() {
            return Err(Recalled::Misfit);
        }
        if group == Group::Window {
            for index in first / PAGE_TOKENS..end.min(have).div_ceil(PAGE_TOKENS) {
                if covers(&restored, index, have) {
                    self.complete(backend, seq, index, &restored).map_err(Recalled::NoPages)?;
                }
            }
            recall.window = Some(restored);
            recall.came.push((0, place));
            return Ok(Recalled::Tokens(0, place));
        }
        if !(first..end).contains(&have) {
            return Err(Recalled::Misfit);
        }
        self.provide(backend, seq, end - have).map_err(Recalled::NoPages)?;
        let window = recall.window.take().filter(|window| window.head().first_position as usize == first);
        let began = self.now();
        for index in have / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS) {
            let page = self.sequence(seq).pages[index];
            self.place(backend, page, &restored, index);
            if self.window_tokens.is_none() {
                continue;
            }
            self.pool.set_windowless(page, true);
            if let Some(window) = window.as_ref().filter(|window| covers(window, index, end)) {
                self.place(backend, page, window, index);
                self.pool.set_windowless(page, false);
            }
        }
        if place == Place::Ram {
            // What other places give is copied while the next is read.
            let Keeper { keeping, geometry, .. } = self.keeper.as_ref().expect(KEEPS);
            let bytes =
                geometry.chunk_bytes(group, end.next_multiple_of(PAGE_TOKENS) - have / PAGE_TOKENS * PAGE_TOKENS);
            keeping.tiers.copied(Place::Ram, bytes, self.now().saturating_sub(began));
        }
        self.advance(seq, &tokens[have..end]);
        if self.window_tokens.is_none() {
            return Ok(Recalled::Tokens(end - have, place));
        }
        recall.came.push((end - have, place));
        Ok(Recalled::Tokens(0, place))
    }

    fn now(&self) -> Duration {
        self.keeper.as_ref().expect(KEEPS).keeping.tiers.clock().now()
    }

    /// Whether a chunk is made as this model's are.
    fn fits(&self, restored: &Restored) -> bool {
        let keeper = self.keeper.as_ref().expect(KEEPS);
        let head = restored.head();
        head.sections == keeper.geometry.sections(head.id.group, head.keys.len()) && head.rows == keeper.keeping.rows
    }

    /// Writes a chunk's rows into page `index` of a sequence.
    fn place(&self, backend: &mut dyn Backend, page: PageId, restored: &Restored, index: usize) {
        let head = restored.head();
        let nth = index - head.first_position as usize / PAGE_TOKENS;
        self.keeper.as_ref().expect(KEEPS).geometry.place(backend, head.id.group, page, restored.payload(), nth);
    }

    /// Gives page `index` of a sequence the rows of windows that it lacks. A page that others know is not written: a copy of it takes
    /// its place everywhere.
    fn complete(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        index: usize,
        window: &Restored,
    ) -> Result<(), Error> {
        let old = self.sequence(seq).pages[index];
        if !self.pool.is_windowless(old) {
            return Ok(());
        }
        self.make_room(backend, 1)?;
        let page = self.pool.take().expect("make_room left a free page");
        let sequence = self.sequence_mut(seq);
        let (used, published) = ((sequence.keys.len() - index * PAGE_TOKENS).min(PAGE_TOKENS), sequence.published);
        sequence.pages[index] = page;
        backend.copy_page(old, page, used);
        self.place(backend, page, window, index);
        if let Some(node) = self.pool.node(old).filter(|_| index < published) {
            self.replace(node, page, index);
        }
        self.release(old);
        Ok(())
    }
}

/// Whether a chunk has the rows of page `index` of a sequence of `len` tokens.
fn covers(window: &Restored, index: usize, len: usize) -> bool {
    ((index + 1) * PAGE_TOKENS).min(len) <= window.head().first_position as usize + window.rows()
}
