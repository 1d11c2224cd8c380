//! A backend whose next token is a hash of all previous rows, so that one wrong row anywhere in a cache gives a wrong
//! token.
//!
//! [`HashBackend`] runs the plans of normal families without weights. Its pages are its only state. At each position it
//! reads the rows of all visible previous positions through the batch's page tables, and writes a 128-bit hash of these
//! rows and the token, different for each layer, head, keys and values. The next token is a hash of all rows that were
//! read. Recurrent states are hashes of the state before and of the row. [`History`] computes the expected token from the tokens
//! alone.
//!
//! **Invariant:** the two share the formulas of [`HashModel`] and nothing else: a history has no pages, a backend has
//! no history.

mod slices;

use std::time::Duration;

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Input, Kv, Limits, PAGE_TOKENS, PageId, PageLayout, Plan, PlanId,
    RecurrentId, SnapshotId, StateId, StateKind, Weight, WeightId,
};

use self::slices::Slices;
use crate::random::Random;

/// Bytes of a hash: rows are whole hashes.
const WORD_BYTES: usize = 16;
/// Number of possible next tokens: single bytes, none of which ends an answer.
const TOKENS: u128 = 251;
/// Odd numbers without a pattern (the digits of pi).
const KEYS: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];

/// Folds the two halves of a product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes a word with a key.
fn mix(word: u128, key: u64) -> u128 {
    let (low, high) = (word as u64, (word >> 64) as u64);
    let first = fold(low ^ KEYS[0] ^ key, high ^ KEYS[1]);
    let second = fold(low ^ KEYS[2], high ^ KEYS[3] ^ key.rotate_left(32));
    u128::from(first) << 64 | u128::from(second)
}

/// Layout of one layer.
#[derive(Clone, Copy, Debug)]
struct Layer {
    /// Window size; `None` for full attention.
    window: Option<usize>,
    /// Whether the window is a chunk that begins at a multiple of its size.
    is_chunk: bool,
    /// Number of words of one position in the previous layers.
    first_word: usize,
    /// Number of words of one position in this layer: keys and values of all heads.
    words: usize,
}

/// Function computed by a backend: the visible positions of each layer, and a salt that distinguishes models of one
/// architecture.
#[derive(Clone, Debug)]
pub struct HashModel {
    salt: u64,
    layers: Vec<Layer>,
    /// Number of words of all recurrent states.
    recurrent_words: usize,
}

impl HashModel {
    /// Creates the model of a plan.
    ///
    /// # Panics
    /// When rows of `kv_type` are not a whole number of hashes.
    pub fn new(plan: &Plan, kv_type: DType, salt: u64) -> Self {
        let layout = plan.page_layout(kv_type);
        let mut words = 0;
        let layers = plan.states.iter().enumerate().map(|(index, state)| {
            let row_bytes: usize = layout.row_bytes[index].iter().sum();
            let is_whole = layout.row_bytes[index].iter().all(|bytes| bytes.is_multiple_of(WORD_BYTES));
            assert!(is_whole, "rows of {:?} bytes are not a whole number of hashes", layout.row_bytes[index]);
            let (window, is_chunk) = match state.kind {
                StateKind::Full | StateKind::Causal | StateKind::Around(_) | StateKind::Region => (None, false),
                StateKind::Window(tokens) => (Some(tokens as usize), false),
                StateKind::Chunk(tokens) => (Some(tokens as usize), true),
            };
            let first_word = words;
            words += state.kv_heads * row_bytes / WORD_BYTES;
            Layer { window, is_chunk, first_word, words: words - first_word }
        });
        let layers: Vec<Layer> = layers.collect();
        let salt =
            layers.iter().fold(salt, |salt, layer| fold(salt ^ KEYS[0], layer.window.unwrap_or(0) as u64 ^ KEYS[1]));
        let words = |state: &std::ops::Range<usize>| state.len() / WORD_BYTES;
        let recurrent_words = layout.snapshot.sections.iter().map(words).sum();
        Self { layers, salt, recurrent_words }
    }

