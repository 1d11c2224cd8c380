//! Adapters against merged checkpoints, and adapters that are refused.

use cairn_gguf::{DType, Gguf};
use cairn_testkit::Family;
use cairn_testkit::checkpoint::{AdaptedCheckpoint, AdapterSpec, CheckpointSpec, adapter, checkpoint};
use cairn_testkit::families::{GEMMA3, GRANITE, LLAMA, MIXTRAL, PHI3, QWEN2, QWEN3MOE};
use serde_json::{Value, json};

use super::super::Conversion;
use super::super::tests::{convert_to, decoders::open, decoders::spec, safetensors};
use crate::{CheckpointFile, FileType};

const RANK: u64 = 4;
const ALPHA: f32 = 6.0;

fn plain() -> AdapterSpec {
    AdapterSpec {
        config: json!({"r": RANK, "lora_alpha": ALPHA, "base_model_name_or_path": "someone/base"}),
        rank: |_| RANK,
        scale: |_| ALPHA / RANK as f32,
        changes: |module| module.ends_with("_proj"),
        seed: 5,
    }
}

fn convert(files: &[CheckpointFile], base: &[u8]) -> Result<Vec<u8>, String> {
    let base = Gguf::parse(base).expect("a valid base");
    let conversion = Conversion::of_adapter(files, &base).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    conversion.write_to(&mut out, &mut |_| ()).map_err(|error| error.to_string())?;
    assert_eq!(out.len() as u64, conversion.head().expect("the plan is valid").1, "the planned size");
    Ok(out)
}

fn values(file: &[u8], gguf: &Gguf, name: &str) -> Option<(Vec<u64>, Vec<f32>)> {
    let tensor = gguf.tensor(name)?;
    let mut values = vec![0.0; tensor.elements() as usize];
    tensor.dtype.decode(&file[tensor.offset as usize..][..tensor.bytes as usize], &mut values);
    Some((tensor.dims.clone(), values))
}

/// Compares `W + alpha / rank * B A` of the converted base and adapter with the converted merged checkpoint. Returns the number of
/// changed matrices.
#[track_caller]
fn check(spec: &CheckpointSpec, adapter_spec: &AdapterSpec) -> usize {
    let files = checkpoint(spec).files;
    let AdaptedCheckpoint { adapter, merged } = adapter(&files, adapter_spec);
    let base = convert_to(&open(&files), FileType::F32).expect("a valid checkpoint");
    let merged = convert_to(&open(&merged), FileType::F32).expect("a valid checkpoint");
    let adapter = convert(&open(&adapter), &base).expect("a valid adapter");
    let [base_head, merged_head, head] = [&base, &merged, &adapter].map(|file| Gguf::parse(file).expect("valid GGUF"));
    let metadata = head.metadata();
    for (key, expected) in
        [("general.type", "adapter"), ("adapter.type", "lora"), ("general.architecture", spec.model.family.name)]
    {
        assert_eq!(metadata.str(key).expect("a text"), Some(expected), "{key}");
    }
    let alpha = metadata.f32("adapter.lora.alpha").expect("a number").expect("an alpha");
    let mut changed = 0;
    for tensor in base_head.tensors() {
        let (_, mut expected) = values(&merged, &merged_head, &tensor.name).expect("the same tensors");
        let (_, original) = values(&base, &base_head, &tensor.name).expect("the same tensors");
        let [a, b] = ["a", "b"].map(|half| values(&adapter, &head, &format!("{}.lora_{half}", tensor.name)));
        let (Some((a_dims, a)), Some((b_dims, b))) = (a, b) else {
            assert_eq!(expected, original, "{} is not changed", tensor.name);
            continue;
        };
        changed += 1;
        let (columns, rank) = (a_dims[0] as usize, a_dims[1] as usize);
        assert_eq!(b_dims, [rank as u64, tensor.dims[1]], "{}", tensor.name);
        assert_ne!(expected, original, "{} is changed", tensor.name);
        for (at, value) in expected.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let sum: f32 = (0..rank).map(|inner| b[row * rank + inner] * a[inner * columns + column]).sum();
            let found = original[at] + alpha / rank as f32 * sum;
            assert!((found - *value).abs() < 2e-5, "{} at {at}: {found}, not {value}", tensor.name);
        }
    }
    assert_eq!(head.tensors().len(), 2 * changed, "no other tensors");
    changed
}

