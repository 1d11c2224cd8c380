//! Every family on tiny models: against a textbook forward pass, whole against token by token, and what is refused.

mod cached;
mod textbook;

use std::path::Path;

use cairn_gguf::Value;
use cairn_tensor::{Backend, Batch, Limits, PAGE_TOKENS, PageId, Reference, Row};

use crate::file::ModelFile;
use crate::tiny::{FEED_FORWARD, HEAD_DIM, HEADS, KV_HEADS, LAYERS, Noise, Tiny, VOCAB, WIDTH};
use crate::{ALL, LoadError, Model, TensorFault, load, need};

const FAMILIES: [&str; 2] = ["llama", "qwen3"];
const PLAIN: [f64; HEAD_DIM / 2] = [1.0; HEAD_DIM / 2];

fn file(bytes: &[u8]) -> ModelFile {
    ModelFile::builtin("tiny", bytes.to_vec().leak()).expect("the writer writes what the reader reads")
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * 7 % VOCAB as u32).collect()
}

/// Logits of every position, computed in batches of these sizes.
fn run(model: &Tiny, tokens: &[u32], cut: usize) -> Vec<Vec<f32>> {
    run_file(&file(&model.bytes()), tokens, cut)
}

fn run_file(file: &ModelFile, tokens: &[u32], cut: usize) -> Vec<Vec<f32>> {
    let mut backend = Reference::new();
    let Model { plan, hparams } = load(file, &mut backend).expect("the model is whole");
    let logits = plan.logits.expect("every family has logits");
    let plan = backend.prepare(plan, Limits { rows: cut, logit_rows: cut }).expect("the plan fits its weights");
    let pages = tokens.len().div_ceil(PAGE_TOKENS);
    backend.grow_pages(pages).expect("a few pages fit");
    let table: Vec<PageId> = (0..pages as u32).rev().map(PageId).collect();
    let mut out = Vec::new();
    for (part, chunk) in tokens.chunks(cut).enumerate() {
        let slot = |i: usize| (part * cut + i) as u32;
        let rows = chunk.iter().enumerate().map(|(i, &token)| Row::text(0, token, slot(i), true)).collect();
        let batch = Batch { rows, tables: vec![table.clone()], embeddings: Vec::new() };
        backend.run(plan, &batch).expect("the batch is within the limits");
        let mut values = vec![0.0; chunk.len() * hparams.vocab];
        backend.read(plan, logits, 0..chunk.len(), &mut values);
        out.extend(values.chunks(hparams.vocab).map(<[f32]>::to_vec));
    }
    out
}

/// Holds a model against the textbook at every position of a prompt longer than a page.
fn check(what: &str, model: &Tiny, divisors: &[f64; HEAD_DIM / 2]) {
    let tokens = tokens(70);
    let ours = run(model, &tokens, 70);
    let theirs = textbook::logits(model, &tokens, divisors);
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let range = theirs.iter().fold(0f64, |most, x| most.max(x.abs()));
        for (&a, &b) in ours.iter().zip(theirs) {
            assert!((f64::from(a) - b).abs() < 1e-4 * range, "{what}, position {at}: {a} is not {b}, range {range}");
        }
    }
}

#[test]
fn every_family_computes_what_its_paper_says() {
    for family in FAMILIES {
        let tied = Tiny::new(family, 1);
        check(&format!("{family}, tied"), &tied, &PLAIN);
        let mut untied = Tiny::new(family, 2);
        untied.add(&mut Noise(3), "output.weight", &[WIDTH, VOCAB]);
        check(&format!("{family}, with an output matrix"), &untied, &PLAIN);
        let mut biased = Tiny::new(family, 4);
        for layer in 0..LAYERS {
            for (part, len) in [("q", HEADS * HEAD_DIM), ("k", KV_HEADS * HEAD_DIM), ("output", WIDTH)] {
                biased.add(&mut Noise(5), &format!("blk.{layer}.attn_{part}.bias"), &[len]);
            }
        }
        check(&format!("{family}, with biases"), &biased, &PLAIN);
    }
}

#[test]
fn rope_scaling_divides_the_angles() {
    for family in FAMILIES {
        let mut linear = Tiny::new(family, 6);
        linear.keys.insert("rope.scaling.type", "linear".into());
        linear.keys.insert("rope.scaling.factor", 4f32.into());
        check(&format!("{family}, linear"), &linear, &[4.0; HEAD_DIM / 2]);
        let mut factors = Tiny::new(family, 7);
        factors.tensors.insert("rope_freqs.weight".into(), (vec![HEAD_DIM as u64 / 2], vec![1.0, 1.0, 2.5, 8.0]));
        check(&format!("{family}, a factor for each pair"), &factors, &[1.0, 1.0, 2.5, 8.0]);
    }
}

