//! Every family on tiny models: comparisons with a textbook forward pass and between batch sizes, and invalid files.

mod cached;
mod context;
mod exact;
mod gemma;
mod hybrid;
mod latent;
mod linear;
mod pictures;
mod textbook;

use std::collections::BTreeSet;
use std::path::Path;

use cairn_gguf::{DType, Value};
use cairn_tensor::{Limits, Reference};
use cairn_testkit::families;

use self::textbook::Rotation;
use crate::file::ModelFile;
use crate::runs::logits;
use crate::tiny::{FEED_FORWARD, HEAD_DIM, HEADS, KV_HEADS, LAYERS, Noise, Tiny, VOCAB, WIDTH};
use crate::{ARCHITECTURES, LoadError, TensorFault, load, memory_requirements, required_tensors};

/// Every family by its name.
fn families() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().flat_map(|family| family.names()).copied()
}

fn file(bytes: &[u8]) -> ModelFile {
    ModelFile::builtin("tiny", bytes.to_vec().leak()).expect("the writer writes what the reader reads")
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * 7 % VOCAB as u32).collect()
}

/// Returns the logits of every position, computed in batches of `cut` tokens.
fn run(model: &Tiny, tokens: &[u32], cut: usize) -> Vec<Vec<f32>> {
    logits(&file(&model.bytes()), tokens, cut)
}

/// Compares a model with the textbook at every position of a prompt longer than a page.
fn check(what: &str, model: &Tiny, rotation: &Rotation) {
    let tokens = tokens(70);
    let ours = run(model, &tokens, 70);
    let theirs = textbook::logits(model, &tokens, rotation);
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let range = theirs.iter().fold(0f64, |most, x| most.max(x.abs()));
        for (&a, &b) in ours.iter().zip(theirs) {
            assert!((f64::from(a) - b).abs() < 1e-4 * range, "{what}, position {at}: {a} is not {b}, range {range}");
        }
    }
}

/// Returns the rotation of a model without scaling.
fn plain(model: &Tiny) -> Rotation {
    let [base, dims] = ["rope.freq_base", "rope.dimension_count"].map(|key| model.number(key));
    Rotation::plain(base.expect("testkit writes it"), dims.expect("testkit writes it") as usize)
}

/// Returns the number of blocks.
fn layers(model: &Tiny) -> usize {
    model.number("block_count").expect("testkit writes it") as usize
}

/// Returns a model with this number of blocks, which are copies of the first one.
fn with_layers(model: &Tiny, layers: usize) -> Tiny {
    let mut model = model.clone();
    model.set("block_count", layers as u32);
    let first = model.tensors.clone().into_iter().filter_map(|(name, tensor)| {
        let name = name.strip_prefix("blk.0.")?.to_owned();
        Some((name, tensor))
    });
    for (name, tensor) in first {
        for layer in LAYERS..layers {
            model.tensors.insert(format!("blk.{layer}.{name}"), tensor.clone());
        }
    }
    model
}