#[test]
fn adapter_changes_the_base_as_the_merged_checkpoint() {
    for (family, architecture, per_layer) in [
        (&LLAMA, "LlamaForCausalLM", 7),
        (&GRANITE, "GraniteForCausalLM", 7),
        (&QWEN2, "Qwen2ForCausalLM", 7),
        (&GEMMA3, "Gemma3ForCausalLM", 7),
        (&PHI3, "Phi3ForCausalLM", 4),
    ] {
        let spec = spec(family, architecture);
        assert_eq!(check(&spec, &plain()), per_layer * spec.model.layers as usize, "{architecture}");
    }
    let attention = AdapterSpec { changes: |module| module.contains("self_attn"), ..plain() };
    assert!(check(&spec(&MIXTRAL, "MixtralForCausalLM"), &attention) > 0, "a model with experts");
    let output = AdapterSpec { changes: |module| module == "lm_head", ..plain() };
    let mut untied = spec(&LLAMA, "LlamaForCausalLM");
    untied.model.tied = false;
    assert_eq!(check(&untied, &output), 1, "the output matrix");
}

#[test]
fn ranks_and_scales_of_modules_are_kept() {
    let llama = spec(&LLAMA, "LlamaForCausalLM");
    let root = AdapterSpec {
        config: json!({"r": RANK, "lora_alpha": ALPHA, "use_rslora": true}),
        scale: |_| ALPHA / (RANK as f32).sqrt(),
        ..plain()
    };
    assert!(check(&llama, &root) > 0, "scaled by the root of the rank");
    let patterns = AdapterSpec {
        config: json!({"r": RANK, "lora_alpha": ALPHA, "use_rslora": false, "rank_pattern": {"q_proj": 2, "down_proj": 3},
                       "alpha_pattern": {"^model\\.layers\\.0\\.self_attn\\.q_proj": 16, "self_attn.v_proj": 0.5,
                                         "v_proj": 7, "attn.k_proj": 9, "mode": 100}}),
        rank: |module| match module.rsplit('.').next() {
            Some("q_proj") => 2,
            Some("down_proj") => 3,
            _ => RANK,
        },
        scale: |module| match module {
            "model.layers.0.self_attn.q_proj" => 8.0,
            _ if module.ends_with("q_proj") => ALPHA / 2.0,
            _ if module.ends_with("down_proj") => ALPHA / 3.0,
            _ if module.ends_with("v_proj") => 0.5 / RANK as f32,
            _ => ALPHA / RANK as f32,
        },
        ..plain()
    };
    assert!(check(&llama, &patterns) > 0, "patterns");
}

/// Files of an adapter of a small Llama, and the base.
fn llama() -> (Vec<(String, Vec<u8>)>, Vec<u8>) {
    let files = checkpoint(&spec(&LLAMA, "LlamaForCausalLM")).files;
    let base = convert_to(&open(&files), FileType::F32).expect("a valid checkpoint");
    (adapter(&files, &plain()).adapter, base)
}

