//! Keys of models with linear attention: which layers have it, its sizes, and files that are refused.

use cairn_gguf::Value;
use cairn_tensor::{KeySharing, Op, Plan, Reference};

use super::{file, run, tokens};
use crate::load;
use crate::tiny::{KV_HEADS, LAYERS, Tiny, WIDTH};

fn plan(model: &Tiny) -> Plan {
    load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole").plan
}

/// Checks the error of a model of Qwen 3.5 with another value of a key.
fn check_refused(key: &str, value: impl Into<Value>, text: &str) {
    let mut model = Tiny::new("qwen35", 1);
    model.set(key, value);
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
    assert_eq!(error.to_string(), text, "the error of loading");
}

#[test]
fn invalid_sizes_are_refused_by_key() {
    let text = "metadata key `qwen35.ssm.conv_kernel`: a convolution of one row has no state";
    check_refused("ssm.conv_kernel", 1u32, text);
    check_refused("ssm.conv_kernel", 17u32, "metadata key `qwen35.ssm.conv_kernel`: 17 is not in 1 to 16");
    check_refused("ssm.state_size", 0u32, "metadata key `qwen35.ssm.state_size`: 0 is not in 1 to 1024");
    check_refused(
        "ssm.time_step_rank",
        u32::MAX,
        "metadata key `qwen35.ssm.time_step_rank`: 4294967295 is not in 1 to 4096",
    );
    let text = "metadata key `qwen35.ssm.group_count`: 3 groups do not divide 4 heads";
    check_refused("ssm.group_count", 3u32, text);
    let text = "metadata key `qwen35.ssm.inner_size`: 33 elements are not 4 heads of 1 to 1024 elements";
    check_refused("ssm.inner_size", 33u32, text);
    let text = "metadata key `qwen35.ssm.inner_size`: 8192 elements are not 4 heads of 1 to 1024 elements";
    check_refused("ssm.inner_size", 8192u32, text);
    let mut model = Tiny::new("qwen35", 1);
    for (key, value) in [("ssm.time_step_rank", 4096u32), ("ssm.inner_size", 4096 * 64), ("ssm.state_size", 64)] {
        model.set(key, value);
    }
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("states would be large");
    let text = "metadata key `qwen35.ssm.state_size`: 4096 states of 64 x 64 have more than 8388608 elements";
    assert_eq!(error.to_string(), text, "the error of loading");
}

#[test]
fn invalid_lists_of_layers_are_refused() {
    let text = "metadata key `qwen35.full_attention_interval`: 0 is not in 1 to 4294967295";
    check_refused("full_attention_interval", 0u32, text);
    let text = "metadata key `qwen35.attention.recurrent_layers`: 1 values for 2 layers";
    check_refused("attention.recurrent_layers", vec![true], text);
    let text = "metadata key `qwen35.attention.recurrent_layers`: it is not a list of truth values";
    check_refused("attention.recurrent_layers", 1u32, text);
    check_refused("attention.recurrent_layers", vec![1u32, 2], text);
    let text = "metadata key `qwen35.attention.head_count_kv`: 3 numbers for 2 layers";
    check_refused("attention.head_count_kv", vec![0u32, 2, 2], text);
    check_refused("pooling_type", 1u32, "an embedding model of qwen35 is not supported");
}

#[test]
fn contradicting_lists_of_layers_are_refused() {
    let mut model = Tiny::new("qwen35", 1);
    model.set("attention.head_count_kv", vec![0, KV_HEADS as u32]);
    for (recurrent, layer) in [([false, true], "layer 0 is not recurrent"), ([true, true], "layer 1 is recurrent")] {
        model.set("attention.recurrent_layers", recurrent.to_vec());
        let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("the lists differ").to_string();
        let heads = if layer.ends_with("not recurrent") { "no" } else { "some" };
        let text = format!(
            "metadata key `qwen35.attention.recurrent_layers`: {layer}, but `attention.head_count_kv` gives it {heads} heads"
        );
        assert_eq!(error, text, "the error of loading");
    }
    let expected = plan(&Tiny::new("qwen35", 1));
    model.set("attention.recurrent_layers", vec![true, false]);
    assert_eq!(plan(&model), expected, "the lists agree");
}

#[test]
fn model_without_attention_is_refused() {
    let text = "metadata key `qwen35.full_attention_interval`: none of 2 layers has attention";
    check_refused("full_attention_interval", 3u32, text);
    let text = "metadata key `qwen35.attention.recurrent_layers`: none of 2 layers has attention";
    check_refused("attention.recurrent_layers", vec![true, true], text);
    // The third layer predicts a further token.
    check_refused("attention.recurrent_layers", vec![true, true, false], text);
    let text = "metadata key `qwen35.attention.head_count_kv`: no layer has attention";
    check_refused("attention.head_count_kv", vec![0u32, 0], text);
}

