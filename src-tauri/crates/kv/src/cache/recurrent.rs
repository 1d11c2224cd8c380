//! Recurrent layers: where a sequence can continue, and the snapshots that its steps read and write.
//!
//! A page grows token by token, but a recurrent state exists only after the last token of a step. So a sequence can continue only at a
//! token after which a snapshot was taken: at the last multiple of 256 in each step, at each multiple of a stride that grows with the
//! size of a snapshot, and where a sequence has ended. A snapshot belongs to the page with that token, and is shared and evicted
//! with it.
//!
//! **Invariant:** outside of a restore, every sequence with tokens has the snapshot after its last one.

use cairn_tensor::{Backend, PAGE_TOKENS, PageId, SnapshotId, SnapshotTable};
use cairn_tier::identity::CHUNK_TOKENS;

use super::{Cache, Error, OPEN, SeqId};
use crate::pool::PageSnapshot;
use crate::trie::NodeId;

impl Cache {
    /// Whether the model has recurrent layers.
    pub(super) fn is_recurrent(&self) -> bool {
        self.pool.snapshots().are_needed()
    }

    /// The snapshots that the reserved step of a sequence reads and writes. Empty for a model without recurrent layers.
    pub fn write_snapshots(&self, seq: SeqId, table: &mut SnapshotTable) {
        let sequence = self.sequence(seq);
        table.from = sequence.snapshot.map(|snapshot| snapshot.id);
        table.to.clone_from(&sequence.targets);
    }

    /// The longest prefix of at most `len` tokens in these pages that has a snapshot.
    pub(super) fn snapshot_end(&self, pages: &[PageId], len: usize) -> usize {
        if !self.is_recurrent() {
            return len;
        }
        let ends = pages[..len.div_ceil(PAGE_TOKENS)].iter().rev().filter_map(|&page| self.pool.snapshot(page));
        ends.map(|snapshot| snapshot.tokens).find(|&tokens| tokens <= len).unwrap_or(0)
    }

    /// Gives a sequence the snapshot after its last usable token, unless it has it. Drops the snapshots of its reserved step.
    pub(super) fn load_snapshot(&mut self, seq: SeqId) {
        let (sequence, len) = (self.sequence(seq), self.len(seq));
        let has_own = sequence.snapshot.is_some_and(|own| own.tokens == len);
        if !self.is_recurrent() || has_own {
            self.drop_targets(seq);
            return;
        }
        let last = len.checked_sub(1).map(|last| sequence.pages[last / PAGE_TOKENS]);
        let found = last.and_then(|page| self.pool.snapshot(page)).filter(|snapshot| snapshot.tokens == len);
        self.set_snapshot(seq, found);
    }

    /// Replaces the snapshot of a sequence, and drops those that its reserved step would write.
    fn set_snapshot(&mut self, seq: SeqId, snapshot: Option<PageSnapshot>) {
        self.drop_targets(seq);
        if let Some(PageSnapshot { id, .. }) = snapshot {
            self.pool.snapshots_mut().hold(id);
        }
        if let Some(before) = std::mem::replace(&mut self.sequence_mut(seq).snapshot, snapshot) {
            self.pool.snapshots_mut().release(before.id);
        }
    }

    fn drop_targets(&mut self, seq: SeqId) {
        for (_, id) in std::mem::take(&mut self.sequence_mut(seq).targets) {
            self.pool.snapshots_mut().release(id);
        }
    }

    /// Drops all snapshots of a sequence that closes.
    pub(super) fn drop_snapshots(&mut self, seq: SeqId) {
        self.set_snapshot(seq, None);
    }

    /// Reserves the snapshots that the next `tokens` of a sequence write: at each multiple of the stride, at the last multiple of 256,
    /// and at the end. Those of a repeated step, or of a slice in progress, stay.
    pub(super) fn reserve_snapshots(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        tokens: usize,
    ) -> Result<(), Error> {
        let first = self.sequence(seq).keys.len();
        let end = first + tokens;
        let is_reserved = self.sequence(seq).targets.last().is_some_and(|(last, _)| *last as usize == end);
        if !self.is_recurrent() || tokens == 0 || is_reserved {
            return Ok(());
        }
        self.drop_targets(seq);
        let last = end / CHUNK_TOKENS;
        let boundaries = (first / CHUNK_TOKENS + 1..=(end - 1) / CHUNK_TOKENS)
            .map(|chunk| chunk * CHUNK_TOKENS)
            .filter(|tokens| tokens.is_multiple_of(self.state_stride) || *tokens == last * CHUNK_TOKENS);
        let ends: Vec<u32> = boundaries.chain([end]).map(|tokens| tokens as u32).collect();
        self.make_snapshot_room(backend, ends.len())?;
        for tokens in ends {
            let id = self.pool.snapshots_mut().take().expect("make_snapshot_room freed enough snapshots");
            self.sequence_mut(seq).targets.push((tokens, id));
        }
        Ok(())
    }

