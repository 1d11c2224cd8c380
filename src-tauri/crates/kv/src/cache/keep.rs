//! The way out: computed pages become chunks in the tiers.

use std::time::Duration;

use cairn_tensor::{Backend, PageId};
use cairn_tier::{Costs, Key, Offer, Refused, StoreWhy};

use super::Cache;
use crate::geometry::{CHUNK_PAGES, Geometry};
use crate::keeping::{Keeping, Marks, last_chunk};
use crate::trie::{NodeId, ROOT};

/// How long to wait when the tiers have no room.
const PUT_OFF: Duration = Duration::from_secs(1);

/// A cache's way to the tiers.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) keeping: Keeping,
    pub(super) geometry: Geometry,
    /// What computing costs this model, and reading costs instead.
    pub(super) costs: Costs,
    marks: Marks,
}

/// A prefix that ends where a trie node does.
struct Path {
    keys: Vec<Key>,
    pages: Vec<PageId>,
}

impl Cache {
    /// From now on, what is computed is kept in tiers, and looked for there. Where nothing was learnt of the model before, computing is
    /// taken to cost what `costs` say.
    pub fn keep_in(&mut self, keeping: Keeping, costs: Costs) {
        let geometry = Geometry::new(&self.layout);
        let costs = keeping.tiers.costs(&keeping.fingerprint).unwrap_or(costs);
        self.keeper = Some(Keeper { keeping, geometry, costs, marks: Marks::default() });
    }

    /// Offers the next chunk that is due to the tiers: one whose prefix was used twice, or has been idle for 30 s. Copies one chunk at
    /// most. Returns whether there was one.
    pub fn keep_one(&mut self, backend: &dyn Backend) -> bool {
        let Some(node) = self.keeper.as_ref().and_then(|keeper| keeper.marks.next(keeper.keeping.tiers.clock().now()))
        else {
            return false;
        };
        let why = if self.trie.is_idle(node) { StoreWhy::Idle } else { StoreWhy::Reused };
        // What is refused for now is put off.
        let _ = self.offer(backend, node, why);
        true
    }

    /// Offers all that has not been offered, before the model goes. While the tiers have no room, `wait` waits and says whether to go on.
    pub fn keep_all(&mut self, backend: &dyn Backend, mut wait: impl FnMut() -> bool) {
        let Some(Keeper { keeping, costs, marks, .. }) = &self.keeper else { return };
        keeping.tiers.remember_costs(keeping.fingerprint, costs.clone());
        for node in marks.all() {
            while self.offer(backend, node, StoreWhy::Unload) == Err(Refused::Full) {
                if !wait() {
                    return;
                }
            }
        }
    }

    /// Notes that the prefix that ends at this node was used.
    pub(super) fn mark(&mut self, end: NodeId) {
        let Some(keeper) = &mut self.keeper else { return };
        let now = keeper.keeping.tiers.clock().now();
        let mut path = Vec::new();
        let mut node = end;
        while node != ROOT {
            path.push(node);
            node = self.trie.parent(node);
        }
        for (above, &node) in path.iter().enumerate() {
            let pages = path.len() - above;
            if pages.is_multiple_of(CHUNK_PAGES) || (above == 0 && self.trie.is_leaf(node)) {
                keeper.marks.used(node, pages, now);
            }
        }
    }

    /// Takes a node without children out of the trie. Its page is free unless a sequence holds it.
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(keeper) = &mut self.keeper {
            keeper.marks.forget(node);
        }
        let page = self.trie.remove(node);
        self.pool.set_node(page, None);
    }

    /// Offers a chunk whose page is about to be used for something else.
    pub(super) fn rescue(&mut self, backend: &dyn Backend, node: NodeId) {
        if self.keeper.as_ref().is_some_and(|keeper| keeper.marks.is_open(node)) {
            // What is refused is lost, and will be computed again.
            let _ = self.offer(backend, node, StoreWhy::Evicted);
        }
    }

    fn offer(&mut self, backend: &dyn Backend, node: NodeId, why: StoreWhy) -> Result<(), Refused> {
        let Path { keys, pages } = self.path(node);
        let Some(Keeper { keeping, geometry, costs, marks }) = &mut self.keeper else { return Ok(()) };
        let first = last_chunk(keys.len());
        let tokens = keys.len() - first;
        let name = keeping.name(&keys);
        let result = if keeping.tiers.holds(&name.0) {
            Ok(())
        } else if keeping.tiers.has_room(geometry.chunk_bytes(tokens)) {
            let payload =
                geometry.capture(backend, &pages[pages.len() - tokens.div_ceil(cairn_tensor::PAGE_TOKENS)..], tokens);
            let chunk = keeping.chunk(name, &keys, geometry.sections(tokens), payload, keeping.tiers.clock().unix_s());
            keeping.tiers.store(Offer { chunk, why, owner: None, recompute: costs.recompute(first..keys.len()) }).map(|_| ())
        } else {
            Err(Refused::Full)
        };
        match &result {
            Err(Refused::Full) => marks.put_off(node, keeping.tiers.clock().now().saturating_add(PUT_OFF)),
            // Whatever else is wrong with it will be wrong again.
            _ => marks.settle(node),
        }
        result
    }

    /// What the prefix that ends at this node is made of.
    fn path(&self, end: NodeId) -> Path {
        let (mut keys, mut pages, mut node) = (Vec::new(), Vec::new(), end);
        while node != ROOT {
            pages.push(self.trie.page(node));
            keys.extend(self.trie.keys(node).iter().rev());
            node = self.trie.parent(node);
        }
        keys.reverse();
        pages.reverse();
        Path { keys, pages }
    }
}
