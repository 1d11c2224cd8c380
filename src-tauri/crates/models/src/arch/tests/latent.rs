//! Latent attention: the extension of its context, the rows of its cache, and files with wrong widths.

use cairn_gguf::{DType, Value};
use cairn_tensor::{Limits, Reference, Values};
use cairn_testkit::families;

use super::textbook::Rotation;
use super::{check, file};
use crate::tiny::{HEAD_DIM, HEADS, LAYERS, Tiny};
use crate::{load, memory_requirements};

/// Elements of a key with and without a position, of a value, and of a latent in tiny models.
const ROTATED: usize = HEAD_DIM / 2;
const KEY: usize = HEAD_DIM + ROTATED;
const VALUE: usize = HEAD_DIM;
const LATENT: usize = 4 * HEAD_DIM;

#[test]
fn yarn_of_latent_attention_changes_scores() {
    for family in [&families::DEEPSEEK2, &families::DEEPSEEK2_LITE] {
        for multiplier in [0.0707f32, 0.1] {
            let mut model = Tiny::from_family(family, 6);
            model.set("rope.freq_base", 10_000f32);
            model.set("rope.scaling.type", "yarn");
            model.set("rope.scaling.factor", 4f32);
            model.set("rope.scaling.original_context_length", 256u32);
            model.set("rope.scaling.yarn_log_multiplier", multiplier);
            // Within 256 tokens the pairs turn 40.7 and 0.41 times: the first angle is kept, the second divided.
            let mut rotation = Rotation::plain(10_000.0, ROTATED);
            rotation.angles[1] /= 4.0;
            check(&format!("{:?} with a multiplier of {multiplier}", family.name), &model, &rotation);
        }
    }
}

#[test]
fn yarn_without_multiplier_grows_as_in_llama_cpp() {
    let mut model = Tiny::new("deepseek2", 6);
    model.keys.remove("rope.scaling.yarn_log_multiplier");
    model.set("rope.scaling.type", "yarn");
    model.set("rope.scaling.factor", 4f32);
    let plan = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole").plan;
    let growth = 1.0 + 0.1 * 4f64.ln();
    assert_eq!(plan.ropes[0].magnitude, growth as f32, "elements with a position");
    let scales = plan.ops.iter().filter_map(|op| match op {
        cairn_tensor::Op::Attention { scale, .. } => Some(*scale),
        _ => None,
    });
    let expected = (growth * growth / (KEY as f64).sqrt()) as f32;
    assert_eq!(scales.collect::<Vec<_>>(), [expected; LAYERS], "scores");
}

#[test]
fn cache_has_one_row_of_each_token_or_rows_of_all_heads() {
    let check = |family, kv_heads: usize, key: usize, values: Values, row: usize| {
        let file = file(&Tiny::from_family(family, 1).bytes());
        let plan = load(&file, 4096, &mut Reference::new()).expect("the model is whole").plan;
        for state in &plan.states {
            assert_eq!((state.kv_heads, state.head_dim, state.values), (kv_heads, key, values), "{state:?}");
        }
        let need = memory_requirements(&file, 64, Limits { rows: 1, logit_rows: 1 }, DType::F16).expect("it is whole");
        assert_eq!(need.kv_bytes_per_token, (LAYERS * 2 * row) as u64, "bytes of a token in f16");
    };
    let latent = LATENT + ROTATED;
    check(&families::DEEPSEEK2, 1, latent, Values::InKeys(LATENT), latent);
    check(&families::DEEPSEEK2_LITE, HEADS, KEY, Values::Rows(VALUE), HEADS * (KEY + VALUE));
}

/// Checks the error of a model with a changed key.
fn check_refused(model: &Tiny, key: &str, value: impl Into<Value>, why: &str) {
    let mut model = model.clone();
    model.set(key, value);
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(why).to_string();
    assert!(error.contains(why), "{key}: {error:?} lacks {why:?}");
}

