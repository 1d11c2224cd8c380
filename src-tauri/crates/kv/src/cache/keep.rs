//! The way out: computed pages become chunks in the tiers.

use std::time::Duration;

use cairn_tensor::{Backend, PAGE_TOKENS, PageId};
use cairn_tier::{Answering, ChunkHash, ChunkId, Costs, Group, Key, Offer, Refused, StoreWhy};

use super::window::Anchors;
use super::{Cache, SeqId, Sequence};
use crate::geometry::{CHUNK_PAGES, Geometry, Rows};
use crate::keeping::{Keeping, Marks, last_chunk};
use crate::trie::NodeId;

/// How long to wait when the tiers have no room.
const PUT_OFF: Duration = Duration::from_secs(1);
/// Bytes that are copied for the tiers between two steps, so that running answers do not stall.
pub const SLICE_BYTES: usize = 1 << 20;

/// A cache's way to the tiers.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) keeping: Keeping,
    pub(super) geometry: Geometry,
    /// What computing costs this model, and reading costs instead.
    pub(super) costs: Costs,
    marks: Marks,
    capture: Option<Capture>,
}

/// A chunk that is being copied out of its pages.
///
/// **Invariant:** its node is in the trie. Then its pages are too, the last of them and all before it, and pages of the trie are never
/// written. Whoever takes the node out ends the copy, see [`Cache::forget`], or does the rest of it at once, see [`Cache::rescue`].
#[derive(Debug)]
struct Capture {
    node: NodeId,
    why: StoreWhy,
    /// The chunk's, and that of the one before it.
    name: (ChunkId, ChunkHash),
    /// All keys from the first on.
    keys: Vec<Key>,
    /// The chunk's own.
    pages: Vec<PageId>,
    rows: Rows,
}

/// A prefix that ends where a trie node does.
pub(super) struct Path {
    pub(super) keys: Vec<Key>,
    pages: Vec<PageId>,
}

impl Cache {
    /// From now on, what is computed is kept in tiers, and looked for there. Where nothing was learnt of the model before, computing is
    /// taken to cost what `costs` say.
    pub fn keep_in(&mut self, keeping: Keeping, costs: Costs) {
        let geometry = Geometry::new(&self.layout);
        assert_eq!(keeping.groups, geometry.groups(), "all state that a model has is declared, and kept");
        let costs = keeping.tiers.costs(&keeping.fingerprint).unwrap_or(costs);
        self.keeper = Some(Keeper { keeping, geometry, costs, marks: Marks::default(), capture: None });
    }

    /// Tells the tiers, if there are some, that an answer is computed for as long as the result lives.
    pub fn answering(&self) -> Option<Answering> {
        self.keeper.as_ref().map(|keeper| keeper.keeping.tiers.answering())
    }

    /// Goes on copying what is due for the tiers: chunks whose prefix was used twice, or has been idle for 30 s. Copies one chunk at
    /// most, and of it about `most_bytes`, so that running answers do not wait for the whole; none while the disk does not keep up.
    /// Returns whether there was something to do.
    pub fn keep_some(&mut self, backend: &dyn Backend, most_bytes: usize) -> bool {
        let mut most_bytes = most_bytes;
        if self.capture_holds() {
            // What is refused is put off.
            let _ = self.go_on(backend, most_bytes);
            return true;
        }
        let Some(Keeper { keeping, marks, .. }) = &self.keeper else { return false };
        let Some(node) = marks.next(keeping.tiers.clock().now()).filter(|_| keeping.tiers.keeps_up()) else {
            return false;
        };
        let why = if self.trie.is_idle(node) { StoreWhy::Idle } else { StoreWhy::Reused };
        // Naming a chunk reads all keys before it. What is refused for now is put off.
        if let Ok(Some(keys)) = self.begin(node, why) {
            most_bytes = most_bytes.saturating_sub(keys * size_of::<Key>());
            if most_bytes > 0 {
                let _ = self.go_on(backend, most_bytes);
            }
        }
        true
    }

    /// Offers all that has not been offered, before the model goes. While the tiers have no room, `wait` waits and says whether to go on.
    pub fn keep_all(&mut self, backend: &dyn Backend, mut wait: impl FnMut() -> bool) {
        let Some(Keeper { keeping, costs, marks, .. }) = &self.keeper else { return };
        keeping.tiers.remember_costs(keeping.fingerprint, costs.clone());
        for node in marks.all() {
            while self.is_open(node) {
                if self.offer(backend, node, StoreWhy::Unload) == Err(Refused::Full) && !wait() {
                    return;
                }
            }
        }
    }

    /// Notes that the prefix that ends at this node was used by a sequence.
    pub(super) fn mark(&mut self, seq: SeqId, end: NodeId) {
        let Sequence { keys, turns, .. } = self.sequence(seq);
        let anchors = Anchors { window_tokens: self.window_tokens, turns: [turns[0], turns[1], keys.len()] };
        let Some(keeper) = &mut self.keeper else { return };
        let now = keeper.keeping.tiers.clock().now();
        let path: Vec<NodeId> = self.trie.upwards(end).collect();
        for (above, &node) in path.iter().enumerate() {
            let pages = path.len() - above;
            if pages.is_multiple_of(CHUNK_PAGES) || (above == 0 && self.trie.is_leaf(node)) {
                let before = (pages - 1) * PAGE_TOKENS;
                let tokens = last_chunk(before + 1)..before + self.trie.keys(node).len();
                let mut own = path[above..above + pages - tokens.start / PAGE_TOKENS].iter();
                let window = anchors.see(&tokens) && !own.any(|&node| self.pool.is_windowless(self.trie.page(node)));
                keeper.marks.used(node, pages, window, now);
            }
        }
    }

