//! Restores chunks from the tiers into pages of a sequence.
//!
//! A restore begins after the rows in memory. Its chunks are written to new pages of the sequence and published like computed ones.
//! If it ends early, the sequence computes the rest.
//!
//! For window layers, a restore reads only the rows that the end of the restore attends to. Other pages are published without them,
//! and pages in memory that lack them are replaced by copies that have them. The tokens of such a restore are usable, and are
//! reported, only at its end. The same is true for recurrent layers: a restore reads the states after its last token, and no others.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_tensor::{Backend, PAGE_TOKENS, PageId};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::tiers::MissReason;
use cairn_tier::{self as tier, Group, Key, Miss, RestoreEnd, RestorePlan, RestoredChunk, TierKind};

use super::flush::TierState;
use super::{Cache, Error, SeqId, TrieMatch};
use crate::recomputed::{RecomputeReason, RecomputedTokens};

/// Why a restore finds the tiers that it was begun with.
const HAS_TIERS: &str = "only a cache with tiers begins a restore";

/// Maximum time between polls of a pending restore: the clock of the tiers may differ from the system's.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A restore in progress. Dropping it cancels it.
pub struct Restore {
    restoring: tier::Restore,
    /// Tokens whose rows were in pages at the start.
    have: usize,
    choice: RestorePlan,
    began: Duration,
    slowest: Option<TierKind>,
    /// Rows of window layers, which wait for the other rows of their chunk.
    window: Option<RestoredChunk>,
    /// Restored tokens that have not been reported, and their tiers.
    unreported: Vec<(usize, TierKind)>,
    /// Results to report next.
    results: VecDeque<RestorePoll>,
}

impl std::fmt::Debug for Restore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restore").field("have", &self.have).field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl Restore {
    /// The estimates with which it began.
    pub fn choice(&self) -> RestorePlan {
        self.choice
    }
}

/// Result of a lookup in the tiers.
#[derive(Debug, Default)]
pub struct RestoreLookup {
    /// The restore that began, if it is faster than computing.
    pub restore: Option<Restore>,
    /// Tokens that will be computed in any case, by reason.
    pub recomputed: RecomputedTokens,
}

/// Summary of a restore that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// Restored tokens.
    pub restored_tokens: usize,
    /// Tokens that were not restored as planned.
    pub missing_tokens: usize,
    /// The slowest tier used.
    pub slowest: Option<TierKind>,
    /// Duration of the restore.
    pub took: Duration,
    /// Estimated time to compute the restored tokens, from recent measurements.
    pub recompute: Duration,
}

/// Result of polling a restore.
#[derive(Debug)]
pub enum RestorePoll {
    /// This many more tokens are usable, restored from this tier. Zero if they are usable only with chunks that are still to come.
    Tokens(usize, TierKind),
    /// The next chunk has not arrived.
    Pending,
    /// The tiers ended the restore.
    Ended(RestoreEnd),
    /// The restore ended because running sequences hold all pages.
    NoPages(Error),
    /// The restore ended because a chunk does not have the layout of this model.
    LayoutMismatch,
}

impl RestorePoll {
    /// Returns why the remaining tokens must be computed, if the restore ended early.
    pub fn recompute_reason(&self) -> Option<RecomputeReason> {
        match self {
            Self::Tokens(..) | Self::Pending | Self::Ended(RestoreEnd::Complete) => None,
            Self::Ended(RestoreEnd::Deadline | RestoreEnd::NoResponse) => Some(RecomputeReason::Deadline),
            Self::Ended(RestoreEnd::Missed(Miss::Damaged(_))) => Some(RecomputeReason::Corrupt),
            Self::Ended(RestoreEnd::Missed(Miss::Mismatch(_))) | Self::LayoutMismatch => {
                Some(RecomputeReason::Incompatible)
            }
            Self::Ended(RestoreEnd::Missed(Miss::Absent | Miss::Foreign | Miss::Tier(_)) | RestoreEnd::Closed) => {
                Some(RecomputeReason::Miss)
            }
            Self::NoPages(_) => Some(RecomputeReason::NoPages),
        }
    }
}

impl Cache {
    /// Starts to restore the rows of this sequence's tokens that are in tiers and not in pages, if that is faster than computing them.
    pub fn begin_restore<K: Copy + Into<Key>>(&mut self, seq: SeqId, tokens: &[K]) -> RestoreLookup {
        self.start_restore(seq, tokens, false)
    }