#[test]
fn every_family_matches_textbook() {
    for family in families() {
        let tied = Tiny::new(family, 1);
        check(&format!("{family}, tied"), &tied, &plain(&tied));
        let mut untied = Tiny::new(family, 2);
        untied.add(&mut Noise(3), "output.weight", &[WIDTH, VOCAB]);
        check(&format!("{family}, with an output matrix"), &untied, &plain(&untied));
        let mut biased = Tiny::new(family, 4);
        for layer in 0..layers(&biased) {
            for part in ["q", "k", "qkv", "output"] {
                if let Some((dims, _)) = biased.tensors.get(&format!("blk.{layer}.attn_{part}.weight")) {
                    let rows = dims[1] as usize;
                    biased.add(&mut Noise(5), &format!("blk.{layer}.attn_{part}.bias"), &[rows]);
                }
            }
        }
        check(&format!("{family}, with biases"), &biased, &plain(&biased));
    }
    for (what, family) in [
        ("llama with experts", &families::MIXTRAL),
        ("falcon with a norm of attention", &families::FALCON_40B),
        ("gptneox with one part after the other", &families::GPTNEOX_SEQUENTIAL),
        ("exaone4 with windows", &families::EXAONE4_WINDOWS),
        ("glm4 with sections", &families::GLM4_VISION),
        ("deepseek2 with keys of all heads in the cache", &families::DEEPSEEK2_LITE),
        ("deepseek2 with queries that grow", &families::DEEPSEEK2_GROWTH),
        ("llama4 with published chunks", &families::LLAMA4_PUBLISHED),
        ("granitehybrid with experts", &families::GRANITE_HYBRID_MOE),
        ("nemotron_h_moe with a latent", &families::NEMOTRON_H_LATENT),
        ("gemma4 with experts", &families::GEMMA4_EXPERTS),
        ("gemma4 with separate gates of experts", &families::GEMMA4_SPLIT_EXPERTS),
    ] {
        let model = Tiny::from_family(family, 1);
        check(what, &model, &plain(&model));
    }
    let shared = Tiny::with_layers(&families::GEMMA4_SMALL, 4, 1);
    check("gemma4 with inputs of layers and shared keys", &shared, &plain(&shared));
    let mut streams = Tiny::with_layers(&families::GEMMA3N, 4, 1);
    streams.set("attention.shared_kv_layers", 2u32);
    streams.set("altup.active_idx", 1u32);
    streams.set("activation_sparsity_scale", vec![0.7, f32::NEG_INFINITY, -0.2, 1.6]);
    check("gemma3n with another active stream and shared keys", &streams, &plain(&streams));
    let mut grown = Tiny::from_family(&families::DEEPSEEK2_LITE, 1);
    grown.set("attention.temperature_scale", 0.2f32);
    grown.set("rope.scaling.original_context_length", 30u32);
    check("deepseek2 with keys of all heads and queries that grow", &grown, &plain(&grown));
    let deep = with_layers(&Tiny::new("smollm3", 1), 5);
    check("smollm3 with an unrotated layer", &deep, &plain(&deep));
}

#[test]
fn required_tensors_are_listed_from_metadata() {
    for family in families() {
        let model = Tiny::new(family, 9);
        let file = file(&model.bytes());
        let has = |name: &str| model.tensors.contains_key(name);
        let mut metadata = file.gguf().metadata().clone();
        let listed = required_tensors(&metadata, &has).expect("the metadata are those of the family");
        let names: BTreeSet<&str> = listed.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names.len(), listed.len(), "{family}: each tensor once");
        for tensor in &listed {
            let in_file = file.gguf().tensor(&tensor.name).expect("the model is whole");
            assert_eq!(tensor.dims, in_file.dims, "{family}: {}", tensor.name);
        }
        assert_eq!(listed.len(), model.tensors.len(), "{family}: all of them");
        metadata.set(format!("{family}.block_count"), 0u32);
        let error = required_tensors(&metadata, &has).expect_err("0 blocks are invalid");
        assert!(error.to_string().starts_with(&format!("metadata key `{family}.block_count`")), "{error}");
    }
}

