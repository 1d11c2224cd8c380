//! The cache with a mock backend: each slot is a digest of all tokens before it.

use std::ops::Range;

use proptest::prelude::*;

use cairn_tensor::SnapshotTable;

use self::slots::{Layers, Slots};
use super::*;

mod recurrent;
mod scopes;
mod slots;
mod tiers;
mod windows;

/// A cache, its backend, and the expected tokens of each open sequence.
struct World {
    backend: Slots,
    cache: Cache,
    budget: Arc<Budget>,
    open: Vec<(SeqId, Vec<u32>)>,
}

impl World {
    fn new(budget_pages: u64) -> Self {
        Self::with_layers(budget_pages, Layers::default())
    }

    fn with_layers(budget_pages: u64, layers: Layers) -> Self {
        let layout = layers.layout();
        let budget = Arc::new(Budget::new(budget_pages * layout.page_bytes as u64));
        let cache = Cache::new(layout, Arc::clone(&budget));
        Self {
            backend: Slots { window: layers.window, is_chunk: layers.is_chunk, ..Slots::default() },
            cache,
            budget,
            open: Vec::new(),
        }
    }

    /// Opens a sequence and computes the tokens that are not cached. Returns the number of cached tokens, or `None` without free pages.
    fn prompt(&mut self, tokens: &[u32]) -> Option<usize> {
        let (seq, cached) = self.cache.open(tokens);
        self.open.push((seq, tokens[..cached].to_vec()));
        self.append(self.open.len() - 1, &tokens[cached..]).then_some(cached)
    }

    fn append(&mut self, index: usize, tokens: &[u32]) -> bool {
        let (seq, content) = &mut self.open[index];
        match self.cache.reserve(&mut self.backend, *seq, tokens.len()) {
            Ok(()) => {}
            Err(Error::Full { .. }) => return false,
            Err(error) => panic!("{error}"),
        }
        for (i, &token) in tokens.iter().enumerate() {
            self.backend.compute(self.cache.pages(*seq), content.len() + i, token);
        }
        let mut table = SnapshotTable::default();
        self.cache.write_snapshots(*seq, &mut table);
        self.backend.compute_states(&table, content.len(), tokens);
        content.extend_from_slice(tokens);
        self.cache.advance(*seq, tokens);
        true
    }

    fn close(&mut self, index: usize) {
        let (seq, _) = self.open.swap_remove(index);
        self.cache.close(seq);
    }

