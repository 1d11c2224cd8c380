//! A toy model whose next token is a hash of its whole history, so that one wrong row anywhere in a cache gives a wrong answer.
//!
//! [`Toy`] is a backend for the plans of ordinary families. It has no weights and keeps nothing beyond its pages: at each position it
//! reads the rows of all positions before it that each layer may see, through the batch's page tables, and writes a 128-bit hash of
//! them and of the token, another one for each layer, head, and keys and values. The next token is a hash of all rows that were read.
//! [`History`] says what must come out, from the tokens alone.
//!
//! **Invariant:** the two share the formulas of [`Shape`] and nothing else: a history has no pages, a backend has no history.

use std::time::Duration;

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Input, Kv, Limits, PAGE_TOKENS, PageId, PageLayout, Plan, PlanId,
    StateId, StateKind, Weight, WeightId,
};

use crate::random::Random;

/// Bytes of a hash: rows are whole hashes.
const WORD_BYTES: usize = 16;
/// The tokens that come out: single bytes, none of which ends an answer.
const TOKENS: u128 = 251;
/// Odd numbers without a pattern (the digits of pi).
const KEYS: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];

/// The two halves of a product, folded into one.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A number that depends on every bit of both.
fn mix(word: u128, key: u64) -> u128 {
    let (low, high) = (word as u64, (word >> 64) as u64);
    let first = fold(low ^ KEYS[0] ^ key, high ^ KEYS[1]);
    let second = fold(low ^ KEYS[2], high ^ KEYS[3] ^ key.rotate_left(32));
    u128::from(first) << 64 | u128::from(second)
}

/// What one layer keeps.
#[derive(Clone, Copy, Debug)]
struct Layer {
    /// Positions that it sees, where that is not all of them.
    window: Option<usize>,
    /// Words that one position has in the layers before.
    first_word: usize,
    /// Words that one position has here, keys and values of all heads.
    words: usize,
}

/// What a toy computes: which positions each layer sees, and a salt that tells toys of one architecture apart.
#[derive(Clone, Debug)]
pub struct Shape {
    salt: u64,
    layers: Vec<Layer>,
}

impl Shape {
    /// The shape of a plan's states.
    ///
    /// # Panics
    /// Where rows of `kv_type` are no whole hashes.
    pub fn new(plan: &Plan, kv_type: DType, salt: u64) -> Self {
        let layout = plan.page_layout(kv_type);
        let mut words = 0;
        let layers = plan.states.iter().enumerate().map(|(index, state)| {
            let row_bytes = layout.row_bytes[index];
            assert!(row_bytes.is_multiple_of(WORD_BYTES), "rows of {row_bytes} bytes are no whole hashes");
            let window = match state.kind {
                StateKind::Full => None,
                StateKind::Window(tokens) => Some(tokens as usize),
            };
            let first_word = words;
            words += 2 * state.kv_heads * row_bytes / WORD_BYTES;
            Layer { window, first_word, words: words - first_word }
        });
        let layers: Vec<Layer> = layers.collect();
        let salt =
            layers.iter().fold(salt, |salt, layer| fold(salt ^ KEYS[0], layer.window.unwrap_or(0) as u64 ^ KEYS[1]));
        Self { layers, salt }
    }

    /// The first position that the row at `slot` sees in a layer.
    fn first(&self, layer: usize, slot: usize) -> usize {
        self.layers[layer].window.map_or(0, |window| (slot + 1).saturating_sub(window))
    }

    /// What a position writes: `seen` is the sum of what it read in each layer.
    fn row(&self, seen: &[u128], token: u32, slot: usize) -> u128 {
        mix(self.all(seen) ^ u128::from(token), self.salt ^ (slot as u64).wrapping_mul(KEYS[2]))
    }

    /// The token that follows a position whose row, and those before it, add up to `seen`.
    fn token(&self, seen: &[u128]) -> u32 {
        (mix(self.all(seen), self.salt ^ KEYS[3]) % TOKENS) as u32
    }

    fn all(&self, seen: &[u128]) -> u128 {
        seen.iter().fold(0, |all, sum| mix(all ^ sum, self.salt))
    }