#[test]
fn a_prompt_computed_whole_equals_it_token_by_token() {
    for family in FAMILIES {
        let model = Tiny::new(family, 8);
        let tokens = tokens(70);
        let whole = run(&model, &tokens, 70);
        for cut in [1, 7, 64] {
            let parts = run(&model, &tokens, cut);
            for (at, (whole, parts)) in whole.iter().zip(&parts).enumerate() {
                let distance = whole.iter().zip(parts).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
                assert!(distance <= 1e-6, "{family} in batches of {cut}, position {at}: {distance}");
            }
        }
    }
}

#[test]
fn all_missing_and_misshaped_tensors_are_listed_at_once() {
    let mut model = Tiny::new("qwen3", 9);
    model.tensors.remove("blk.1.attn_k_norm.weight");
    model.tensors.remove("output_norm.weight");
    model.add(&mut Noise(9), "blk.0.ffn_down.weight", &[WIDTH, FEED_FORWARD]);
    let error = load(&file(&model.bytes()), &mut Reference::new()).expect_err("three tensors are wrong");
    let LoadError::Tensors { faults } = &error else { panic!("{error}") };
    let shape = |dims: [usize; 2]| dims.map(|dim| dim as u64).to_vec();
    let wanted = [
        TensorFault::Shape {
            name: "blk.0.ffn_down.weight".into(),
            need: shape([FEED_FORWARD, WIDTH]),
            have: shape([WIDTH, FEED_FORWARD]),
        },
        TensorFault::Missing { name: "blk.1.attn_k_norm.weight".into() },
        TensorFault::Missing { name: "output_norm.weight".into() },
    ];
    assert_eq!(faults[..], wanted, "all three, in the order of the forward pass");
    let text = "3 tensors do not fit the model: `blk.0.ffn_down.weight` must be [40, 24], is [24, 40]; \
                `blk.1.attn_k_norm.weight` is missing; `output_norm.weight` is missing";
    assert_eq!(error.to_string(), text, "the text lists them too");
}

/// Changes a sound llama model and checks what loading then says.
fn refuses(change: impl FnOnce(&mut Tiny), text: &str) {
    let mut model = Tiny::new("llama", 10);
    change(&mut model);
    let error = load(&file(&model.bytes()), &mut Reference::new()).expect_err(text);
    assert_eq!(error.to_string(), text, "the error says what is wrong");
}

#[test]
fn metadata_that_fit_no_model_are_refused_by_name() {
    let text = "architecture `mamba` is not supported; supported are llama, qwen3";
    refuses(|model| model.architecture = "mamba".into(), text);
    let remove = |key: &'static str| move |model: &mut Tiny| drop(model.keys.remove(key));
    refuses(remove("block_count"), "metadata key `llama.block_count` is missing");
    let set = |key: &'static str, value: u32| move |model: &mut Tiny| drop(model.keys.insert(key, value.into()));
    refuses(set("block_count", 0), "metadata key `llama.block_count`: 0 is not in 1 to 4096");
    refuses(set("block_count", u32::MAX), "metadata key `llama.block_count`: 4294967295 is not in 1 to 4096");
    let text = "metadata key `llama.attention.head_count_kv`: 3 key/value heads do not divide 4 heads";
    refuses(set("attention.head_count_kv", 3), text);
    let text = "metadata key `llama.attention.head_count`: 0 is not in 1 to 4194304";
    refuses(set("attention.head_count", 0), text);
    let text = "metadata key `llama.rope.dimension_count`: 9 is not an even number up to the head's 8 elements";
    refuses(set("rope.dimension_count", 9), text);
    refuses(set("expert_count", 8), "a llama model with 8 experts is not supported");
    let yarn = |model: &mut Tiny| drop(model.keys.insert("rope.scaling.type", "yarn".into()));
    refuses(yarn, "RoPE scaling `yarn` is not supported");
    let text = "metadata key `llama.rope.freq_base`: -1 is not a positive number";
    refuses(|model| drop(model.keys.insert("rope.freq_base", (-1f32).into())), text);
    for (value, shown) in [(f32::NAN, "NaN"), (-1e-5, "-0.00001"), (f32::INFINITY, "inf")] {
        let text =
            format!("metadata key `llama.attention.layer_norm_rms_epsilon`: {shown} is not a number from zero up");
        refuses(|model| drop(model.keys.insert("attention.layer_norm_rms_epsilon", value.into())), &text);
    }
    let factors = (vec![HEAD_DIM as u64 / 2], vec![1.0, 0.0, 1.0, 1.0]);
    let text = "metadata key `rope_freqs.weight`: 0 is not a positive number";
    refuses(|model| drop(model.tensors.insert("rope_freqs.weight".into(), factors)), text);
}

