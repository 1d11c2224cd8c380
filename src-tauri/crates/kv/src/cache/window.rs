//! Window layers: where a sequence can continue if some pages lack the rows of these layers.
//!
//! Tiers store the rows of window layers only near positions where a sequence may continue, so restored pages may lack them.
//!
//! **Invariant:** outside of a restore, every sequence has all rows that its next token attends to: those of the last `window` positions.
//! A sequence that would end elsewhere is truncated to the last such position.

use std::ops::Range;

use cairn_tensor::{PAGE_TOKENS, PageId};
use cairn_tier::Key;
use cairn_tier::ResidentRows;

use super::{Cache, OPEN, SeqId};
use crate::trie::NodeId;

/// Rows of window layers are stored before every multiple of this, so that an edit anywhere recomputes at most this many tokens.
pub(super) const STRIDE_TOKENS: usize = 2048;

/// Positions from which other sequences may continue.
pub(super) struct Anchors {
    pub(super) window_tokens: Option<usize>,
    /// Every multiple of this is one.
    pub(super) stride_tokens: usize,
    /// Ends of its turns. The last one is the end of the sequence.
    pub(super) turns: [usize; 3],
}

impl Anchors {
    /// Whether window layers attend to any of these positions from an anchor.
    pub(super) fn see(&self, tokens: &Range<usize>) -> bool {
        let Some(window) = self.window_tokens else { return false };
        let stride = tokens.end.next_multiple_of(self.stride_tokens);
        let sees = |anchor: usize| anchor.saturating_sub(window) < tokens.end && tokens.start < anchor;
        self.turns.iter().any(|&anchor| sees(anchor)) || (stride <= self.turns[2] && sees(stride))
    }
}

impl Cache {
    /// The longest prefix of `len` tokens in these pages from which all layers can continue.
    pub(super) fn usable_end(&self, pages: &[PageId], len: usize) -> usize {
        let len = self.snapshot_end(pages, len);
        let Some(window) = self.window_tokens else { return len };
        let mut end = len;
        loop {
            let seen = end.saturating_sub(window) / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS);
            match seen.rev().find(|&index| self.pool.is_missing_window_rows(pages[index])) {
                Some(gap) => end = self.snapshot_end(pages, gap * PAGE_TOKENS),
                None => return end,
            }
        }
    }

    /// The rows that a sequence has: `tokens` rows of full layers, and the rows of window layers without a gap before its end.
    pub(super) fn held_rows(&self, seq: SeqId, tokens: usize) -> ResidentRows {
        let sequence = self.sequence(seq);
        let end = sequence.keys.len();
        let pages = &sequence.pages[..end.div_ceil(PAGE_TOKENS)];
        let complete = pages.iter().rev().take_while(|&&page| !self.pool.is_missing_window_rows(page)).count();
        ResidentRows { tokens, window: (pages.len() - complete) * PAGE_TOKENS..end }
    }

    /// The child that shares the most leading keys. If it lacks rows, a tail that has them and shares fewer.
    pub(super) fn nearest(&self, parent: NodeId, keys: &[Key]) -> Option<(NodeId, usize)> {
        let (node, shared) = self.trie.nearest(parent, keys)?;
        if !self.pool.is_missing_window_rows(self.trie.page(node)) {
            return Some((node, shared));
        }
        let has_rows = |len: usize| {
            let tail = self.trie.child(parent, &keys[..len])?;
            (!self.pool.is_missing_window_rows(self.trie.page(tail))).then_some((tail, len))
        };
        (1..=shared).rev().find_map(has_rows).or(Some((node, shared)))
    }

    /// Replaces a node's page, which lacks rows, by a complete one, which is page `index` of a sequence. All sequences with the old page
    /// get the new one, because a sequence with a descendant of a node must have the node's page.
    pub(super) fn replace(&mut self, node: NodeId, page: PageId, index: usize) {
        let old = self.trie.page(node);
        self.pool.share_snapshot(old, page);
        self.trie.set_page(node, page);
        self.trie.set_idle(node, None);
        self.pool.set_node(old, None);
        self.pool.set_node(page, Some(node));
        let sharing: Vec<SeqId> = (self.sequences.iter())
            .filter(|(_, sequence)| sequence.pages.get(index) == Some(&old))
            .map(|(&seq, _)| seq)
            .collect();
        for seq in sharing {
            self.sequence_mut(seq).pages[index] = page;
            self.hold(page);
            self.release(old);
        }
    }

    /// Ends a restore and keeps the usable tokens. Returns their number.
    pub(super) fn finish_restore(&mut self, seq: SeqId) -> usize {
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        if let Some(usable) = sequence.usable.take() {
            let len = sequence.keys.len();
            // The sequence has the snapshot after its usable tokens, even if their page lost it.
            let end = self.usable_end(&self.sequence(seq).pages, len).max(usable);
            self.cut(seq, end);
            self.load_snapshot(seq);
            self.sequence_mut(seq).turns[0] = end;
        }
        self.sequence(seq).keys.len()
    }

    /// Cancels a restore. The sequence keeps the tokens that were reported.
    pub(super) fn cancel_restore(&mut self, seq: SeqId) {
        if let Some(usable) = self.sequences.get_mut(&seq).expect(OPEN).usable.take() {
            self.cut(seq, usable);
            self.load_snapshot(seq);
        }
    }
}