    /// Like [`Cache::begin_restore`], from local tiers only: for a sequence that computes because the remote tier was too slow.
    pub fn begin_local_restore<K: Copy + Into<Key>>(&mut self, seq: SeqId, tokens: &[K]) -> Option<Restore> {
        self.start_restore(seq, tokens, true).restore
    }

    fn start_restore<K: Copy + Into<Key>>(&mut self, seq: SeqId, tokens: &[K], only_local: bool) -> RestoreLookup {
        let have = self.len(seq);
        let usable = tokens.len().saturating_sub(1);
        let scope = self.sequence(seq).scope.name.clone();
        let missing = |stored: usize, reason| RecomputedTokens::new(reason, usable.saturating_sub(stored.max(have)));
        let keys: Vec<Key> = tokens[..usable].iter().copied().map(Into::into).collect();
        let in_trie = self
            .window_tokens
            .filter(|_| !self.is_recurrent())
            .map(|_| self.find_longest(self.trie.root_of(self.sequence(seq).node), &keys))
            .filter(|found| found.tokens > have);
        let in_memory = in_trie.as_ref().map_or(have, |found| found.tokens);
        let held = self.held_rows(seq, in_memory);
        let Some(TierState { model, costs, .. }) = &mut self.tiers else {
            return RestoreLookup { restore: None, recomputed: missing(have, RecomputeReason::Miss) };
        };
        let coverage = model.tiers.lookup_after(&model.in_scope(scope.as_deref()).prefix(keys.into()), held);
        let coverage = if only_local { coverage.without_remote() } else { coverage };
        let stored = coverage.tokens();
        let mut recomputed = match model.tiers.miss_reason(&coverage, have) {
            MissReason::NumericClass(_) | MissReason::Lossy | MissReason::Mismatch => {
                missing(stored, RecomputeReason::Incompatible)
            }
            _ => missing(stored, RecomputeReason::Miss),
        };
        if stored <= have {
            if !only_local {
                model.tiers.touch(&coverage);
            }
            return RestoreLookup { restore: None, recomputed };
        }
        let choice = model.tiers.plan_restore(costs, have, &coverage);
        let end = choice.map_or(have, |choice| choice.end);
        recomputed += RecomputedTokens::new(RecomputeReason::Cheaper, stored - end);
        let Some(choice) = choice else { return RestoreLookup { restore: None, recomputed } };
        let began = model.tiers.clock().now();
        // Rows are restored by whole pages.
        let from = if end > in_memory { in_memory / PAGE_TOKENS * PAGE_TOKENS } else { end };
        let mut restoring = model.tiers.restore(&coverage, from..end, choice.timeout);
        if let Some(waker) = &self.waker {
            restoring.set_waker(Arc::clone(waker));
        }
        let whole = self.sequence(seq).published * PAGE_TOKENS;
        self.cut(seq, if in_trie.is_some() { whole } else { from.min(have) });
        if self.has_gaps() {
            // The page with the end was dropped, so window layers may lack rows before it, and recurrent ones their states.
            let sequence = self.sequence(seq);
            let usable = self.usable_end(&sequence.pages, sequence.keys.len());
            self.sequence_mut(seq).usable = Some(usable);
            self.load_snapshot(seq);
        }
        if let Some(found) = in_trie {
            self.extend_from_trie(seq, &found, &tokens[..from]);
        }
        let (window, unreported, results) = (None, Vec::new(), VecDeque::new());
        let restore = Restore { restoring, have, choice, began, slowest: None, window, unreported, results };
        RestoreLookup { restore: Some(restore), recomputed }
    }

    /// Time until a pending restore must be polled even if no chunk arrives.
    pub fn restore_timeout(&self, restore: &Restore) -> Duration {
        restore.restoring.poll_within().min(MAX_POLL_INTERVAL)
    }

    /// Summary of a restore that has ended.
    pub fn restore_outcome(&self, seq: SeqId, restore: &Restore) -> RestoreOutcome {
        let reached = self.len(seq);
        let tiers = self.tiers.as_ref().expect(HAS_TIERS);
        RestoreOutcome {
            restored_tokens: reached.saturating_sub(restore.have),
            missing_tokens: restore.choice.end.saturating_sub(reached),
            slowest: restore.slowest,
            took: tiers.model.tiers.clock().now().saturating_sub(restore.began),
            recompute: tiers.costs.estimate_recompute(restore.have..reached.max(restore.have)),
        }
    }