/// Returns the model as old converters of Qwen 3 Next wrote it: queries, keys, values and gates are one tensor, by
/// heads of keys.
fn fused_by_key_heads(model: &Tiny) -> Tiny {
    let mut fused = model.clone();
    let number = |key: &str| model.number(&format!("ssm.{key}")).expect("it is set") as usize;
    let [groups, heads, key_dim, inner] = ["group_count", "time_step_rank", "state_size", "inner_size"].map(number);
    let value_dim = inner / heads * (heads / groups);
    for layer in 0..LAYERS {
        let [qkv, gate] = ["attn_qkv", "attn_gate"].map(|part| format!("blk.{layer}.{part}.weight"));
        let Some((_, gates)) = fused.tensors.remove(&gate) else { continue };
        let (_, qkv) = fused.tensors.remove(&qkv).expect("the layer has linear attention");
        let rows = |matrix: &[f32], first: usize, len: usize| matrix[first * WIDTH..(first + len) * WIDTH].to_vec();
        let mut all = Vec::new();
        for group in 0..groups {
            all.extend(rows(&qkv, group * key_dim, key_dim));
            all.extend(rows(&qkv, (groups + group) * key_dim, key_dim));
            all.extend(rows(&qkv, 2 * groups * key_dim + group * value_dim, value_dim));
            all.extend(rows(&gates, group * value_dim, value_dim));
        }
        let dims = vec![WIDTH as u64, (all.len() / WIDTH) as u64];
        fused.tensors.insert(format!("blk.{layer}.ssm_in.weight"), (dims, all));
    }
    fused
}

#[test]
fn old_files_of_qwen3next_have_the_same_logits() {
    let model = Tiny::new("qwen3next", 1);
    let mut fused = fused_by_key_heads(&model);
    assert!(fused.tensors.len() < model.tensors.len(), "tensors are fused");
    let tokens = tokens(70);
    assert_eq!(run(&fused, &tokens, 64), run(&model, &tokens, 64), "the same rows in another order");
    let name = "blk.0.ssm_in.weight";
    let (dims, _) = fused.tensors.get_mut(name).expect("the first layer has linear attention");
    dims.swap(0, 1);
    let error = load(&file(&fused.bytes()), 4096, &mut Reference::new()).expect_err("the shape is wrong");
    let text = "1 tensor does not fit the model: `blk.0.ssm_in.weight` must be [24, 96], is [96, 24]";
    assert_eq!(error.to_string(), text, "the error of loading");
}

#[test]
fn layers_are_listed_in_three_ways() {
    let model = Tiny::new("qwen35", 1);
    let expected = plan(&model);
    let mut listed = model.clone();
    // A layer that predicts further tokens is listed too.
    listed.set("attention.recurrent_layers", vec![true, false, false]);
    listed.set("full_attention_interval", 7u32);
    assert_eq!(plan(&listed), expected, "a list of truth values precedes the interval");
    listed.set("attention.recurrent_layers", vec![1u32, 0, 0]);
    assert_eq!(plan(&listed), expected, "numbers are truth values, too");
    let mut counted = model.clone();
    counted.set("attention.head_count_kv", vec![0, KV_HEADS as u32]);
    counted.set("full_attention_interval", 7u32);
    assert_eq!(plan(&counted), expected, "numbers of heads precede the interval");
    let mut uniform = model;
    uniform.set("attention.head_count_kv", vec![KV_HEADS as u32; LAYERS]);
    assert_eq!(plan(&uniform), expected, "equal numbers of heads do not distinguish layers");
}

#[test]
fn heads_share_keys_as_the_file_orders_them() {
    let sharing = |model: &Tiny| {
        let rule = plan(model).ops.into_iter().find_map(|op| match op {
            Op::DeltaRule(rule) => Some(rule.sharing),
            _ => None,
        });
        rule.expect("a layer has linear attention")
    };
    assert_eq!(sharing(&Tiny::new("qwen3next", 1)), KeySharing::Adjacent, "as published");
    let mut model = Tiny::new("qwen35", 1);
    assert_eq!(sharing(&model), KeySharing::Tiled, "as llama.cpp's converter orders them");
    model.set("ssm.v_head_reordered", false);
    assert_eq!(sharing(&model), KeySharing::Adjacent, "as the key in the file");
}

#[test]
fn width_of_mlps_may_be_missing_with_experts() {
    let mut model = Tiny::new("qwen35moe", 1);
    let expected = plan(&model);
    model.keys.remove("feed_forward_length");
    assert_eq!(plan(&model).ops.len(), expected.ops.len(), "the layers are the same");
}
