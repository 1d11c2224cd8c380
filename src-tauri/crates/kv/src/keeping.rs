//! What a cache gives to the tiers, and under which names.
//!
//! Computed rows are offered when their prefix is used a second time, when their conversation has been idle for a while, when
//! their pages are needed for something else, and when the model is unloaded. They are copied by the thread that computes, between
//! two steps, and where answers are running a little at a time. [`Marks`] remembers which chunks are still to be offered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{
    Chain, Chunk, ChunkHash, ChunkHead, ChunkId, Fingerprint, Flags, Group, Groups, Key, Namespace, NumericClass,
    Prefix, RowTypes, SectionShape, Tiers,
};

use crate::trie::NodeId;

/// How long nobody must have used a prefix before its chunks are written down.
const IDLE: Duration = Duration::from_secs(30);

/// What a cache needs to be kept beyond its model's stay.
#[derive(Clone)]
pub struct Keeping {
    /// Where.
    pub tiers: Arc<Tiers>,
    /// Whose prefixes these are.
    pub namespace: Namespace,
    /// Of which model, used in which way.
    pub fingerprint: Fingerprint,
    /// What computes them.
    pub class: NumericClass,
    /// How rows are written.
    pub rows: RowTypes,
    /// Which state the model keeps, see [`groups`](crate::groups).
    pub groups: Groups,
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeping")
            .field("fingerprint", &self.fingerprint)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

impl Keeping {
    /// The same for a space: what is kept for one is not found from another.
    #[must_use]
    pub fn within(&self, space: Option<&str>) -> Self {
        let namespace = space.map_or_else(|| self.namespace.clone(), |name| self.namespace.within(name));
        Self { namespace, ..self.clone() }
    }

    /// What to look up for these keys.
    pub fn prefix(&self, keys: Arc<[Key]>) -> Prefix {
        Prefix {
            namespace: self.namespace.clone(),
            fingerprint: self.fingerprint,
            keys,
            class: Some(self.class.clone()),
            lossy: self.tiers.takes_lossy(),
            groups: self.groups,
        }
    }

    /// The name of the last chunk of these keys in the layers of a group, and that of the one before it.
    pub(crate) fn name(&self, group: Group, keys: &[Key]) -> (ChunkId, ChunkHash) {
        let mut chain = Chain::new(&self.namespace, &self.fingerprint);
        let (before, last) = keys.split_at(last_chunk(keys.len()));
        before.chunks(CHUNK_TOKENS).for_each(|chunk| {
            chain.push(chunk);
        });
        let parent = chain.last();
        (ChunkId { fingerprint: self.fingerprint, hash: chain.peek(last), group }, parent)
    }

    /// The names of all chunks of these keys.
    pub(crate) fn names(&self, keys: &[Key]) -> Vec<ChunkId> {
        let mut chain = Chain::new(&self.namespace, &self.fingerprint);
        let name =
            |chunk: &[Key]| ChunkId { fingerprint: self.fingerprint, hash: chain.push(chunk), group: Group::Full };
        keys.chunks(CHUNK_TOKENS).map(name).collect()
    }

    /// The last chunk of these keys, which has this name, from its rows.
    pub(crate) fn chunk(
        &self,
        (id, parent): (ChunkId, ChunkHash),
        keys: &[Key],
        sections: Arc<[SectionShape]>,
        payload: Vec<u8>,
        created_unix_s: u64,
    ) -> Chunk {
        let first = last_chunk(keys.len());
        let head = ChunkHead {
            id,
            parent,
            first_position: first as u64,
            keys: Arc::from(&keys[first..]),
            class: self.class.clone(),
            rows: self.rows,
            flags: Flags { tail: keys.len() - first < CHUNK_TOKENS, ..Flags::default() },
            created_unix_s,
            sections,
        };
        Chunk { head: Arc::new(head), payload: Arc::new(payload) }
    }
}

/// Where the last chunk of so many tokens begins. There is at least one token.
pub(crate) fn last_chunk(tokens: usize) -> usize {
    (tokens - 1) / CHUNK_TOKENS * CHUNK_TOKENS
}

/// A chunk whose last page a trie node names.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// When more of it is to be offered; none where that has been done.
    due: Option<Duration>,
    /// Pages from the first token to its last, so that what comes first in a prefix is kept first.
    pages: usize,
    /// What is to be kept of it.
    wanted: Parts,
    /// What was offered.
    offered: Parts,
}

