//! The sequences of one loaded model, and the pages that they share with each other and with the trie.
//!
//! A sequence's full pages are in the trie. Only its tail page may belong to it alone. Opening and forking share pages and copy
//! nothing. [`Cache::reserve`] makes the slots of the next step exclusive to the sequence, and copies the used rows of a shared
//! tail page if necessary.
//!
//! Pages come first from growth to a fair share of the budget, then from eviction of the least recently used leaf. Running
//! sequences may use the rest of the budget. When that is used up too, [`Cache::reserve`] fails and the sequence has to wait.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_tensor::{Backend, BackendError, PAGE_TOKENS, PageId, PageLayout, SnapshotId};
use cairn_tier::{Key, Waker};

use crate::budget::Budget;
use crate::geometry;
use crate::pool::{PageSnapshot, Pool};
use crate::trie::{NodeId, Trie};

mod flush;
mod publish;
mod recurrent;
mod restore;
mod scope;
mod shift;
#[cfg(test)]
mod tests;
mod window;

pub use self::flush::FLUSH_SLICE_BYTES;
use self::flush::TierState;
pub use self::restore::{Restore, RestoreLookup, RestoreOutcome, RestorePoll};
pub use self::scope::{CacheScope, PrefixMatch};
use self::scope::{Owners, ScopeRoots};
pub use self::shift::ShiftError;

/// Id of a sequence in its cache. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeqId(u64);

/// Why pages could not be reserved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Running sequences hold all pages that the budget allows. Closing one of them frees pages.
    #[error("{need_bytes} bytes of KV cache are needed, {free_bytes} of {limit_bytes} are free")]
    Full {
        /// Bytes that the reservation needs.
        need_bytes: u64,
        /// Bytes in free and evictable pages of this pool.
        free_bytes: u64,
        /// Budget of all pools.
        limit_bytes: u64,
    },
    /// The backend failed for another reason than memory.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Size and counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages in the backend's pool.
    pub pages: usize,
    /// Pages that only the trie holds.
    pub cached_pages: usize,
    /// Pages that sequences hold.
    pub live_pages: usize,
    /// Size of all pages in the pool, and of the snapshots of recurrent states.
    pub bytes: u64,
    /// Tokens of all prompts that were opened.
    pub lookup_tokens: u64,
    /// Prompt tokens whose rows were in pages.
    pub hit_tokens: u64,
    /// Pages that were evicted from the trie.
    pub evicted_pages: u64,
    /// Pages that were copied before a write.
    pub copied_pages: u64,
}

#[derive(Clone, Debug)]
struct Sequence {
    /// Keys of the tokens whose rows are in pages.
    keys: Vec<Key>,
    /// Pages for `keys` and for reserved slots.
    pages: Vec<PageId>,
    /// The trie node of the last full page.
    node: NodeId,
    /// Number of leading pages that are in the trie.
    published: usize,
    /// During a restore: number of leading tokens that are usable now.
    usable: Option<usize>,
    /// Where computing began, and where the prompt ended. Other sequences may continue from there.
    turns: [usize; 2],
    /// Whether its rows were shifted, so that other sequences cannot use them: see [`Cache::shift`].
    private: bool,
    scope: CacheScope,
    /// States of recurrent layers after its last usable token.
    snapshot: Option<PageSnapshot>,
    /// Snapshots that the reserved step writes, and the number of tokens after which it does.
    targets: Vec<(u32, SnapshotId)>,
}

impl Sequence {
    /// Whether other sequences may use its rows.
    fn publishes(&self) -> bool {
        !self.private && !self.scope.incognito
    }

    /// Keys after the last full page.
    fn tail(&self) -> &[Key] {
        &self.keys[self.published * PAGE_TOKENS..]
    }
}

