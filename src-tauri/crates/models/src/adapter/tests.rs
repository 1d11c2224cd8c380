//! Adapters against merged weights, batches of several adapters, and adapters that are refused.

use std::sync::Arc;

use cairn_gguf::{DType, Writer};
use cairn_hardware::Machine;
use cairn_tensor::{AdapterUse, Backend, Batch, Cpu, Limits, PAGE_TOKENS, PageId, Reference, Row, Team, cpu};

use super::*;
use crate::adapter_error::MAX_ADAPTERS;
use crate::load_with_adapters;
use crate::tiny::{Noise, Tiny, VOCAB, WIDTH};

const RANK: usize = 3;
const TOKENS: usize = 70;

/// A random adapter of some matrices of a model.
struct Lora {
    alpha: f32,
    /// By matrix: `A` and `B`, in a model so that [`Tiny::add`] fills them.
    tensors: Tiny,
}

impl Lora {
    fn new(model: &Tiny, seed: u64, alpha: f32, changes: impl Fn(&str) -> bool) -> Self {
        let mut tensors = model.clone();
        tensors.tensors.clear();
        let mut noise = Noise(seed);
        for (name, (dims, _)) in model.tensors.iter().filter(|(name, (dims, _))| dims.len() == 2 && changes(name)) {
            tensors.add(&mut noise, &format!("{name}.lora_a"), &[dims[0] as usize, RANK]);
            tensors.add(&mut noise, &format!("{name}.lora_b"), &[RANK, dims[1] as usize]);
        }
        Self { alpha, tensors }
    }

    fn writer(&self) -> Writer<'static> {
        let mut writer = Writer::default();
        writer.set("general.architecture", self.tensors.architecture.as_str());
        writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", self.alpha);
        for (name, (dims, values)) in &self.tensors.tensors {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(name.clone(), DType::F32, dims, bytes).expect("valid tensor");
        }
        writer
    }

    fn adapter(&self) -> Adapter {
        Adapter::new(file(&self.writer().finish())).expect("a valid adapter")
    }

    /// Returns the model with `W + scale * alpha / rank * B A` as its weights.
    fn merged(&self, model: &Tiny, scale: f32) -> Tiny {
        let mut model = model.clone();
        for (name, (dims, values)) in &mut model.tensors {
            let [a, b] = ["a", "b"].map(|part| self.tensors.tensors.get(&format!("{name}.lora_{part}")));
            let (Some((_, a)), Some((_, b))) = (a, b) else { continue };
            let columns = dims[0] as usize;
            for (at, value) in values.iter_mut().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let product: f32 = (0..RANK).map(|i| b[row * RANK + i] * a[i * columns + column]).sum();
                *value += scale * self.alpha / RANK as f32 * product;
            }
        }
        model
    }
}

fn file(bytes: &[u8]) -> ModelFile {
    ModelFile::builtin("tiny", bytes.to_vec().leak()).expect("valid GGUF")
}

/// Tokens of a sequence, and the adapters that it uses.
type Sequence = (Vec<u32>, Vec<AdapterUse>);

fn sequence(seed: u32, uses: &[(u32, f32)]) -> Sequence {
    let tokens = (0..TOKENS as u32).map(|i| (i * 7 + seed) % VOCAB as u32).collect();
    (tokens, uses.iter().map(|&(adapter, scale)| AdapterUse { adapter, scale }).collect())
}

/// Returns the logits of all positions of sequences that are computed in one batch.
fn run(backend: &mut dyn Backend, model: &Tiny, adapters: &[Adapter], sequences: &[Sequence]) -> Vec<Vec<f32>> {
    let loaded = load_with_adapters(&file(&model.bytes()), adapters, 4096, backend).expect("the adapters fit");
    let logits = loaded.plan.logits.expect("every family has logits");
    let rows = sequences.len() * TOKENS;
    let plan = backend.prepare(loaded.plan, Limits { rows, logit_rows: rows }).expect("the plan fits its weights");
    let pages = TOKENS.div_ceil(PAGE_TOKENS) as u32;
    backend.grow_pages(sequences.len() * pages as usize).expect("a few pages fit");
    let mut batch = Batch::default();
    for (seq, (tokens, uses)) in (0..).zip(sequences) {
        batch.rows.extend(tokens.iter().zip(0..).map(|(&token, slot)| Row::text(seq, token, slot, true)));
        batch.tables.push((seq * pages..(seq + 1) * pages).map(PageId).collect());
        batch.adapters.push(uses.clone());
    }
    backend.run(plan, &batch).expect("the batch is within the limits");
    let mut values = vec![0.0; rows * VOCAB];
    backend.read(plan, logits, 0..rows, &mut values);
    values.chunks(TOKENS * VOCAB).map(<[f32]>::to_vec).collect()
}

