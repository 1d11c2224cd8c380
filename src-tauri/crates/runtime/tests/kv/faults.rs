//! Injected cache faults, to check that the proofs detect them. They wrap tiers and backends; the shipped code has no such switches.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Kv, Limits, PAGE_TOKENS, PageId, Plan, PlanId, RecurrentId,
    SnapshotId, StateId, Weight, WeightId,
};
use cairn_tier::{Chunk, ChunkId, ChunkRequest, Miss, StoredChunk, Tier, TierError, TierKind};

/// Row size and number of heads of the toy models.
const ROW_BYTES: usize = 16;
const HEADS: usize = 2;

/// A fault of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheFault {
    /// All tenants have one namespace: names of chunks do not identify the tenant.
    OneNamespace,
    /// Two pages of a chunk are swapped.
    SwappedPages,
    /// One row too many of a diverging chunk is used.
    OneRowTooMany,
    /// One row too few is copied from a shared page.
    ShortCopy,
    /// Rows are used without an integrity check.
    Unverified,
    /// Rows are used without a comparison of their tokens.
    AnyTokens,
}

impl CacheFault {
    pub(crate) const ALL: [CacheFault; 6] = [
        Self::OneNamespace,
        Self::SwappedPages,
        Self::OneRowTooMany,
        Self::ShortCopy,
        Self::Unverified,
        Self::AnyTokens,
    ];
}

/// A tier that returns wrong rows.
pub(crate) struct FaultyTier {
    tier: Arc<dyn Tier>,
    fault: CacheFault,
    /// The chunk that was loaded before.
    before: Mutex<Option<Chunk>>,
}

impl FaultyTier {
    pub(crate) fn new(tier: Arc<dyn Tier>, fault: CacheFault) -> Self {
        Self { tier, fault, before: Mutex::default() }
    }
}

impl Tier for FaultyTier {
    fn kind(&self) -> TierKind {
        self.tier.kind()
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        self.tier.scan(each)
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        let chunk = self.tier.load(wanted)?;
        let mut payload = chunk.payload.to_vec();
        let mut rest = payload.as_mut_slice();
        let pages = chunk.head.keys.len().div_ceil(PAGE_TOKENS);
        for shape in chunk.head.sections.iter() {
            let (section, after) = rest.split_at_mut(shape.bytes as usize);
            let page_bytes = section.len() / pages;
            match self.fault {
                CacheFault::SwappedPages if pages > 1 => {
                    let (one, other) = section.split_at_mut(page_bytes);
                    one.swap_with_slice(&mut other[..page_bytes]);
                }
                CacheFault::OneRowTooMany if wanted.keys.len() < chunk.head.keys.len() => {
                    // The last used row becomes that of the next token.
                    let last = wanted.keys.len() - 1;
                    for head in 0..HEADS {
                        let at = |row: usize| {
                            let page = row / PAGE_TOKENS * page_bytes;
                            page + (head * PAGE_TOKENS + row % PAGE_TOKENS) * ROW_BYTES
                        };
                        section.copy_within(at(last + 1)..at(last + 1) + ROW_BYTES, at(last));
                    }
                }
                CacheFault::Unverified => section[ROW_BYTES] ^= 1,
                _ => {}
            }
            rest = after;
        }
        let changed = Chunk { head: Arc::clone(&chunk.head), payload: payload.into() };
        let before = self.before.lock().expect("no thread panics with the lock").replace(chunk);
        match before
            .filter(|before| self.fault == CacheFault::AnyTokens && before.payload.len() == changed.payload.len())
        {
            Some(before) => Ok(Chunk { payload: before.payload, ..changed }),
            None => Ok(changed),
        }
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        self.tier.save(chunk)
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.tier.remove(id)
    }
}

/// Observer of logits.
pub(crate) type Observer = dyn Fn(&[f32]) + Send + Sync;

/// A backend with an observer of its logits and a faulty copy.
pub(crate) struct WrappedBackend<B> {
    pub(crate) backend: B,
    /// Number of rows to copy instead of the requested number.
    pub(crate) copied: fn(usize) -> usize,
    /// Called with each row of logits.
    pub(crate) observer: Box<Observer>,
}

impl<B: Backend> Backend for WrappedBackend<B> {
    fn caps(&self) -> Caps {
        self.backend.caps()
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        self.backend.upload(weight)
    }

    fn prepare(&mut self, plan: Plan, limits: Limits) -> Result<PlanId, BackendError> {
        self.backend.prepare(plan, limits)
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        self.backend.grow_pages(pages)
    }

    fn run(&mut self, plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        self.backend.run(plan, batch)
    }

    fn read(&self, plan: PlanId, buffer: BufferId, rows: Range<usize>, out: &mut [f32]) {
        self.backend.read(plan, buffer, rows, out);
        (self.observer)(out);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        self.backend.copy_page(from, to, (self.copied)(tokens));
    }

    fn read_section(&self, page: PageId, state: StateId, kv: Kv, out: &mut [u8]) {
        self.backend.read_section(page, state, kv, out);
    }

    fn write_section(&mut self, page: PageId, state: StateId, kv: Kv, bytes: &[u8]) {
        self.backend.write_section(page, state, kv, bytes);
    }

    fn read_page(&self, page: PageId, out: &mut [u8]) {
        self.backend.read_page(page, out);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.backend.write_page(page, bytes);
    }

    fn grow_snapshots(&mut self, snapshots: usize) -> Result<(), BackendError> {
        self.backend.grow_snapshots(snapshots)
    }

    fn read_snapshot(&self, snapshot: SnapshotId, state: RecurrentId, out: &mut [u8]) {
        self.backend.read_snapshot(snapshot, state, out);
    }

    fn write_snapshot(&mut self, snapshot: SnapshotId, state: RecurrentId, bytes: &[u8]) {
        self.backend.write_snapshot(snapshot, state, bytes);
    }

    fn free_memory(&self) -> u64 {
        self.backend.free_memory()
    }
}
