//! The prefix trie: maps token prefixes to pages.
//!
//! A node is one page: 64 keys, or fewer for the tail of a closed sequence. Only full nodes have children. Siblings may share leading
//! keys. They are sorted by their keys, so the sibling with the longest common prefix is adjacent to the position of the searched keys.
//!
//! **Invariant:** a node is idle (evictable if it has no children) exactly while no sequence holds its page. A sequence that holds a
//! node's page holds those of all its ancestors, so an idle node has only idle descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use cairn_tensor::PageId;
use cairn_tier::Key;

/// Index of a node in the trie's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

/// The empty prefix of the default scope. It has no page and is never idle.
pub(crate) const ROOT: NodeId = NodeId(0);
/// The page of a root.
const NO_PAGE: PageId = PageId(u32::MAX);

#[derive(Debug)]
struct Node {
    parent: NodeId,
    keys: Arc<[Key]>,
    page: PageId,
    children: BTreeMap<Arc<[Key]>, NodeId>,
    idle_since: Option<u64>,
}

/// A prefix trie with several roots.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    /// Idle nodes without children, least recently used first.
    leaves: BTreeSet<(u64, NodeId)>,
    idle: usize,
}

impl Trie {
    pub(crate) fn new() -> Self {
        let mut trie = Self { nodes: Vec::new(), vacant: Vec::new(), leaves: BTreeSet::new(), idle: 0 };
        let root = trie.add_root();
        debug_assert_eq!(root, ROOT, "the first node");
        trie
    }

    /// Adds an empty prefix with a separate subtree.
    pub(crate) fn add_root(&mut self) -> NodeId {
        let (keys, children) = (Arc::from([]), BTreeMap::new());
        self.add(Node { parent: ROOT, keys, page: NO_PAGE, children, idle_since: None })
    }

    /// Removes a root without children, at which no sequence begins.
    pub(crate) fn remove_root(&mut self, id: NodeId) {
        debug_assert!(id != ROOT && self.is_root(id) && self.is_leaf(id), "all nodes stay reachable");
        self.vacant.push(id);
    }

    /// Whether a node is a root.
    pub(crate) fn is_root(&self, id: NodeId) -> bool {
        self.page(id) == NO_PAGE
    }

    /// A node and its ancestors up to the root, which is not included.
    pub(crate) fn ancestors(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |&id| Some(self.parent(id))).take_while(|&id| !self.is_root(id))
    }

    /// The root of a node.
    pub(crate) fn root_of(&self, id: NodeId) -> NodeId {
        self.ancestors(id).last().map_or(id, |top| self.parent(top))
    }

    /// Returns a node and its descendants; parents precede their children.
    pub(crate) fn subtree(&self, id: NodeId) -> Vec<NodeId> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(&id) = found.get(next) {
            found.extend(self.node(id).children.values());
            next += 1;
        }
        found
    }

    /// Number of nodes whose page no sequence holds. All of them can be evicted, leaves first.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }

    pub(crate) fn parent(&self, id: NodeId) -> NodeId {
        self.node(id).parent
    }

    pub(crate) fn page(&self, id: NodeId) -> PageId {
        self.node(id).page
    }

    /// Replaces the page of a node.
    pub(crate) fn set_page(&mut self, id: NodeId, page: PageId) {
        self.node_mut(id).page = page;
    }

    /// The keys of a node's page.
    pub(crate) fn keys(&self, id: NodeId) -> &[Key] {
        &self.node(id).keys
    }

    /// The logical time since which no sequence holds the node's page.
    pub(crate) fn idle_since(&self, id: NodeId) -> Option<u64> {
        self.node(id).idle_since
    }

    pub(crate) fn is_idle(&self, id: NodeId) -> bool {
        self.node(id).idle_since.is_some()
    }

    pub(crate) fn is_leaf(&self, id: NodeId) -> bool {
        self.node(id).children.is_empty()
    }

    /// The child with exactly these keys.
    pub(crate) fn child(&self, id: NodeId, keys: &[Key]) -> Option<NodeId> {
        self.node(id).children.get(keys).copied()
    }

    /// The child that shares the most leading keys with `keys`, and their number, which is at least one.
    pub(crate) fn nearest(&self, id: NodeId, keys: &[Key]) -> Option<(NodeId, usize)> {
        let children = &self.node(id).children;
        let after = children.range::<[Key], _>((Included(keys), Unbounded)).next();
        let before = children.range::<[Key], _>((Unbounded, Excluded(keys))).next_back();
        let shared = |other: &[Key]| keys.iter().zip(other).take_while(|(a, b)| a == b).count();
        let best = [after, before].into_iter().flatten().map(|(other, &child)| (child, shared(other)));
        best.max_by_key(|&(_, count)| count).filter(|&(_, count)| count > 0)
    }

    /// Adds a child whose page a sequence holds.
    pub(crate) fn insert(&mut self, parent: NodeId, keys: &[Key], page: PageId) -> NodeId {
        let keys: Arc<[Key]> = Arc::from(keys);
        let node = Node { parent, keys: Arc::clone(&keys), page, children: BTreeMap::new(), idle_since: None };
        let id = self.add(node);
        let replaced = self.node_mut(parent).children.insert(keys, id);
        debug_assert!(replaced.is_none(), "the caller checks that the child does not exist");
        id
    }

    /// Removes a node without children and returns its page.
    pub(crate) fn remove(&mut self, id: NodeId) -> PageId {
        debug_assert!(
            id != ROOT && self.is_leaf(id),
            "descendants are removed first, so that all pages stay reachable"
        );
        self.set_idle(id, None);
        let keys = Arc::clone(&self.node(id).keys);
        let parent = self.parent(id);
        self.node_mut(parent).children.remove(&keys);
        if self.is_leaf(parent)
            && let Some(since) = self.node(parent).idle_since
        {
            self.leaves.insert((since, parent));
        }
        self.vacant.push(id);
        self.page(id)
    }

    /// Sets the logical time at which the last sequence released the node's page; `None` if a sequence uses it.
    pub(crate) fn set_idle(&mut self, id: NodeId, since: Option<u64>) {
        if let Some(before) = self.node_mut(id).idle_since.take() {
            self.idle -= 1;
            self.leaves.remove(&(before, id));
        }
        if let Some(since) = since {
            self.idle += 1;
            self.node_mut(id).idle_since = Some(since);
            if self.is_leaf(id) {
                self.leaves.insert((since, id));
            }
        }
    }

    /// The least recently used idle leaf.
    pub(crate) fn oldest(&self) -> Option<NodeId> {
        self.leaves.first().map(|&(_, id)| id)
    }

    fn add(&mut self, node: Node) -> NodeId {
        match self.vacant.pop() {
            Some(id) => {
                *self.node_mut(id) = node;
                id
            }
            None => {
                self.nodes.push(node);
                NodeId(self.nodes.len() as u32 - 1)
            }
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }
}