fn fast() -> Cpu {
    let variant = cpu::variants(&Machine::probe().cpu.features, None).expect("a variant runs everywhere")[0];
    Cpu::new(variant, Arc::new(Team::new(2, &[]).expect("a test may start threads")))
}

#[test]
fn adapter_equals_merged_weights() {
    for family in ["llama", "qwen2", "phi3", "gemma2", "starcoder2"] {
        let mut model = Tiny::new(family, 1);
        model.add(&mut Noise(2), "output.weight", &[WIDTH, VOCAB]);
        let lora = Lora::new(&model, 3, 1.5, |name| name != "token_embd.weight" && name != "position_embd.weight");
        assert!(lora.tensors.tensors.len() >= 2 * (4 + 2 + 1), "{family}: several matrices are changed");
        let ours = run(&mut Reference::new(), &model, &[lora.adapter()], &[sequence(0, &[(0, 0.7)])]);
        let merged = run(&mut Reference::new(), &lora.merged(&model, 0.7), &[], &[sequence(0, &[])]);
        let without = run(&mut Reference::new(), &model, &[], &[sequence(0, &[])]);
        let range = merged[0].iter().fold(0f32, |most, x| most.max(x.abs()));
        let distance = |other: &[f32]| ours[0].iter().zip(other).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(distance(&merged[0]) < 2e-4 * range, "{family}: {} of {range}", distance(&merged[0]));
        assert!(distance(&without[0]) > 1e-2 * range, "{family}: the adapter changes the logits");
        let fast = run(&mut fast(), &model, &[lora.adapter()], &[sequence(0, &[(0, 0.7)])]);
        let error = fast[0].iter().zip(&merged[0]).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(error < 1e-2 * range, "{family} on the CPU: {error} of {range}");
    }
}

#[test]
fn alpha_of_zero_means_the_scale_alone() {
    let model = Tiny::new("llama", 1);
    let mut lora = Lora::new(&model, 3, RANK as f32, |name| name.contains("attn_q"));
    let merged = run(&mut Reference::new(), &lora.merged(&model, 0.5), &[], &[sequence(0, &[])]);
    lora.alpha = 0.0;
    let ours = run(&mut Reference::new(), &model, &[lora.adapter()], &[sequence(0, &[(0, 0.5)])]);
    let error = ours[0].iter().zip(&merged[0]).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(error < 1e-3, "error {error}");
}

#[test]
fn sequences_of_one_batch_use_different_adapters_bit_for_bit() {
    let mut model = Tiny::new("llama", 1);
    model.add(&mut Noise(2), "output.weight", &[WIDTH, VOCAB]);
    let loras = [
        Lora::new(&model, 3, 2.0, |name| name.contains("attn") || name == "output.weight"),
        Lora::new(&model, 4, 1.0, |name| name.contains("ffn") || name.contains("attn_v")),
    ];
    let adapters = || loras.iter().map(Lora::adapter).collect::<Vec<_>>();
    let sequences =
        [sequence(0, &[(0, 1.0)]), sequence(1, &[]), sequence(2, &[(1, 0.5)]), sequence(3, &[(0, -0.3), (1, 2.0)])];
    let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let together = run(&mut fast(), &model, &adapters(), &sequences);
    for (together, sequence) in together.iter().zip(&sequences) {
        let alone = run(&mut fast(), &model, &adapters(), std::slice::from_ref(sequence));
        assert!(bits(together) == bits(&alone[0]), "{:?} alone and in a batch", sequence.1);
    }
    let without = run(&mut fast(), &model, &[], &sequences[1..2]);
    assert!(bits(&together[1]) == bits(&without[0]), "a sequence without adapters equals the model without them");
}

