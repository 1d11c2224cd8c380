//! Flushes computed pages to the tiers as chunks.

use std::time::Duration;

use cairn_tensor::{Backend, PAGE_TOKENS, PageId};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{
    ChunkHash, ChunkId, CostModel, GenerationGuard, Group, Key, LONG_RECOMPUTE, StoreError, StoreReason, StoreRequest,
};

use super::window::{Anchors, STRIDE_TOKENS};
use super::{Cache, SeqId, Sequence};
use crate::flush_schedule::FlushSchedule;
use crate::geometry::{CHUNK_PAGES, Geometry, Rows};
use crate::model_tiers::{ModelTiers, last_chunk_start};
use crate::trie::NodeId;

/// Retry interval when the tiers have no room.
const RETRY: Duration = Duration::from_secs(1);
/// Retry interval when the tiers' write queue is long.
const QUEUE_RETRY: Duration = Duration::from_millis(200);
/// Maximum number of bytes to copy for the tiers between two steps, so that running answers do not stall.
pub const FLUSH_SLICE_BYTES: usize = 1 << 20;

/// The tiers of a cache, and its state for them.
#[derive(Debug)]
pub(super) struct TierState {
    pub(super) model: ModelTiers,
    pub(super) geometry: Geometry,
    /// Estimates of compute and restore times.
    pub(super) costs: CostModel,
    schedule: FlushSchedule,
    capture: Option<Capture>,
}

/// A chunk that is being copied out of its pages.
///
/// **Invariant:** its node is in the trie, and so are all its pages. Pages of the trie are never written. Code that removes the node
/// ends the copy, see [`Cache::remove_node`], or completes it first, see [`Cache::flush_before_evict`].
#[derive(Debug)]
struct Capture {
    node: NodeId,
    reason: StoreReason,
    /// The chunk's id, and the hash of the chunk before it.
    id: (ChunkId, ChunkHash),
    /// All keys of the prefix.
    keys: Vec<Key>,
    /// The chunk's pages.
    pages: Vec<PageId>,
    rows: Rows,
}

/// A prefix that ends with a trie node.
pub(super) struct Path {
    pub(super) keys: Vec<Key>,
    pages: Vec<PageId>,
}

impl Cache {
    /// Flushes computed rows to these tiers from now on, and restores rows from them. `costs` are the estimates for a model without
    /// measurements.
    pub fn attach_tiers(&mut self, model: ModelTiers, costs: CostModel) {
        let geometry = Geometry::new(&self.layout);
        assert_eq!(model.groups, geometry.groups(), "the layer groups are those of the page layout");
        let costs = model.tiers.cost_model(&model.fingerprint).unwrap_or(costs);
        self.tiers = Some(TierState { model, geometry, costs, schedule: FlushSchedule::default(), capture: None });
    }

    /// A guard that marks the tiers, if there are any, as busy with answers.
    pub fn answering(&self) -> Option<GenerationGuard> {
        self.tiers.as_ref().map(|tiers| tiers.model.tiers.begin_generation())
    }

    /// Copies rows that are due for the tiers. Chunks of a prefix that was used twice, has an owner or takes long to compute are due
    /// soon, and others after 30 s without use. Copies about `max_bytes` of at most one chunk, so that running answers hardly wait.
    /// Copies nothing while the disk is behind. Returns whether anything was done.
    pub fn flush_some(&mut self, backend: &dyn Backend, max_bytes: usize) -> bool {
        let mut max_bytes = max_bytes;
        if self.is_capturing() {
            // A chunk that is refused is retried later.
            let _ = self.continue_capture(backend, max_bytes);
            return true;
        }
        let Some(TierState { model, schedule, .. }) = &self.tiers else { return false };
        let Some(node) = schedule.next(model.tiers.clock().now()).filter(|_| model.tiers.has_write_capacity()) else {
            return false;
        };
        // Computing the id of a chunk reads all keys before it. A chunk that is refused is retried later.
        if let Ok(Some(keys)) = self.begin_capture(node, StoreReason::Idle) {
            max_bytes = max_bytes.saturating_sub(keys * size_of::<Key>());
            if max_bytes > 0 {
                let _ = self.continue_capture(backend, max_bytes);
            }
        }
        true
    }

    /// How long the oldest due chunk has been waiting for [`Cache::flush_some`].
    pub fn flush_delay(&self) -> Duration {
        let Some(TierState { model, schedule, .. }) = &self.tiers else { return Duration::ZERO };
        schedule.next_due().map_or(Duration::ZERO, |due| model.tiers.clock().now().saturating_sub(due))
    }