#[track_caller]
fn refused(files: &[(String, Vec<u8>)], base: &[u8], expected: &str) {
    let error = convert(&open(files), base).expect_err(expected);
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn configs_that_change_more_than_products_are_refused() {
    let (files, base) = llama();
    let check = |key: &str, value: Value, expected: &str| {
        let mut files = files.clone();
        let mut config: Value = serde_json::from_slice(&files[0].1).expect("valid JSON");
        config[key] = value;
        files[0].1 = config.to_string().into_bytes();
        refused(&files, &base, expected);
    };
    for (key, value, expected) in [
        ("use_dora", json!(true), "an adapter with DoRA, which also changes"),
        ("use_other", json!(true), "an adapter with use_other is not supported; merge the adapter into its base"),
        ("modules_to_save", json!(["lm_head"]), "the replacement of whole modules (modules_to_save) is not supported"),
        ("bias", json!("all"), "changed biases (bias \"all\")"),
        ("lora_bias", json!(true), "a bias of the second matrix"),
        ("layer_replication", json!([[0, 1]]), "the repetition of layers"),
        ("trainable_token_indices", json!([1]), "changed embeddings of tokens"),
        ("target_parameters", json!(["x"]), "changed matrices of experts"),
        ("alora_invocation_tokens", json!([1]), "activation by tokens of the prompt"),
        (
            "init_lora_weights",
            json!("pissa_niter_4"),
            "changed weights of the base (init_lora_weights \"pissa_niter_4\")",
        ),
        ("peft_type", json!("IA3"), "adapter_config.json: peft_type is \"IA3\"; only \"LORA\""),
        ("peft_type", json!(null), "peft_type is null"),
        ("lora_alpha", json!(0), "lora_alpha is 0"),
        ("lora_alpha", json!("1"), "adapter_config.json: lora_alpha is \"1\", not a number"),
        ("r", json!(0), "r is 0, not a rank from 1 to 4096"),
        ("r", json!(5000), "r is 5000, not a rank"),
        ("r", json!(8), "instead of [8, "),
        ("rank_pattern", json!([1]), "rank_pattern is not an object of at most 4096 entries"),
        ("rank_pattern", json!({".*q_proj": 4}), "an adapter with the regular expression \".*q_proj\" in rank_pattern"),
        ("rank_pattern", json!({"q_proj": -1}), "rank_pattern of \"q_proj\" is -1, not a rank"),
        ("alpha_pattern", json!({"q_proj": null}), "alpha_pattern of \"q_proj\" is null, not a number"),
    ] {
        check(key, value, expected);
    }
    let many: serde_json::Map<String, Value> = (0..=4096).map(|number| (format!("m{number}"), json!(4))).collect();
    check("rank_pattern", Value::Object(many), "at most 4096 entries");
    for (key, value) in [
        ("use_dora", json!(false)),
        ("modules_to_save", json!(null)),
        ("modules_to_save", json!([])),
        ("bias", json!("none")),
        ("init_lora_weights", json!(true)),
        ("init_lora_weights", json!("gaussian")),
    ] {
        let mut files = files.clone();
        let mut config: Value = serde_json::from_slice(&files[0].1).expect("valid JSON");
        config[key] = value;
        files[0].1 = config.to_string().into_bytes();
        assert!(convert(&open(&files), &base).is_ok(), "{key} is not used");
    }
    refused(&files[1..], &base, "adapter_config.json: it is missing; ADAPTER must name the folder");
    refused(&files[..1], &base, "adapter_model.safetensors: it is missing");
    let with = |config: Vec<u8>| vec![(files[0].0.clone(), config), files[1].clone()];
    refused(&with(b"[]".to_vec()), &base, "adapter_config.json: it is not an object");
    refused(&with(vec![b' '; (1 << 20) + 1]), &base, "adapter_config.json: it is longer than 1 MiB");
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let (files, base) = llama();
    let of = |tensors: &[(&str, &str, &[u64])]| vec![files[0].clone(), (files[1].0.clone(), safetensors(tensors))];
    let name = |rest: &str| format!("base_model.model.model.layers.{rest}");
    let (q_a, q_b) = (name("0.self_attn.q_proj.lora_A.weight"), name("0.self_attn.q_proj.lora_B.weight"));
    let (a, b): (&[u64], &[u64]) = (&[4, 64], &[64, 4]);
    assert!(convert(&open(&of(&[(&q_a, "F32", a), (&q_b, "BF16", b)])), &base).is_ok(), "a valid pair");
    let check = |tensors: &[(&str, &str, &[u64])], expected: &str| refused(&of(tensors), &base, expected);
    check(&[], "it has no matrices of an adapter");
    check(&[(&q_a, "F32", a)], "the module `model.layers.0.self_attn.q_proj` has no lora_B");
    check(&[(&q_b, "F32", b)], "the module `model.layers.0.self_attn.q_proj` has no lora_A");
    check(&[(&q_a, "F32", &[4, 32]), (&q_b, "F32", b)], "has the shape [4, 32] instead of [4, 64]");
    check(&[(&q_a, "F32", &[256]), (&q_b, "F32", b)], "has the shape [256] instead of [4, 64]");
    check(&[(&q_a, "F32", a), (&q_b, "F32", &[32, 4])], "has the shape [32, 4] instead of [64, 4]");
    check(&[(&q_a, "F32", a), (&q_b, "F32", &[64, 2])], "has the shape [64, 2] instead of [64, 4]");
    let expected = "use it with its base model \"someone/base\"";
    check(&[(&q_a, "F32", a), (&q_b, "F32", &[0, 4])], expected);
    check(&[(&q_a, "I64", a), (&q_b, "F32", b)], "must have the type F32, F16 or BF16");
    let pair = |module: &str| [name(&format!("{module}.lora_A.weight")), name(&format!("{module}.lora_B.weight"))];
    let check_pair = |module: &str, expected: &str| {
        let [first, second] = pair(module);
        check(&[(&first, "F32", a), (&second, "F32", b)], expected);
    };
    check_pair("9.self_attn.q_proj", "the base has no matrix `blk.9.attn_q.weight`");
    check_pair("x.self_attn.q_proj", "is not part of a llama model");
    check_pair("0.self_attn.qkv_proj", "is not part of a llama model");
    check_pair("0.input_layernorm", "changes of `blk.0.attn_norm.weight`, which is not one matrix, is not supported");
    check_pair("0.block_sparse_moe.experts.0.w1", "the base has no matrix `blk.0.ffn_gate_exps.weight`");
    let default = [q_a.replace(".weight", ".default.weight"), q_b.replace(".weight", ".default.weight")];
    assert!(
        convert(&open(&of(&[(&default[0], "F32", a), (&default[1], "F32", b)])), &base).is_ok(),
        "names of older versions"
    );
    check(&[(&q_a, "F32", a), (&q_b, "F32", b), (&default[0], "F32", a)], "are of the same matrix");
    let nested = [&q_a, &q_b].map(|name| name.replace("model.model.layers", "model.language_model.model.layers"));
    check(
        &[(&q_a, "F32", a), (&q_b, "F32", b), (&nested[0], "F32", a), (&nested[1], "F32", b)],
        "blk.0.attn_q.weight is changed twice",
    );
    for (tensor, expected) in [
        ("0.self_attn.q_proj.lora_magnitude_vector", "an adapter with DoRA (tensor"),
        ("0.self_attn.q_proj.lora_B.bias", "another tensor than two matrices"),
        ("0.self_attn.q_proj.base_layer.weight", "whole tensors of the base"),
        ("0.input_layernorm.weight", "whole tensors of the base"),
    ] {
        check(&[(&name(tensor), "F32", &[64])], expected);
    }
    for (tensor, expected) in [
        ("model.embed_tokens.lora_embedding_A", "changed embeddings of tokens (tensor `base_model.model.model.embed"),
        ("lm_head.weight", "whole tensors of the base (tensor `base_model.model.lm_head.weight`)"),
        ("lm_head.modules_to_save.weight", "whole tensors of the base"),
    ] {
        check(&[(&format!("base_model.model.{tensor}"), "F32", &[64])], expected);
    }
    let [first, second] = ["A", "B"].map(|half| format!("base_model.model.model.embed_tokens.lora_{half}.weight"));
    let expected = "an adapter with changed embeddings of tokens (module `model.embed_tokens`) is not supported";
    check(&[(&first, "F32", a), (&second, "F32", &[520, 4])], expected);
    let mut bytes = safetensors(&[(&q_a, "F32", a), (&q_b, "F32", b)]);
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    refused(&[files[0].clone(), (files[1].0.clone(), bytes)], &base, "has values that are not finite numbers");
    for length in [0, 7, 40] {
        let cut = files[1].1[..length].to_vec();
        assert!(convert(&open(&[files[0].clone(), (files[1].0.clone(), cut)]), &base).is_err(), "{length} bytes");
    }
}

#[test]
fn adapters_of_another_family_are_refused() {
    let (files, _) = llama();
    let base_of = |family: &'static Family, architecture: &'static str| {
        let files = checkpoint(&spec(family, architecture)).files;
        convert_to(&open(&files), FileType::F32).expect("a valid checkpoint")
    };
    refused(&files, &base_of(&PHI3, "Phi3ForCausalLM"), "_proj` is not part of a phi3 model; use it with its base");
    let experts = base_of(&QWEN3MOE, "Qwen3MoeForCausalLM");
    refused(&files, &experts, "is not part of a qwen3moe model");
    let mut writer = cairn_gguf::Writer::new(32);
    writer.set("general.architecture", "future");
    let expected = "for models of the architecture \"future\"; those for cohere2, command-r, deepseek2, dots1";
    refused(&files, &writer.finish(), expected);
    let mut writer = cairn_gguf::Writer::new(32);
    writer.set("general.architecture", "llama").set("llama.attention.head_count", 4u32);
    for part in ["q", "k", "v", "output"] {
        let name = format!("blk.0.attn_{part}.weight");
        writer.tensor(name, DType::F32, &[64, 64], vec![0; 64 * 64 * 4]).expect("a valid tensor");
    }
    refused(&files, &writer.finish(), "; use it with its base model \"someone/base\"");
}
