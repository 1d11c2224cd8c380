//! Models of real types with the page cache, on every backend of this machine: restored rows must equal computed rows,
//! bit for bit.

use std::sync::Arc;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kv::{Budget, Cache, SeqId};
use cairn_tensor::cpu::Cpu;
use cairn_tensor::{Backend, Batch, BufferId, Limits, PlanId, Reference, Row, SnapshotTable, Team};
use cairn_testkit::{ModelSpec, RopeScaling, Types, families, tiny, tiny_llama};

use super::file;
use crate::{ModelFile, load};

const LIMITS: Limits = Limits { rows: 256, logit_rows: 1 };

/// A loaded model with its cache.
struct Engine {
    backend: Box<dyn Backend>,
    plan: PlanId,
    logits: BufferId,
    cache: Cache,
    is_recurrent: bool,
    vocab: usize,
}

impl Engine {
    fn new(file: &ModelFile, mut backend: Box<dyn Backend>) -> Self {
        let model = load(file, 4096, backend.as_mut()).expect("testkit writes whole models");
        let layout = model.plan.page_layout(backend.caps().kv_type);
        let logits = model.plan.logits.expect("every family has logits");
        let is_recurrent = !model.plan.recurrent.is_empty();
        let plan = backend.prepare(model.plan, LIMITS).expect("the plan fits its weights");
        let cache = Cache::new(layout, Arc::new(Budget::new(64 << 20)));
        Self { backend, plan, logits, cache, is_recurrent, vocab: model.hparams.vocab }
    }

    /// Opens a sequence and computes its uncached tokens. Returns the sequence, the number of cached tokens, and the
    /// last logits.
    fn prompt(&mut self, tokens: &[u32]) -> (SeqId, usize, Vec<f32>) {
        let (seq, cached) = self.cache.open(tokens);
        let logits = self.append(seq, &tokens[cached..]);
        (seq, cached, logits)
    }

    fn append(&mut self, seq: SeqId, tokens: &[u32]) -> Vec<f32> {
        let at = self.cache.len(seq);
        self.cache.reserve(self.backend.as_mut(), seq, tokens.len()).expect("the budget is large enough");
        let last = tokens.len() - 1;
        let rows =
            tokens.iter().enumerate().map(|(i, &token)| Row::text(0, token, (at + i) as u32, i == last)).collect();
        let mut snapshots = SnapshotTable::default();
        self.cache.write_snapshots(seq, &mut snapshots);
        let tables = vec![self.cache.pages(seq).to_vec()];
        let batch = Batch { rows, tables, snapshots: vec![snapshots], ..Batch::default() };
        self.backend.run(self.plan, &batch).expect("the batch is within the limits");
        self.cache.advance(seq, tokens);
        let mut logits = vec![0.0; self.vocab];
        self.backend.read(self.plan, self.logits, 0..1, &mut logits);
        logits
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

fn tokens(from: u32, count: u32) -> Vec<u32> {
    (from..from + count).map(|i| i * 31 % 509).collect()
}

/// Returns the reference backend, and the fast backend with every variant of this machine.
pub(super) fn backends() -> Vec<Box<dyn Fn() -> Box<dyn Backend>>> {
    let cpu = Machine::probe().cpu;
    let team = Arc::new(Team::new(2, &cpu.usable_cores).expect("two threads can be started"));
    let mut backends: Vec<Box<dyn Fn() -> Box<dyn Backend>>> = vec![Box::new(|| Box::new(Reference::new()))];
    for variant in cairn_kernels::usable(&cpu.features) {
        let team = Arc::clone(&team);
        backends.push(Box::new(move || Box::new(Cpu::new(variant, Arc::clone(&team)))));
    }
    backends
}

fn check(spec: &ModelSpec) {
    let file = file(&cairn_testkit::write(spec));
    let name = format!("{} {:?}", spec.family.name, spec.types);
    backends().iter().for_each(|backend| check_on(&name, &file, backend));
}

/// A chat of two turns, an edit of its first message, and a fork. Each must equal a computation without a cache.
fn check_on(name: &str, file: &ModelFile, backend: &dyn Fn() -> Box<dyn Backend>) {
    let mut engine = Engine::new(file, backend());
    let name = format!("{name} on {}", engine.backend.caps().variant);
    let fresh = |tokens: &[u32]| Engine::new(file, backend()).prompt(tokens).2;

    let mut chat = tokens(0, 90);
    let (first, cached, mut logits) = engine.prompt(&chat);
    assert_eq!(cached, 0, "{name}: the cache is empty");
    for token in tokens(200, 5) {
        logits = engine.append(first, &[token]);
        chat.push(token);
    }
    assert!(logits.iter().all(|logit| logit.is_finite()), "{name}: logits are numbers");
    assert_eq!(bits(&logits), bits(&fresh(&chat)), "{name}: token by token equals the whole");
    engine.cache.close(first);

    chat.extend(tokens(300, 20));
    let (second, cached, logits) = engine.prompt(&chat);
    assert_eq!(cached, 95, "{name}: the second turn computes only its new tokens");
    assert_eq!(bits(&logits), bits(&fresh(&chat)), "{name}: the second turn");

    let mut edited = chat[..40].to_vec();
    edited.extend(tokens(400, 30));
    let (_, cached, logits) = engine.prompt(&edited);
    // Recurrent layers continue only at a snapshot.
    let kept = if engine.is_recurrent { 0 } else { 40 };
    assert_eq!(cached, kept, "{name}: an edit keeps the prefix before it");
    assert_eq!(bits(&logits), bits(&fresh(&edited)), "{name}: the edit");

    let fork = engine.cache.fork(second);
    let (a, b) = (engine.append(second, &[7]), engine.append(fork, &[8]));
    let ends = |token: u32| bits(&fresh(&[&chat[..], &[token]].concat()));
    assert_eq!((bits(&a), bits(&b)), (ends(7), ends(8)), "{name}: both branches of a fork");
}

#[test]
fn cached_prefixes_equal_recomputed_ones_for_every_type_and_family() {
    let weights = DType::all().filter(|dtype| dtype.is_weight()).map(Types::All);
    for types in weights.chain([Types::Q4KM]) {
        let small = ModelSpec { layers: 1, types, ..tiny_llama() };
        check(&small);
    }
    // Types differ in kernels, and families in steps.
    let backends = backends();
    for family in families::ALL {
        let spec = tiny(family);
        check_on(family.name, &file(&cairn_testkit::write(&spec)), &backends[1]);
    }
    check(&ModelSpec { layers: 4, ..tiny(&families::GEMMA4_SMALL) });
    check(&ModelSpec { rope_scaling: RopeScaling::Llama3 { factor: 8.0, original_context: 64 }, ..tiny_llama() });
}

#[test]
fn testkit_writes_every_family() {
    let names = families::ALL.iter().map(|family| &family.name);
    assert!(crate::ARCHITECTURES.iter().flat_map(|family| family.names()).eq(names), "each family has random models");
}
