//! The sequences of one loaded model, and the pages they share with each other and with what was computed before.
//!
//! A sequence's full pages are the trie's own; only its tail page may be its own alone. Opening and forking share pages
//! and copy nothing. [`Cache::reserve`] makes the slots that the next step writes belong to the sequence alone, copying the
//! rows in use of a shared tail page where it must.
//!
//! Memory comes first from growth to a fair share of the budget, then from cached pages, the leaf unused for longest first.
//! Sequences in use may take the rest of the budget; when that is spent too, the caller is told what it would need and has
//! to wait.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_tensor::{Backend, BackendError, PAGE_TOKENS, PageId, PageLayout};
use cairn_tier::Key;

use crate::budget::Budget;
use crate::geometry;
use crate::pool::Pool;
use crate::trie::{NodeId, Trie};

mod keep;
mod publish;
mod recall;
mod shift;
#[cfg(test)]
mod tests;
mod whose;
mod window;

use self::keep::Keeper;
pub use self::keep::SLICE_BYTES;
pub use self::recall::{Lookup, Outcome, Recall, Recalled};
pub use self::shift::ShiftError;
use self::whose::{Owners, Spaces};
pub use self::whose::{Peek, Whose};

/// One sequence of one cache. Never used again after it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeqId(u64);

/// Why pages were refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Sequences in use hold all pages that the budget allows. Closing one of them makes room.
    #[error("{need_bytes} bytes of KV cache are needed, {free_bytes} of {limit_bytes} are free")]
    Full {
        /// Bytes that the reservation still needs.
        need_bytes: u64,
        /// Bytes free in this pool or held by cached pages only.
        free_bytes: u64,
        /// Bytes that all pools together may use.
        limit_bytes: u64,
    },
    /// The backend refused for another reason than memory.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// What a cache holds, and what it has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages in the backend's pool.
    pub pages: usize,
    /// Of these, pages that only the trie holds.
    pub cached_pages: usize,
    /// Of these, pages that sequences hold.
    pub live_pages: usize,
    /// Bytes of all pages in the pool.
    pub bytes: u64,
    /// Tokens of all prompts that were opened.
    pub lookup_tokens: u64,
    /// Of these, tokens that were found computed.
    pub hit_tokens: u64,
    /// Pages taken from the trie to make room.
    pub evicted_pages: u64,
    /// Pages copied before a write.
    pub copied_pages: u64,
}

#[derive(Clone, Debug)]
struct Sequence {
    /// What has been computed.
    keys: Vec<Key>,
    /// Covers `keys`, and what is reserved beyond.
    pages: Vec<PageId>,
    /// The trie node of the last full page.
    node: NodeId,
    /// How many leading pages the trie knows: all full ones, or those that were found there.
    published: usize,
    /// While rows are brought back: how many leading tokens are of use, whatever else is there already.
    usable: Option<usize>,
    /// Where it began to be computed, and where its prompt ended: another may go on from there.
    turns: [usize; 2],
    /// Whether its rows are not those of its tokens, so that nobody else may have them: see [`Cache::shift`].
    private: bool,
    whose: Whose,
}

impl Sequence {
    /// Whether others may find what it computes.
    fn publishes(&self) -> bool {
        !self.private && !self.whose.incognito
    }

    /// Keys after the last full page.
    fn tail(&self) -> &[Key] {
        &self.keys[self.published * PAGE_TOKENS..]
    }
}

/// The pages and sequences of one loaded model.
#[derive(Debug)]
pub struct Cache {
    layout: PageLayout,
    /// How far layers with a window look back, where only some have one.
    window_tokens: Option<usize>,
    /// None where nothing is kept beyond the pool.
    keeper: Option<Keeper>,
    spaces: Spaces,
    owners: Owners,
    pool: Pool,
    trie: Trie,
    sequences: HashMap<SeqId, Sequence>,
    next_seq: u64,
    /// Counts releases, to order cached pages by their last use.
    clock: u64,
    stats: Stats,
}

impl Cache {
    /// An empty cache for pages of this layout. Its backend must have a fresh pool that nobody else grows.
    pub fn new(layout: PageLayout, budget: Arc<Budget>) -> Self {
        Self {
            pool: Pool::new(&layout, budget),
            window_tokens: geometry::groups(&layout).window_tokens.map(|tokens| tokens as usize),
            layout,
            keeper: None,
            spaces: Spaces::default(),
            owners: Owners::default(),
            trie: Trie::new(),
            sequences: HashMap::new(),
            next_seq: 0,
            clock: 0,
            stats: Stats::default(),
        }
    }