    /// Takes a node without children out of the trie. Its page is free unless a sequence holds it.
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(keeper) = &mut self.keeper {
            keeper.marks.forget(node);
            keeper.capture.take_if(|capture| capture.node == node);
        }
        self.owners.forget(node);
        let page = self.trie.remove(node);
        self.pool.set_node(page, None);
    }

    /// Offers a chunk whose page is about to be used for something else.
    pub(super) fn rescue(&mut self, backend: &dyn Backend, node: NodeId) {
        // What is refused is lost, and will be computed again.
        while self.is_open(node) && self.offer(backend, node, StoreWhy::Evicted).is_ok() {}
    }

    fn is_open(&self, node: NodeId) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.marks.open(node).is_some())
    }

    /// Offers the rows of a chunk in the layers of its next group, at once. Where it is being copied already, only the rest is.
    fn offer(&mut self, backend: &dyn Backend, node: NodeId, why: StoreWhy) -> Result<(), Refused> {
        self.capture_holds();
        // Another copy that is under way goes on later.
        let other = self.keeper.as_mut().and_then(|keeper| keeper.capture.take_if(|capture| capture.node != node));
        let under_way = self.keeper.as_ref().is_some_and(|keeper| keeper.capture.is_some());
        let result = match if under_way { Ok(true) } else { self.begin(node, why).map(|begun| begun.is_some()) } {
            Ok(true) => self.go_on(backend, usize::MAX),
            Ok(false) => Ok(()),
            Err(refused) => Err(refused),
        };
        if let Some(keeper) = &mut self.keeper {
            keeper.capture = other;
        }
        result
    }

    /// Begins to copy a chunk's rows in the layers of its next group. Returns the length of its prefix; none where there is nothing to copy.
    fn begin(&mut self, node: NodeId, why: StoreWhy) -> Result<Option<usize>, Refused> {
        let Path { keys, mut pages } = self.path(node);
        let Some(Keeper { keeping, geometry, marks, capture, .. }) = &mut self.keeper else { return Ok(None) };
        let Some(group) = marks.open(node) else { return Ok(None) };
        let tokens = keys.len() - last_chunk(keys.len());
        let name = keeping.within(self.spaces.name(self.trie.root_of(node))).name(group, &keys);
        if keeping.tiers.holds(&name.0) {
            marks.settle(node, group);
            return Ok(None);
        }
        if !keeping.tiers.has_room(geometry.chunk_bytes(group, tokens)) {
            marks.put_off(node, keeping.tiers.clock().now().saturating_add(PUT_OFF));
            return Err(Refused::Full);
        }
        pages.drain(..pages.len() - tokens.div_ceil(PAGE_TOKENS));
        debug_assert!(
            group == Group::Full || !pages.iter().any(|&page| self.pool.is_windowless(page)),
            "windows are wanted of pages that have them"
        );
        let length = keys.len();
        *capture = Some(Capture { node, why, name, keys, pages, rows: geometry.begin(group, tokens) });
        Ok(Some(length))
    }

    /// Copies more of the chunk that was begun, and offers it when it is whole.
    fn go_on(&mut self, backend: &dyn Backend, most_bytes: usize) -> Result<(), Refused> {
        let Some(Keeper { keeping, geometry, costs, marks, capture: slot }) = &mut self.keeper else { return Ok(()) };
        let Some(mut capture) = slot.take() else { return Ok(()) };
        if !geometry.copy(backend, &capture.pages, &mut capture.rows, most_bytes) {
            *slot = Some(capture);
            return Ok(());
        }
        let Capture { node, why, name, keys, rows, .. } = capture;
        let (first, group) = (last_chunk(keys.len()), name.0.group);
        let sections = geometry.sections(group, keys.len() - first);
        let chunk = keeping.chunk(name, &keys, sections, rows.into_payload(), keeping.tiers.clock().unix_s());
        let recompute = costs.recompute(first..keys.len());
        let mut owners = self.owners.of(node);
        let owner = owners.next().cloned();
        let result = keeping.tiers.store(Offer { chunk, why, owner, recompute }).map(|_| ());
        for owner in owners.filter(|_| result.is_ok()) {
            keeping.tiers.own(&name.0, owner);
        }
        match &result {
            Err(Refused::Full) => marks.put_off(node, keeping.tiers.clock().now().saturating_add(PUT_OFF)),
            // Whatever else is wrong with it will be wrong again.
            _ => marks.settle(node, group),
        }
        result
    }

    /// Whether a copy is under way. One whose pages are not the trie's any more is given up: only those hold still.
    fn capture_holds(&mut self) -> bool {
        let Some(Keeper { capture, .. }) = &mut self.keeper else { return false };
        let trie = &self.trie;
        capture.take_if(|capture| {
            let mut node = capture.node;
            !capture.pages.iter().rev().all(|&page| {
                let same = trie.page(node) == page;
                node = trie.parent(node);
                same
            })
        });
        capture.is_some()
    }

    /// What the prefix that ends at this node is made of.
    pub(super) fn path(&self, end: NodeId) -> Path {
        let (mut keys, mut pages) = (Vec::new(), Vec::new());
        for node in self.trie.upwards(end) {
            pages.push(self.trie.page(node));
            keys.extend(self.trie.keys(node).iter().rev());
        }
        keys.reverse();
        pages.reverse();
        Path { keys, pages }
    }
}
