//! Parts that depend on the sequence length: scaled rotations, factors for long contexts, sliding windows.

use cairn_gguf::Value;
use cairn_tensor::{Reference, StateKind};

use super::textbook::Rotation;
use super::{check, families, file, with_layers};
use crate::load;
use crate::tiny::{HEAD_DIM, Tiny};

#[test]
fn rope_scaling_changes_angles_and_magnitude() {
    // Latent attention has fewer elements with a position, and a test of its own. Others have no positions.
    let excluded = ["deepseek2", "granitehybrid", "nemotron_h", "nemotron_h_moe"];
    for family in families().filter(|family| !excluded.contains(family)) {
        let scaled = |kind: &str| {
            let mut model = Tiny::new(family, 6);
            model.set("rope.freq_base", 10_000f32);
            model.set("rope.dimension_count", HEAD_DIM as u32);
            model.set("rope.scaling.yarn_log_multiplier", 0f32);
            model.set("rope.scaling.type", kind);
            model.set("rope.scaling.factor", 4f32);
            model
        };
        let mut plain = Rotation::plain(10_000.0, HEAD_DIM);
        check(&format!("{family}, none"), &scaled("none"), &plain);
        let linear = Rotation { angles: plain.angles.map(|angle| angle / 4.0), ..plain };
        check(&format!("{family}, linear"), &scaled("linear"), &linear);

        // Within 256 tokens the pairs turn 40.7, 4.07, 0.41 and 0.04 times. 32 turns are reached before the second
        // pair, one turn between the second and the third: the first angle is kept, the second half, the others not.
        let mut yarn = scaled("yarn");
        yarn.set("rope.scaling.attn_factor", 1.5f32);
        yarn.set("rope.scaling.original_context_length", 256u32);
        let angles = [1.0, 0.1 * (0.5 + 0.5 / 4.0), 0.01 / 4.0, 0.001 / 4.0];
        let magnitude = 1.5 * (1.0 + 0.1 * 4f64.ln());
        check(&format!("{family}, yarn"), &yarn, &Rotation { angles, magnitude, ..plain });

        let mut factors = scaled("none");
        factors.tensors.insert("rope_freqs.weight".into(), (vec![HEAD_DIM as u64 / 2], vec![1.0, 1.0, 2.5, 8.0]));
        plain.angles = [1.0, 0.1, 0.01 / 2.5, 0.001 / 8.0];
        check(&format!("{family}, a factor for each pair"), &factors, &plain);
    }
}

#[test]
fn long_and_short_contexts_use_different_factors() {
    let mut model = Tiny::new("phi3", 7);
    model.set("rope.scaling.original_context_length", 100u32);
    model.set("rope.scaling.attn_factor", 1.25f32);
    for (name, last) in [("short", 2.0), ("long", 8.0)] {
        let values = vec![1.0, 1.0, 1.0, last];
        model.tensors.insert(format!("rope_factors_{name}.weight"), (vec![HEAD_DIM as u64 / 2], values));
    }
    let file = file(&model.bytes());
    let last = |context_tokens: usize, factor: f64| {
        let model = load(&file, context_tokens, &mut Reference::new()).expect("the model is whole");
        let rope = &model.plan.ropes[0];
        assert_eq!(rope.inverse_frequencies[3], (0.001 / factor) as f32, "loaded for {context_tokens} tokens");
        assert_eq!(rope.magnitude, 1.25, "the factor of the file");
        assert_eq!(model.hparams.long_context, Some(100), "the original context length");
        assert_eq!(model.hparams.is_long(context_tokens), factor > 2.0, "whether long factors are used");
    };
    last(100, 2.0);
    last(101, 8.0);
    last(usize::MAX, 8.0);
}

#[test]
fn yarn_log_multiplier_reduces_magnitude() {
    let magnitude = |multiplier: f32| {
        let mut model = Tiny::new("mistral3", 7);
        model.set("rope.scaling.type", "yarn");
        model.set("rope.scaling.factor", 16f32);
        model.set("rope.scaling.yarn_log_multiplier", multiplier);
        let model = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole");
        model.plan.ropes[0].magnitude
    };
    let grown = 1.0 + 0.1 * 16f64.ln();
    assert_eq!(magnitude(0.0), grown as f32, "as without the key");
    assert_eq!(magnitude(0.5), (grown / (1.0 + 0.05 * 16f64.ln())) as f32, "half of it");
    assert_eq!(magnitude(1.0), 1.0, "none of it");
}

/// Returns the kind of attention of each layer.
fn windows(family: &str, layers: usize, set: &[(&str, Value)]) -> Vec<StateKind> {
    let mut model = Tiny::new(family, 8);
    model.keys.remove("attention.sliding_window_pattern");
    for (key, value) in set {
        model.set(key, value.clone());
    }
    let model = with_layers(&model, layers);
    let model = load(&file(&model.bytes()), 4096, &mut Reference::new()).expect("the model is whole");
    model.plan.states.iter().map(|state| state.kind).collect()
}

#[test]
fn window_pattern_of_file_overrides_family() {
    let (w, full) = (StateKind::Window(20), StateKind::Full);
    assert_eq!(windows("gemma2", 4, &[]), [w, full, w, full], "every second layer");
    assert_eq!(windows("gpt-oss", 3, &[]), [w, full, w], "every second layer");
    assert_eq!(windows("gemma3", 7, &[]), [w, w, w, w, w, full, w], "five of six layers");
    let window = ("attention.sliding_window", Value::from(20u32));
    assert_eq!(windows("olmo2", 5, std::slice::from_ref(&window)), [w, w, w, full, w], "three of four layers");
    assert_eq!(windows("olmo2", 2, &[]), [full, full], "none without the key");
    assert_eq!(windows("cohere2", 5, &[]), [w, w, w, full, w], "three of four layers");
    assert_eq!(windows("exaone4", 5, std::slice::from_ref(&window)), [w, w, w, full, w], "three of four layers");
    assert_eq!(windows("exaone4", 2, &[]), [full, full], "none without the key");
    let period = ("attention.sliding_window_pattern", Value::from(3u32));
    assert_eq!(windows("gemma3", 4, &[period]), [w, w, full, w], "the file's period");
    let flags = ("attention.sliding_window_pattern", Value::from(vec![false, true, false]));
    assert_eq!(windows("gemma3", 3, &[flags]), [full, w, full], "the file's flags");
    for family in ["command-r", "llama", "phi3", "qwen2", "qwen3", "qwen3moe", "smollm3"] {
        assert_eq!(
            windows(family, 2, std::slice::from_ref(&window)),
            [full, full],
            "{family} ignores windows, as in llama.cpp"
        );
    }
}
