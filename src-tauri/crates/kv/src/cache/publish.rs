//! Publishes the pages of sequences in the trie, so that later requests find them.
//!
//! If the trie has the same page already, the sequence continues with that one, unless its own has rows that the other lacks.

use std::sync::Arc;

use cairn_tensor::{PAGE_TOKENS, PageId};
use cairn_tier::Key;

use super::{Cache, OPEN, SeqId};
use crate::trie::{NodeId, Trie};

impl Cache {
    /// Publishes the sequence's first unpublished full page.
    pub(super) fn publish_page(&mut self, seq: SeqId) {
        let sequence = self.sequences.get(&seq).expect(OPEN);
        let (index, parent) = (sequence.published, sequence.node);
        let keys: Arc<[Key]> = Arc::from(&sequence.keys[index * PAGE_TOKENS..][..PAGE_TOKENS]);
        let page = sequence.pages[index];
        let node = match self.trie.child(parent, &keys) {
            Some(node) => {
                let published = self.trie.page(node);
                if published != page
                    && self.pool.is_missing_window_rows(published)
                    && !self.pool.is_missing_window_rows(page)
                {
                    self.replace(node, page, index);
                } else if published != page {
                    self.pool.share_snapshot(page, published);
                    self.sequence_mut(seq).pages[index] = published;
                    self.hold(published);
                    self.release(page);
                }
                node
            }
            None => self.insert_node(parent, &keys, page),
        };
        let sequence = self.sequence_mut(seq);
        sequence.node = node;
        sequence.published += 1;
    }

    /// Publishes the page after the last full one, unless the trie has a longer one. Returns the last node whose page is the sequence's.
    pub(super) fn publish_tail(&mut self, seq: SeqId) -> NodeId {
        let sequence = self.sequences.get(&seq).expect(OPEN);
        let (index, parent) = (sequence.published, sequence.node);
        let keys: Arc<[Key]> = Arc::from(sequence.tail());
        if keys.is_empty() || sequence.private || self.published_tail(seq).is_some() {
            return parent;
        }
        let page = sequence.pages[index];
        if let Some(shorter) = self.pool.node(page) {
            // A fork that shared this page was truncated and closed first. The sequence still holds the page.
            self.remove_node(shorter);
        }
        if let Some(node) = self.trie.child(parent, &keys) {
            self.replace(node, page, index);
            return node;
        }
        self.insert_node(parent, &keys, page)
    }

    /// Returns the node of another page that has the rows of this sequence's tail.
    pub(super) fn published_tail(&self, seq: SeqId) -> Option<NodeId> {
        let sequence = self.sequences.get(&seq).expect(OPEN);
        let keys = sequence.tail();
        let (node, shared) = self.nearest(sequence.node, keys).filter(|_| !keys.is_empty() && !sequence.private)?;
        (shared == keys.len() && !self.pool.is_missing_window_rows(self.trie.page(node))).then_some(node)
    }

    /// Adds a node for a page that a sequence holds. Removes shorter tails, which are of no use beside it.
    fn insert_node(&mut self, parent: NodeId, keys: &[Key], page: PageId) -> NodeId {
        let node = self.trie.insert(parent, keys, page);
        self.pool.set_node(page, Some(node));
        for shorter in shorter_tails(&self.trie, parent, keys) {
            if !self.pool.is_missing_window_rows(page) || self.pool.is_missing_window_rows(self.trie.page(shorter)) {
                self.remove_node(shorter);
            }
        }
        node
    }
}

/// Cached tails that are prefixes of `keys`.
fn shorter_tails(trie: &Trie, parent: NodeId, keys: &[Key]) -> Vec<NodeId> {
    let tails = (1..keys.len()).filter_map(|len| trie.child(parent, &keys[..len]));
    tails.filter(|&node| trie.is_idle(node)).collect()
}
