//! The prefix trie: which page holds the state of which tokens, given all tokens before them.
//!
//! A node is one page: 64 keys, or fewer for the tail of a sequence that ended. Full nodes have children; a tail has none.
//! Siblings may begin alike, since they differ only somewhere inside the page. They are sorted by their keys, so the sibling
//! with the longest common prefix stands next to where the searched keys would stand.
//!
//! **Invariant:** a node is idle (evictable once childless) exactly while no sequence holds its page. A sequence that holds a
//! node's page holds those of all its ancestors, so an idle node has only idle descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use cairn_tensor::PageId;
use cairn_tier::Key;

/// A node, by its place in the trie's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

/// The empty prefix. It names no page and is never idle.
pub(crate) const ROOT: NodeId = NodeId(0);
/// What a root names in place of a page.
const NO_PAGE: PageId = PageId(u32::MAX);

#[derive(Debug)]
struct Node {
    parent: NodeId,
    keys: Arc<[Key]>,
    page: PageId,
    children: BTreeMap<Arc<[Key]>, NodeId>,
    idle_since: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    /// Idle nodes without children, the one unused for longest first.
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

    /// An empty prefix of its own: nothing below it is found below another root.
    pub(crate) fn add_root(&mut self) -> NodeId {
        let (keys, children) = (Arc::from([]), BTreeMap::new());
        self.add(Node { parent: ROOT, keys, page: NO_PAGE, children, idle_since: None })
    }

    /// Removes a root that nothing is below, and that no sequence begins at.
    pub(crate) fn remove_root(&mut self, id: NodeId) {
        debug_assert!(id != ROOT && self.is_root(id) && self.is_leaf(id), "nothing may become unreachable");
        self.vacant.push(id);
    }

    pub(crate) fn is_root(&self, id: NodeId) -> bool {
        self.page(id) == NO_PAGE
    }

    /// A node, its parent, and so on, without the root.
    pub(crate) fn upwards(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |&id| Some(self.parent(id))).take_while(|&id| !self.is_root(id))
    }

    /// The root that a node is below.
    pub(crate) fn root_of(&self, id: NodeId) -> NodeId {
        self.upwards(id).last().map_or(id, |top| self.parent(top))
    }

    /// A node and all that continues it, each after its parent.
    pub(crate) fn subtree(&self, id: NodeId) -> Vec<NodeId> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(&id) = found.get(next) {
            found.extend(self.node(id).children.values());
            next += 1;
        }
        found
    }

    /// Nodes whose page no sequence holds; all of them can be evicted, leaves first.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }

    pub(crate) fn parent(&self, id: NodeId) -> NodeId {
        self.node(id).parent
    }

    pub(crate) fn page(&self, id: NodeId) -> PageId {
        self.node(id).page
    }

    /// Lets another page stand for the node.
    pub(crate) fn set_page(&mut self, id: NodeId, page: PageId) {
        self.node_mut(id).page = page;
    }

    /// The keys of the node's own page.
    pub(crate) fn keys(&self, id: NodeId) -> &[Key] {
        &self.node(id).keys
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

    /// The child that shares the most leading keys with `keys`, and how many: at least one.
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
        debug_assert!(replaced.is_none(), "the caller looks for the child before it adds one");
        id
    }

    /// Removes a node without children and returns its page.
    pub(crate) fn remove(&mut self, id: NodeId) -> PageId {
        debug_assert!(id != ROOT && self.is_leaf(id), "descendants go first, so that no page becomes unreachable");
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

    /// Says since when (a logical clock) no sequence has held the node's page, or that one holds it.
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

    /// The idle leaf that has been unused for longest.
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