    /// Records the time of a step that computed these positions of one sequence, and nothing else.
    pub fn add_compute_time(&mut self, tokens: Range<usize>, took: Duration) {
        if let Some(tiers) = &mut self.tiers {
            tiers.costs.record_compute(tokens, took);
        }
    }

    /// Extends a sequence of full pages with pages of the trie, up to the end of these tokens.
    fn extend_from_trie<K: Copy + Into<Key>>(&mut self, seq: SeqId, found: &TrieMatch, tokens: &[K]) {
        let first = self.sequence(seq).published;
        for &node in &found.nodes[first..tokens.len().div_ceil(PAGE_TOKENS)] {
            let page = self.trie.page(node);
            self.hold(page);
            self.sequence_mut(seq).pages.push(page);
        }
        let sequence = self.sequence_mut(seq);
        sequence.keys.extend(tokens[first * PAGE_TOKENS..].iter().copied().map(Into::into));
        sequence.published = tokens.len() / PAGE_TOKENS;
        if let Some(last) = sequence.published.checked_sub(1) {
            sequence.node = found.nodes[last];
        }
    }

    /// Writes the next chunk that has arrived to the sequence's pages. Never blocks.
    pub fn poll_restore<K: Copy + Into<Key>>(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        tokens: &[K],
        restore: &mut Restore,
    ) -> RestorePoll {
        if let Some(next) = restore.results.pop_front() {
            return next;
        }
        let last = match restore.restoring.try_next() {
            tier::RestorePoll::Pending => return RestorePoll::Pending,
            tier::RestorePoll::Ended(end) => RestorePoll::Ended(end),
            tier::RestorePoll::Ready(restored) => match self.write_chunk(backend, seq, tokens, restore, restored) {
                Ok(written) => {
                    if let RestorePoll::Tokens(_, place) = written {
                        restore.slowest = restore.slowest.max(Some(place));
                    }
                    return written;
                }
                Err(ended) => ended,
            },
        };
        self.end_restore(seq, restore, last)
    }

    /// Reports the tokens that have not been reported, and then the end of the restore.
    fn end_restore(&mut self, seq: SeqId, restore: &mut Restore, last: RestorePoll) -> RestorePoll {
        if restore.unreported.is_empty() {
            // Other sequences may have made more tokens usable, but no tier restored them.
            self.cancel_restore(seq);
            return last;
        }
        let before = self.len(seq);
        let mut gained = self.finish_restore(seq) - before;
        while let Some((tokens, place)) = restore.unreported.pop() {
            // The first tier also counts the tokens in memory that were unusable without its rows.
            let counted = if restore.unreported.is_empty() { gained } else { tokens.min(gained) };
            gained -= counted;
            if counted > 0 {
                restore.results.push_back(RestorePoll::Tokens(counted, place));
            }
        }
        restore.results.push_back(last);
        restore.results.pop_front().expect("the end was just added")
    }