    /// Returns the first position that is visible at `slot` in a layer.
    fn first_visible(&self, layer: usize, slot: usize) -> usize {
        let Layer { window, is_chunk, .. } = self.layers[layer];
        match window {
            None => 0,
            Some(tokens) if is_chunk => slot / tokens * tokens,
            Some(window) => (slot + 1).saturating_sub(window),
        }
    }

    /// Returns the hash that a position writes. `seen` are the sums of the visible rows by layer.
    fn row(&self, seen: &[u128], token: u32, slot: usize) -> u128 {
        mix(self.all(seen) ^ u128::from(token), self.salt ^ (slot as u64).wrapping_mul(KEYS[2]))
    }

    /// Returns the next token after a position. `seen` includes its own row.
    fn token(&self, seen: &[u128]) -> u32 {
        (mix(self.all(seen), self.salt ^ KEYS[3]) % TOKENS) as u32
    }

    fn all(&self, seen: &[u128]) -> u128 {
        seen.iter().fold(0, |all, sum| mix(all ^ sum, self.salt))
    }

    /// Combines the words of all recurrent states.
    fn states(words: impl Iterator<Item = u128>) -> u128 {
        words.zip(0..).fold(0, |sum, (word, number)| sum.wrapping_add(Self::contribution(word, 0, number)))
    }

    /// Returns the words of all recurrent states after a row; zeros before the first row.
    fn words_after(&self, before: u128, row: u128) -> impl Iterator<Item = u128> + use<> {
        let state = mix(before ^ row, KEYS[2]);
        (0..self.recurrent_words).map(move |number| Self::word(state, number))
    }

    /// Returns one word of a row.
    fn word(row: u128, number: usize) -> u128 {
        mix(row, (number as u64 + 1).wrapping_mul(KEYS[1]))
    }

    /// Returns the contribution of a word to the sum of visible rows.
    fn contribution(word: u128, slot: usize, number: usize) -> u128 {
        mix(word, ((slot as u64) << 24 | number as u64).wrapping_mul(KEYS[0]))
    }
}

/// Expected tokens of a [`HashBackend`], computed from the tokens alone.
#[derive(Clone, Debug)]
pub struct History {
    model: HashModel,
    tokens: Vec<u32>,
    /// Sums of the contributions of all previous positions: `[tokens + 1, layers]`.
    sums: Vec<u128>,
    /// Combined recurrent states: `[tokens + 1]`.
    states: Vec<u128>,
}

impl History {
    /// Creates an empty history.
    pub fn new(model: HashModel) -> Self {
        let sums = vec![0; model.layers.len()];
        let states = vec![HashModel::states((0..model.recurrent_words).map(|_| 0))];
        Self { model, tokens: Vec::new(), sums, states }
    }

    /// Returns all tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Adds a token.
    pub fn push(&mut self, token: u32) {
        let slot = self.tokens.len();
        let row = self.model.row(&self.seen(slot, slot), token, slot);
        for layer in 0..self.model.layers.len() {
            let Layer { first_word, words, .. } = self.model.layers[layer];
            let contribution = |number| HashModel::contribution(HashModel::word(row, number), slot, number);
            let sum =
                (first_word..first_word + words).map(contribution).fold(self.sum(slot, layer), u128::wrapping_add);
            self.sums.push(sum);
        }
        self.states.push(HashModel::states(self.model.words_after(self.states[slot], row)));
        self.tokens.push(token);
    }

    /// Adds tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|&token| self.push(token));
    }

    /// Keeps the first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.sums.truncate((len + 1) * self.model.layers.len());
        self.states.truncate(len + 1);
    }

    /// Returns the token after the last one.
    pub fn next(&self) -> u32 {
        let slot = self.tokens.len() - 1;
        self.model.token(&self.seen(slot, slot + 1))
    }

    /// Returns the sum of contributions of the positions before `end` in a layer.
    fn sum(&self, end: usize, layer: usize) -> u128 {
        self.sums[end * self.model.layers.len() + layer]
    }

    /// Returns the sums of the visible rows at `slot` before `end`, by layer, and then the recurrent states.
    fn seen(&self, slot: usize, end: usize) -> Vec<u128> {
        let layers = 0..self.model.layers.len();
        let sum =
            |layer: usize| self.sum(end, layer).wrapping_sub(self.sum(self.model.first_visible(layer, slot), layer));
        layers.map(sum).chain([self.states[end]]).collect()
    }
}

