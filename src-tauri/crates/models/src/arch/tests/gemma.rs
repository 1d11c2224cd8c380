//! Gemma 3n and 4: the rows that layers store or share, and keys and tensors that are refused.

use cairn_gguf::{DType, Value};
use cairn_tensor::{Limits, Op, Plan, Reference, State, StateId, StateKind};
use cairn_testkit::families;

use super::{cached, file, plain, run, textbook, tokens};
use crate::runs::logits_on;
use crate::tiny::{HEAD_DIM, KV_HEADS, Noise, Tiny};
use crate::{load, memory_requirements};

fn plan(model: &Tiny) -> Plan {
    load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole").plan
}

/// Returns the state of each layer's attention.
fn states(plan: &Plan) -> Vec<u32> {
    let states = plan.ops.iter().filter_map(|op| match op {
        Op::Attention { state: StateId(state), .. } => Some(*state),
        _ => None,
    });
    states.collect()
}

#[test]
fn layers_that_share_keys_store_no_rows() {
    let model = Tiny::with_layers(&families::GEMMA4_SMALL, 6, 1);
    let plan = plan(&model);
    let window = State::new(StateKind::Window(20), KV_HEADS, HEAD_DIM / 2);
    let full = State::new(StateKind::Causal, KV_HEADS / 2, HEAD_DIM);
    assert_eq!(plan.states, [window, full, window], "three of six layers store rows, with heads of their kind");
    assert_eq!(states(&plan), [0, 1, 2, 1, 2, 1], "the others attend to the last rows of their kind");
    assert_eq!(plan.layers(), 6, "a slice can begin and end with each layer");
    let file = file(&model.bytes());
    let need = memory_requirements(&file, 64, Limits { rows: 1, logit_rows: 1 }, DType::F16).expect("it is whole");
    let elements = 2 * (2 * KV_HEADS * HEAD_DIM / 2 + KV_HEADS / 2 * HEAD_DIM);
    assert_eq!(need.kv_bytes_per_token, 2 * elements as u64, "keys and values of three layers in f16");
}

/// Compares a prompt with a picture with the textbook, on both backends.
fn check_picture(what: &str, model: &Tiny) {
    let (tokens, picture) = (tokens(70), 7..60);
    let theirs = textbook::logits_with_picture(model, &tokens, &plain(model), &picture);
    let file = file(&model.bytes());
    for backend in cached::backends() {
        let mut backend = backend();
        // The fast backend keeps keys and values in F16.
        let name = backend.caps().variant;
        let most = if backend.caps().backend == "reference" { 1e-4 } else { 1e-2 };
        let ours = logits_on(backend.as_mut(), &file, &tokens, 70, &(picture.start as u32..picture.end as u32));
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let range = theirs.iter().fold(0f64, |most, x| most.max(x.abs()));
            for (&a, &b) in ours.iter().zip(theirs) {
                let difference = (f64::from(a) - b).abs();
                assert!(difference < most * range, "{what}, {name}, position {at}: {a} is not {b}, range {range}");
            }
        }
    }
}

#[test]
fn rows_of_a_picture_attend_to_each_other_in_layers_with_a_window() {
    // A layer that sees the whole context is before another one, which reads the rows that it made.
    check_picture("four layers", &Tiny::with_layers(&families::GEMMA4, 4, 3));
    check_picture("windows last", &Tiny::with_layers(&families::GEMMA4, 3, 3));
    check_picture("shared keys", &Tiny::with_layers(&families::GEMMA4_SMALL, 4, 1));
    check_picture("gemma3", &Tiny::with_layers(&families::GEMMA3, 4, 3));
}

#[test]
fn values_of_layers_with_full_attention_may_be_keys() {
    let tokens = tokens(30);
    let model = Tiny::new("gemma4", 3);
    let mut with_values = model.clone();
    let keys = model.tensors["blk.1.attn_k.weight"].clone();
    with_values.tensors.insert("blk.1.attn_v.weight".into(), keys);
    assert_eq!(run(&with_values, &tokens, 30), run(&model, &tokens, 30), "equal matrices give equal rows");
}

/// Checks the error of a model with another value of a key.
fn check_refused(key: &str, value: impl Into<Value>, text: &str) {
    let mut model = Tiny::with_layers(&families::GEMMA4_SMALL, 4, 1);
    model.set(key, value);
    let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
    assert_eq!(error.to_string(), text, "the error of loading");
}

#[test]
fn invalid_keys_of_layers_are_refused() {
    let text = "metadata key `gemma4.attention.shared_kv_layers`: no layer of the same kind before layer 1 stores keys and values";
    check_refused("attention.shared_kv_layers", 3u32, text);
    let text = "metadata key `gemma4.attention.shared_kv_layers`: no layer of the same kind before layer 0 stores keys and values";
    check_refused("attention.shared_kv_layers", u32::MAX, text);
    let text = "metadata key `gemma4.attention.head_count_kv`: 3 numbers for 4 layers";
    check_refused("attention.head_count_kv", vec![2u32, 1, 2], text);
    let text = "metadata key `gemma4.attention.head_count_kv`: 3 key/value heads do not divide 4 heads";
    check_refused("attention.head_count_kv", vec![3u32, 1, 3, 1], text);
    let text = "a model with layers of one kind of 2 and 4 key/value heads is not supported";
    check_refused("attention.head_count_kv", vec![2u32, 1, 4, 1], text);
    let text = "metadata key `gemma4.feed_forward_length`: 0 is not in 1 to 4194304";
    check_refused("feed_forward_length", vec![40u32, 40, 0, 80], text);
    let text = "a model with keys of 4 and values of 8 elements is not supported";
    check_refused("attention.value_length_swa", 8u32, text);
    let text = "metadata key `gemma4.rope.dimension_count_swa`: 6 is not an even number up to the head's 4 elements";
    check_refused("rope.dimension_count_swa", 6u32, text);
    check_refused("pooling_type", 1u32, "an embedding model of gemma4 is not supported");
    let text = "metadata key `gemma4.embedding_length_per_layer_input`: 4194305 is not in 1 to 4194304";
    check_refused("embedding_length_per_layer_input", (1u32 << 22) + 1, text);
}