    fn write_chunk<K: Copy + Into<Key>>(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        tokens: &[K],
        restore: &mut Restore,
        restored: RestoredChunk,
    ) -> Result<RestorePoll, RestorePoll> {
        let (first, place) = (restored.head().first_position as usize, restored.tier());
        let (have, end) = (self.sequence(seq).keys.len(), first + restored.rows());
        let group = restored.head().id.group;
        let is_cut = self.is_recurrent() && group == Group::Window && restored.rows() < restored.head().keys.len();
        if is_cut || !self.fits(&restored) || !first.is_multiple_of(CHUNK_TOKENS) || end >= tokens.len() {
            return Err(RestorePoll::LayoutMismatch);
        }
        if group == Group::Window {
            for index in first / PAGE_TOKENS..end.min(have).div_ceil(PAGE_TOKENS) {
                if covers(&restored, index, have) {
                    self.add_window_rows(backend, seq, index, &restored).map_err(RestorePoll::NoPages)?;
                }
            }
            restore.window = Some(restored);
            restore.unreported.push((0, place));
            return Ok(RestorePoll::Tokens(0, place));
        }
        if !(first..end).contains(&have) {
            return Err(RestorePoll::LayoutMismatch);
        }
        self.reserve_pages(backend, seq, end - have).map_err(RestorePoll::NoPages)?;
        let window = restore.window.take().filter(|window| window.head().first_position as usize == first);
        let began = self.now();
        for index in have / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS) {
            let page = self.sequence(seq).pages[index];
            self.place(backend, page, &restored, index);
            if self.window_tokens.is_none() {
                continue;
            }
            self.pool.set_missing_window_rows(page, true);
            if let Some(window) = window.as_ref().filter(|window| covers(window, index, end)) {
                self.place(backend, page, window, index);
                self.pool.set_missing_window_rows(page, false);
            }
        }
        if place == TierKind::Ram {
            // Chunks of other tiers are copied while the next one is read.
            let TierState { model, geometry, .. } = self.tiers.as_ref().expect(HAS_TIERS);
            let bytes =
                geometry.chunk_bytes(group, end.next_multiple_of(PAGE_TOKENS) - have / PAGE_TOKENS * PAGE_TOKENS);
            model.tiers.record_copy(TierKind::Ram, bytes, self.now().saturating_sub(began));
        }
        self.add_rows(seq, &tokens[have..end]);
        if let Some(window) = window.filter(|window| window.head().first_position as usize + window.rows() == end) {
            self.place_states(backend, seq, &window, end, end == restore.choice.end);
        }
        self.publish_pages(seq);
        if !self.has_gaps() {
            return Ok(RestorePoll::Tokens(end - have, place));
        }
        restore.unreported.push((end - have, place));
        Ok(RestorePoll::Tokens(0, place))
    }

    fn now(&self) -> Duration {
        self.tiers.as_ref().expect(HAS_TIERS).model.tiers.clock().now()
    }

    /// Whether a chunk has the layout of this model.
    fn fits(&self, restored: &RestoredChunk) -> bool {
        let tiers = self.tiers.as_ref().expect(HAS_TIERS);
        let head = restored.head();
        head.sections == tiers.geometry.sections(head.id.group, head.keys.len()) && head.rows == tiers.model.rows
    }

    /// Writes a chunk's rows into page `index` of a sequence.
    fn place(&self, backend: &mut dyn Backend, page: PageId, restored: &RestoredChunk, index: usize) {
        let head = restored.head();
        let nth = index - head.first_position as usize / PAGE_TOKENS;
        self.tiers.as_ref().expect(HAS_TIERS).geometry.place(backend, head.id.group, page, restored.payload(), nth);
    }

    /// Whether a sequence cannot continue at every restored token.
    fn has_gaps(&self) -> bool {
        self.window_tokens.is_some() || self.is_recurrent()
    }

    /// Writes the states after the last token of a chunk to a snapshot of its last page. Other than those at the end of the restore are
    /// of use for other sequences only, so nothing is evicted for them.
    fn place_states(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        restored: &RestoredChunk,
        end: usize,
        last: bool,
    ) {
        if !self.is_recurrent() {
            return;
        }
        let Some(id) = self.take_restored(backend, last) else { return };
        let geometry = &self.tiers.as_ref().expect(HAS_TIERS).geometry;
        geometry.place_states(backend, restored.head().id.group, id, restored.payload());
        self.attach(seq, end, id);
        self.pool.snapshots_mut().release(id);
    }

    /// Adds the missing window rows to page `index` of a sequence. Other sequences may share the page, so the rows are
    /// written to a copy that replaces the page in all of them.
    fn add_window_rows(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        index: usize,
        window: &RestoredChunk,
    ) -> Result<(), Error> {
        let old = self.sequence(seq).pages[index];
        if !self.pool.is_missing_window_rows(old) {
            return Ok(());
        }
        self.make_room(backend, 1)?;
        let page = self.pool.take().expect("make_room freed a page");
        let sequence = self.sequence_mut(seq);
        let (used, published) = ((sequence.keys.len() - index * PAGE_TOKENS).min(PAGE_TOKENS), sequence.published);
        sequence.pages[index] = page;
        backend.copy_page(old, page, used);
        self.pool.share_snapshot(old, page);
        self.place(backend, page, window, index);
        if let Some(node) = self.pool.node(old).filter(|_| index < published) {
            self.replace(node, page, index);
        }
        self.release(old);
        Ok(())
    }
}

/// Whether a chunk has the rows of page `index` of a sequence of `len` tokens.
fn covers(window: &RestoredChunk, index: usize, len: usize) -> bool {
    ((index + 1) * PAGE_TOKENS).min(len) <= window.head().first_position as usize + window.rows()
}