#[test]
fn batches_with_invalid_uses_are_refused() {
    let model = Tiny::new("llama", 1);
    let lora = Lora::new(&model, 3, 1.0, |name| name == "blk.0.attn_q.weight");
    let check = |uses: &[(u32, f32)], expected: &str| {
        for backend in [&mut Reference::new() as &mut dyn Backend, &mut fast()] {
            let loaded = load_with_adapters(&file(&model.bytes()), &[lora.adapter()], 64, backend).expect("it fits");
            let plan = backend.prepare(loaded.plan, Limits { rows: 1, logit_rows: 1 }).expect("the plan fits");
            backend.grow_pages(1).expect("a page fits");
            let adapters = vec![sequence(0, uses).1];
            let rows = vec![Row::text(0, 1, 0, true)];
            let batch = Batch { rows, tables: vec![vec![PageId(0)]], adapters, ..Batch::default() };
            let error = backend.run(plan, &batch).expect_err("refused").to_string();
            assert_eq!(error, expected);
        }
    };
    check(&[(1, 1.0)], "batch: sequence 0 uses adapter 1 of 1 with the scale 1");
    check(&[(0, f32::INFINITY)], "batch: sequence 0 uses adapter 0 of 1 with the scale inf");
    check(&[(0, 1.0), (0, 2.0)], "batch: sequence 0 uses adapter 0 twice");
}

#[test]
fn unusable_adapters_are_refused_with_the_reason() {
    let model = Tiny::new("llama", 1);
    let lora = || Lora::new(&model, 3, 1.0, |name| name == "blk.0.attn_q.weight");
    let check = |writer: &Writer<'_>, expected: &str| {
        let error = Adapter::new(file(&writer.finish())).map_err(LoadErrorText::from).and_then(|adapter| {
            let loaded = load_with_adapters(&file(&model.bytes()), &[adapter], 64, &mut Reference::new());
            loaded.map_err(LoadErrorText::from)
        });
        let error = error.expect_err("refused").0;
        assert!(error.contains(expected), "{error:?} has {expected:?}");
    };
    check(lora().writer().set("general.type", "model"), "`general.type` must be \"adapter\"");
    check(lora().writer().set("adapter.type", "control"), "`adapter.type` must be \"lora\"");
    check(lora().writer().set("adapter.lora.alpha", f32::NAN), "is NaN, which is not a finite number");
    check(
        lora().writer().set("general.architecture", "qwen2"),
        "for models of the architecture \"qwen2\", this model is \"llama\"",
    );
    let changed = |change: &dyn Fn(&mut Lora)| {
        let mut lora = lora();
        change(&mut lora);
        lora.writer()
    };
    check(&changed(&|lora| lora.tensors.tensors.clear()), "the adapter has no tensors");
    let remove =
        |lora: &mut Lora, part: &str| drop(lora.tensors.tensors.remove(&format!("blk.0.attn_q.weight.lora_{part}")));
    check(&changed(&|lora| remove(lora, "b")), "`blk.0.attn_q.weight.lora_a` is not part of a pair");
    check(&changed(&|lora| remove(lora, "a")), "`blk.0.attn_q.weight.lora_b` is not part of a pair");
    let add = |lora: &mut Lora, name: &str, a: &[usize], b: &[usize]| {
        lora.tensors.add(&mut Noise(1), &format!("{name}.lora_a"), a);
        lora.tensors.add(&mut Noise(1), &format!("{name}.lora_b"), b);
    };
    check(
        &changed(&|lora| add(lora, "blk.9.attn_q.weight", &[24, 2], &[2, 32])),
        "`blk.9.attn_q.weight`, which the model does not have",
    );
    check(
        &changed(&|lora| add(lora, "token_embd.weight", &[24, 2], &[2, 50])),
        "`token_embd.weight`, which this version cannot adapt",
    );
    check(&changed(&|lora| add(lora, "blk.0.attn_k.weight", &[24, 2], &[3, 16])), "their ranks are 2 and 3");
    check(
        &changed(&|lora| add(lora, "blk.0.attn_k.weight", &[25, 2], &[2, 16])),
        "the matrix is [24, 16], they are [25, 2] and [2, 16]",
    );
    check(
        &changed(&|lora| add(lora, "blk.0.attn_k.weight", &[24, 2, 2], &[2, 16, 2])),
        "adapters of experts are not supported",
    );
    let adapters: Vec<Adapter> = (0..=MAX_ADAPTERS).map(|_| lora().adapter()).collect();
    let error = load_with_adapters(&file(&model.bytes()), &adapters, 64, &mut Reference::new()).expect_err("too many");
    assert_eq!(error.to_string(), "a model can have 16 adapters, not 17");
}

/// Text of an error of either step.
struct LoadErrorText(String);

impl From<AdapterError> for LoadErrorText {
    fn from(error: AdapterError) -> Self {
        Self(error.to_string())
    }
}

impl From<crate::LoadError> for LoadErrorText {
    fn from(error: crate::LoadError) -> Self {
        Self(error.to_string())
    }
}