    /// One of the words that make up a row.
    fn word(row: u128, number: usize) -> u128 {
        mix(row, (number as u64 + 1).wrapping_mul(KEYS[1]))
    }

    /// What a word adds to the sum of what is seen.
    fn sight(word: u128, slot: usize, number: usize) -> u128 {
        mix(word, ((slot as u64) << 24 | number as u64).wrapping_mul(KEYS[0]))
    }
}

/// What a toy must answer, from its tokens alone.
#[derive(Clone, Debug)]
pub struct History {
    shape: Shape,
    tokens: Vec<u32>,
    /// Sums of what all positions before add to what each layer sees: `[tokens + 1, layers]`.
    sums: Vec<u128>,
}

impl History {
    /// An empty history.
    pub fn new(shape: Shape) -> Self {
        let sums = vec![0; shape.layers.len()];
        Self { shape, tokens: Vec::new(), sums }
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Adds a token.
    pub fn push(&mut self, token: u32) {
        let slot = self.tokens.len();
        let row = self.shape.row(&self.seen(slot, slot), token, slot);
        for layer in 0..self.shape.layers.len() {
            let Layer { first_word, words, .. } = self.shape.layers[layer];
            let sight = |number| Shape::sight(Shape::word(row, number), slot, number);
            let sum = (first_word..first_word + words).map(sight).fold(self.sum(slot, layer), u128::wrapping_add);
            self.sums.push(sum);
        }
        self.tokens.push(token);
    }

    /// Adds tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|&token| self.push(token));
    }

