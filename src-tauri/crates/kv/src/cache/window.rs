//! Layers that attend to a window: from where a sequence can go on, when not all pages have those layers' rows.
//!
//! Tiers keep the rows of such layers only near places where a sequence may go on, so pages that came back from there may lack
//! them. **Invariant:** outside of a recall, every sequence has all rows that the token after its last one sees: those of the last
//! `window` positions, in pages that are not windowless. Whatever would end a sequence elsewhere ends it earlier.

use std::ops::Range;

use cairn_tensor::{PAGE_TOKENS, PageId};
use cairn_tier::Held;
use cairn_tier::Key;

use super::{Cache, OPEN, SeqId};
use crate::trie::NodeId;

/// Rows of windows are kept before every multiple of this, so that an edit anywhere costs no more than this many tokens.
const STRIDE_TOKENS: usize = 2048;

/// Where others may go on from a sequence.
pub(super) struct Anchors {
    pub(super) window_tokens: Option<usize>,
    /// Where its turns ended. The last of them is its end.
    pub(super) turns: [usize; 3],
}

impl Anchors {
    /// Whether the layers with a window see any of these positions from an anchor.
    pub(super) fn see(&self, tokens: &Range<usize>) -> bool {
        let Some(window) = self.window_tokens else { return false };
        let stride = tokens.end.next_multiple_of(STRIDE_TOKENS);
        let sees = |anchor: usize| anchor.saturating_sub(window) < tokens.end && tokens.start < anchor;
        self.turns.iter().any(|&anchor| sees(anchor)) || (stride <= self.turns[2] && sees(stride))
    }
}

impl Cache {
    /// The longest beginning of `len` tokens in these pages that all layers can go on from.
    pub(super) fn usable_end(&self, pages: &[PageId], len: usize) -> usize {
        let Some(window) = self.window_tokens else { return len };
        let mut end = len;
        loop {
            let seen = end.saturating_sub(window) / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS);
            match seen.rev().find(|&index| self.pool.is_windowless(pages[index])) {
                Some(hole) => end = hole * PAGE_TOKENS,
                None => return end,
            }
        }
    }

    /// What a sequence has, as tiers are told it: `tokens` rows of layers that see all, and those of windows without a hole up to
    /// its end.
    pub(super) fn held(&self, seq: SeqId, tokens: usize) -> Held {
        let sequence = self.sequence(seq);
        let end = sequence.keys.len();
        let pages = &sequence.pages[..end.div_ceil(PAGE_TOKENS)];
        let whole = pages.iter().rev().take_while(|&&page| !self.pool.is_windowless(page)).count();
        Held { tokens, window: (pages.len() - whole) * PAGE_TOKENS..end }
    }

    /// The child that shares the most leading keys; where that one lacks rows, a tail that has them and shares fewer.
    pub(super) fn nearest(&self, parent: NodeId, keys: &[Key]) -> Option<(NodeId, usize)> {
        let (node, shared) = self.trie.nearest(parent, keys)?;
        if !self.pool.is_windowless(self.trie.page(node)) {
            return Some((node, shared));
        }
        let has_rows = |len: usize| {
            let tail = self.trie.child(parent, &keys[..len])?;
            (!self.pool.is_windowless(self.trie.page(tail))).then_some((tail, len))
        };
        (1..=shared).rev().find_map(has_rows).or(Some((node, shared)))
    }

    /// Lets a page with all rows, which is page `index` of a sequence, stand for a node whose page lacks some. All sequences with
    /// the old page go on with the new one, since whoever has what continues a node must have the node's own page.
    pub(super) fn replace(&mut self, node: NodeId, page: PageId, index: usize) {
        let old = self.trie.page(node);
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

    /// Ends a recall with what is of use of it. Returns the sequence's tokens.
    pub(super) fn settle(&mut self, seq: SeqId) -> usize {
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        if sequence.usable.take().is_some() {
            let len = sequence.keys.len();
            let end = self.usable_end(&self.sequence(seq).pages, len);
            self.cut(seq, end);
            self.sequence_mut(seq).turns[0] = end;
        }
        self.sequence(seq).keys.len()
    }

    /// Ends a recall that nobody waits for any more: the sequence is as long as its owner was told.
    pub(super) fn abandon(&mut self, seq: SeqId) {
        if let Some(usable) = self.sequences.get_mut(&seq).expect(OPEN).usable.take() {
            self.cut(seq, usable);
        }
    }
}