    fn check(&self) {
        for (seq, content) in &self.open {
            assert_eq!(self.cache.len(*seq), content.len(), "length of {seq:?}");
            self.backend.check(self.cache.pages(*seq), content);
            if self.cache.is_recurrent() {
                let mut table = SnapshotTable::default();
                self.cache.write_snapshots(*seq, &mut table);
                self.backend.check_states(table.from, content);
            }
        }
        let mut held: Vec<PageId> = self.open.iter().flat_map(|(seq, _)| self.cache.pages(*seq)).copied().collect();
        held.sort();
        held.dedup();
        let stats = self.cache.stats();
        assert_eq!(stats.live_pages, held.len(), "live pages are those that sequences hold: {stats:?}");
        assert!(self.budget.used() <= self.budget.limit(), "the budget is not exceeded: {stats:?}");
        assert_eq!(self.budget.used(), stats.bytes, "the budget counts this pool: {stats:?}");
        assert_eq!(stats.pages, self.backend.pages.len(), "pages of the backend");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open { chat: u32, len: usize },
    Append { index: usize, branch: u32, len: usize },
    Truncate { index: usize, percent: usize },
    Fork { index: usize },
    Close { index: usize },
    Discard { index: usize },
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0usize..8;
    prop_oneof![
        4 => (0u32..6, 1usize..260).prop_map(|(chat, len)| Step::Open { chat, len }),
        4 => (index.clone(), 0u32..3, 0usize..150).prop_map(|(index, branch, len)| Step::Append { index, branch, len }),
        2 => (index.clone(), 0usize..=100).prop_map(|(index, percent)| Step::Truncate { index, percent }),
        2 => index.clone().prop_map(|index| Step::Fork { index }),
        3 => index.clone().prop_map(|index| Step::Close { index }),
        1 => index.prop_map(|index| Step::Discard { index }),
        1 => Just(Step::Clear),
    ]
}

/// Token `i` of a chat. Each chat diverges at another position, within a page or at its border, so prompts share prefixes of many
/// lengths.
fn chat_token(chat: u32, i: usize) -> u32 {
    let diverges_at = [0, 1, 63, 64, 100, 130][chat as usize];
    if i >= diverges_at { 1000 * chat + i as u32 } else { i as u32 }
}

fn play(budget_pages: u64, memory_pages: Option<usize>, layers: Layers, steps: &[Step]) {
    let mut world = World::with_layers(budget_pages, layers);
    world.backend.memory_pages = memory_pages;
    for step in steps {
        let open = world.open.len();
        match *step {
            Step::Open { chat, len } if open < 8 => {
                let tokens: Vec<u32> = (0..len).map(|i| chat_token(chat, i)).collect();
                world.prompt(&tokens);
            }
            Step::Append { index, branch, len } if index < open => {
                let tokens: Vec<u32> = (0..len as u32).map(|i| 10_000 * branch + i).collect();
                world.append(index, &tokens);
            }
            Step::Truncate { index, percent } if index < open => {
                let (seq, content) = &mut world.open[index];
                let wanted = content.len() * percent / 100;
                let left = world.cache.truncate(*seq, wanted);
                assert!(left == wanted || layers.recurrent && left < wanted, "{left} of {wanted} tokens, no window");
                content.truncate(left);
            }
            Step::Fork { index } if index < open && open < 8 => {
                let (seq, content) = world.open[index].clone();
                world.open.push((world.cache.fork(seq), content));
            }
            Step::Close { index } if index < open => world.close(index),
            Step::Discard { index } if index < open => {
                let (seq, _) = world.open.swap_remove(index);
                world.cache.discard(seq);
            }
            Step::Clear => world.cache.clear(),
            _ => {}
        }
        world.check();
    }
    while !world.open.is_empty() {
        world.close(0);
        world.check();
    }
    let stats = world.cache.stats();
    assert_eq!(stats.live_pages, 0, "nothing is open: {stats:?}");
    world.cache.clear();
    let stats = world.cache.stats();
    assert_eq!((stats.cached_pages, world.cache.pool.free()), (0, stats.pages), "every page is free: {stats:?}");
    let (free, all) = (world.cache.pool.snapshots().free(), world.backend.snapshots.len());
    assert_eq!(free, all, "every snapshot is free");
    let World { cache, budget, .. } = world;
    drop(cache);
    assert_eq!(budget.used(), 0, "an unloaded model releases its budget");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_keep_sequence_rows_correct(
        budget_pages in 1u64..24,
        memory_pages in proptest::option::of(1usize..16),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        play(budget_pages, memory_pages, Layers::default(), &steps);
    }

    #[test]
    fn random_operations_keep_recurrent_states_correct(
        budget_pages in 2u64..40,
        memory_pages in proptest::option::of(1usize..16),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        play(budget_pages, memory_pages, Layers { recurrent: true, ..Layers::default() }, &steps);
    }
}

fn tokens(range: Range<u32>) -> Vec<u32> {
    range.collect()
}

#[test]
fn second_turn_computes_new_tokens_only() {
    let mut world = World::new(16);
    assert_eq!(world.prompt(&tokens(0..150)), Some(0), "an empty cache");
    assert!(world.append(0, &tokens(150..170)), "the answer fits");
    world.close(0);
    assert_eq!(world.prompt(&tokens(0..200)), Some(170), "prompt and answer are cached, to the token");
    world.check();
}

#[test]
fn last_token_is_always_computed() {
    for len in [1, 2, 64, 65, 128] {
        let mut world = World::new(16);
        world.prompt(&tokens(0..len));
        world.close(0);
        assert_eq!(world.prompt(&tokens(0..len)), Some(len as usize - 1), "all but the last of {len} tokens");
        world.check();
    }
}

#[test]
fn running_sequences_share_full_pages() {
    let mut world = World::new(16);
    world.prompt(&tokens(0..100));
    assert_eq!(world.prompt(&tokens(0..90)), Some(64), "the full page of a running sequence is shared");
    let (first, second) = (world.open[0].0, world.open[1].0);
    assert_eq!(world.cache.pages(first)[0], world.cache.pages(second)[0], "it is the same page");
    assert_ne!(world.cache.pages(first)[1], world.cache.pages(second)[1], "the tails are not shared");
}

#[test]
fn pages_computed_twice_are_deduplicated() {
    let mut world = World::new(16);
    let (a, b) = (world.cache.open(&tokens(0..64)).0, world.cache.open(&tokens(0..64)).0);
    world.open = vec![(a, Vec::new()), (b, Vec::new())];
    assert!(world.append(0, &tokens(0..64)) && world.append(1, &tokens(0..64)), "both fit");
    assert_eq!(world.cache.pages(a), world.cache.pages(b), "the second sequence uses the first one's page");
    world.check();
}

#[test]
fn eviction_takes_oldest_leaf_and_no_live_page() {
    let mut world = World::new(6);
    world.prompt(&tokens(0..128));
    world.close(0);
    world.prompt(&tokens(1000..1128));
    world.close(0);
    assert_eq!(world.cache.stats().pages, 4, "the pool has its fair share");
    assert_eq!(world.prompt(&tokens(0..65)), Some(64), "the first chat's head is in use again");
    let stats = world.cache.stats();
    assert_eq!((stats.pages, stats.evicted_pages), (4, 1), "its second page was the oldest leaf and was evicted");
    assert_eq!(
        world.prompt(&tokens(1000..1129)),
        Some(128),
        "no page can be evicted, so the pool grows beyond its share"
    );
    assert_eq!(world.prompt(&tokens(2000..2065)), None, "one page is free, and live pages are not evicted");
    assert_eq!(world.cache.stats().live_pages, 5, "the failed prompt holds no page");
    world.close(2);
    world.close(1);
    assert_eq!(world.prompt(&tokens(2000..2065)), Some(0), "a closed sequence frees pages");
    world.check();
}

#[test]
fn second_model_gets_pages_beside_full_cache() {
    let mut first = World::new(16);
    for chat in 0..20 {
        first.prompt(&tokens(chat * 1000..chat * 1000 + 64));
        first.close(0);
    }
    assert_eq!(first.cache.stats().cached_pages, 12, "cached pages take three quarters");
    let mut second = World { budget: Arc::clone(&first.budget), ..World::new(0) };
    second.cache = Cache::new(Layers::default().layout(), Arc::clone(&first.budget));
    assert_eq!(second.prompt(&tokens(0..256)), Some(0), "the last quarter is free for what is in use");
    assert_eq!(first.budget.used(), first.budget.limit(), "the budget is used up");
    assert_eq!(first.prompt(&tokens(0..256)), Some(0), "the first model evicts its own pages");
    drop(second);
    assert_eq!(first.budget.used(), first.cache.stats().bytes, "an unloaded model releases its budget");
}

#[test]
fn single_sequence_may_use_whole_pool() {
    let mut world = World::new(3);
    world.prompt(&tokens(0..192));
    world.close(0);
    let edited: Vec<u32> = (0..10).chain(5000..5182).collect();
    assert_eq!(
        world.prompt(&edited),
        Some(10),
        "the diverging page is removed from the trie, because no page is free for a copy"
    );
    world.check();
}

#[test]
fn failed_reservation_reports_sizes_and_changes_nothing() {
    let mut world = World::new(3);
    world.prompt(&tokens(0..100));
    let (seq, _) = world.open[0];
    let error =
        world.cache.reserve(&mut world.backend, seq, 200).expect_err("three more pages are needed, one is left");
    let Error::Full { need_bytes, free_bytes, limit_bytes } = error else { panic!("{error}") };
    assert_eq!((need_bytes, free_bytes, limit_bytes), (3 * 4096, 4096, 3 * 4096), "{error}");
    assert_eq!(world.cache.pages(seq).len(), 2, "the sequence is unchanged");
    assert!(world.append(0, &tokens(100..190)), "a smaller reservation fits");
    world.check();
}

#[test]
fn truncated_fork_keeps_longer_tail_of_original() {
    let mut world = World::new(8);
    world.prompt(&tokens(0..50));
    let fork = world.cache.fork(world.open[0].0);
    assert_eq!(world.cache.truncate(fork, 20), 20, "no layer has a window");
    world.cache.close(fork);
    world.close(0);
    assert_eq!(world.cache.stats().cached_pages, 1, "both tails are one page");
    assert_eq!(world.prompt(&tokens(0..60)), Some(50), "the longer one is cached");
    world.check();
}
