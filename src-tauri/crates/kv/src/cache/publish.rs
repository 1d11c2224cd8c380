//! How pages that a sequence has filled become known to later requests.
//!
//! Where the same page is known already, the sequence goes on with that one, unless its own has rows that the other lacks.

use std::sync::Arc;

use cairn_tensor::{PAGE_TOKENS, PageId};
use cairn_tier::Key;

use super::{Cache, OPEN, SeqId};
use crate::trie::{NodeId, Trie};

impl Cache {
    /// Files the sequence's first unpublished full page.
    pub(super) fn publish_page(&mut self, seq: SeqId) {
        let sequence = self.sequences.get(&seq).expect(OPEN);
        let (index, parent) = (sequence.published, sequence.node);
        let keys: Arc<[Key]> = Arc::from(&sequence.keys[index * PAGE_TOKENS..][..PAGE_TOKENS]);
        let page = sequence.pages[index];
        let node = match self.trie.child(parent, &keys) {
            Some(node) => {
                let known = self.trie.page(node);
                if known != page && self.pool.is_windowless(known) && !self.pool.is_windowless(page) {
                    self.replace(node, page, index);
                } else if known != page {
                    self.sequence_mut(seq).pages[index] = known;
                    self.hold(known);
                    self.release(page);
                }
                node
            }
            None => self.file(parent, &keys, page),
        };
        let sequence = self.sequence_mut(seq);
        sequence.node = node;
        sequence.published += 1;
    }

    /// Files the page after the last full one, unless a longer one is known. Returns the last node whose page is the sequence's.
    pub(super) fn publish_tail(&mut self, seq: SeqId) -> NodeId {
        let sequence = self.sequences.get(&seq).expect(OPEN);
        let (index, parent) = (sequence.published, sequence.node);
        let keys: Arc<[Key]> = Arc::from(sequence.tail());
        let whole =
            |&(node, shared): &(NodeId, usize)| shared == keys.len() && !self.pool.is_windowless(self.trie.page(node));
        if keys.is_empty() || sequence.private || self.nearest(parent, &keys).as_ref().is_some_and(whole) {
            return parent;
        }
        let page = sequence.pages[index];
        if let Some(shorter) = self.pool.node(page) {
            // A fork that shared this page was cut shorter and closed first. The sequence still holds the page.
            self.forget(shorter);
        }
        if let Some(node) = self.trie.child(parent, &keys) {
            self.replace(node, page, index);
            return node;
        }
        self.file(parent, &keys, page)
    }

    /// Adds a node for a page that a sequence holds, in place of shorter ones that are of no use beside it.
    fn file(&mut self, parent: NodeId, keys: &[Key], page: PageId) -> NodeId {
        let node = self.trie.insert(parent, keys, page);
        self.pool.set_node(page, Some(node));
        for shorter in shorter_tails(&self.trie, parent, keys) {
            if !self.pool.is_windowless(page) || self.pool.is_windowless(self.trie.page(shorter)) {
                self.forget(shorter);
            }
        }
        node
    }
}

/// Cached tails that `keys` continue, and which are therefore of no use beside them.
fn shorter_tails(trie: &Trie, parent: NodeId, keys: &[Key]) -> Vec<NodeId> {
    let tails = (1..keys.len()).filter_map(|len| trie.child(parent, &keys[..len]));
    tails.filter(|&node| trie.is_idle(node)).collect()
}