/// KV cache of one loaded model.
pub struct Cache {
    layout: PageLayout,
    /// Window of the window layers, if only some layers have one.
    window_tokens: Option<usize>,
    /// Recurrent states are stored at multiples of this, and at ends of turns.
    state_stride: usize,
    tiers: Option<TierState>,
    waker: Option<Waker>,
    scopes: ScopeRoots,
    owners: Owners,
    pool: Pool,
    trie: Trie,
    sequences: HashMap<SeqId, Sequence>,
    next_seq: u64,
    /// Logical clock that orders cached pages by their last use.
    clock: u64,
    stats: Stats,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Cache {
    /// Creates an empty cache for pages of this layout. Only this cache may grow its backend's pool.
    pub fn new(layout: PageLayout, budget: Arc<Budget>) -> Self {
        Self {
            pool: Pool::new(&layout, budget),
            window_tokens: geometry::window_tokens(&layout),
            state_stride: geometry::state_stride(&layout),
            layout,
            tiers: None,
            waker: None,
            scopes: ScopeRoots::default(),
            owners: Owners::default(),
            trie: Trie::new(),
            sequences: HashMap::new(),
            next_seq: 0,
            clock: 0,
            stats: Stats::default(),
        }
    }

    /// Sets a callback for restored chunks that have arrived, and for memory that other caches have released.
    pub fn set_waker(&mut self, waker: Waker) {
        self.pool.budget().add_waker(&waker);
        self.waker = Some(waker);
    }

    /// Opens a sequence for `tokens`. Returns how many of them are cached: the longest prefix in the trie from which all layers can
    /// continue. It never includes the last token, which must run to give logits.
    pub fn open<K: Copy + Into<Key>>(&mut self, tokens: &[K]) -> (SeqId, usize) {
        self.open_scoped(tokens, &CacheScope::default())
    }

    /// Like [`Cache::open`], within a scope.
    pub fn open_scoped<K: Copy + Into<Key>>(&mut self, tokens: &[K], scope: &CacheScope) -> (SeqId, usize) {
        let keys: Vec<Key> = tokens.iter().copied().map(Into::into).collect();
        let root = self.root(scope.name.as_ref());
        let found = self.find_longest(root, &keys[..keys.len().saturating_sub(1)]);
        let mut pages: Vec<PageId> = found.nodes.iter().map(|&node| self.trie.page(node)).collect();
        let cached = self.usable_end(&pages, found.tokens);
        pages.truncate(cached.div_ceil(PAGE_TOKENS));
        let published = cached / PAGE_TOKENS;
        let sequence = Sequence {
            keys: keys[..cached].to_vec(),
            pages,
            node: published.checked_sub(1).map_or(root, |last| found.nodes[last]),
            published,
            usable: None,
            turns: [cached, tokens.len()],
            private: false,
            scope: scope.clone(),
            snapshot: None,
            targets: Vec::new(),
        };
        self.stats.lookup_tokens += tokens.len() as u64;
        self.stats.hit_tokens += cached as u64;
        let seq = self.start(sequence);
        self.load_snapshot(seq);
        (seq, cached)
    }

    /// The longest prefix of these keys below a root, whether or not its pages have all rows.
    fn find_longest(&self, root: NodeId, keys: &[Key]) -> TrieMatch {
        let (mut nodes, mut rest) = (Vec::new(), keys);
        let last = |nodes: &[NodeId]| nodes.last().copied().unwrap_or(root);
        while let Some((page_keys, after)) = rest.split_at_checked(PAGE_TOKENS)
            && let Some(child) = self.trie.child(last(&nodes), page_keys)
        {
            nodes.push(child);
            rest = after;
        }
        let mut tokens = nodes.len() * PAGE_TOKENS;
        if let Some((child, shared)) = self.nearest(last(&nodes), &rest[..rest.len().min(PAGE_TOKENS)]) {
            nodes.push(child);
            tokens += shared;
        }
        TrieMatch { nodes, tokens }
    }

    /// Opens a copy of a sequence. The pages are shared until one of the two writes.
    pub fn fork(&mut self, seq: SeqId) -> SeqId {
        self.cancel_restore(seq);
        let mut sequence = self.sequence(seq).clone();
        // Reserved pages stay with the first sequence.
        sequence.pages.truncate(sequence.keys.len().div_ceil(PAGE_TOKENS));
        sequence.targets.clear();
        if let Some(snapshot) = sequence.snapshot {
            self.pool.snapshots_mut().hold(snapshot.id);
        }
        self.start(sequence)
    }

    /// Reserves exclusive slots for the next `tokens` of a sequence. Must be called before every step that writes.
    ///
    /// # Errors
    /// [`Error::Full`] if running sequences leave no room. The sequence is unchanged then.
    pub fn reserve(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: usize) -> Result<(), Error> {
        self.cancel_restore(seq);
        self.reserve_snapshots(backend, seq, tokens)?;
        self.reserve_pages(backend, seq, tokens)
    }

    /// Like [`Cache::reserve`], also during a restore.
    fn reserve_pages(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: usize) -> Result<(), Error> {
        let sequence = self.sequence(seq);
        let len = sequence.keys.len();
        let tail = sequence.pages.get(len / PAGE_TOKENS).copied();
        let shared_tail = tail.filter(|&page| tokens > 0 && !self.pool.writable(page));
        let missing = (len + tokens).div_ceil(PAGE_TOKENS).saturating_sub(sequence.pages.len());
        let need = missing + usize::from(shared_tail.is_some());
        let copy_from = match self.make_room(backend, need) {
            Ok(()) => shared_tail,
            Err(full @ Error::Full { .. }) => {
                // A tail that is shared with the trie only can be removed from the trie instead of being copied.
                let unshared = shared_tail.filter(|&page| self.pool.holders(page) == 1);
                let Some(node) = unshared.and_then(|page| self.pool.node(page)) else { return Err(full) };
                self.make_room(backend, missing)?;
                self.remove_subtree(backend, node);
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(from) = copy_from {
            let to = self.pool.take().expect("make_room freed enough pages");
            backend.copy_page(from, to, len % PAGE_TOKENS);
            self.sequence_mut(seq).pages[len / PAGE_TOKENS] = to;
            self.release(from);
            self.stats.copied_pages += 1;
        }
        if let Some(&tail) = self.sequence(seq).pages.get(len / PAGE_TOKENS).filter(|_| tokens > 0) {
            // The page may have the states after tokens of another sequence, which the next rows replace.
            self.pool.drop_snapshot_after(tail, len);
        }
        for _ in 0..missing {
            let page = self.pool.take().expect("make_room freed enough pages");
            self.sequence_mut(seq).pages.push(page);
        }
        Ok(())
    }

    /// The sequence's pages, in order; page `i` holds slots `64 i .. 64 i + 64`.
    pub fn pages(&self, seq: SeqId) -> &[PageId] {
        &self.sequence(seq).pages
    }

    /// Number of tokens whose rows are in pages, and from which the next ones can continue.
    pub fn len(&self, seq: SeqId) -> usize {
        let sequence = self.sequence(seq);
        sequence.usable.unwrap_or(sequence.keys.len())
    }

    /// Records that the sequence's next slots have these tokens' rows, and publishes full pages. If another sequence has published
    /// the same page, this one uses that page.
    ///
    /// # Panics
    /// If the slots were not reserved. A model with recurrent layers must advance by as many tokens as were reserved.
    pub fn advance<K: Copy + Into<Key>>(&mut self, seq: SeqId, tokens: &[K]) {
        self.add_rows(seq, tokens);
        if !tokens.is_empty() {
            self.advance_snapshots(seq);
        }
        self.publish_pages(seq);
    }

    /// Records the tokens of the next rows.
    fn add_rows<K: Copy + Into<Key>>(&mut self, seq: SeqId, tokens: &[K]) {
        let pool = &self.pool;
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        let first = sequence.keys.len() / PAGE_TOKENS;
        sequence.keys.extend(tokens.iter().copied().map(Into::into));
        let end = if tokens.is_empty() { first } else { sequence.keys.len().div_ceil(PAGE_TOKENS) };
        let written = sequence.pages.get(first..end).expect("reserve comes before advance");
        assert!(written.iter().all(|&page| pool.writable(page)), "reserve comes before advance");
    }

    /// Publishes the full pages of a sequence.
    fn publish_pages(&mut self, seq: SeqId) {
        while self.sequence(seq).publishes() && self.sequence(seq).tail().len() >= PAGE_TOKENS {
            self.publish_page(seq);
        }
    }

    /// Drops the tokens from `len` on, and reserved slots. Drops more if window layers cannot continue from there. Returns the number
    /// of remaining tokens.
    #[must_use = "fewer tokens than requested may remain"]
    pub fn truncate(&mut self, seq: SeqId, len: usize) -> usize {
        self.cancel_restore(seq);
        let sequence = self.sequence(seq);
        // A sequence can always continue at its own end.
        let end = if len == sequence.keys.len() { len } else { self.usable_end(&sequence.pages, len) };
        self.cut(seq, end);
        end
    }

    fn cut(&mut self, seq: SeqId, len: usize) {
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        assert!(len <= sequence.keys.len(), "truncate({len}) of {} tokens", sequence.keys.len());
        let is_shorter = len < sequence.keys.len();
        sequence.keys.truncate(len);
        while sequence.published > len / PAGE_TOKENS {
            sequence.published -= 1;
            sequence.node = self.trie.parent(sequence.node);
        }
        let dropped = sequence.pages.split_off(len.div_ceil(PAGE_TOKENS));
        self.clock += 1;
        dropped.into_iter().for_each(|page| self.release(page));
        if is_shorter {
            self.load_snapshot(seq);
        }
    }

    /// Closes a sequence. Its rows stay cached until they are evicted, unless it is incognito.
    pub fn close(&mut self, seq: SeqId) {
        self.cancel_restore(seq);
        if !self.sequence(seq).scope.incognito {
            let end = self.publish_tail(seq);
            // The same answer to the same prompt is a use of the first one's rows.
            let used = self.published_tail(seq).unwrap_or(end);
            self.attach_last(seq, used);
            self.schedule_flush(seq, used);
            self.add_owner(seq, end);
        }
        self.discard(seq);
    }

    /// Closes a sequence whose last rows may be wrong. Only pages that [`Cache::advance`] has published stay cached.
    pub fn discard(&mut self, seq: SeqId) {
        self.drop_snapshots(seq);
        let sequence = self.sequences.remove(&seq).expect(OPEN);
        self.clock += 1;
        sequence.pages.into_iter().for_each(|page| self.release(page));
    }

    /// Drops all pages that no sequence holds.
    pub fn clear(&mut self) {
        while let Some(node) = self.trie.oldest() {
            self.remove_node(node);
        }
    }

    /// Whether pools of other models use a part of the budget.
    pub fn others_have_pages(&self) -> bool {
        self.pool.budget().used() > self.stats().bytes
    }

    /// Size and counters of the cache.
    pub fn stats(&self) -> Stats {
        let (pages, cached_pages) = (self.pool.len(), self.trie.idle());
        Stats {
            pages,
            cached_pages,
            live_pages: pages - cached_pages - self.pool.free(),
            bytes: pages as u64 * self.pool.page_bytes() + self.pool.snapshots().total_bytes(),
            ..self.stats
        }
    }

    /// Frees `need` pages: grows the pool to its fair share, or beyond if eviction would not be enough, then evicts. Evicts nothing on
    /// failure.
    fn make_room(&mut self, backend: &mut dyn Backend, need: usize) -> Result<(), Error> {
        if self.pool.free() < need {
            self.pool.grow(backend, need - self.pool.free(), self.pool.fair_pages())?;
        }
        let obtainable = self.pool.free() + self.trie.idle();
        if obtainable < need {
            self.pool.grow(backend, need - obtainable, usize::MAX)?;
        }
        let obtainable = self.pool.free() + self.trie.idle();
        if obtainable < need {
            let page_bytes = self.pool.page_bytes();
            return Err(Error::Full {
                need_bytes: need as u64 * page_bytes,
                free_bytes: obtainable as u64 * page_bytes,
                limit_bytes: self.pool.budget().limit(),
            });
        }
        while self.pool.free() < need {
            let evicted = self.evict(backend);
            assert!(evicted, "an idle node has only idle descendants, so one of them is a leaf");
            self.stats.evicted_pages += 1;
        }
        Ok(())
    }

    /// Evicts the least recently used leaf of the trie.
    fn evict(&mut self, backend: &dyn Backend) -> bool {
        let Some(node) = self.trie.oldest() else { return false };
        self.flush_before_evict(backend, node);
        self.remove_node(node);
        true
    }

    /// Removes a node and its descendants from the trie. At most one sequence holds the node's page.
    fn remove_subtree(&mut self, backend: &dyn Backend, node: NodeId) {
        while !self.trie.is_leaf(node) {
            let evicted = self.evict(backend);
            assert!(evicted, "a sequence with a descendant would hold this node too");
        }
        self.flush_before_evict(backend, node);
        self.remove_node(node);
    }

    fn start(&mut self, sequence: Sequence) -> SeqId {
        sequence.pages.iter().for_each(|&page| self.hold(page));
        let seq = SeqId(self.next_seq);
        self.next_seq += 1;
        self.sequences.insert(seq, sequence);
        seq
    }

    fn hold(&mut self, page: PageId) {
        if self.pool.hold(page)
            && let Some(node) = self.pool.node(page)
        {
            self.trie.set_idle(node, None);
        }
    }

    fn release(&mut self, page: PageId) {
        if self.pool.release(page)
            && let Some(node) = self.pool.node(page)
        {
            self.trie.set_idle(node, Some(self.clock));
        }
    }

    fn sequence(&self, seq: SeqId) -> &Sequence {
        self.sequences.get(&seq).expect(OPEN)
    }

    fn sequence_mut(&mut self, seq: SeqId) -> &mut Sequence {
        self.sequences.get_mut(&seq).expect(OPEN)
    }
}

/// A prefix in the trie.
struct TrieMatch {
    /// One node for each page. The last one may match only with its first keys.
    nodes: Vec<NodeId>,
    /// Number of matching keys.
    tokens: usize,
}

/// Why a lookup of a sequence succeeds.
const OPEN: &str = "the caller uses only open sequences";