    /// Starts a sequence that will hold `tokens` and returns how many of them are computed already: the longest known prefix whose
    /// end all layers can go on from, but never all, since the last token must run to give logits.
    pub fn open(&mut self, tokens: &[u32]) -> (SeqId, usize) {
        self.open_for(tokens, &Whose::default())
    }

    /// As [`Cache::open`], for somebody.
    pub fn open_for(&mut self, tokens: &[u32], whose: &Whose) -> (SeqId, usize) {
        let keys: Vec<Key> = tokens.iter().copied().map(Key::token).collect();
        let root = self.root(whose.space.as_ref());
        let known = self.known(root, &keys[..keys.len().saturating_sub(1)]);
        let mut pages: Vec<PageId> = known.nodes.iter().map(|&node| self.trie.page(node)).collect();
        let cached = self.usable_end(&pages, known.tokens);
        pages.truncate(cached.div_ceil(PAGE_TOKENS));
        let published = cached / PAGE_TOKENS;
        let sequence = Sequence {
            keys: keys[..cached].to_vec(),
            pages,
            node: published.checked_sub(1).map_or(root, |last| known.nodes[last]),
            published,
            usable: None,
            turns: [cached, tokens.len()],
            private: false,
            whose: whose.clone(),
        };
        self.stats.lookup_tokens += tokens.len() as u64;
        self.stats.hit_tokens += cached as u64;
        (self.start(sequence), cached)
    }

    /// The longest prefix of these keys that the trie knows below a root, whether or not its pages have all rows.
    fn known(&self, root: NodeId, keys: &[Key]) -> Known {
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
        Known { nodes, tokens }
    }

    /// A second sequence with the same content. The pages are shared until one of the two writes.
    pub fn fork(&mut self, seq: SeqId) -> SeqId {
        self.abandon(seq);
        let mut sequence = self.sequence(seq).clone();
        // Pages that are only reserved belong to the first sequence.
        sequence.pages.truncate(sequence.keys.len().div_ceil(PAGE_TOKENS));
        self.start(sequence)
    }

    /// Makes room for the next `tokens` of a sequence, in pages that nobody else sees. Comes before every step that writes.
    ///
    /// # Errors
    /// [`Error::Full`] where sequences in use leave no room; the sequence is then as it was.
    pub fn reserve(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: usize) -> Result<(), Error> {
        self.abandon(seq);
        self.provide(backend, seq, tokens)
    }