    /// Forgets all tokens but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.sums.truncate((len + 1) * self.shape.layers.len());
    }

    /// The token that follows the last one.
    pub fn next(&self) -> u32 {
        let slot = self.tokens.len() - 1;
        self.shape.token(&self.seen(slot, slot + 1))
    }

    /// What the positions before `end` add to what a layer sees.
    fn sum(&self, end: usize, layer: usize) -> u128 {
        self.sums[end * self.shape.layers.len() + layer]
    }

    /// What the row at `slot` sees before `end`, by layer.
    fn seen(&self, slot: usize, end: usize) -> Vec<u128> {
        let layers = 0..self.shape.layers.len();
        let sum = |layer: usize| self.sum(end, layer).wrapping_sub(self.sum(self.shape.first(layer, slot), layer));
        layers.map(sum).collect()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Toy {
    salt: u64,
    kv_type: DType,
    /// How long a row takes beyond its arithmetic.
    row_time: Duration,
    prepared: Option<Prepared>,
    pages: Vec<Vec<u8>>,
    /// What the last run answered.
    answers: Vec<u32>,
}

/// What a plan says.
#[derive(Debug)]
struct Prepared {
    shape: Shape,
    layout: PageLayout,
}

/// What a row sees of a layer so far.
#[derive(Clone, Copy, Debug)]
struct Sight {
    from: usize,
    end: usize,
    sum: u128,
}

impl Toy {
    /// A toy with pages of this type. Toys of other salts give other answers. Each row takes so long, so that bringing rows back pays.
    pub fn new(kv_type: DType, salt: u64, row_time: Duration) -> Self {
        Self { salt, kv_type, row_time, prepared: None, pages: Vec::new(), answers: Vec::new() }
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.as_ref().expect("a plan comes before pages")
    }

    /// The places of a slot's words in a layer, in its page.
    fn words(&self, layer: usize, slot: usize) -> impl Iterator<Item = usize> + use<> {
        let layout = &self.prepared().layout;
        let (sections, row_bytes) = (layout.sections[layer], layout.row_bytes[layer]);
        let (heads, slot) = (layout.kv_heads[layer], slot % PAGE_TOKENS);
        let rows = sections
            .into_iter()
            .flat_map(move |section| (0..heads).map(move |head| section + (head * PAGE_TOKENS + slot) * row_bytes));
        rows.flat_map(move |row| (row..row + row_bytes).step_by(WORD_BYTES))
    }

    /// What a slot adds to what a layer sees, as its page has it.
    fn read_slot(&self, table: &[PageId], layer: usize, slot: usize) -> u128 {
        let page = &self.pages[table[slot / PAGE_TOKENS].0 as usize];
        let first = self.prepared().shape.layers[layer].first_word;
        self.words(layer, slot).zip(first..).fold(0, |sum, (at, number)| {
            let word = page[at..].first_chunk().map(|bytes| u128::from_le_bytes(*bytes)).expect("words lie in pages");
            sum.wrapping_add(Shape::sight(word, slot, number))
        })
    }

    fn write_slot(&mut self, table: &[PageId], slot: usize, row: u128) {
        for layer in 0..self.prepared().shape.layers.len() {
            let first = self.prepared().shape.layers[layer].first_word;
            for (at, number) in self.words(layer, slot).zip(first..) {
                let word = Shape::word(row, number).to_le_bytes();
                self.pages[table[slot / PAGE_TOKENS].0 as usize][at..at + WORD_BYTES].copy_from_slice(&word);
            }
        }
    }

    /// Moves what is seen to the positions `from..end`, both no less than before.
    fn look(&self, table: &[PageId], layer: usize, sight: &mut Sight, from: usize, end: usize) -> u128 {
        while sight.end < end {
            sight.sum = sight.sum.wrapping_add(self.read_slot(table, layer, sight.end));
            sight.end += 1;
        }
        while sight.from < from {
            sight.sum = sight.sum.wrapping_sub(self.read_slot(table, layer, sight.from));
            sight.from += 1;
        }
        sight.sum
    }
}

impl Backend for Toy {
    fn caps(&self) -> Caps {
        Caps { backend: "toy", variant: "hash", numerics_rev: 1, kv_type: self.kv_type }
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        Err(BackendError::Batch(format!("a toy has no weights, such as {}", weight.name)))
    }

    fn prepare(&mut self, plan: Plan, _limits: Limits) -> Result<PlanId, BackendError> {
        let shape = Shape::new(&plan, self.kv_type, self.salt);
        self.prepared = Some(Prepared { shape, layout: plan.page_layout(self.kv_type) });
        Ok(PlanId(0))
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        let page_bytes = self.prepared().layout.page_bytes;
        for number in self.pages.len()..pages {
            // What nobody has written is not even zeros.
            let mut page = vec![0; page_bytes];
            Random::new(number as u64).fill(&mut page);
            self.pages.push(page);
        }
        Ok(())
    }

    fn run(&mut self, _plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        self.answers.clear();
        if !self.row_time.is_zero() {
            std::thread::sleep(self.row_time * batch.rows.len() as u32);
        }
        for rows in batch.rows.chunk_by(|a, b| a.seq == b.seq) {
            let table = &batch.tables[rows[0].seq as usize];
            let layers = 0..self.prepared().shape.layers.len();
            let first = |layer: usize| self.prepared().shape.first(layer, rows[0].slot as usize);
            let mut sights: Vec<Sight> =
                layers.map(first).map(|first| Sight { from: first, end: first, sum: 0 }).collect();
            for row in rows {
                let Input::Token(token) = row.input else {
                    return Err(BackendError::Batch("a toy reads tokens only".to_owned()));
                };
                let slot = row.slot as usize;
                let seen = |toy: &Self, sights: &mut [Sight], end: usize| -> Vec<u128> {
                    let sum = |(layer, sight): (usize, &mut Sight)| {
                        toy.look(table, layer, sight, toy.prepared().shape.first(layer, slot), end)
                    };
                    sights.iter_mut().enumerate().map(sum).collect()
                };
                let before = seen(self, &mut sights, slot);
                let row_hash = self.prepared().shape.row(&before, token, slot);
                self.write_slot(table, slot, row_hash);
                if row.want_logits {
                    let all = seen(self, &mut sights, slot + 1);
                    self.answers.push(self.prepared().shape.token(&all));
                }
            }
        }
        Ok(())
    }

    fn read(&self, _plan: PlanId, _buffer: BufferId, rows: std::ops::Range<usize>, out: &mut [f32]) {
        let width = out.len() / rows.len().max(1);
        for (logits, row) in out.chunks_exact_mut(width).zip(rows) {
            logits.fill(0.0);
            logits[self.answers[row] as usize] = 20.0;
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

    fn free_memory(&self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use cairn_tensor::{Row, State};

    use super::*;

    fn plan() -> Plan {
        let mut plan = Plan::default();
        plan.state(State { kind: StateKind::Window(100), kv_heads: 2, head_dim: 8 });
        plan.state(State { kind: StateKind::Full, kv_heads: 1, head_dim: 16 });
        plan
    }

    /// Runs tokens in pieces, and gives the token that follows the last.
    fn run(toy: &mut Toy, tokens: &[u32], piece: usize, table: &[PageId]) -> u32 {
        for (index, tokens_of) in tokens.chunks(piece).enumerate() {
            let rows = tokens_of.iter().enumerate().map(|(at, &token)| {
                let slot = index * piece + at;
                Row::text(0, token, slot as u32, slot + 1 == tokens.len())
            });
            let batch = Batch { rows: rows.collect(), tables: vec![table.to_vec()], embeddings: Vec::new() };
            toy.run(PlanId(0), &batch).expect("a toy runs what it is given");
        }
        toy.answers[0]
    }

    fn toy(salt: u64) -> Toy {
        let mut toy = Toy::new(DType::F16, salt, Duration::ZERO);
        toy.prepare(plan(), Limits { rows: 512, logit_rows: 1 }).expect("rows are whole hashes");
        toy.grow_pages(8).expect("there is memory");
        toy
    }

    #[test]
    fn a_toy_answers_as_its_history_says() {
        let tokens: Vec<u32> = (0..300).map(|at| at * 7 % 256).collect();
        let mut history = History::new(Shape::new(&plan(), DType::F16, 5));
        history.extend(&tokens);
        let table: Vec<PageId> = [3, 1, 4, 0, 5].map(PageId).into();
        for piece in [1, 7, 64, 300] {
            assert_eq!(run(&mut toy(5), &tokens, piece, &table), history.next(), "in pieces of {piece}");
        }
        let mut longer = history.clone();
        longer.extend(&[1, 2, 3]);
        longer.truncate(300);
        assert_eq!(longer.next(), history.next(), "what was cut off leaves no trace");
    }

    #[test]
    fn any_bit_of_any_row_that_is_seen_counts() {
        let tokens: Vec<u32> = (0..130).collect();
        let table: Vec<PageId> = (0..3).map(PageId).collect();
        let sum = |toy: &Toy| -> Vec<u128> {
            let sight = |layer, from| toy.look(&table, layer, &mut Sight { from, end: from, sum: 0 }, from, 130);
            vec![sight(0, 30), sight(1, 0)]
        };
        let mut toy = toy(5);
        run(&mut toy, &tokens, 64, &table);
        let before = sum(&toy);
        let mut random = Random::new(1);
        let (mut seen, mut unseen) = (0, 0);
        for _ in 0..2000 {
            let (page, at) = (random.below(3) as usize, random.below(toy.pages[0].len() as u64) as usize);
            let layout = &toy.prepared().layout;
            let visible = (0..PAGE_TOKENS).any(|slot| {
                let position = page * PAGE_TOKENS + slot;
                let inside = |layer: u32| {
                    let rows = Kv::ALL.map(|kv| layout.section(StateId(layer), kv));
                    rows.iter().any(|rows| {
                        rows.contains(&at) && (at - rows.start) / layout.row_bytes[layer as usize] % PAGE_TOKENS == slot
                    })
                };
                position < 130 && ((position >= 30 && inside(0)) || inside(1))
            });
            toy.pages[page][at] ^= 1 << random.below(8);
            assert_eq!(sum(&toy) != before, visible, "byte {at} of page {page}");
            *(if visible { &mut seen } else { &mut unseen }) += 1;
            // Whatever was changed is written anew.
            run(&mut toy, &tokens, 64, &table);
        }
        assert!(seen > 100 && unseen > 100, "both kinds were met: {seen} and {unseen}");
        let other = run(&mut self::toy(6), &tokens, 64, &table);
        assert_ne!(other, run(&mut toy, &tokens, 64, &table), "another toy says something else");
    }
}
