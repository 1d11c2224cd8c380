//! What a cache that does not care would do, to see that the proofs notice. None of it can be had from what is shipped: tiers and
//! backends are wrapped.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Kv, Limits, PAGE_TOKENS, PageId, Plan, PlanId, StateId, Weight,
    WeightId,
};
use cairn_tier::{Chunk, ChunkId, Miss, Place, Stored, Tier, TierError, Wanted};

/// Bytes of a row of the toys' models, and their heads.
const ROW_BYTES: usize = 16;
const HEADS: usize = 2;

/// A mistake that a cache could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// All tenants have one namespace: names of chunks say no more whose they are.
    OneNamespace,
    /// Two pages of a chunk change places.
    SwappedPages,
    /// Of a chunk that goes on differently, one row too many is used.
    OneRowTooMany,
    /// Of a page that is shared and then written, one row too few is copied.
    ShortCopy,
    /// Rows are handed on before anybody has looked whether they are whole.
    Unverified,
    /// Whatever lies under a name is taken, without a look at its tokens.
    AnyTokens,
}

impl Lie {
    pub(crate) const ALL: [Lie; 6] = [
        Self::OneNamespace,
        Self::SwappedPages,
        Self::OneRowTooMany,
        Self::ShortCopy,
        Self::Unverified,
        Self::AnyTokens,
    ];
}

/// A tier that gives wrong rows as if they had been found right.
pub(crate) struct LyingTier {
    tier: Arc<dyn Tier>,
    lie: Lie,
    /// What was loaded before.
    before: Mutex<Option<Chunk>>,
}

impl LyingTier {
    pub(crate) fn new(tier: Arc<dyn Tier>, lie: Lie) -> Self {
        Self { tier, lie, before: Mutex::default() }
    }
}

impl Tier for LyingTier {
    fn place(&self) -> Place {
        self.tier.place()
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        self.tier.scan(each)
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        let chunk = self.tier.load(wanted)?;
        let mut payload = chunk.payload.to_vec();
        let mut rest = payload.as_mut_slice();
        let pages = chunk.head.keys.len().div_ceil(PAGE_TOKENS);
        for shape in chunk.head.sections.iter() {
            let (section, after) = rest.split_at_mut(shape.bytes as usize);
            let page_bytes = section.len() / pages;
            match self.lie {
                Lie::SwappedPages if pages > 1 => {
                    let (one, other) = section.split_at_mut(page_bytes);
                    one.swap_with_slice(&mut other[..page_bytes]);
                }
                Lie::OneRowTooMany if wanted.keys.len() < chunk.head.keys.len() => {
                    // The last row that is of use is that of the token after it.
                    let last = wanted.keys.len() - 1;
                    for head in 0..HEADS {
                        let at = |row: usize| {
                            let page = row / PAGE_TOKENS * page_bytes;
                            page + (head * PAGE_TOKENS + row % PAGE_TOKENS) * ROW_BYTES
                        };
                        section.copy_within(at(last + 1)..at(last + 1) + ROW_BYTES, at(last));
                    }
                }
                Lie::Unverified => section[ROW_BYTES] ^= 1,
                _ => {}
            }
            rest = after;
        }
        let told = Chunk { head: Arc::clone(&chunk.head), payload: payload.into() };
        let before = self.before.lock().expect("nobody panics with it").replace(chunk);
        match before.filter(|before| self.lie == Lie::AnyTokens && before.payload.len() == told.payload.len()) {
            Some(before) => Ok(Chunk { payload: before.payload, ..told }),
            None => Ok(told),
        }
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        self.tier.save(chunk)
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.tier.remove(id)
    }
}

/// Told of logits.
pub(crate) type Seen = dyn Fn(&[f32]) + Send;

/// A backend that is watched, or made to copy something else than it is asked for.
pub(crate) struct Wrapped<B> {
    pub(crate) backend: B,
    /// Rows that are copied where so many are asked for.
    pub(crate) copied: fn(usize) -> usize,
    /// Is told of each row of logits.
    pub(crate) seen: Box<Seen>,
}

impl<B: Backend> Backend for Wrapped<B> {
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
        (self.seen)(out);
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

    fn free_memory(&self) -> u64 {
        self.backend.free_memory()
    }
}