#[test]
fn wrong_widths_are_refused_by_key() {
    let model = Tiny::new("deepseek2", 1);
    let count = |value: usize| value as u32;
    check_refused(&model, "attention.head_count_kv", 4u32, "4, but the cache has one row of 32 elements and 4");
    check_refused(&model, "attention.key_length", count(LATENT), "so it must be 36");
    check_refused(&model, "attention.value_length", count(LATENT + 1), "so it must be 32");
    check_refused(&model, "attention.kv_lora_rank", 0u32, "0 is not in 1 to 4194304");
    check_refused(&model, "attention.kv_lora_rank", u32::MAX, "4294967295 is not in 1 to 4194304");
    check_refused(
        &model,
        "attention.key_length_mla",
        count(ROTATED),
        "rope.dimension_count`: 4 is not an even number below the key's 4",
    );
    check_refused(&model, "attention.key_length_mla", u32::MAX, "4294967295 is not in 1 to 4194304");
    check_refused(&model, "attention.value_length_mla", 0u32, "0 is not in 1 to 4194304");
    check_refused(&model, "attention.value_length_mla", 1u32 << 22, "4 heads with");
    check_refused(&model, "attention.q_lora_rank", u32::MAX, "4294967295 is not in 1 to 4194304");
    check_refused(&model, "attention.head_count", 1u32 << 22, "4194304 heads with");
    check_refused(&model, "attention.head_count", 3u32, "attn_q_b.weight` must be");
    check_refused(&model, "attention.value_length_mla", count(VALUE + 1), "attn_v_b.weight` must be");
    check_refused(&model, "attention.key_length_mla", count(KEY + 2), "attn_k_b.weight` must be");
    check_refused(&model, "attention.q_lora_rank", 5u32, "attn_q_a.weight` must be");
    check_refused(&model, "attention.temperature_scale", -0.1f32, "-0.1 is not a positive number");
    check_refused(&model, "pooling_type", 1u32, "an embedding model of deepseek2");
    check_refused(&model, "expert_gating_func", 4u32, "4 is not in 1 to 3");
    let lite = Tiny::from_family(&families::DEEPSEEK2_LITE, 1);
    let mut odd = model.clone();
    odd.set("attention.kv_lora_rank", count(LATENT + 1));
    odd.set("attention.key_length", count(LATENT + 1 + ROTATED));
    odd.set("attention.value_length", count(LATENT + 1));
    check_refused(&odd, "attention.temperature_scale", 0.1f32, "a growth of queries with heads of 37 elements");
    check_refused(&lite, "attention.head_count_kv", 1u32, "1, but each of 4 heads has a key");
    check_refused(&lite, "rope.dimension_count", 5u32, "5 is not an even number below the key's 12");
    check_refused(&lite, "attention.value_length", count(VALUE + 1), "attn_kv_b.weight` must be");
}

#[test]
fn missing_tensors_of_a_layout_are_listed() {
    let mut model = Tiny::new("deepseek2", 1);
    model.tensors.remove("blk.0.attn_k_b.weight");
    model.tensors.remove("blk.1.attn_kv_a_norm.weight");
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err("tensors are missing");
    let text =
        "2 tensors do not fit the model: `blk.0.attn_k_b.weight` is missing; `blk.1.attn_kv_a_norm.weight` is missing";
    assert_eq!(error.to_string(), text, "both");
}

#[test]
fn scores_of_experts_have_a_default() {
    let gating = |keys: &[(&str, u32)], without: &str| {
        let mut model = Tiny::new("deepseek2", 1);
        model.keys.remove(without);
        keys.iter().for_each(|(key, value)| model.set(key, *value));
        let plan = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole").plan;
        let router = plan.ops.iter().find_map(|op| match op {
            cairn_tensor::Op::Route { router, .. } => Some(router.gating),
            _ => None,
        });
        router.expect("the second layer has experts")
    };
    let renormalise = true;
    let (softmax, sigmoid) =
        (cairn_tensor::Gating::Softmax { renormalise }, cairn_tensor::Gating::Sigmoid { renormalise });
    assert_eq!(gating(&[], ""), sigmoid, "the file's");
    assert_eq!(gating(&[], "expert_gating_func"), softmax, "that of DeepSeek V2: its files have no key");
    assert_eq!(gating(&[("expert_gating_func", 0)], ""), softmax, "zero means that the key is not set");
    assert_eq!(gating(&[("expert_gating_func", 1)], ""), softmax, "the file's");
}