    /// Moves a sequence to the end of its reserved step, after a run that has written the step's snapshots. Its pages get those at
    /// multiples of 256.
    pub(super) fn advance_snapshots(&mut self, seq: SeqId) {
        if !self.is_recurrent() {
            return;
        }
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        let (len, targets) = (sequence.keys.len(), std::mem::take(&mut sequence.targets));
        let last = targets.last().filter(|(tokens, _)| *tokens as usize == len);
        let id = last.expect("reserve comes before advance").1;
        for &(tokens, id) in targets.iter().filter(|(tokens, _)| (*tokens as usize).is_multiple_of(CHUNK_TOKENS)) {
            self.attach(seq, tokens as usize, id);
        }
        self.set_snapshot(seq, Some(PageSnapshot { id, tokens: len }));
        targets.into_iter().for_each(|(_, id)| self.pool.snapshots_mut().release(id));
    }

    /// Adds the snapshot after the last token of a sequence to the page of the trie node with this token.
    pub(super) fn attach_last(&mut self, seq: SeqId, end: NodeId) {
        let snapshot = self.sequence(seq).snapshot;
        if let Some(snapshot) = snapshot.filter(|_| !self.trie.is_root(end)) {
            self.pool.add_snapshot(self.trie.page(end), snapshot);
        }
    }

    /// Adds a snapshot to the page of a sequence with the last of these tokens, unless it has one.
    pub(super) fn attach(&mut self, seq: SeqId, tokens: usize, id: SnapshotId) {
        let page = self.sequence(seq).pages[(tokens - 1) / PAGE_TOKENS];
        self.pool.add_snapshot(page, PageSnapshot { id, tokens });
    }

    /// Frees `need` snapshots: grows their pool to half of the pool's fair share, evicts those of idle pages, or grows beyond.
    pub(super) fn make_snapshot_room(&mut self, backend: &mut dyn Backend, need: usize) -> Result<(), Error> {
        while self.pool.snapshots().free() < need {
            let missing = need - self.pool.snapshots().free();
            let before = self.pool.snapshots().free();
            if self.pool.has_fair_snapshots() {
                self.pool.snapshots_mut().grow(backend, 1)?;
            }
            if self.pool.snapshots().free() > before || self.evict_snapshot(backend) {
                continue;
            }
            self.pool.snapshots_mut().grow(backend, missing)?;
            if self.pool.snapshots().free() == before {
                let bytes = self.pool.snapshots().bytes();
                return Err(Error::Full {
                    need_bytes: need as u64 * bytes,
                    free_bytes: before as u64 * bytes,
                    limit_bytes: self.pool.budget().limit(),
                });
            }
        }
        Ok(())
    }

    /// Takes a snapshot for a restored state, if there is one without eviction, or if it `must` be had.
    pub(super) fn take_restored(&mut self, backend: &mut dyn Backend, must: bool) -> Option<SnapshotId> {
        if !must && self.pool.snapshots().free() == 0 {
            let grown = self.pool.has_fair_snapshots().then(|| self.pool.snapshots_mut().grow(backend, 1));
            grown?.ok()?;
        }
        if must {
            self.make_snapshot_room(backend, 1).ok()?;
        }
        self.pool.snapshots_mut().take()
    }

    /// Drops the least recently used snapshot that only a page has. Of one conversation, the earliest is dropped first. Its chunk is
    /// flushed before, if it is due to be.
    fn evict_snapshot(&mut self, backend: &dyn Backend) -> bool {
        let captured = self.captured_node();
        let is_free = |node: Option<NodeId>| node.is_none() || node != captured;
        let candidates = self
            .pool
            .page_snapshots()
            .filter(|&(_, node, snapshot)| is_free(node) && self.pool.snapshots().has_one_holder(snapshot.id));
        let age = |node: Option<NodeId>| node.and_then(|node| self.trie.idle_since(node)).unwrap_or(u64::MAX);
        let oldest = candidates.min_by_key(|&(_, node, snapshot)| (age(node), snapshot.tokens));
        let Some((page, node, _)) = oldest else { return false };
        if let Some(node) = node {
            self.flush_before_evict(backend, node);
        }
        self.pool.drop_snapshot(page);
        true
    }
}
