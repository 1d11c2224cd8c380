//! Keys of hybrid models with state space models: factors, rotation, layers of one kind, and files that are refused.

use cairn_tensor::{Op, Reference};

use super::{check, file, plain, run, tokens};
use crate::load;
use crate::tiny::{FEED_FORWARD, KV_HEADS, Noise, Tiny, WIDTH};

/// Checks the error of loading a model.
fn check_refused(model: &Tiny, text: &str) {
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
    assert_eq!(error.to_string(), text, "the error of loading");
}

#[test]
fn granite_hybrid_with_attention_only_equals_granite() {
    let mut model = Tiny::new("granite", 3);
    let expected = run(&model, &tokens(20), 20);
    model.architecture = "granitehybrid".into();
    assert_eq!(run(&model, &tokens(20), 20), expected, "no layer needs sizes of state space models");
}

#[test]
fn granite_hybrid_rotates_unless_its_file_disables_it() {
    let mut model = Tiny::new("granitehybrid", 3);
    model.keys.remove("rope.scaling.finetuned");
    check("granitehybrid with positions", &model, &plain(&model));
}

#[test]
fn granite_hybrid_needs_no_factor_of_logits() {
    let mut model = Tiny::new("granitehybrid", 3);
    let scaled = run(&model, &tokens(5), 5);
    model.keys.remove("logit_scale");
    let plain = run(&model, &tokens(5), 5);
    assert_eq!(plain[4], scaled[4].iter().map(|x| 8.0 * x).collect::<Vec<f32>>(), "logits are not divided by 8");
}

#[test]
fn invalid_hybrids_are_refused() {
    let mut model = Tiny::new("granitehybrid", 3);
    model.set("ssm.group_count", 3u32);
    check_refused(&model, "metadata key `granitehybrid.ssm.group_count`: 3 groups do not divide 8 heads");
    let mut model = Tiny::new("granitehybrid", 3);
    model.keys.remove("ssm.inner_size");
    check_refused(&model, "metadata key `granitehybrid.ssm.inner_size` is missing");
    let mut model = Tiny::new("granitehybrid", 3);
    model.set("attention.head_count_kv", vec![0, 2, 2]);
    check_refused(&model, "metadata key `granitehybrid.attention.head_count_kv`: 3 numbers for 2 layers");
    let mut model = Tiny::new("granitehybrid", 3);
    model.set("pooling_type", 1u32);
    check_refused(&model, "an embedding model of granitehybrid is not supported");
}

#[test]
fn nemotron_h_reads_the_parts_of_layers_from_two_lists() {
    let model = Tiny::new("nemotron_h", 3);
    let text = "metadata key `nemotron_h.feed_forward_length`: 2 numbers for 3 layers";
    let with = |key: &str, counts: Vec<i32>| {
        let mut model = model.clone();
        model.set(key, counts);
        model
    };
    check_refused(&with("feed_forward_length", vec![40, 0]), text);
    let text = "metadata key `nemotron_h.feed_forward_length`: no layer has an MLP";
    check_refused(&with("feed_forward_length", vec![0, 0, 0]), text);
    let text = "metadata key `nemotron_h.feed_forward_length`: -1 is not in 0 to 4194304";
    check_refused(&with("feed_forward_length", vec![40, -1, 0]), text);
    let text = "metadata key `nemotron_h.attention.head_count_kv`: 2 numbers for 3 layers";
    check_refused(&with("attention.head_count_kv", vec![0, 2]), text);
    let mut scalar = model.clone();
    scalar.set("feed_forward_length", FEED_FORWARD as u32);
    check_refused(&scalar, "metadata key `nemotron_h.feed_forward_length`: it is not a list of numbers");
    let mut embedding = model.clone();
    embedding.set("pooling_type", 1u32);
    check_refused(&embedding, "an embedding model of nemotron_h is not supported");
}

#[test]
fn nemotron_h_has_mlps_of_several_widths() {
    let mut model = Tiny::new("nemotron_h", 3);
    model.set("block_count", 4u32);
    model.set("attention.head_count_kv", vec![0, KV_HEADS as i32, 0, 0]);
    model.set("feed_forward_length", vec![FEED_FORWARD as i32, 0, 0, 16]);
    let mut noise = Noise(5);
    model.add(&mut noise, "blk.3.attn_norm.weight", &[WIDTH]);
    model.add(&mut noise, "blk.3.ffn_up.weight", &[WIDTH, 16]);
    model.add(&mut noise, "blk.3.ffn_down.weight", &[16, WIDTH]);
    let plan = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole").plan;
    let widths = plan.ops.iter().filter_map(|op| match op {
        Op::ReluSquared { x } => Some(plan.buffers[x.0 as usize].width),
        _ => None,
    });
    assert_eq!(widths.collect::<Vec<_>>(), [FEED_FORWARD, 16], "each layer has its own");
    check("nemotron_h with two widths", &model, &plain(&model));
}

#[test]
fn nemotron_h_ignores_layers_that_predict_further_tokens() {
    let model = Tiny::new("nemotron_h", 3);
    let mut more = model.clone();
    more.set("block_count", 4u32);
    more.set("nextn_predict_layers", 1u32);
    more.set("attention.head_count_kv", vec![0, KV_HEADS as i32, 0, KV_HEADS as i32]);
    more.set("feed_forward_length", vec![FEED_FORWARD as i32, 0, 0, FEED_FORWARD as i32]);
    assert_eq!(run(&more, &tokens(9), 9), run(&model, &tokens(9), 9), "the last block is ignored");
}

#[test]
fn nemotron_h_reads_epsilon_of_either_norm() {
    let model = Tiny::new("nemotron_h", 3);
    let mut other = model.clone();
    other.keys.remove("attention.layer_norm_rms_epsilon");
    assert_eq!(run(&other, &tokens(9), 9), run(&model, &tokens(9), 9), "both keys have the same value");
    other.keys.remove("attention.layer_norm_epsilon");
    check_refused(&other, "metadata key `nemotron_h.attention.layer_norm_rms_epsilon` is missing");
}

#[test]
fn width_of_latents_may_be_that_of_the_tensor() {
    let model = Tiny::from_family(&cairn_testkit::families::NEMOTRON_H_LATENT, 3);
    let mut other = model.clone();
    assert!(other.keys.remove("moe_latent_size").is_some(), "the model has a latent");
    assert_eq!(run(&other, &tokens(9), 9), run(&model, &tokens(9), 9), "the tensor has the width");
}

#[test]
fn nemotron_h_without_attention_is_refused() {
    // MLPs take the place of the attention of a layer, and the last layers are not computed.
    for (counts, predicting) in [(vec![0, KV_HEADS as i32, 0], 0), (vec![0, 0, 0, KV_HEADS as i32], 1u32)] {
        let mut model = Tiny::new("nemotron_h", 3);
        model.set("block_count", counts.len() as u32);
        model.set("nextn_predict_layers", predicting);
        let widths = [FEED_FORWARD as i32, FEED_FORWARD as i32, 0, 0];
        model.set("feed_forward_length", widths[..counts.len()].to_vec());
        model.set("attention.head_count_kv", counts);
        let mut noise = Noise(5);
        model.add(&mut noise, "blk.1.ffn_up.weight", &[WIDTH, FEED_FORWARD]);
        model.add(&mut noise, "blk.1.ffn_down.weight", &[FEED_FORWARD, WIDTH]);
        check_refused(&model, "a model of nemotron_h without attention is not supported");
    }
}