/// Backend that computes hashes of cached rows instead of a model. The module documentation describes it.
#[derive(Debug)]
pub struct HashBackend {
    salt: u64,
    kv_type: DType,
    /// Additional time per row.
    row_time: Duration,
    prepared: Option<Prepared>,
    pages: Vec<Vec<u8>>,
    snapshots: Vec<Vec<u8>>,
    /// Next tokens of the last run.
    next_tokens: Vec<u32>,
}

/// A prepared plan.
#[derive(Debug)]
struct Prepared {
    model: HashModel,
    layout: PageLayout,
    slices: Slices,
}

/// Sum of the contributions of the positions `from..end` in a layer.
#[derive(Clone, Copy, Debug)]
struct VisibleSum {
    from: usize,
    end: usize,
    sum: u128,
}

impl HashBackend {
    /// Creates a backend with pages of type `kv_type`. Different salts give different tokens. Each row takes
    /// `row_time`, so that restoring rows is faster than recomputing them.
    pub fn new(kv_type: DType, salt: u64, row_time: Duration) -> Self {
        Self {
            salt,
            kv_type,
            row_time,
            prepared: None,
            pages: Vec::new(),
            snapshots: Vec::new(),
            next_tokens: Vec::new(),
        }
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.as_ref().expect("prepare is called before pages are used")
    }

    /// Returns the byte offsets, within a page, of all hashes that a slot has in a layer.
    fn words(&self, layer: usize, slot: usize) -> impl Iterator<Item = usize> + use<> {
        let layout = &self.prepared().layout;
        let (sections, row_bytes) = (layout.sections[layer], layout.row_bytes[layer]);
        let (heads, slot) = (layout.kv_heads[layer], slot % PAGE_TOKENS);
        let rows = sections.into_iter().zip(row_bytes).flat_map(move |(section, row_bytes)| {
            (0..heads).map(move |head| {
                let row = section + (head * PAGE_TOKENS + slot) * row_bytes;
                row..row + row_bytes
            })
        });
        rows.flat_map(|row| row.step_by(WORD_BYTES))
    }

    /// Computes the contribution of a slot in a layer from its page.
    fn read_slot(&self, table: &[PageId], layer: usize, slot: usize) -> u128 {
        let page = &self.pages[table[slot / PAGE_TOKENS].0 as usize];
        let first = self.prepared().model.layers[layer].first_word;
        self.words(layer, slot).zip(first..).fold(0, |sum, (at, number)| {
            let word =
                page[at..].first_chunk().map(|bytes| u128::from_le_bytes(*bytes)).expect("words are inside pages");
            sum.wrapping_add(HashModel::contribution(word, slot, number))
        })
    }

    fn write_slot(&mut self, table: &[PageId], slot: usize, row: u128) {
        for layer in 0..self.prepared().model.layers.len() {
            let first = self.prepared().model.layers[layer].first_word;
            for (at, number) in self.words(layer, slot).zip(first..) {
                let word = HashModel::word(row, number).to_le_bytes();
                self.pages[table[slot / PAGE_TOKENS].0 as usize][at..at + WORD_BYTES].copy_from_slice(&word);
            }
        }
    }

    /// Reads the combined recurrent states of a snapshot; zeros if there is none.
    fn read_states(&self, snapshot: Option<SnapshotId>) -> u128 {
        let Prepared { model, layout, .. } = self.prepared();
        let Some(snapshot) = snapshot else {
            return HashModel::states((0..model.recurrent_words).map(|_| 0));
        };
        let bytes = &self.snapshots[snapshot.0 as usize];
        let words = layout.snapshot.sections.iter().flat_map(|section| bytes[section.clone()].as_chunks().0);
        HashModel::states(words.map(|word| u128::from_le_bytes(*word)))
    }

