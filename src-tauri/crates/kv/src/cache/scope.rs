//! Scopes and owners of cached rows.
//!
//! Each scope has its own root in the trie. Rows of one scope are never used from another, so response times reveal nothing about other
//! scopes. An incognito sequence uses the rows of its scope and adds none.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use cairn_tensor::PAGE_TOKENS;
use cairn_tier::{Key, Owner};

use super::{Cache, SeqId};
use crate::trie::{NodeId, ROOT};

/// Number of scopes from which on empty ones are removed.
const MAX_EMPTY_SCOPES: usize = 64;

/// The cached rows that a sequence may use, and the owner of those that it adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheScope {
    /// Name of the scope whose sequences share rows. None is the scope of this machine's user.
    pub name: Option<Arc<str>>,
    /// The owner who may delete the rows.
    pub owner: Option<Owner>,
    /// Whether it adds nothing to the cache.
    pub incognito: bool,
}

/// The part of a prompt whose rows are in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixMatch {
    /// Number of tokens from the start.
    pub tokens: usize,
    /// The key that follows them in the cache, if it differs from the prompt's.
    pub next: Option<Key>,
}

/// The trie roots of named scopes.
#[derive(Debug, Default)]
pub(super) struct ScopeRoots {
    pub(super) roots: HashMap<Arc<str>, NodeId>,
}

impl ScopeRoots {
    /// The name of the scope with this root.
    pub(super) fn name(&self, root: NodeId) -> Option<&str> {
        self.roots.iter().find(|(_, own)| **own == root).map(|(name, _)| &**name)
    }
}

/// The owners of each node's page.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<NodeId, BTreeSet<Owner>>);

impl Owners {
    /// The owners of a node's page.
    pub(super) fn of(&self, node: NodeId) -> impl Iterator<Item = &Owner> {
        self.0.get(&node).into_iter().flatten()
    }

    /// Removes a node that has left the trie.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

impl Cache {
    /// The part of a prompt whose rows are in pages. Does not count as a use.
    pub fn find_prefix<K: Copy + Into<Key>>(&self, tokens: &[K], scope: Option<&str>) -> PrefixMatch {
        let root = scope.map_or(Some(ROOT), |name| self.scopes.roots.get(name).copied());
        let Some(mut node) = root else { return PrefixMatch { tokens: 0, next: None } };
        let keys: Vec<Key> = tokens.iter().copied().map(Into::into).collect();
        let mut pages = keys.chunks(PAGE_TOKENS);
        let mut found = 0;
        for page in &mut pages {
            if let Some(child) = self.trie.child(node, page).filter(|_| page.len() == PAGE_TOKENS) {
                (node, found) = (child, found + PAGE_TOKENS);
                continue;
            }
            let Some((child, shared)) = self.trie.nearest(node, page) else { break };
            let next = self.trie.keys(child).get(shared).copied().filter(|_| shared < page.len());
            return PrefixMatch { tokens: found + shared, next };
        }
        let next = self.trie.subtree(node).get(1).and_then(|&child| self.trie.keys(child).first().copied());
        PrefixMatch { tokens: found, next: next.filter(|_| found < tokens.len()) }
    }

    /// Drops the pages that only this owner has, except those that sequences hold.
    pub fn forget_owner(&mut self, owner: &Owner) {
        let mut rest = Vec::new();
        for (&node, owners) in &mut self.owners.0 {
            if owners.remove(owner) && owners.is_empty() {
                rest.push(node);
            }
        }
        // Descendants without an owner cannot be reached without it, so they are dropped too.
        let mut removable = HashSet::new();
        for top in rest {
            if !removable.contains(&top) {
                removable.extend(self.trie.subtree(top));
            }
        }
        let mut leaves: Vec<NodeId> = removable.iter().copied().filter(|&node| self.can_remove(node)).collect();
        while let Some(node) = leaves.pop() {
            let parent = self.trie.parent(node);
            self.remove_node(node);
            leaves.extend((removable.contains(&parent) && self.can_remove(parent)).then_some(parent));
        }
    }

    /// Whether a node can be removed: it has no children, no sequence holds it, and it has no other owner.
    fn can_remove(&self, node: NodeId) -> bool {
        self.trie.is_leaf(node) && self.trie.is_idle(node) && self.owners.of(node).next().is_none()
    }

    /// Adds a sequence's owner to all its pages. The sequence ends at this node.
    pub(super) fn add_owner(&mut self, seq: SeqId, end: NodeId) {
        let Some(owner) = self.sequence(seq).scope.owner.clone() else { return };
        let path: Vec<NodeId> = self.trie.ancestors(end).collect();
        let mut is_new = false;
        for node in path {
            is_new |= owner.add_to(self.owners.0.entry(node).or_default());
        }
        let Some(tiers) = self.tiers.as_ref().filter(|_| is_new) else { return };
        let model = tiers.model.in_scope(self.sequence(seq).scope.name.as_deref());
        // The owner of a chunk owns all chunks before it.
        let ids = model.chunk_ids(&self.path(end).keys);
        let _ = ids.iter().rev().find(|id| model.tiers.add_owner(id, &owner));
    }

    /// The trie root of a scope.
    pub(super) fn root(&mut self, scope: Option<&Arc<str>>) -> NodeId {
        let Some(name) = scope else { return ROOT };
        if let Some(&root) = self.scopes.roots.get(name) {
            return root;
        }
        if self.scopes.roots.len() >= MAX_EMPTY_SCOPES {
            self.remove_empty_scopes();
        }
        let root = self.trie.add_root();
        self.scopes.roots.insert(Arc::clone(name), root);
        root
    }

    fn remove_empty_scopes(&mut self) {
        let in_use: HashSet<NodeId> = self.sequences.values().map(|sequence| sequence.node).collect();
        let trie = &mut self.trie;
        self.scopes.roots.retain(|_, root| {
            let keep = !trie.is_leaf(*root) || in_use.contains(root);
            if !keep {
                trie.remove_root(*root);
            }
            keep
        });
    }
}