#[test]
fn missing_values_and_invalid_factors_are_reported() {
    let check = |change: &dyn Fn(&mut Tiny), text: &str| {
        let mut model = Tiny::with_layers(&families::GEMMA4_SMALL, 4, 1);
        change(&mut model);
        let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
        assert_eq!(error.to_string(), text, "the error of loading");
    };
    let text = "1 tensor does not fit the model: `blk.0.attn_v.weight` is missing";
    check(&|model| drop(model.tensors.remove("blk.0.attn_v.weight")), text);
    let text = "tensor `blk.2.layer_output_scale.weight`: NaN is not a number";
    let scale = ("blk.2.layer_output_scale.weight".to_owned(), (vec![1], vec![f32::NAN]));
    check(&|model| drop(model.tensors.insert(scale.0.clone(), scale.1.clone())), text);
    let text = "1 tensor does not fit the model: `blk.3.inp_gate.weight` is missing";
    check(&|model| drop(model.tensors.remove("blk.3.inp_gate.weight")), text);
    let mut narrow = Tiny::with_layers(&families::GEMMA4_SMALL, 4, 1);
    narrow.add(&mut Noise(9), "per_layer_token_embd.weight", &[16, 49]);
    let error = load(&file(&narrow.bytes()), 4096, &mut Reference::new()).expect_err("a token has no row").to_string();
    assert!(error.contains("`per_layer_token_embd.weight` must be [16, 50], is [16, 49]"), "{error}");
}

#[test]
fn invalid_keys_of_streams_and_gates_are_refused() {
    let check = |key: &str, value: Value, text: &str| {
        let mut model = Tiny::new("gemma3n", 1);
        model.set(key, value);
        let error = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect_err(text);
        assert_eq!(error.to_string(), format!("metadata key `gemma3n.{text}"), "the error of loading");
    };
    check("altup.active_idx", 4u32.into(), "altup.active_idx`: there is no stream 4 beside others of 4");
    check("altup.num_inputs", 1u32.into(), "altup.active_idx`: there is no stream 0 beside others of 1");
    check("altup.num_inputs", 17u32.into(), "altup.num_inputs`: 17 is not in 1 to 16");
    let text = "activation_sparsity_scale`: 1 numbers for 2 layers";
    check("activation_sparsity_scale", vec![1.0f32].into(), text);
    let text = "activation_sparsity_scale`: inf is not a limit";
    check("activation_sparsity_scale", vec![1.0f32, f32::INFINITY].into(), text);
}

#[test]
fn keys_of_gemma3n_have_the_values_of_published_models() {
    let mut model = Tiny::with_layers(&families::GEMMA3N, 22, 1);
    let limits = |plan: &Plan| plan.ops.iter().filter(|op| matches!(op, Op::KeepOutliers { .. })).count();
    let expected = plan(&model);
    assert_eq!((expected.states.len(), limits(&expected)), (20, 10), "layers that store rows, and sparse ones");
    let keys = ["attention.shared_kv_layers", "activation_sparsity_scale", "altup.num_inputs", "altup.active_idx"];
    keys.iter().for_each(|key| drop(model.keys.remove(*key)));
    assert_eq!(plan(&model), expected, "the same without the keys");
}

#[test]
fn soft_caps_have_defaults() {
    let caps = |family: &str, value: Option<f32>| {
        let mut model = Tiny::new(family, 1);
        for key in ["final_logit_softcapping", "attn_logit_softcapping"] {
            model.keys.remove(key);
            if let Some(value) = value {
                model.set(key, value);
            }
        }
        let plan = plan(&model);
        let of_logits = match plan.ops.last() {
            Some(Op::Softcap { cap, .. }) => Some(*cap),
            _ => None,
        };
        let of_scores = plan.ops.iter().find_map(|op| match op {
            Op::Attention { softcap, .. } => Some(*softcap),
            _ => None,
        });
        [of_logits, of_scores.expect("a layer has attention")]
    };
    for (family, scores) in [("gemma2", true), ("gemma3n", false), ("gemma4", false)] {
        let with = |logits: f32, of_scores: f32| [Some(logits), scores.then_some(of_scores)];
        assert_eq!(caps(family, None), with(30.0, 50.0), "{family}: as in llama.cpp");
        assert_eq!(caps(family, Some(20.0)), with(20.0, 20.0), "{family}: the file's");
        assert_eq!(caps(family, Some(0.0)), [None, None], "{family}: zero means none");
    }
}