    /// Time until [`Cache::flush_some`] has something to do; none if nothing is scheduled.
    pub fn next_flush(&self) -> Option<Duration> {
        let tiers = self.tiers.as_ref()?;
        let due = tiers.schedule.next_due()?.saturating_sub(tiers.model.tiers.clock().now());
        // A chunk that is due and was not flushed waits until the tiers catch up.
        Some(if due.is_zero() { QUEUE_RETRY } else { due })
    }

    /// Flushes all chunks before the model unloads. While the tiers have no room, `wait` waits and returns whether to continue.
    pub fn flush_all(&mut self, backend: &dyn Backend, mut wait: impl FnMut() -> bool) {
        let Some(TierState { model, costs, schedule, .. }) = &self.tiers else { return };
        model.tiers.save_cost_model(model.fingerprint, costs.clone());
        for node in schedule.all() {
            while self.is_scheduled(node) {
                if self.flush_chunk(backend, node, StoreReason::Unload) == Err(StoreError::Full) && !wait() {
                    return;
                }
            }
        }
    }

    /// Records the use of a sequence that ends at this node in the flush schedule.
    pub(super) fn schedule_flush(&mut self, seq: SeqId, end: NodeId) {
        let Sequence { keys, turns, scope, .. } = self.sequence(seq);
        let (is_owned, length) = (scope.owner.is_some(), keys.len());
        let turns = [turns[0], turns[1], keys.len()];
        let windows = Anchors { window_tokens: self.window_tokens, stride_tokens: STRIDE_TOKENS, turns };
        // The states at the end of a turn, and at the end of the last whole chunk before it: the next turn often begins differently.
        let states = self.is_recurrent().then_some(CHUNK_TOKENS);
        let states = Anchors { window_tokens: states, stride_tokens: self.state_stride, turns };
        let Some(tiers) = &mut self.tiers else { return };
        let now = tiers.model.tiers.clock().now();
        // A chunk is stored after those before it, so all of them are flushed if the last one must survive a crash.
        let must_survive = is_owned || tiers.costs.estimate_recompute(0..length) >= LONG_RECOMPUTE;
        let path: Vec<NodeId> = self.trie.ancestors(end).collect();
        for (above, &node) in path.iter().enumerate() {
            let pages = path.len() - above;
            if pages.is_multiple_of(CHUNK_PAGES) || (above == 0 && self.trie.is_leaf(node)) {
                let before = (pages - 1) * PAGE_TOKENS;
                let tokens = last_chunk_start(before + 1)..before + self.trie.keys(node).len();
                let mut own = path[above..above + pages - tokens.start / PAGE_TOKENS].iter();
                let snapshot = self.pool.snapshot(self.trie.page(node));
                let has_states = !states.see(&tokens) || snapshot.is_some_and(|own| own.tokens == tokens.end);
                let window = (windows.see(&tokens) || states.see(&tokens))
                    && has_states
                    && !own.any(|&node| self.pool.is_missing_window_rows(self.trie.page(node)));
                tiers.schedule.add_use(node, pages, window, must_survive, now);
            }
        }
    }

