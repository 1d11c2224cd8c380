//! Whose sequences are: what they may find, who may have it forgotten, and what nobody is to know of.
//!
//! Each space has a root of its own in the trie, so what was computed for one is never found from another, and how long an answer
//! took tells nobody what others have said. An incognito sequence finds what its space has and adds nothing to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use cairn_tensor::PAGE_TOKENS;
use cairn_tier::{Key, Owner};

use super::{Cache, SeqId};
use crate::trie::{NodeId, ROOT};

/// Spaces beyond which those are forgotten that hold nothing.
const SPACES: usize = 64;

/// Whose a sequence is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// What it shares prefixes with: others of the same space. Without a name it is this machine's user's.
    pub space: Option<Arc<str>>,
    /// Who may ask for what it leaves to be deleted.
    pub owner: Option<Owner>,
    /// Whether it is to leave nothing.
    pub incognito: bool,
}

/// What a cache has of a prompt at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Tokens from the beginning.
    pub tokens: usize,
    /// What it has after them, if anything: another token than the prompt.
    pub next: Option<Key>,
}

/// The roots of spaces that have a name.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    pub(super) roots: HashMap<Arc<str>, NodeId>,
}

impl Spaces {
    /// The name of the space with this root.
    pub(super) fn name(&self, root: NodeId) -> Option<&str> {
        self.roots.iter().find(|(_, own)| **own == root).map(|(name, _)| &**name)
    }
}

/// Who has used the page of a node.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<NodeId, BTreeSet<Owner>>);

impl Owners {
    /// Those of one node.
    pub(super) fn of(&self, node: NodeId) -> impl Iterator<Item = &Owner> {
        self.0.get(&node).into_iter().flatten()
    }

    /// The node has left the trie.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

impl Cache {
    /// What is in memory of a prompt, for people who want to know why it is not more. Counts as no use.
    pub fn peek(&self, tokens: &[u32], space: Option<&str>) -> Peek {
        let root = space.map_or(Some(ROOT), |name| self.spaces.roots.get(name).copied());
        let Some(mut node) = root else { return Peek { tokens: 0, next: None } };
        let keys: Vec<Key> = tokens.iter().copied().map(Key::token).collect();
        let mut pages = keys.chunks(PAGE_TOKENS);
        let mut found = 0;
        for page in &mut pages {
            if let Some(child) = self.trie.child(node, page).filter(|_| page.len() == PAGE_TOKENS) {
                (node, found) = (child, found + PAGE_TOKENS);
                continue;
            }
            let Some((child, shared)) = self.trie.nearest(node, page) else { break };
            let next = self.trie.keys(child).get(shared).copied().filter(|_| shared < page.len());
            return Peek { tokens: found + shared, next };
        }
        let next = self.trie.subtree(node).get(1).and_then(|&child| self.trie.keys(child).first().copied());
        Peek { tokens: found, next: next.filter(|_| found < tokens.len()) }
    }

    /// Forgets all that only this owner has, but for what sequences hold.
    pub fn forget_owner(&mut self, owner: &Owner) {
        let mut rest = Vec::new();
        for (&node, owners) in &mut self.owners.0 {
            if owners.remove(owner) && owners.is_empty() {
                rest.push(node);
            }
        }
        // What nobody owns and continues it is not reached without it, so it goes too.
        let mut doomed = HashSet::new();
        for top in rest {
            if !doomed.contains(&top) {
                doomed.extend(self.trie.subtree(top));
            }
        }
        let mut leaves: Vec<NodeId> = doomed.iter().copied().filter(|&node| self.may_go(node)).collect();
        while let Some(node) = leaves.pop() {
            let parent = self.trie.parent(node);
            self.forget(node);
            leaves.extend((doomed.contains(&parent) && self.may_go(parent)).then_some(parent));
        }
    }

    /// Whether a node that is to go can: nothing continues it, no sequence holds it, and nobody else owns it.
    fn may_go(&self, node: NodeId) -> bool {
        self.trie.is_leaf(node) && self.trie.is_idle(node) && self.owners.of(node).next().is_none()
    }

    /// Notes that all of a sequence, which ends at this node, is its owner's.
    pub(super) fn own(&mut self, seq: SeqId, end: NodeId) {
        let Some(owner) = self.sequence(seq).whose.owner.clone() else { return };
        let path: Vec<NodeId> = self.trie.upwards(end).collect();
        let mut news = false;
        for node in path {
            news |= owner.join(self.owners.0.entry(node).or_default());
        }
        let Some(keeper) = self.keeper.as_ref().filter(|_| news) else { return };
        let keeping = keeper.keeping.within(self.sequence(seq).whose.space.as_deref());
        // Whoever owns a chunk owns all before it.
        let names = keeping.names(&self.path(end).keys);
        let _ = names.iter().rev().find(|name| keeping.tiers.own(name, &owner));
    }

    /// Where sequences of a space begin.
    pub(super) fn root(&mut self, space: Option<&Arc<str>>) -> NodeId {
        let Some(name) = space else { return ROOT };
        if let Some(&root) = self.spaces.roots.get(name) {
            return root;
        }
        if self.spaces.roots.len() >= SPACES {
            self.forget_empty_spaces();
        }
        let root = self.trie.add_root();
        self.spaces.roots.insert(Arc::clone(name), root);
        root
    }

    fn forget_empty_spaces(&mut self) {
        let begun: HashSet<NodeId> = self.sequences.values().map(|sequence| sequence.node).collect();
        let trie = &mut self.trie;
        self.spaces.roots.retain(|_, root| {
            let stays = !trie.is_leaf(*root) || begun.contains(root);
            if !stays {
                trie.remove_root(*root);
            }
            stays
        });
    }
}