    /// As [`Cache::reserve`], in the middle of a recall too.
    fn provide(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: usize) -> Result<(), Error> {
        let sequence = self.sequence(seq);
        let len = sequence.keys.len();
        let tail = sequence.pages.get(len / PAGE_TOKENS).copied();
        let shared_tail = tail.filter(|&page| tokens > 0 && !self.pool.writable(page));
        let missing = (len + tokens).div_ceil(PAGE_TOKENS).saturating_sub(sequence.pages.len());
        let need = missing + usize::from(shared_tail.is_some());
        let copy_from = match self.make_room(backend, need) {
            Ok(()) => shared_tail,
            Err(full @ Error::Full { .. }) => {
                // A tail that only the trie shares can leave the trie instead of being copied.
                let alone = shared_tail.filter(|&page| self.pool.holders(page) == 1);
                let Some(node) = alone.and_then(|page| self.pool.node(page)) else { return Err(full) };
                self.make_room(backend, missing)?;
                self.withdraw(backend, node);
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(from) = copy_from {
            let to = self.pool.take().expect("make_room left enough free pages");
            backend.copy_page(from, to, len % PAGE_TOKENS);
            self.sequence_mut(seq).pages[len / PAGE_TOKENS] = to;
            self.release(from);
            self.stats.copied_pages += 1;
        }
        for _ in 0..missing {
            let page = self.pool.take().expect("make_room left enough free pages");
            self.sequence_mut(seq).pages.push(page);
        }
        Ok(())
    }

    /// The sequence's pages, in order; page `i` holds slots `64 i .. 64 i + 64`.
    pub fn pages(&self, seq: SeqId) -> &[PageId] {
        &self.sequence(seq).pages
    }

    /// Tokens of the sequence that are computed, and that the next ones can go on from.
    pub fn len(&self, seq: SeqId) -> usize {
        let sequence = self.sequence(seq);
        sequence.usable.unwrap_or(sequence.keys.len())
    }

    /// Says that these tokens' rows now stand in the sequence's next slots. Pages that became full are known to later requests
    /// from here on. Where another sequence computed the same page first, this one goes on with that.
    ///
    /// # Panics
    /// Where the slots were not reserved.
    pub fn advance(&mut self, seq: SeqId, tokens: &[u32]) {
        let pool = &self.pool;
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        let first = sequence.keys.len() / PAGE_TOKENS;
        sequence.keys.extend(tokens.iter().copied().map(Key::token));
        let end = if tokens.is_empty() { first } else { sequence.keys.len().div_ceil(PAGE_TOKENS) };
        let written = sequence.pages.get(first..end).expect("reserve comes before advance");
        assert!(written.iter().all(|&page| pool.writable(page)), "reserve comes before advance");
        while self.sequence(seq).publishes() && self.sequence(seq).tail().len() >= PAGE_TOKENS {
            self.publish_page(seq);
        }
    }

    /// Forgets the tokens from `len` on, and what was reserved. Where layers with a window cannot go on from there, it forgets more.
    /// Returns how many tokens are left.
    #[must_use = "fewer tokens than asked for may be left"]
    pub fn truncate(&mut self, seq: SeqId, len: usize) -> usize {
        self.abandon(seq);
        let end = self.usable_end(&self.sequence(seq).pages, len);
        self.cut(seq, end);
        end
    }

    fn cut(&mut self, seq: SeqId, len: usize) {
        let sequence = self.sequences.get_mut(&seq).expect(OPEN);
        assert!(len <= sequence.keys.len(), "truncate({len}) of {} tokens", sequence.keys.len());
        sequence.keys.truncate(len);
        while sequence.published > len / PAGE_TOKENS {
            sequence.published -= 1;
            sequence.node = self.trie.parent(sequence.node);
        }
        let dropped = sequence.pages.split_off(len.div_ceil(PAGE_TOKENS));
        self.clock += 1;
        dropped.into_iter().for_each(|page| self.release(page));
    }

    /// Ends a sequence. All that it computed stays cached until it is evicted, unless nobody is to know of it.
    pub fn close(&mut self, seq: SeqId) {
        self.abandon(seq);
        if !self.sequence(seq).whose.incognito {
            let end = self.publish_tail(seq);
            self.mark(seq, end);
            self.own(seq, end);
        }
        self.discard(seq);
    }

    /// Ends a sequence whose last rows may be wrong: nothing that [`Cache::advance`] has not published yet will be cached.
    pub fn discard(&mut self, seq: SeqId) {
        let sequence = self.sequences.remove(&seq).expect(OPEN);
        self.clock += 1;
        sequence.pages.into_iter().for_each(|page| self.release(page));
    }

    /// Forgets all that no sequence holds.
    pub fn clear(&mut self) {
        while let Some(node) = self.trie.oldest() {
            self.forget(node);
        }
    }

    /// Whether pools of other models have a part of the budget.
    pub fn others_have_pages(&self) -> bool {
        self.pool.budget().used() > self.pool.len() as u64 * self.pool.page_bytes()
    }

    /// What the cache holds and has done.
    pub fn stats(&self) -> Stats {
        let (pages, cached_pages) = (self.pool.len(), self.trie.idle());
        Stats {
            pages,
            cached_pages,
            live_pages: pages - cached_pages - self.pool.free(),
            bytes: pages as u64 * self.pool.page_bytes(),
            ..self.stats
        }
    }

    /// Frees `need` pages: grows the pool to its fair share, or beyond where nothing can be evicted, then evicts. Evicts nothing
    /// where that would not be enough.
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

    /// Takes the cached leaf unused for longest out of the trie.
    fn evict(&mut self, backend: &dyn Backend) -> bool {
        let Some(node) = self.trie.oldest() else { return false };
        self.rescue(backend, node);
        self.forget(node);
        true
    }

    /// Takes a node, which one sequence holds at most, out of the trie with all that continues it.
    fn withdraw(&mut self, backend: &dyn Backend, node: NodeId) {
        while !self.trie.is_leaf(node) {
            let evicted = self.evict(backend);
            assert!(evicted, "whoever held a descendant would hold this node too");
        }
        self.rescue(backend, node);
        self.forget(node);
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

/// What the trie knows of some keys.
struct Known {
    /// One for each page; the last may share only its first keys.
    nodes: Vec<NodeId>,
    /// The keys that they have in common with those that were looked up.
    tokens: usize,
}

/// Why a lookup of a sequence succeeds.
const OPEN: &str = "the caller uses only sequences that it has opened and not closed";