/// Every number of the metadata at its extremes: an error or a model, never a panic, and no memory taken for it.
#[test]
fn extreme_metadata_are_refused_or_run() {
    let keys: Vec<&str> = Tiny::new("llama", 13).keys.keys().copied().collect();
    let more = ["rope.dimension_count", "rope.freq_base", "rope.scaling.factor", "vocab_size"];
    for family in FAMILIES {
        for key in keys.iter().copied().chain(more) {
            for value in [0u32, 1, 3, 1 << 22, u32::MAX] {
                for value in
                    [Value::from(value), Value::from(value as f32), Value::from(-(value as f32)), Value::from(f32::NAN)]
                {
                    let mut model = Tiny::new(family, 13);
                    model.keys.insert(key, value);
                    let file = file(&model.bytes());
                    let need = need(&file, u32::MAX as usize, Limits { rows: 512, logit_rows: 8 }, 2);
                    let loaded = load(&file, &mut Reference::new());
                    assert_eq!(need.is_ok(), loaded.is_ok(), "{family}, {key}: {need:?}, {:?}", loaded.err());
                }
            }
        }
    }
}

#[test]
fn a_split_model_computes_what_the_whole_one_does() {
    let whole = Tiny::new("llama", 5).bytes();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (number, part) in (1..).zip(cairn_testkit::split(&whole, 3)) {
        let path = folder.path().join(format!("m-{number:05}-of-00003.gguf"));
        std::fs::write(path, part).expect("the file can be written");
    }
    let split = ModelFile::open(&folder.path().join("m-00002-of-00003.gguf")).expect("all parts are there");
    let whole = file(&whole);
    let tokens = tokens(20);
    assert_eq!(run_file(&split, &tokens, 20), run_file(&whole, &tokens, 20), "bit for bit");
    let limits = Limits { rows: 10, logit_rows: 3 };
    assert_eq!(need(&split, 65, limits, 2).ok(), need(&whole, 65, limits, 2).ok(), "and needs as much memory");
}

#[test]
fn need_counts_weights_pages_and_activations() {
    let model = Tiny::new("llama", 11);
    let weights: usize = model.tensors.values().map(|(_, values)| 4 * values.len()).sum();
    let need = need(&file(&model.bytes()), 65, Limits { rows: 10, logit_rows: 3 }, 2).expect("the model is whole");
    assert_eq!(need.weights_bytes, weights as u64, "a tied embedding counts once");
    let token = LAYERS * 2 * KV_HEADS * HEAD_DIM * 2;
    assert_eq!(need.kv_bytes_per_token, token as u64, "keys and values of f16");
    assert_eq!(need.kv_bytes, 2 * 64 * token as u64, "65 tokens take two pages");
    let batch = 2 * WIDTH + 2 * (HEADS + KV_HEADS) * HEAD_DIM + 2 * FEED_FORWARD;
    let floats = 10 * batch + 3 * (WIDTH + VOCAB);
    assert_eq!(need.activations_bytes, 4 * floats as u64, "buffers are used again in every layer");
    assert_eq!(need.total_bytes(), need.weights_bytes + need.kv_bytes + need.activations_bytes, "all of it");
}

#[test]
fn a_long_list_of_missing_tensors_is_cut_short() {
    let mut model = Tiny::new("llama", 12);
    model.keys.insert("block_count", 4096u32.into());
    let error = load(&file(&model.bytes()), &mut Reference::new()).expect_err("nearly all blocks are missing");
    let text = error.to_string();
    assert!(text.starts_with("36846 tensors do not fit the model: `blk.2.attn_norm.weight` is missing; "), "{text}");
    assert!(text.ends_with("; and 36746 more"), "{text}");
}

#[test]
fn every_file_of_the_folder_is_a_row_of_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/arch");
    let entries = std::fs::read_dir(folder).expect("the sources are there");
    let names = entries.map(|entry| entry.expect("the folder can be read").file_name());
    let families = names.filter(|name| name != "tests.rs" && name != "tests").count();
    assert_eq!(ALL.len(), families, "a family is one file and one line in `ALL`");
    assert_eq!(ALL.iter().flat_map(|family| family.names()).count(), FAMILIES.len(), "these tests run every family");
}