    /// Removes a node without children from the trie. Its page is free unless a sequence holds it.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        if let Some(tiers) = &mut self.tiers {
            tiers.schedule.remove(node);
            tiers.capture.take_if(|capture| capture.node == node);
        }
        self.owners.remove(node);
        let page = self.trie.remove(node);
        self.pool.set_node(page, None);
    }

    /// Flushes a chunk whose page is about to be reused.
    pub(super) fn flush_before_evict(&mut self, backend: &dyn Backend, node: NodeId) {
        // A chunk that is refused is lost, and will be computed again.
        while self.is_scheduled(node) && self.flush_chunk(backend, node, StoreReason::Evicted).is_ok() {}
    }

    fn is_scheduled(&self, node: NodeId) -> bool {
        self.tiers.as_ref().is_some_and(|tiers| tiers.schedule.next_group(node).is_some())
    }

    /// Flushes the next group of a chunk at once. Continues the copy of it that is in progress, if any.
    fn flush_chunk(&mut self, backend: &dyn Backend, node: NodeId, reason: StoreReason) -> Result<(), StoreError> {
        self.is_capturing();
        // A copy of another chunk continues later.
        let other = self.tiers.as_mut().and_then(|tiers| tiers.capture.take_if(|capture| capture.node != node));
        let is_begun = self.tiers.as_ref().is_some_and(|tiers| tiers.capture.is_some());
        let result =
            match if is_begun { Ok(true) } else { self.begin_capture(node, reason).map(|begun| begun.is_some()) } {
                Ok(true) => self.continue_capture(backend, usize::MAX),
                Ok(false) => Ok(()),
                Err(refused) => Err(refused),
            };
        if let Some(tiers) = &mut self.tiers {
            tiers.capture = other;
        }
        result
    }

    /// Begins to copy the next group of a chunk. Returns the length of its prefix; none if there is nothing to copy.
    fn begin_capture(&mut self, node: NodeId, reason: StoreReason) -> Result<Option<usize>, StoreError> {
        let Path { keys, mut pages } = self.path(node);
        let Some(TierState { model, geometry, schedule, capture, .. }) = &mut self.tiers else { return Ok(None) };
        let Some(group) = schedule.next_group(node) else { return Ok(None) };
        let tokens = keys.len() - last_chunk_start(keys.len());
        let id = model.in_scope(self.scopes.name(self.trie.root_of(node))).chunk_id(group, &keys);
        if model.tiers.contains(&id.0) {
            schedule.set_flushed(node, group);
            return Ok(None);
        }
        if !model.tiers.has_room(geometry.chunk_bytes(group, tokens)) {
            schedule.retry_at(node, model.tiers.clock().now().saturating_add(RETRY));
            return Err(StoreError::Full);
        }
        let reason = if schedule.is_reused(node) { StoreReason::Reused } else { reason };
        pages.drain(..pages.len() - tokens.div_ceil(PAGE_TOKENS));
        let snapshot = self.pool.snapshot(self.trie.page(node)).filter(|snapshot| snapshot.tokens == keys.len());
        let snapshot = snapshot.map(|snapshot| snapshot.id).filter(|_| group == Group::Window);
        if self.pool.snapshots().are_needed() && group == Group::Window && snapshot.is_none() {
            // States are of no use without the rows, so a chunk without them has none to store.
            schedule.set_flushed(node, group);
            return Ok(None);
        }
        debug_assert!(
            group == Group::Full || !pages.iter().any(|&page| self.pool.is_missing_window_rows(page)),
            "rows of windows are scheduled only for pages that have them"
        );
        let length = keys.len();
        *capture = Some(Capture { node, reason, id, keys, pages, rows: geometry.begin(group, tokens, snapshot) });
        Ok(Some(length))
    }

    /// Copies more of the chunk in progress, and stores it when it is complete.
    fn continue_capture(&mut self, backend: &dyn Backend, max_bytes: usize) -> Result<(), StoreError> {
        let Some(TierState { model, geometry, costs, schedule, capture: slot }) = &mut self.tiers else {
            return Ok(());
        };
        let Some(mut capture) = slot.take() else { return Ok(()) };
        if !geometry.copy(backend, &capture.pages, &mut capture.rows, max_bytes) {
            *slot = Some(capture);
            return Ok(());
        }
        let Capture { node, reason, id, keys, rows, .. } = capture;
        let (first, group) = (last_chunk_start(keys.len()), id.0.group);
        let sections = geometry.sections(group, keys.len() - first);
        let chunk = model.chunk(id, &keys, sections, rows.into_payload(), model.tiers.clock().unix_s());
        let recompute = costs.estimate_recompute(first..keys.len());
        let mut owners = self.owners.of(node);
        let owner = owners.next().cloned();
        let result = model.tiers.store(StoreRequest { chunk, reason, owner, recompute }).map(|_| ());
        for owner in owners.filter(|_| result.is_ok()) {
            model.tiers.add_owner(&id.0, owner);
        }
        match &result {
            Err(StoreError::Full) => schedule.retry_at(node, model.tiers.clock().now().saturating_add(RETRY)),
            // Any other error would occur again.
            _ => schedule.set_flushed(node, group),
        }
        result
    }

    /// The node of the chunk that is being copied. Its snapshot must stay.
    pub(super) fn captured_node(&self) -> Option<NodeId> {
        self.tiers.as_ref()?.capture.as_ref().map(|capture| capture.node)
    }

    /// Whether a copy is in progress. Aborts a copy whose pages have left the trie, because they may be written.
    fn is_capturing(&mut self) -> bool {
        let Some(TierState { capture, .. }) = &mut self.tiers else { return false };
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

    /// Keys and pages of the prefix that ends at this node.
    pub(super) fn path(&self, end: NodeId) -> Path {
        let (mut keys, mut pages) = (Vec::new(), Vec::new());
        for node in self.trie.ancestors(end) {
            pages.push(self.trie.page(node));
            keys.extend(self.trie.keys(node).iter().rev());
        }
        keys.reverse();
        pages.reverse();
        Path { keys, pages }
    }
}