    fn write_states(&mut self, snapshot: SnapshotId, words: &[u128]) {
        let sections = self.prepared().layout.snapshot.sections.clone();
        let bytes = &mut self.snapshots[snapshot.0 as usize];
        let places = sections.into_iter().flat_map(|section| section.step_by(WORD_BYTES));
        for (at, word) in places.zip(words) {
            bytes[at..at + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Moves the sum to the positions `from..end`, both not less than before.
    fn advance(&self, table: &[PageId], layer: usize, visible: &mut VisibleSum, from: usize, end: usize) -> u128 {
        while visible.end < end {
            visible.sum = visible.sum.wrapping_add(self.read_slot(table, layer, visible.end));
            visible.end += 1;
        }
        while visible.from < from {
            visible.sum = visible.sum.wrapping_sub(self.read_slot(table, layer, visible.from));
            visible.from += 1;
        }
        visible.sum
    }
}

impl Backend for HashBackend {
    fn caps(&self) -> Caps {
        Caps { backend: "toy", variant: "hash", numerics_rev: 1, kv_type: self.kv_type }
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        Err(BackendError::Batch(format!("the hash backend has no weights: {}", weight.name)))
    }

    fn prepare(&mut self, plan: Plan, _limits: Limits) -> Result<PlanId, BackendError> {
        let model = HashModel::new(&plan, self.kv_type, self.salt);
        let (layout, slices) = (plan.page_layout(self.kv_type), Slices::of(&plan));
        self.prepared = Some(Prepared { model, layout, slices });
        Ok(PlanId(0))
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        let page_bytes = self.prepared().layout.page_bytes;
        for number in self.pages.len()..pages {
            // Unwritten pages contain random bytes instead of zeros.
            let mut page = vec![0; page_bytes];
            Random::new(number as u64).fill(&mut page);
            self.pages.push(page);
        }
        Ok(())
    }

    fn run(&mut self, _plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        self.next_tokens.clear();
        let slices = &mut self.prepared.as_mut().expect("a plan was prepared").slices;
        if !self.row_time.is_zero() {
            std::thread::sleep(self.row_time.mul_f64(slices.rows_in_all_layers(batch)));
        }
        let completed = slices.completed(batch).map_err(BackendError::Batch)?;
        for rows in completed.chunk_by(|a, b| a.seq == b.seq) {
            let table = &batch.tables[rows[0].seq as usize];
            let layers = 0..self.prepared().model.layers.len();
            let first = |layer: usize| self.prepared().model.first_visible(layer, rows[0].slot as usize);
            let mut sums: Vec<VisibleSum> =
                layers.map(first).map(|first| VisibleSum { from: first, end: first, sum: 0 }).collect();
            let snapshots = batch.snapshots.get(rows[0].seq as usize).cloned().unwrap_or_default();
            let mut states = self.read_states(snapshots.from);
            for row in rows {
                let Input::Token(token) = row.input else {
                    return Err(BackendError::Batch("the hash backend supports only token inputs".to_owned()));
                };
                let slot = row.slot as usize;
                let seen = |backend: &Self, sums: &mut [VisibleSum], end: usize| -> Vec<u128> {
                    let sum = |(layer, visible): (usize, &mut VisibleSum)| {
                        backend.advance(table, layer, visible, backend.prepared().model.first_visible(layer, slot), end)
                    };
                    sums.iter_mut().enumerate().map(sum).collect()
                };
                let mut before = seen(self, &mut sums, slot);
                before.push(states);
                let row_hash = self.prepared().model.row(&before, token, slot);
                self.write_slot(table, slot, row_hash);
                let words: Vec<u128> = self.prepared().model.words_after(states, row_hash).collect();
                states = HashModel::states(words.iter().copied());
                if let Some((_, to)) = snapshots.to.iter().find(|(tokens, _)| *tokens as usize == slot + 1) {
                    self.write_states(*to, &words);
                }
                if row.want_logits {
                    let mut all = seen(self, &mut sums, slot + 1);
                    all.push(states);
                    self.next_tokens.push(self.prepared().model.token(&all));
                }
            }
        }
        Ok(())
    }

    fn read(&self, _plan: PlanId, _buffer: BufferId, rows: std::ops::Range<usize>, out: &mut [f32]) {
        let width = out.len() / rows.len().max(1);
        for (logits, row) in out.chunks_exact_mut(width).zip(rows) {
            logits.fill(0.0);
            logits[self.next_tokens[row] as usize] = 20.0;
        }
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        let source = self.pages[from.0 as usize].clone();
        let ranges: Vec<_> = self.prepared().layout.slots(0..tokens).collect();
        for range in ranges {
            self.pages[to.0 as usize][range.clone()].copy_from_slice(&source[range]);
        }
    }

    fn read_section(&self, page: PageId, state: StateId, kv: Kv, out: &mut [u8]) {
        out.copy_from_slice(&self.pages[page.0 as usize][self.prepared().layout.section(state, kv)]);
    }

    fn write_section(&mut self, page: PageId, state: StateId, kv: Kv, bytes: &[u8]) {
        let section = self.prepared().layout.section(state, kv);
        self.pages[page.0 as usize][section].copy_from_slice(bytes);
    }

    fn read_page(&self, page: PageId, out: &mut [u8]) {
        out.copy_from_slice(&self.pages[page.0 as usize]);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.pages[page.0 as usize].copy_from_slice(bytes);
    }

    fn grow_snapshots(&mut self, snapshots: usize) -> Result<(), BackendError> {
        let bytes = self.prepared().layout.snapshot.bytes;
        for number in self.snapshots.len()..snapshots {
            // Unwritten snapshots contain random bytes instead of zeros.
            let mut snapshot = vec![0; bytes];
            Random::new(!(number as u64)).fill(&mut snapshot);
            self.snapshots.push(snapshot);
        }
        Ok(())
    }

    fn read_snapshot(&self, snapshot: SnapshotId, state: RecurrentId, out: &mut [u8]) {
        let section = self.prepared().layout.snapshot.sections[state.0 as usize].clone();
        out.copy_from_slice(&self.snapshots[snapshot.0 as usize][section]);
    }

    fn write_snapshot(&mut self, snapshot: SnapshotId, state: RecurrentId, bytes: &[u8]) {
        let section = self.prepared().layout.snapshot.sections[state.0 as usize].clone();
        self.snapshots[snapshot.0 as usize][section].copy_from_slice(bytes);
    }

    fn free_memory(&self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use cairn_tensor::{Row, SnapshotTable, State};

    use super::*;

    fn plan() -> Plan {
        plan_of(StateKind::Window(100))
    }

    fn plan_of(kind: StateKind) -> Plan {
        let mut plan = Plan::default();
        plan.state(State::new(kind, 2, 8));
        plan.state(State::new(StateKind::Full, 1, 16));
        // Recurrent states of two hashes and of one.
        let _ = [8, 4].map(|elements| plan.recurrent(elements));
        plan
    }

    /// Runs tokens in batches of `piece`, and returns the next token.
    fn run(backend: &mut HashBackend, tokens: &[u32], piece: usize, table: &[PageId]) -> u32 {
        for (index, tokens_of) in tokens.chunks(piece).enumerate() {
            let rows = tokens_of.iter().enumerate().map(|(at, &token)| {
                let slot = index * piece + at;
                Row::text(0, token, slot as u32, slot + 1 == tokens.len())
            });
            let (first, rows) = (index * piece, rows.collect::<Vec<_>>());
            let from = (first > 0).then_some(SnapshotId(index as u32 % 2));
            let to = vec![((first + rows.len()) as u32, SnapshotId(1 - index as u32 % 2))];
            let snapshots = vec![SnapshotTable { from, to }];
            let batch = Batch { rows, tables: vec![table.to_vec()], snapshots, ..Batch::default() };
            backend.run(PlanId(0), &batch).expect("the batch is valid");
        }
        backend.next_tokens[0]
    }

    fn backend(salt: u64) -> HashBackend {
        backend_of(salt, StateKind::Window(100))
    }

    fn backend_of(salt: u64, kind: StateKind) -> HashBackend {
        let mut backend = HashBackend::new(DType::F16, salt, Duration::ZERO);
        backend.prepare(plan_of(kind), Limits { rows: 512, logit_rows: 1 }).expect("rows are whole hashes");
        backend.grow_pages(8).expect("there is memory");
        backend.grow_snapshots(2).expect("there is memory");
        backend
    }

    #[test]
    fn next_token_equals_history_for_any_batch_size() {
        let tokens: Vec<u32> = (0..300).map(|at| at * 7 % 256).collect();
        let mut history = History::new(HashModel::new(&plan(), DType::F16, 5));
        history.extend(&tokens);
        let table: Vec<PageId> = [3, 1, 4, 0, 5].map(PageId).into();
        for piece in [1, 7, 64, 300] {
            assert_eq!(run(&mut backend(5), &tokens, piece, &table), history.next(), "in pieces of {piece}");
        }
        let chunk = StateKind::Chunk(90);
        let mut of_chunks = History::new(HashModel::new(&plan_of(chunk), DType::F16, 5));
        of_chunks.extend(&tokens);
        for piece in [7, 64] {
            let found = run(&mut backend_of(5, chunk), &tokens, piece, &table);
            assert_eq!(found, of_chunks.next(), "chunks in pieces of {piece}");
        }
        let mut longer = history.clone();
        longer.extend(&[1, 2, 3]);
        longer.truncate(300);
        assert_eq!(longer.next(), history.next(), "truncation removes all effects");
    }

    #[test]
    fn every_visible_bit_changes_the_sum() {
        let tokens: Vec<u32> = (0..130).collect();
        let table: Vec<PageId> = (0..3).map(PageId).collect();
        let sum = |backend: &HashBackend| -> Vec<u128> {
            let visible =
                |layer, from| backend.advance(&table, layer, &mut VisibleSum { from, end: from, sum: 0 }, from, 130);
            vec![visible(0, 30), visible(1, 0)]
        };
        let mut backend = backend(5);
        run(&mut backend, &tokens, 64, &table);
        let before = sum(&backend);
        let mut random = Random::new(1);
        let (mut seen, mut unseen) = (0, 0);
        for _ in 0..2000 {
            let (page, at) = (random.below(3) as usize, random.below(backend.pages[0].len() as u64) as usize);
            let layout = &backend.prepared().layout;
            let visible = (0..PAGE_TOKENS).any(|slot| {
                let position = page * PAGE_TOKENS + slot;
                let inside = |layer: u32| {
                    Kv::ALL.into_iter().any(|kv| {
                        let rows = layout.section(StateId(layer), kv);
                        let row_bytes = layout.row_bytes[layer as usize][kv as usize];
                        rows.contains(&at) && (at - rows.start) / row_bytes % PAGE_TOKENS == slot
                    })
                };
                position < 130 && ((position >= 30 && inside(0)) || inside(1))
            });
            backend.pages[page][at] ^= 1 << random.below(8);
            assert_eq!(sum(&backend) != before, visible, "byte {at} of page {page}");
            *(if visible { &mut seen } else { &mut unseen }) += 1;
            // Rewrites the changed rows.
            run(&mut backend, &tokens, 64, &table);
        }
        assert!(seen > 100 && unseen > 100, "visible and invisible bits were changed: {seen} and {unseen}");
        let other = run(&mut self::backend(6), &tokens, 64, &table);
        assert_ne!(other, run(&mut backend, &tokens, 64, &table), "another salt gives another token");
    }
}
