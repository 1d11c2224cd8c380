//! Checkpoints of decoders that are damaged, or made to exhaust memory.

use cairn_testkit::Family;
use cairn_testkit::checkpoint::{Storage, Vocabulary, checkpoint};
use cairn_testkit::families::{self, MIXTRAL, QWEN3MOE};
use serde_json::{Value, json};

use super::decoders::{llama, open, spec};
use super::{convert_to, refused};
use crate::{CheckpointFile, FileType};

pub(super) type Files = Vec<(String, Vec<u8>)>;

fn llama_files() -> Files {
    checkpoint(&llama()).files
}

/// Replaces a JSON file.
pub(super) fn changed(mut files: Files, name: &str, change: impl FnOnce(&mut Value)) -> Vec<CheckpointFile> {
    replace(&mut files, name, change);
    open(&files)
}

/// Replaces one of several JSON files.
pub(super) fn replace(files: &mut Files, name: &str, change: impl FnOnce(&mut Value)) {
    let (_, contents) = files.iter_mut().find(|(file, _)| file == name).expect("a file of the checkpoint");
    let mut value = serde_json::from_slice(contents).expect("valid JSON");
    change(&mut value);
    *contents = value.to_string().into_bytes();
}

/// Changes the header of the first file with a tensor. Its data stay.
pub(super) fn with_header(mut files: Files, tensor: &str, change: impl FnOnce(&mut Value)) -> Vec<CheckpointFile> {
    let has_tensor = |contents: &[u8]| contents.windows(tensor.len()).any(|window| window == tensor.as_bytes());
    let (_, contents) = files
        .iter_mut()
        .find(|(name, contents)| name.ends_with(".safetensors") && has_tensor(contents))
        .expect("a file with the tensor");
    let length = u64::from_le_bytes(contents[..8].try_into().expect("eight bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&contents[8..8 + length]).expect("valid JSON");
    change(&mut header);
    let header = header.to_string().into_bytes();
    *contents = [&(header.len() as u64).to_le_bytes()[..], &header, &contents[8 + length..]].concat();
    open(&files)
}

const INDEX: &str = "model.safetensors.index.json";
const KEY: &str = "model.layers.0.self_attn.k_proj.weight";

#[test]
fn index_with_missing_files_and_tensors_is_refused() {
    let of = |name: &str, file: &str| changed(llama_files(), INDEX, |index| index["weight_map"][name] = json!(file));
    refused(&of("x", "model-3.safetensors"), "the file \"model-3.safetensors\" that it names is missing");
    for path in ["../model.safetensors", "/etc/x.safetensors", "a\\b.safetensors", "C:x.safetensors", "config.json"] {
        let expected = format!("{INDEX}: {path:?} is not the name of a safetensors file in the same folder");
        refused(&of("x", path), &expected);
    }
    let missing = "model-00001-of-00002.safetensors: tensor `x` of the index is missing";
    refused(&of("x", "model-00001-of-00002.safetensors"), missing);
    let empty = changed(llama_files(), INDEX, |index| index["weight_map"] = json!([]));
    refused(&empty, "expected a map of tensors to files");
    let entries: String = (0..=1 << 18).map(|id| format!("\"{id}\":\"a.safetensors\",")).collect();
    let mut files = llama_files();
    let index = files.iter_mut().find(|(name, _)| name == INDEX).expect("an index");
    index.1 = format!("{{\"weight_map\": {{{entries}\"x\": \"\"}}}}").into_bytes();
    refused(&open(&files), "it has more than 262144 tensors");
}

#[test]
fn files_outside_of_the_index_are_not_read() {
    let mut files = llama_files();
    files.push(("consolidated.safetensors".to_owned(), b"damaged".to_vec()));
    assert!(convert_to(&open(&files), FileType::F16).is_ok(), "it is not in the index");
}

#[test]
fn tensors_of_other_shapes_and_names_are_refused() {
    let of = |shape: Value| with_header(llama_files(), KEY, |header| header[KEY]["shape"] = shape);
    refused(&of(json!([64, 32])), "blk.0.attn_k.weight needs [32, 64] by the config");
    refused(&of(json!([2048])), "has the shape [2048], but blk.0.attn_k.weight needs an even number of rows");
    refused(&of(json!([2, 2, 16, 32])), "needs a vector, a matrix or matrices of experts");
    refused(&of(json!([3, 64])), "do not fit the shape [3, 64]");
    let long = with_header(llama_files(), KEY, |header| header["x".repeat(1025)] = header[KEY].clone());
    refused(&long, "a name has 1025 bytes, and the limit is 1024");
}

#[test]
fn tensors_that_a_family_lacks_are_named() {
    let with = |name: &str| {
        let mut files = llama_files();
        files.retain(|(name, _)| name != INDEX);
        let header = json!({ (name): {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} }).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
        files.push(("more.safetensors".to_owned(), bytes));
        open(&files)
    };
    refused(&with("model.layers.0.mlp.extra.weight"), "`model.layers.0.mlp.extra.weight` is not part of a llama model");
    refused(&with("model.layers.9.input_layernorm.weight"), "is not part of a llama model");
    refused(&with("model.norm.weight"), "more.safetensors: tensor `model.norm.weight` occurs twice");
    assert!(convert_to(&with("model.layers.0.self_attn.rotary_emb.inv_freq"), FileType::F16).is_ok(), "it is computed");
}

#[test]
fn missing_and_unequal_experts_are_refused() {
    const EXPERT: &str = "model.layers.1.mlp.experts.3.up_proj.weight";
    let made = || checkpoint(&spec(&QWEN3MOE, "Qwen3MoeForCausalLM")).files;
    let mut files = made();
    files.retain(|(name, _)| name != INDEX);
    let lost = with_header(files, EXPERT, |header| drop(header.as_object_mut().expect("an object").remove(EXPERT)));
    refused(&lost, "blk.1.ffn_up_exps.weight needs experts 0 to 7");
    let turned = with_header(made(), EXPERT, |header| header[EXPERT]["shape"] = json!([64, 48]));
    refused(&turned, "other experts have [48, 64]");
    let many = changed(made(), "config.json", |config| config["num_experts"] = json!(4_000_000_000u64));
    refused(&many, "num_experts is 4000000000, and the limit is 4194304");
    let mixtral = checkpoint(&spec(&MIXTRAL, "MixtralForCausalLM")).files;
    let more = changed(mixtral, "config.json", |config| config["num_local_experts"] = json!(4_000_000));
    refused(&more, "blk.0.ffn_gate_inp.weight needs [4000000, 64] by the config");
}

#[test]
fn config_with_absurd_sizes_is_refused() {
    let with = |key: &str, value: Value| changed(llama_files(), "config.json", |config| config[key] = value);
    refused(&with("num_hidden_layers", json!(5000)), "num_hidden_layers is 5000, and the limit is 4096");
    refused(&with("hidden_size", json!(1u64 << 40)), "hidden_size is 1099511627776, and the limit is 4194304");
    refused(&with("hidden_size", json!(1u64 << 31)), "hidden_size is 2147483648, and the limit is 4194304");
    refused(&with("vocab_size", json!(1 << 30)), "vocab_size is 1073741824, and the limit is 4194304");
    refused(&with("vocab_size", json!(2 << 20)), "vocab_size is 2097152, and the limit is 1048576");
    refused(&with("vocab_size", json!(100)), "a token has the id 519, but there are 100");
    refused(&with("num_attention_heads", json!(0)), "num_attention_heads is 0, not a count");
    refused(&with("num_attention_heads", json!(3)), "needs an even number of rows for each of 3 heads");
    refused(&with("rms_norm_eps", json!("a")), "rms_norm_eps is \"a\", not a number");
    refused(&with("rope_theta", json!(1e300)), "rope_theta is 1e+300, not a number");
    refused(&with("head_dim", json!(4_000_000)), "by the config");
    refused(&with("rope_scaling", json!({"type": "ntk"})), "the RoPE scaling \"ntk\" is not supported");
    refused(&with("rope_scaling", json!({"type": "yarn"})), "the RoPE scaling yarn has no factor");
    let long = json!({"type": "longrope", "long_factor": [1], "short_factor": [1]});
    refused(&with("rope_scaling", long), "it has no original_max_position_embeddings");
    refused(&with("hidden_act", json!("relu")), "llama with the activation \"relu\" is not supported");
    refused(&with("quantization_config", json!({"quant_method": "gptq"})), "quantization by \"gptq\"");
}

#[test]
fn configs_with_wrong_parts_of_layers_are_refused() {
    let with = |family: &'static Family, architecture: &'static str, key: &str, value: Value| {
        let made = checkpoint(&spec(family, architecture)).files;
        changed(made, "config.json", |config| config[key] = value)
    };
    let next = |key: &str, value: Value| with(&families::QWEN3NEXT, "Qwen3NextForCausalLM", key, value);
    refused(&next("linear_num_key_heads", json!(3)), "3 heads of keys do not divide 4 heads of values");
    refused(&next("linear_num_key_heads", json!(5000)), "linear_num_key_heads is 5000, and the limit is 4096");
    refused(&next("linear_num_value_heads", json!(8)), "needs rows 192 to 256 by the config");
    refused(&next("linear_value_head_dim", json!(1024)), "by the config");
    refused(&next("layer_types", json!(["full_attention"])), "layer_types is not a list of 2 layers");
    refused(&next("layer_types", json!(["full_attention", "x"])), "layer_types without attention in every n-th layer");
    refused(&next("mlp_only_layers", json!([0])), "qwen3next with MLPs beside experts");
    let dense = |key: &str, value: Value| with(&families::QWEN35, "Qwen3_5ForCausalLM", key, value);
    let sections = json!({"mrope_section": [1, 2]});
    refused(&dense("rope_scaling", sections), "mrope_section is not a list of three counts");
    refused(&dense("linear_num_value_heads", json!(6)), "needs rows");
    let pictures = |key: &str, value: Value| with(&families::QWEN2VL, "Qwen2VLForConditionalGeneration", key, value);
    refused(&pictures("rope_scaling", json!({"type": "mrope"})), "mrope_section is not a list of three counts");
    let sections = json!({"mrope_section": [1, -2, 3]});
    refused(&pictures("rope_scaling", sections), "mrope_section is not a list of three counts");
    let nested = |key: &str, value: Value| {
        let made = checkpoint(&spec(&families::QWEN3VLMOE, "Qwen3VLMoeForConditionalGeneration")).files;
        changed(made, "config.json", |config| *config.pointer_mut(key).expect("a key of the config") = value)
    };
    refused(
        &nested("/vision_config/deepstack_visual_indexes", json!(vec![0; 1025])),
        "1025 layers, and the limit is 1024",
    );
    refused(&nested("/text_config/norm_topk_prob", json!(false)), "experts of Qwen 3 with norm_topk_prob false");
    refused(&nested("/text_config/moe_intermediate_size", json!(32)), "needs [8, 32, 64] by the config");
    let streams = |key: &str, value: Value| {
        let made = checkpoint(&spec(&families::GEMMA3N, "Gemma3nForCausalLM")).files;
        changed(made, "config.json", |config| config["text_config"][key] = value)
    };
    refused(&streams("intermediate_size", json!([96, 48])), "gemma3n with MLPs of several widths is not supported");
    refused(&streams("intermediate_size", json!([])), "gemma3n with MLPs of several widths is not supported");
    refused(&streams("altup_num_inputs", json!(5)), "altup_proj.weight needs experts 0 to 3");
    refused(&streams("altup_num_inputs", json!(3)), "altup_proj.weight needs experts 0 to 1");
    refused(&streams("activation_sparsity_pattern", json!([0.5])), "is not a list of 2 shares");
    refused(&streams("activation_sparsity_pattern", json!([0.5, 1])), "activation_sparsity_pattern has the share 1");
    refused(&streams("vocab_size_per_layer_input", json!(521)), "per_layer_token_embd.weight needs [521, 512]");
    let falcon = |key: &str, value: Value| with(&families::FALCON, "FalconForCausalLM", key, value);
    refused(&falcon("num_kv_heads", json!(3)), "3 key/value heads do not divide 4 heads");
    refused(&falcon("num_attention_heads", json!(1 << 15)), "hidden_size 64 is not a multiple of 32768 heads");
    refused(&falcon("alibi", json!(true)), "falcon with alibi");
    let latent = |key: &str, value: Value| with(&families::DEEPSEEK2, "DeepseekV3ForCausalLM", key, value);
    refused(&latent("qk_nope_head_dim", json!(4_000_000)), "by the config");
    refused(&latent("v_head_dim", json!(15)), "needs [64, 60] by the config");
    refused(&latent("num_attention_heads", json!(3)), "needs rows of 3 equal matrices");
    refused(&latent("n_routed_experts", Value::Null), "deepseek2 without experts is not supported");
    refused(&latent("scoring_func", json!("x")), "deepseek2 with the scores \"x\" is not supported");
    let granite = |key: &str, value: Value| with(&families::GRANITE_HYBRID, "GraniteMoeHybridForCausalLM", key, value);
    refused(&granite("mamba_n_groups", json!(3)), "3 groups do not divide 128 elements");
    refused(&granite("layer_types", json!(["mamba", "mamba"])), "granitehybrid without both attention and state space");
    let nemotron = |key: &str, value: Value| with(&families::NEMOTRON_H, "NemotronHForCausalLM", key, value);
    refused(&nemotron("hybrid_override_pattern", json!("M*")), "hybrid_override_pattern does not have one of M, *, -");
    refused(&nemotron("hybrid_override_pattern", json!("M*x")), "hybrid_override_pattern does not have one of M, *, -");
    let llama = |key: &str, value: Value| with(&families::LLAMA4, "Llama4ForCausalLM", key, value);
    refused(&llama("no_rope_layers", json!([1, 1, 1, 1])), "llama4 with rotation in other layers than three of 4");
    let hunyuan = with(&families::HUNYUAN_DENSE, "HunYuanDenseV1ForCausalLM", "rope_scaling", json!({"alpha": 1e38}));
    refused(&hunyuan, "of a rotation");
    let windows =
        |value: Value| with(&families::EXAONE4_WINDOWS, "Exaone4ForCausalLM", "sliding_window_pattern", value);
    refused(&windows(json!("LXG")), "sliding_window_pattern \"LXG\" has not only L and G");
    refused(&windows(json!([true])), "sliding_window_pattern is [true], not a count");
    let gpt2 = with(&families::GPT2, "GPT2LMHeadModel", "n_layer", json!(5000));
    refused(&gpt2, "num_hidden_layers is 5000, and the limit is 4096");
}

#[test]
fn tensor_in_another_file_than_the_index_names_is_refused() {
    let other = changed(llama_files(), INDEX, |index| {
        let file = &mut index["weight_map"][KEY];
        let second = if *file == "model-00001-of-00002.safetensors" { 2 } else { 1 };
        *file = json!(format!("model-{second:05}-of-00002.safetensors"));
    });
    refused(&other, &format!("tensor `{KEY}` of the index is missing"));
}

#[test]
fn offsets_that_are_no_range_are_refused() {
    let with = |offsets: Value| with_header(llama_files(), KEY, |header| header[KEY]["data_offsets"] = offsets);
    for offsets in [json!([8, 4]), json!([0]), json!([0, 4, 8]), json!([-1, 4]), json!([0, u64::MAX]), json!([0.5, 4])]
    {
        let converted = convert_to(&with(offsets.clone()), FileType::F16);
        assert!(converted.is_err(), "{offsets} is no range of the file");
    }
    let long = |shape: Value| with_header(llama_files(), KEY, |header| header[KEY]["shape"] = shape);
    for shape in [json!([u64::MAX, u64::MAX]), json!([1u64 << 32, 1u64 << 32]), json!([])] {
        assert!(convert_to(&long(shape.clone()), FileType::F16).is_err(), "the shape {shape} does not fit the bytes");
    }
}

#[test]
fn scales_that_do_not_fit_are_refused() {
    const SCALE: &str = "model.layers.0.self_attn.k_proj.weight_scale_inv";
    let made = || {
        let mut spec = llama();
        spec.storage = Storage::Float8Blocks([32, 32]);
        checkpoint(&spec).files
    };
    let of = |change: fn(&mut Value)| with_header(made(), SCALE, |header| change(&mut header[SCALE]));
    refused(&of(|scale| scale["shape"] = json!([2, 1])), "scales of the shape [2, 1] do not fit [32, 64]");
    refused(&of(|scale| scale["dtype"] = json!("I32")), "its scales are not floats of at most 64 MiB");
    let mut files = made();
    files.retain(|(name, _)| name != INDEX);
    let lost = with_header(files, KEY, |header| drop(header.as_object_mut().expect("an object").remove(KEY)));
    refused(&lost, "has no weight `model.layers.0.self_attn.k_proj.weight`");
    let mut files = made();
    files.retain(|(name, _)| name != INDEX);
    let lost = with_header(files, SCALE, |header| drop(header.as_object_mut().expect("an object").remove(SCALE)));
    refused(&lost, &format!("the scale of the 8-bit floats `{KEY}` is missing; download all files"));
}

#[test]
fn damaged_vocabularies_are_refused() {
    let with = |change: fn(&mut Value)| changed(llama_files(), "tokenizer.json", change);
    refused(&with(|file| file["model"]["vocab"]["one more"] = json!(3)), "two tokens have the id 3");
    refused(&with(|file| file["model"]["vocab"]["far"] = json!(1u64 << 50)), "and the limit is 1048576");
    refused(&with(|file| file["model"]["type"] = json!("Unigram")), "the model is \"Unigram\", not BPE");
    refused(&with(|file| file["model"]["vocab"] = json!({})), "it has no vocabulary");
    refused(&with(|file| file["model"]["merges"] = json!(["ab"])), "the merge \"ab\" has no space");
    refused(&with(|file| file["model"]["merges"] = json!([["a", "b", "c"]])), "a merge has more than two tokens");
    let steps = |file: &mut Value| file["pre_tokenizer"] = json!({"pretokenizers": vec![json!({}); 65]});
    refused(&with(steps), "it has more than 64 steps");
    let mut pieces = llama();
    pieces.vocabulary = Vocabulary::Pieces;
    let mut files = checkpoint(&pieces).files;
    let model = files.iter_mut().find(|(name, _)| name == "tokenizer.model").expect("a vocabulary");
    model.1.truncate(model.1.len() - 3);
    refused(&open(&files), "tokenizer.model: a field ends beyond the end of the file");
    files.retain(|(name, _)| name != "tokenizer.model");
    refused(&open(&files), "tokenizer.json is missing");
    let added: fn(&mut Value) = |config| config["added_tokens_decoder"] = json!({"x": {"content": "a"}});
    refused(&changed(llama_files(), "tokenizer_config.json", added), "\"x\" is not the id of a token");
    let templates: fn(&mut Value) = |config| config["chat_template"] = json!([{"name": "tool", "template": ""}]);
    refused(&changed(llama_files(), "tokenizer_config.json", templates), "no chat_template has the name default");
}