/// Groups of which a chunk has rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    full: bool,
    window: bool,
}

impl Mark {
    /// What is to be offered next: windows last, since they are of no use alone.
    fn next(&self) -> Option<Group> {
        let full = (self.wanted.full && !self.offered.full).then_some(Group::Full);
        full.or((self.wanted.window && !self.offered.window).then_some(Group::Window))
    }
}

/// The chunks that a cache holds, by the trie node of their last page, and when they are to be offered.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: BTreeMap<NodeId, Mark>,
    due: BTreeSet<(Duration, usize, NodeId)>,
}

impl Marks {
    /// A prefix up to this chunk was used at `now`; rows of windows are kept where somebody may go on from what they see.
    pub(crate) fn used(&mut self, node: NodeId, pages: usize, window: bool, now: Duration) {
        let idle = Some(now.saturating_add(IDLE));
        let mark = match self.marks.get(&node) {
            // A second use says that there may be a third.
            Some(mark @ Mark { due: Some(_), .. }) => Mark { due: Some(Duration::ZERO), ..*mark },
            Some(mark) => *mark,
            None => Mark { due: idle, pages, wanted: Parts { full: true, window: false }, offered: Parts::default() },
        };
        let wanted = Parts { window: mark.wanted.window || window, ..mark.wanted };
        let mark = Mark { wanted, ..mark };
        self.set(node, Mark { due: mark.due.or(idle.filter(|_| mark.next().is_some())), ..mark });
    }

    /// The chunk that is to be offered next.
    pub(crate) fn next(&self, now: Duration) -> Option<NodeId> {
        self.due.first().filter(|(due, ..)| *due <= now).map(|&(.., node)| node)
    }

    /// All that has not been offered, what comes first in a prefix first.
    pub(crate) fn all(&self) -> Vec<NodeId> {
        let mut all: Vec<_> = self.due.iter().map(|&(_, pages, node)| (pages, node)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, node)| node).collect()
    }

    /// The rows of a chunk that are to be offered next; none where all have been.
    pub(crate) fn open(&self, node: NodeId) -> Option<Group> {
        self.marks.get(&node).filter(|mark| mark.due.is_some())?.next()
    }

    /// These rows of a chunk were offered, and need no more attention.
    pub(crate) fn settle(&mut self, node: NodeId, group: Group) {
        let Some(&(mut mark)) = self.marks.get(&node) else { return };
        match group {
            Group::Full => mark.offered.full = true,
            Group::Window => mark.offered.window = true,
        }
        self.set(node, Mark { due: mark.due.filter(|_| mark.next().is_some()), ..mark });
    }

    /// The tiers had no room for it: try again later.
    pub(crate) fn put_off(&mut self, node: NodeId, until: Duration) {
        if let Some(&mark) = self.marks.get(&node) {
            self.set(node, Mark { due: Some(until), ..mark });
        }
    }

    /// The node has left the trie.
    pub(crate) fn forget(&mut self, node: NodeId) {
        if let Some(Mark { due: Some(due), pages, .. }) = self.marks.remove(&node) {
            self.due.remove(&(due, pages, node));
        }
    }

    fn set(&mut self, node: NodeId, mark: Mark) {
        self.forget(node);
        self.due.extend(mark.due.map(|due| (due, mark.pages, node)));
        self.marks.insert(node, mark);
    }
}
