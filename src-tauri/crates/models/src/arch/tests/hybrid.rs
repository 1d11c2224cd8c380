//! Keys of hybrid models with state space models: factors, rotation, layers of one kind, and files that are refused.

use cairn_tensor::Reference;

use super::{check, file, plain, run, tokens};
use crate::load;
use crate::tiny::Tiny;

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