#[test]
fn prompt_logits_are_independent_of_batch_size() {
    for family in families() {
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
fn missing_and_misshaped_tensors_are_listed_together() {
    for family in families() {
        let mut model = Tiny::new(family, 9);
        model.tensors.remove("blk.1.attn_output.weight");
        let last_norm = format!("{}.weight", textbook::last_norm(&model));
        model.tensors.remove(&last_norm);
        // Some families read it in parts. Tied embeddings are read twice.
        let fused = model.tensors.remove("blk.1.attn_qkv.weight").is_some();
        model.tensors.remove("token_embd.weight");
        let down = ["blk.0.ffn_down.weight", "blk.0.ffn_down_exps.weight"];
        let down = down.into_iter().find(|name| model.tensors.contains_key(*name)).expect("every family has an MLP");
        let need = model.tensors[down].0.clone();
        let mut have = need.clone();
        have.swap(0, 1);
        model.add(&mut Noise(9), down, &have.iter().map(|&dim| dim as usize).collect::<Vec<_>>());
        let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("tensors are wrong");
        let LoadError::Tensors { faults } = &error else { panic!("{error}") };
        let missing = |name: &str| TensorFault::Missing { name: name.into() };
        let text = format!("`{down}` must be {need:?}, is {have:?}");
        let down = TensorFault::Shape { name: down.into(), need, have };
        let mut wanted = vec![missing("token_embd.weight"), down];
        wanted.extend(fused.then(|| missing("blk.1.attn_qkv.weight")));
        wanted.extend([missing("blk.1.attn_output.weight"), missing(&last_norm)]);
        assert_eq!(faults[..], wanted, "{family}: each once, in the order of the forward pass");
        assert!(error.to_string().contains(&text), "the text lists them too: {error}");
    }
}

#[test]
fn bias_missing_in_one_block_is_reported() {
    for family in families() {
        let mut model = Tiny::new(family, 9);
        // A bias that only the last block can have may be missing.
        let is_in_both = |name: &&String| model.tensors.contains_key(&name.replace("blk.1.", "blk.0."));
        let biases = model.tensors.keys().filter(|name| name.starts_with("blk.1.") && name.ends_with(".bias"));
        let mut biases: Vec<String> = biases.filter(is_in_both).cloned().collect();
        if biases.is_empty() {
            let name = ["blk.1.attn_q", "blk.1.attn_qkv", "blk.1.attn_q_a"].into_iter().find(|name| {
                let weight = format!("{name}.weight");
                model.tensors.contains_key(&weight)
            });
            let name = name.expect("every family has attention");
            let first = name.replace("blk.1", "blk.0");
            // Layers may differ in the number of rows, and the first one may have no such matrix.
            let like = [first.as_str(), name].into_iter().find_map(|name| model.tensors.get(&format!("{name}.weight")));
            let rows = like.expect("the last block has it").0[1] as usize;
            let others = (2..layers(&model)).map(|layer| name.replace("blk.1", &format!("blk.{layer}")));
            let others = others.filter(|name| model.tensors.contains_key(&format!("{name}.weight")));
            for name in others.chain([first]).collect::<Vec<_>>() {
                model.add(&mut Noise(9), &format!("{name}.bias"), &[rows]);
            }
            biases.push(format!("{name}.bias"));
        }
        for name in biases {
            let mut model = model.clone();
            model.tensors.remove(&name);
            let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(&name);
            assert_eq!(error.to_string(), format!("1 tensor does not fit the model: `{name}` is missing"), "{family}");
        }
    }
}

#[test]
fn required_biases_of_a_family_are_reported() {
    for family in families() {
        let mut model = Tiny::new(family, 9);
        let needed: &[&str] = match family {
            "falcon" => &["attn_norm"],
            "gpt-oss" => &["attn_output", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"],
            "gpt2" => &["attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down"],
            "gptneox" => &["ffn_norm", "attn_norm", "attn_qkv", "attn_output", "ffn_up", "ffn_down"],
            "phi2" => &["attn_norm", "attn_output", "ffn_up", "ffn_down"],
            "stablelm" => &["attn_norm", "ffn_norm"],
            "starcoder2" => &["attn_norm", "attn_output", "ffn_norm", "ffn_up", "ffn_down"],
            _ => &[],
        };
        let has_last = !needed.is_empty() && family != "gpt-oss";
        // Linear attention has no form without this one.
        model.tensors.retain(|name, _| !name.ends_with(".bias") || name.ends_with(".ssm_dt.bias"));
        let loaded = load(&file(&model.bytes()), 4096, &mut Reference::new());
        if needed.is_empty() {
            assert!(loaded.is_ok(), "{family}: {:?}", loaded.err());
            continue;
        }
        let mut list: Vec<String> =
            needed.iter().map(|name| format!("`blk.0-{}.{name}.bias` are missing", LAYERS - 1)).collect();
        list.extend(has_last.then(|| "`output_norm.bias` is missing".to_owned()));
        let count = LAYERS * needed.len() + usize::from(has_last);
        let text = format!("{count} tensors do not fit the model: {}", list.join("; "));
        assert_eq!(loaded.expect_err("required biases are missing").to_string(), text, "{family}");
    }
}

/// Changes a valid llama model and checks the error of loading it.
fn check_refused(change: impl FnOnce(&mut Tiny), text: &str) {
    let mut model = Tiny::new("llama", 10);
    change(&mut model);
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
    assert_eq!(error.to_string(), text, "the error of loading");
}

#[test]
fn invalid_metadata_is_refused_by_key() {
    let encoders = crate::ENCODERS.iter().flat_map(|family| family.names()).copied();
    let encoder_decoders = crate::ENCODER_DECODERS.iter().flat_map(|family| family.names()).copied();
    let supported = families().chain(encoders).chain(encoder_decoders).collect::<Vec<_>>().join(", ");
    let text = format!("architecture `mamba` is not supported; supported are {supported}");
    check_refused(|model| model.architecture = "mamba".into(), &text);
    let remove = |key: &'static str| move |model: &mut Tiny| drop(model.keys.remove(key));
    check_refused(remove("block_count"), "metadata key `llama.block_count` is missing");
    let set = |key: &'static str, value: u32| move |model: &mut Tiny| model.set(key, value);
    check_refused(set("block_count", 0), "metadata key `llama.block_count`: 0 is not in 1 to 4096");
    check_refused(set("block_count", u32::MAX), "metadata key `llama.block_count`: 4294967295 is not in 1 to 4096");
    let text = "metadata key `llama.attention.head_count_kv`: 3 key/value heads do not divide 4 heads";
    check_refused(set("attention.head_count_kv", 3), text);
    let text = "metadata key `llama.attention.head_count`: 0 is not in 1 to 4194304";
    check_refused(set("attention.head_count", 0), text);
    let text =
        "metadata key `llama.attention.head_count`: 4 heads with 8388608 elements together are more than 4194304";
    let wide = |model: &mut Tiny| {
        ["key", "value"].iter().for_each(|kind| model.set(&format!("attention.{kind}_length"), 1u32 << 21))
    };
    check_refused(wide, text);
    let text = "metadata key `llama.rope.dimension_count`: 9 is not an even number up to the head's 8 elements";
    check_refused(set("rope.dimension_count", 9), text);
    check_refused(set("expert_count", 8), "metadata key `llama.expert_used_count` is missing");
    let experts = |count: u32, used: u32| {
        move |model: &mut Tiny| {
            model.set("expert_count", count);
            model.set("expert_used_count", used);
        }
    };
    check_refused(experts(8, 9), "metadata key `llama.expert_used_count`: 9 is not in 1 to 8");
    check_refused(experts(65537, 1), "metadata key `llama.expert_count`: 65537 is not in 1 to 65536");
    check_refused(|model| model.set("rope.scaling.type", "su"), "RoPE scaling `su` is not supported");
    check_refused(
        set("nextn_predict_layers", 2),
        "metadata key `llama.nextn_predict_layers`: 2 of 2 layers predict further tokens",
    );
    let sections = |sections: Vec<i32>| move |model: &mut Tiny| model.set("rope.dimension_sections", sections);
    check_refused(sections(vec![1, 1, 1, 1]), "a rotation by a fourth component of positions is not supported");
    let text = "metadata key `llama.rope.dimension_sections`: it is not a list of 32-bit integers";
    check_refused(|model| model.set("rope.dimension_sections", 4u32), text);
    let text = "metadata key `llama.rope.freq_base`: -1 is not a positive number";
    check_refused(|model| model.set("rope.freq_base", -1f32), text);
    for (value, shown) in [(f32::NAN, "NaN"), (-1e-5, "-0.00001"), (f32::INFINITY, "inf")] {
        let text =
            format!("metadata key `llama.attention.layer_norm_rms_epsilon`: {shown} is not a number from zero up");
        check_refused(|model| model.set("attention.layer_norm_rms_epsilon", value), &text);
    }
    let factors = (vec![HEAD_DIM as u64 / 2], vec![1.0, 0.0, 1.0, 1.0]);
    let text = "metadata key `rope_freqs.weight`: 0 is not a positive number";
    check_refused(|model| drop(model.tensors.insert("rope_freqs.weight".into(), factors)), text);
}

#[test]
fn models_with_norms_of_single_heads_are_refused() {
    for family in ["command-r", "cohere2", "stablelm"] {
        let mut model = Tiny::new(family, 10);
        model.add(&mut Noise(9), "blk.0.attn_q_norm.weight", &[HEAD_DIM, HEADS]);
        let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("no plan computes them");
        let text = "a model with a separate norm for each query head is not supported";
        assert_eq!(error.to_string(), text, "{family}");
    }
}

#[test]
fn layers_without_heads_are_read_from_a_list() {
    let check = |counts: Vec<i32>, text: &str| {
        let mut model = Tiny::new("lfm2", 1);
        model.set("attention.head_count_kv", counts);
        let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
        assert_eq!(error.to_string(), text, "the error of loading");
    };
    check(vec![0, 0], "metadata key `lfm2.attention.head_count_kv`: no layer has attention");
    check(vec![0, 2, 2], "metadata key `lfm2.attention.head_count_kv`: 3 numbers for 2 layers");
    check(vec![1, 2], "a model with layers of 1 and 2 key/value heads is not supported");
    check(vec![-1, 2], "metadata key `lfm2.attention.head_count_kv`: -1 is not in 0 to 4194304");
    check(vec![0, 3], "metadata key `lfm2.attention.head_count_kv`: 3 key/value heads do not divide 4 heads");
    let mut model = Tiny::new("lfm2", 1);
    model.set("shortconv.l_cache", 1u32);
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("there is no state");
    let text = "metadata key `lfm2.shortconv.l_cache`: a convolution of one row has no state";
    assert_eq!(error.to_string(), text, "the error of loading");
    let mut windows = Tiny::new("lfm2", 1);
    windows.set("attention.sliding_window", 20u32);
    let plan = load(&file(&windows.bytes()), 4096, &mut Reference::new()).expect("windows are supported").plan;
    assert_eq!(plan.states[0].kind, cairn_tensor::StateKind::Window(20), "attention has a window");
}

#[test]
fn predicting_layers_are_not_computed() {
    let model = Tiny::new("exaone4", 3);
    let mut more = with_layers(&model, LAYERS + 1);
    more.set("nextn_predict_layers", 1u32);
    let tokens = tokens(9);
    assert_eq!(run(&more, &tokens, 9), run(&model, &tokens, 9), "the last block is ignored");
    // The appended layer of these files has tensors of its own.
    let model = Tiny::new("deepseek2", 3);
    let mut more = model.clone();
    more.set("block_count", LAYERS as u32 + 1);
    more.set("nextn_predict_layers", 1u32);
    more.add(&mut Noise(9), &format!("blk.{LAYERS}.nextn.eh_proj.weight"), &[2 * WIDTH, WIDTH]);
    assert_eq!(run(&more, &tokens, 9), run(&model, &tokens, 9), "the last block is ignored");
}

/// Extreme values of all numeric keys give an error or a model, never a panic or large allocations.
#[test]
fn extreme_metadata_never_panics() {
    let more = ["rope.scaling.factor", "rope.scaling.original_context_length", "attention.sliding_window"];
    for family in families() {
        let valid = Tiny::new(family, 13);
        for key in valid.keys.keys().map(String::as_str).chain(more) {
            for value in [0u32, 1, 3, 1 << 22, u32::MAX] {
                for value in
                    [Value::from(value), Value::from(value as f32), Value::from(-(value as f32)), Value::from(f32::NAN)]
                {
                    let mut model = valid.clone();
                    model.set("rope.scaling.type", "yarn");
                    model.set(key, value);
                    let file = file(&model.bytes());
                    let need =
                        memory_requirements(&file, u32::MAX as usize, Limits { rows: 512, logit_rows: 8 }, DType::F16);
                    let loaded = load(&file, 4096, &mut Reference::new());
                    assert_eq!(need.is_ok(), loaded.is_ok(), "{family}, {key}: {need:?}, {:?}", loaded.err());
                }
            }
        }
    }
}

#[test]
fn split_model_equals_whole_model() {
    let whole = Tiny::new("llama", 5).bytes();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (number, part) in (1..).zip(cairn_testkit::split(&whole, 3)) {
        let path = folder.path().join(format!("m-{number:05}-of-00003.gguf"));
        std::fs::write(path, part).expect("the file can be written");
    }
    let split = ModelFile::open(&folder.path().join("m-00002-of-00003.gguf")).expect("all parts are there");
    let whole = file(&whole);
    let tokens = tokens(20);
    assert_eq!(logits(&split, &tokens, 20), logits(&whole, &tokens, 20), "bit for bit");
    let limits = Limits { rows: 10, logit_rows: 3 };
    assert_eq!(
        memory_requirements(&split, 65, limits, DType::F16).ok(),
        memory_requirements(&whole, 65, limits, DType::F16).ok(),
        "equal memory requirements"
    );
}

#[test]
fn memory_requirements_count_weights_pages_and_activations() {
    let model = Tiny::new("llama", 11);
    let weights: usize = model.tensors.values().map(|(_, values)| 4 * values.len()).sum();
    let need = memory_requirements(&file(&model.bytes()), 65, Limits { rows: 10, logit_rows: 3 }, DType::F16)
        .expect("the model is whole");
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
fn memory_requirements_depend_on_kv_type() {
    let check = |head_dim: u64, requested: DType, used: DType| {
        let spec = cairn_testkit::ModelSpec { head_dim, ..cairn_testkit::tiny_llama() };
        let file = file(&cairn_testkit::write(&spec));
        let need =
            memory_requirements(&file, 65, Limits { rows: 10, logit_rows: 3 }, requested).expect("the model is whole");
        let token = (2 * 2 * 2 * used.row_bytes(head_dim as usize)) as u64;
        assert_eq!((need.kv_type, need.kv_bytes_per_token), (used, token), "{requested} for heads of {head_dim}");
        assert_eq!(need.kv_bytes, 128 * token, "65 tokens take two pages of {used}");
    };
    for dtype in cairn_kernels::KV_TYPES {
        check(64, dtype, dtype);
    }
    check(48, DType::BF16, DType::BF16);
    check(48, DType::Q8_0, DType::F16);
    check(48, DType::Q4_0, DType::F16);
}

#[test]
fn equal_faults_of_consecutive_blocks_are_one_entry() {
    let mut model = Tiny::new("llama", 12);
    model.set("block_count", 4096u32);
    model.tensors.remove("output_norm.weight");
    model.tensors.remove("blk.1.attn_v.weight");
    model.add(&mut Noise(9), "blk.0.attn_k.weight", &[3]);
    model.add(&mut Noise(9), "blk.5.attn_k.weight", &[3]);
    model.add(&mut Noise(9), "blk.6.attn_k.weight", &[3]);
    model.add(&mut Noise(9), "blk.7.attn_k.weight", &[4]);
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("nearly all blocks are missing");
    let need = [WIDTH, KV_HEADS * HEAD_DIM];
    let mut list = vec![
        format!("`blk.0.attn_k.weight` must be {need:?}, is [3]"),
        "`blk.1-4095.attn_v.weight` are missing".to_owned(),
        "`blk.2-4095.attn_norm.weight` are missing".to_owned(),
        "`blk.2-4095.attn_q.weight` are missing".to_owned(),
        "`blk.2-4.attn_k.weight` are missing".to_owned(),
    ];
    let rest = ["attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"];
    list.extend(rest.map(|name| format!("`blk.2-4095.{name}.weight` are missing")));
    list.extend([
        format!("`blk.5-6.attn_k.weight` must be {need:?}, are [3]"),
        format!("`blk.7.attn_k.weight` must be {need:?}, is [4]"),
        "`blk.8-4095.attn_k.weight` are missing".to_owned(),
        "`output_norm.weight` is missing".to_owned(),
    ]);
    let count = 9 * 4094 + 3;
    let text = format!("{count} tensors do not fit the model: {}", list.join("; "));
    assert_eq!(error.to_string(), text, "every fault is in one entry, in the order in which they begin");
}

#[test]
fn every_family_file_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/arch");
    let entries = std::fs::read_dir(folder).expect("the sources are there");
    let names = entries.map(|entry| entry.expect("the folder can be read").file_name());
    let families = names.filter(|name| name != "tests.rs" && name != "tests").count();
    assert_eq!(ARCHITECTURES.len(), families, "a family is one file and one line in `ARCHITECTURES`");
}
