//! Prompts beside running answers in steps of uneven length, with few pages and tiers. Requests are cancelled at any step, are read late, or
//! get shorter prompts. Each token is a hash of all rows before it, so a row that a slice has lost gives a wrong token.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_models::ModelFile;
use cairn_runtime::{
    CacheTiers, Client, ContextFullPolicy, Engine, EngineConfig, Event, Lease, LoadOptions, Priority, Request, Source,
};
use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Cpu, Kv, Limits, PAGE_TOKENS, PageId, Plan, PlanId, RecurrentId,
    Reference, Row, SnapshotId, StateId, Weight, WeightId,
};
use cairn_testkit::hash_backend::{HashBackend, HashModel, History};
use cairn_testkit::{Family, ModelSpec, Random, families};
use cairn_tier::{Namespace, WeightsDigest};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::common::{answer, config, greedy};
use crate::tiers::tiers;

const LAYERS: usize = 5;
const CONTEXT: usize = 448;
/// Bytes of a token's rows: keys and values of two heads with 16 bytes in each layer.
const TOKEN_BYTES: u64 = LAYERS as u64 * 2 * 2 * 16;
/// Pages: enough for two and a half full contexts, with up to four active requests.
const PAGES: u64 = 18;
/// Least length of a prompt with an answer that may fill the context. A shorter prompt leaves room for the rest of the answer.
const OVERFLOWING: usize = 150;
const USERS: u64 = 6;
const REQUESTS: u64 = 40;

/// Slices that a backend has seen.
#[derive(Debug, Default)]
struct Slices {
    begun: AtomicU64,
    continued: AtomicU64,
    abandoned: AtomicU64,
}

/// A backend with runs of uneven times.
struct Uneven {
    backend: HashBackend,
    random: Random,
    pause: Pause,
    layers: usize,
    is_incomplete: bool,
    /// The pages of the slice in progress.
    pages: Vec<Vec<u8>>,
    slices: Arc<Slices>,
}

/// Time before a run.
type Pause = fn(&mut Random) -> Duration;

impl Uneven {
    /// Bytes of the pages with rows of the slice of a batch.
    fn slice_pages(&self, batch: &Batch) -> Vec<Vec<u8>> {
        let rows = &batch.rows[..batch.slice.as_ref().map_or(0, |slice| slice.rows)];
        let page = |row: &Row| batch.tables[row.seq as usize][row.slot as usize / PAGE_TOKENS];
        let mut pages: Vec<PageId> = rows.iter().map(page).collect();
        pages.dedup();
        let read = |page: PageId| {
            let mut bytes = vec![0; PAGE_TOKENS * TOKEN_BYTES as usize];
            self.backend.read_page(page, &mut bytes);
            bytes
        };
        pages.into_iter().map(read).collect()
    }
}

impl Backend for Uneven {
    fn caps(&self) -> Caps {
        self.backend.caps()
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        self.backend.upload(weight)
    }

    fn prepare(&mut self, plan: Plan, limits: Limits) -> Result<PlanId, BackendError> {
        self.layers = plan.layers();
        self.backend.prepare(plan, limits)
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        self.backend.grow_pages(pages)
    }

    fn run(&mut self, plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        let layers = batch.slice.as_ref().map(|slice| slice.layers.clone());
        let continues = layers.as_ref().is_some_and(|layers| layers.start > 0);
        let add = |counter: &AtomicU64, is_one: bool| counter.fetch_add(u64::from(is_one), Ordering::Relaxed);
        add(&self.slices.begun, layers.is_some() && !continues);
        add(&self.slices.continued, continues);
        add(&self.slices.abandoned, self.is_incomplete && !continues);
        self.is_incomplete = layers.is_some_and(|layers| layers.end < self.layers);
        std::thread::sleep((self.pause)(&mut self.random));
        assert!(!continues || self.slice_pages(batch) == self.pages, "only the runs of a slice write to its pages");
        let ran = self.backend.run(plan, batch);
        self.pages = if self.is_incomplete { self.slice_pages(batch) } else { Vec::new() };
        ran
    }

    fn read(&self, plan: PlanId, buffer: BufferId, rows: Range<usize>, out: &mut [f32]) {
        self.backend.read(plan, buffer, rows, out);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        self.backend.copy_page(from, to, tokens);
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

fn tokens(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(300) as u32).collect()
}

/// A prompt of at least one token. Many prompts share a beginning, and many end at a page's end or beside it.
fn prompt(random: &mut Random) -> Vec<u32> {
    let stem = random.below(4) as usize;
    let mut prompt = tokens(&mut Random::new(stem as u64), [0, 0, 70, 190][stem]);
    let count = match random.below(8) {
        0 => 1,
        1 => 2,
        2..5 => PAGE_TOKENS * (1 + random.below(2) as usize) - 1 + random.below(3) as usize,
        _ => 1 + random.below(240) as usize,
    };
    prompt.extend(tokens(random, count));
    prompt
}

/// Sends a request, and checks its answer unless it is cancelled.
async fn ask(lease: &Lease, model: &HashModel, random: &mut Random) {
    let first = prompt(random);
    let overflows = first.len() >= OVERFLOWING && random.below(3) == 0;
    let max_tokens = if overflows { CONTEXT - first.len() + 8 } else { 1 + random.below(40) as usize };
    let on_context_full = ContextFullPolicy { request_prompt: true, ..ContextFullPolicy::default() };
    let mut events = lease.generate(Request { on_context_full, ..greedy(first.clone(), max_tokens as u32) });
    if random.below(2) == 0 {
        let longest = 1 << (8 + random.below(7));
        tokio::time::sleep(Duration::from_micros(random.below(longest))).await;
        return;
    }
    if random.below(8) == 0 {
        // Longer than the time after which a client that does not read makes room.
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    // The tokens of the answer before each shorter prompt, and the prompt.
    let mut prompts = VecDeque::from([(0, first)]);
    let answer = loop {
        match events.recv().await.expect("a generation has a last event") {
            Event::Delta(_) => {}
            Event::ContextFull(full) => {
                let mut shorter = prompt(random);
                shorter.truncate(OVERFLOWING - 50);
                prompts.push_back((full.answer_tokens, shorter.clone()));
                full.resume_with(shorter);
            }
            Event::Finish(finish) => break finish.tokens,
            Event::Error(error) => panic!("the generation fails: {error}"),
        }
    };
    assert_eq!(answer.len(), max_tokens, "the whole answer");
    let mut expected = History::new(model.clone());
    for (at, &token) in answer.iter().enumerate() {
        while let Some((_, prompt)) = prompts.pop_front_if(|(from, _)| *from == at) {
            expected.truncate(0);
            expected.extend(&prompt);
            expected.extend(&answer[..at]);
        }
        assert_eq!(token, expected.next(), "token {at} behind {} others", expected.tokens().len());
        expected.push(token);
    }
}

/// An engine with a model of which the tokens are hashes.
struct Harness {
    engine: Engine,
    path: PathBuf,
    model: HashModel,
    context_tokens: usize,
    slices: Arc<Slices>,
    _folder: TempDir,
}

impl Harness {
    /// Starts an engine with a model of this family. A run takes `row_time` for each row, and a pause.
    fn start(family: &'static Family, context_tokens: usize, pages: u64, row_time: Duration, pause: Pause) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("m.gguf");
        let tiny = cairn_testkit::tiny(family);
        let spec = ModelSpec { layers: LAYERS as u64, width: 64, heads: 4, kv_heads: 2, head_dim: 8, ffn: 64, ..tiny };
        cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
        let file = ModelFile::open(&path).expect("the file was just written");
        let model = cairn_models::load(&file, context_tokens, &mut Reference::new()).expect("the file is valid");
        let model = HashModel::new(&model.plan, config().kv_type, 1);
        let slices = Arc::new(Slices::default());
        let seen = Arc::clone(&slices);
        let device = move |cpu: Cpu| -> Box<dyn Backend> {
            let backend = HashBackend::new(cpu.caps().kv_type, 1, row_time);
            let (random, slices) = (Random::new(7), Arc::clone(&seen));
            Box::new(Uneven { backend, random, pause, layers: 0, is_incomplete: false, pages: Vec::new(), slices })
        };
        let config = EngineConfig {
            kv_budget_bytes: Some(pages * PAGE_TOKENS as u64 * TOKEN_BYTES),
            cache_tiers: Some(CacheTiers {
                tiers: tiers(&folder.path().join("kept")),
                namespace: Namespace::new(b"the secret of this test", "me"),
            }),
            ..config()
        };
        let engine = Engine::start_on(config, Arc::new(device)).expect("a kernel variant runs");
        Self { engine, path, model, context_tokens, slices, _folder: folder }
    }

    async fn lease(&self, name: &str, priority: Priority) -> Lease {
        let options = LoadOptions {
            context_tokens: Some(self.context_tokens as u32),
            threads: Some(1),
            force: true,
            weights: Some(WeightsDigest([7; 32])),
            ..LoadOptions::default()
        };
        let lease = self.engine.acquire("m".to_owned(), Source::File(self.path.clone()), options, None).await;
        lease.expect("the model loads").for_client(Client { name: name.into(), priority })
    }
}

/// Computes the requests of several clients with a model of this family.
async fn check(family: &'static Family) {
    let pause = |random: &mut Random| match random.below(24) {
        0 => Duration::from_millis(4),
        1..4 => Duration::ZERO,
        _ => Duration::from_micros(300),
    };
    let harness = Harness::start(family, CONTEXT, PAGES, Duration::from_micros(20), pause);
    let mut users = JoinSet::new();
    for user in 0..USERS {
        let priority = if user == 5 { Priority::Batch } else { Priority::Interactive };
        let lease = harness.lease(&format!("client {}", user / 2), priority).await;
        let (model, mut random) = (harness.model.clone(), Random::from_name(user, family.name));
        users.spawn(async move {
            for _ in 0..REQUESTS {
                ask(&lease, &model, &mut random).await;
            }
        });
    }
    let all = async { while users.join_next().await.transpose().expect("no user panics").is_some() {} };
    tokio::time::timeout(Duration::from_secs(300), all).await.expect("no request waits for ever");
    let Slices { begun, continued, abandoned } = &*harness.slices;
    let [begun, continued, abandoned] = [begun, continued, abandoned].map(|counter| counter.load(Ordering::Relaxed));
    println!("{}: {begun} slices begun, {continued} runs continued one, {abandoned} abandoned", family.name);
    assert!(begun > 30 && continued > begun / 2, "there are slices: {:?}", harness.slices);
    assert!(abandoned > 0, "some end early: {:?}", harness.slices);
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_in_full_layers_lose_no_row() {
    check(&families::LLAMA).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_in_window_layers_lose_no_row() {
    check(&families::GEMMA3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_of_batch_prompt_advance_between_interactive_prompts() {
    // A step has time for the work of one prompt token, so a slice has one layer in each step.
    let harness = Harness::start(&families::LLAMA, 2048, 200, Duration::from_micros(500), |_| Duration::ZERO);
    let mut random = Random::new(3);
    let running = harness.lease("running", Priority::Interactive).await;
    let mut running = running.generate(greedy(tokens(&mut random, 20), 1900));
    running.recv().await.expect("the answer begins");
    let batch = harness.lease("batch", Priority::Batch).await;
    let batch = tokio::spawn(answer(batch.generate(greedy(tokens(&mut random, 40), 1))));
    let chat = harness.lease("chat", Priority::Interactive).await;
    let mut prompts = 0;
    while !batch.is_finished() {
        assert!(prompts < 60, "the batch prompt of eight slices is not complete");
        prompts += 1;
        answer(chat.generate(greedy(tokens(&mut random, 3), 1))).await.expect("it finishes");
        while running.try_recv().is_ok() {}
        // Two steps without a prompt of the chat.
        for _ in 0..2 {
            running.recv().await.expect("the answer continues");
        }
    }
    batch.await.expect("no panic").expect("it finishes");
}
