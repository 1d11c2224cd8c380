//! Table of model families: what their files have in addition to the common keys.
//!
//! `cairn-models` determines the required tensors. This table contains the metadata, the optional tensors, and the
//! scales that keep logits distinct.

mod keys;

use cairn_gguf::{Pooling, Value};

use self::keys::{
    alternating_heads, encoder, experts, latent_attention, layer_norm, layer_norm_and_partial_rotation,
    linear_attention, linear_attention_with_sections, partial_rotation, sections, sections_and_deepstack,
    short_convolutions, sigmoid_experts, single_parts, state_spaces, weighted_experts, wide_experts,
};
use crate::spec::{Family, ModelSpec};

/// Common values of most rows.
const PLAIN: Family = Family {
    name: "",
    pre_tokenizer: "llama-bpe",
    word_pieces: false,
    adds_bos: false,
    tied: None,
    layers: 2,
    rope_base: 10_000.0,
    keys: |_| Vec::new(),
    has_tensor: |_| false,
    embedding_scale: |_| 1.0,
    residual_scale: 1.0,
    logit_scale: 1.0,
    down_gain: 1.0,
    unscaled_scores: false,
    rope_factors: None,
};

/// Size of sliding windows: not a multiple of pages or spans, and smaller than the longest prompt.
const WINDOW: u32 = 100;

/// Positions with equally large queries: less than a page.
const QUERY_STEP: u32 = 30;

/// Value of [`Family::down_gain`] for models with shared experts, or with weights of experts that are not renormalised: exchanged
/// experts change the logits less.
const MOE_DOWN_GAIN: f32 = 0.5;

/// dots.llm1: sigmoid scores with a bias, an MLP in the first layer, shared experts.
pub static DOTS1: Family = Family {
    name: "dots1",
    keys: |spec| {
        let mut keys = sigmoid_experts(spec);
        keys.push(("expert_weights_norm", true.into()));
        keys
    },
    has_tensor: |name| name.ends_with("exp_probs_b.bias"),
    ..PLAIN
};

/// ERNIE 4.5 with experts: softmax scores with a bias, an MLP in the first layer, a shared expert.
pub static ERNIE4_5_MOE: Family = Family {
    name: "ernie4_5-moe",
    keys: |spec| {
        let mut keys = experts(spec);
        keys.extend([("leading_dense_block_count", 1u32.into()), ("interleave_moe_layer_step", 1u32.into())]);
        keys.push(("expert_shared_feed_forward_length", 64u32.into()));
        keys
    },
    has_tensor: |name| name.ends_with("exp_probs_b.bias"),
    down_gain: MOE_DOWN_GAIN,
    ..PLAIN
};

/// LFM2: short convolutions and attention with norms over each head.
pub static LFM2: Family =
    Family { name: "lfm2", pre_tokenizer: "lfm2", keys: short_convolutions, down_gain: 0.5, ..PLAIN };

/// LFM2 with experts chosen by sigmoids with a bias, after an MLP in the first layer.
pub static LFM2MOE: Family = Family {
    name: "lfm2moe",
    keys: |spec| {
        let mut keys = experts(spec);
        keys.extend(short_convolutions(spec));
        keys.extend([("leading_dense_block_count", 1u32.into()), ("expert_gating_func", 2u32.into())]);
        keys
    },
    has_tensor: |name| name.ends_with("exp_probs_b.bias"),
    ..LFM2
};

/// Whether a tensor is a bias of a projection or of a norm inside the layers, or of the last norm.
fn is_layer_bias(name: &str) -> bool {
    name.ends_with(".bias") && !name.starts_with("output.")
}

/// Command R: parallel parts, LayerNorm without biases, a factor on logits.
pub static COMMAND_R: Family = Family {
    name: "command-r",
    pre_tokenizer: "command-r",
    tied: Some(true),
    keys: |spec| {
        let mut keys = layer_norm(spec);
        keys.push(("logit_scale", 0.25f32.into()));
        keys
    },
    logit_scale: 0.25,
    ..PLAIN
};

/// Command R7B: windows in every second layer, and no rotation in the others. Published models have windows in three of
/// four layers.
pub static COHERE2: Family = Family {
    name: "cohere2",
    keys: |spec| {
        let mut keys = (COMMAND_R.keys)(spec);
        keys.extend([("attention.sliding_window", WINDOW.into()), ("attention.sliding_window_pattern", 2u32.into())]);
        keys.push(partial_rotation(spec));
        keys
    },
    ..COMMAND_R
};

/// DeepSeek V3: latents in the cache, groups of experts with sigmoid scores and a bias, an MLP in the first layer, shared experts.
pub static DEEPSEEK2: Family = Family {
    name: "deepseek2",
    pre_tokenizer: "deepseek-v3",
    keys: |spec| {
        let mut keys = sigmoid_experts(spec);
        keys.extend(latent_attention(spec, true));
        keys.extend([("expert_weights_norm", true.into()), ("rope.scaling.yarn_log_multiplier", 0.0707f32.into())]);
        keys.extend([("expert_group_count", 4u32.into()), ("expert_group_used_count", 3u32.into())]);
        keys
    },
    has_tensor: |name| name.ends_with("exp_probs_b.bias"),
    down_gain: MOE_DOWN_GAIN,
    ..PLAIN
};

/// Mistral Large 3: queries that grow with the position.
pub static DEEPSEEK2_GROWTH: Family = Family {
    keys: |spec| {
        let mut keys = (DEEPSEEK2.keys)(spec);
        keys.extend([
            ("attention.temperature_scale", 0.1f32.into()),
            ("attention.temperature_length", QUERY_STEP.into()),
        ]);
        keys
    },
    ..DEEPSEEK2
};

/// DeepSeek V2 Lite in an old file: keys and values of all heads in the cache, experts with softmax scores.
pub static DEEPSEEK2_LITE: Family = Family {
    keys: |spec| {
        let mut keys = experts(spec);
        keys.extend(latent_attention(spec, false));
        keys.extend([("leading_dense_block_count", 1u32.into()), ("expert_shared_count", 2u32.into())]);
        keys
    },
    has_tensor: |_| false,
    ..DEEPSEEK2
};

/// EXAONE 4 without windows: norms over outputs of parts and over heads of queries and keys.
pub static EXAONE4: Family = Family { name: "exaone4", pre_tokenizer: "exaone4", rope_base: 1_000_000.0, ..PLAIN };

/// EXAONE 4 with windows in every second layer, and no rotation in the others. The published model has windows in three
/// of four layers.
pub static EXAONE4_WINDOWS: Family = Family {
    keys: |_| vec![("attention.sliding_window", WINDOW.into()), ("attention.sliding_window_pattern", 2u32.into())],
    ..EXAONE4
};

/// Falcon 7B: parallel parts with one norm, fused tensors, no biases except those of norms.
pub static FALCON: Family = Family {
    name: "falcon",
    pre_tokenizer: "falcon",
    keys: layer_norm,
    has_tensor: |name| name.ends_with("_norm.bias"),
    down_gain: 0.5,
    ..PLAIN
};

/// Falcon 40B: attention has its own norm.
pub static FALCON_40B: Family =
    Family { has_tensor: |name| name.contains(".attn_norm_2.") || (FALCON.has_tensor)(name), ..FALCON };

/// Gemma: an MLP gated by GELU, scaled embeddings.
pub static GEMMA: Family =
    Family { name: "gemma", tied: Some(true), embedding_scale: |spec| (spec.width as f32).sqrt(), ..PLAIN };

/// Gemma 2: windows in every second layer, caps on scores and logits.
pub static GEMMA2: Family = Family {
    name: "gemma2",
    tied: Some(true),
    keys: |_| {
        vec![
            ("attention.sliding_window", WINDOW.into()),
            ("attn_logit_softcapping", 5f32.into()),
            ("final_logit_softcapping", 30f32.into()),
        ]
    },
    embedding_scale: |spec| (spec.width as f32).sqrt(),
    ..PLAIN
};

/// Gemma 3: windows with a separate rotation in every second layer. Published models have them in five of six layers.
pub static GEMMA3: Family = Family {
    name: "gemma3",
    rope_base: 1_000_000.0,
    keys: |_| vec![("attention.sliding_window", WINDOW.into()), ("attention.sliding_window_pattern", 2u32.into())],
    embedding_scale: |spec| (spec.width as f32).sqrt(),
    ..PLAIN
};

/// Gemma 3n: four residual streams, inputs of single layers, and sparse gates. llama.cpp fixes the width of the inputs, and the numbers
/// of layers with sparse gates and with keys and values.
pub static GEMMA3N: Family = Family {
    name: "gemma3n",
    rope_base: 1_000_000.0,
    keys: |spec| {
        let count = |value: u64| Value::from(u32::try_from(value).expect("a model's counts fit into a u32"));
        let windows: Vec<bool> = (0..spec.layers).map(|layer| layer % 2 == 0).collect();
        let limits: Vec<f32> =
            (0..spec.layers).map(|layer| if layer < 10 { 1.644_853_6 } else { f32::NEG_INFINITY }).collect();
        vec![
            ("attention.sliding_window", WINDOW.into()),
            ("attention.sliding_window_pattern", windows.into()),
            ("attention.shared_kv_layers", count(spec.layers.saturating_sub(20))),
            ("embedding_length_per_layer_input", 256u32.into()),
            ("altup.num_inputs", 4u32.into()),
            ("altup.active_idx", 0u32.into()),
            ("activation_sparsity_scale", limits.into()),
        ]
    },
    // The embeddings are one of four streams, so they are larger.
    embedding_scale: |spec| (spec.width as f32).sqrt() / 2.5,
    unscaled_scores: true,
    ..PLAIN
};

/// Gemma 4, dense: a window and smaller heads in every second layer. In the others, keys are also values, and a quarter of the pairs
/// turns. Published models have windows in four or five of six layers.
pub static GEMMA4: Family = Family {
    name: "gemma4",
    rope_base: 1_000_000.0,
    keys: alternating_heads,
    has_tensor: |name| name.ends_with(".layer_output_scale.weight"),
    embedding_scale: |spec| (spec.width as f32).sqrt(),
    unscaled_scores: true,
    rope_factors: Some(|pairs| (0..pairs).map(|pair| if pair < pairs / 4 { 1.0 } else { 1e30 }).collect()),
    ..PLAIN
};

/// Gemma 4 for small machines: inputs of single layers; the second half of the layers has wider MLPs and attends to keys and values
/// of the first half.
pub static GEMMA4_SMALL: Family = Family {
    keys: |spec| {
        let count = |value: u64| u32::try_from(value).expect("a model's counts fit into a u32");
        let (layers, ffn) = (spec.layers, count(spec.ffn));
        let mut keys = alternating_heads(spec);
        keys.push(("attention.shared_kv_layers", count(layers / 2).into()));
        keys.push(("embedding_length_per_layer_input", count(spec.head_dim / 2).into()));
        let widths: Vec<u32> = (0..layers).map(|layer| if layer < layers / 2 { ffn } else { 2 * ffn }).collect();
        keys.push(("feed_forward_length", widths.into()));
        keys
    },
    has_tensor: |name| name.ends_with(".attn_v.weight") || (GEMMA4.has_tensor)(name),
    ..GEMMA4
};

/// Gemma 4 with experts beside the MLPs.
pub static GEMMA4_EXPERTS: Family = Family {
    keys: |spec| {
        let mut keys = alternating_heads(spec);
        keys.extend(experts(spec));
        keys
    },
    has_tensor: |name| name.ends_with(".ffn_gate_up_exps.weight") || (GEMMA4.has_tensor)(name),
    down_gain: MOE_DOWN_GAIN,
    ..GEMMA4
};

/// The same with separate tensors of gates and linear parts, as in Ollama's files.
pub static GEMMA4_SPLIT_EXPERTS: Family = Family { has_tensor: GEMMA4.has_tensor, ..GEMMA4_EXPERTS };

/// GLM 4.5: sigmoid scores with a bias, an MLP in the first layer, a shared expert, and biases of queries, keys and values.
pub static GLM4MOE: Family = Family {
    name: "glm4moe",
    keys: sigmoid_experts,
    has_tensor: |name| name.ends_with("exp_probs_b.bias") || name.ends_with("_norm.weight") || (QWEN2.has_tensor)(name),
    ..PLAIN
};

/// GLM 4: norms over inputs and outputs of parts, a fused MLP, half of each head rotated.
pub static GLM4: Family = Family {
    name: "glm4",
    pre_tokenizer: "glm4",
    keys: |spec| vec![partial_rotation(spec)],
    has_tensor: |name| ["attn_q.bias", "attn_k.bias", "attn_v.bias"].iter().any(|bias| name.ends_with(bias)),
    ..PLAIN
};

/// GLM 4 as the text part of GLM 4.1 V; its positions have three components.
pub static GLM4_VISION: Family = Family {
    keys: |spec| {
        let mut keys = sections(&ModelSpec { head_dim: spec.head_dim / 2, ..spec.clone() });
        keys.push(partial_rotation(spec));
        keys
    },
    ..GLM4
};

/// GPT-2: learned positions, LayerNorm, fused tensors, biases everywhere.
pub static GPT2: Family = Family {
    name: "gpt2",
    pre_tokenizer: "gpt-2",
    keys: layer_norm,
    has_tensor: is_layer_bias,
    down_gain: 0.5,
    ..PLAIN
};

/// gpt-oss: sinks, windows in every second layer, biases everywhere, clamped experts.
pub static GPT_OSS: Family = Family {
    name: "gpt-oss",
    pre_tokenizer: "gpt-4o",
    tied: Some(false),
    rope_base: 150_000.0,
    keys: |spec| {
        let mut keys = experts(spec);
        keys.push(("attention.sliding_window", WINDOW.into()));
        keys
    },
    has_tensor: |name| name.ends_with(".bias") && name != "output.bias",
    ..PLAIN
};

/// GPT-NeoX: parallel parts with a norm each, fused tensors, biases everywhere.
pub static GPTNEOX: Family = Family {
    name: "gptneox",
    pre_tokenizer: "olmo",
    tied: Some(false),
    keys: |spec| {
        let mut keys = layer_norm_and_partial_rotation(spec);
        keys.push(("use_parallel_residual", true.into()));
        keys
    },
    has_tensor: is_layer_bias,
    down_gain: 0.5,
    ..PLAIN
};

/// GPT-NeoX with one part after the other.
pub static GPTNEOX_SEQUENTIAL: Family = Family {
    keys: |spec| {
        let mut keys = (GPTNEOX.keys)(spec);
        keys.push(("use_parallel_residual", false.into()));
        keys
    },
    ..GPTNEOX
};

/// Granite: four factors.
pub static GRANITE: Family = Family {
    name: "granite",
    keys: |_| {
        vec![
            ("embedding_scale", 12f32.into()),
            ("residual_scale", 0.22f32.into()),
            ("attention.scale", 0.1f32.into()),
            ("logit_scale", 8f32.into()),
        ]
    },
    embedding_scale: |_| 12.0,
    residual_scale: 0.22,
    logit_scale: 1.0 / 8.0,
    ..PLAIN
};

/// Granite with experts, each as wide as an MLP, and a shared one.
pub static GRANITE_MOE: Family = Family {
    name: "granitemoe",
    keys: |spec| {
        let mut keys = (GRANITE.keys)(spec);
        keys.extend(wide_experts(spec));
        keys.push(("expert_shared_feed_forward_length", 64u32.into()));
        keys
    },
    down_gain: MOE_DOWN_GAIN,
    ..GRANITE
};

/// Granite with state space models in every second layer. Published models have them in nine of ten layers. Positions are not rotated.
pub static GRANITE_HYBRID: Family = Family {
    name: "granitehybrid",
    keys: |spec| {
        let mut keys = (GRANITE.keys)(spec);
        keys.extend(state_spaces(spec, 1));
        keys.push(("rope.scaling.finetuned", false.into()));
        keys
    },
    has_tensor: |name| name.ends_with(".ssm_conv1d.bias"),
    down_gain: 0.5,
    ..GRANITE
};

/// The same with experts, each as wide as an MLP, and a shared one.
pub static GRANITE_HYBRID_MOE: Family = Family {
    keys: |spec| {
        let mut keys = (GRANITE_HYBRID.keys)(spec);
        keys.extend(wide_experts(spec));
        keys.push(("expert_shared_feed_forward_length", 64u32.into()));
        keys
    },
    down_gain: MOE_DOWN_GAIN,
    ..GRANITE_HYBRID
};

/// Hunyuan: an RMSNorm over each head of queries and keys after rotation.
pub static HUNYUAN_DENSE: Family = Family { name: "hunyuan-dense", pre_tokenizer: "hunyuan-dense", ..PLAIN };

/// Llama: interleaved RoPE.
pub static LLAMA: Family = Family { name: "llama", adds_bos: true, ..PLAIN };

/// Llama 4 with short chunks, and queries that grow in short steps.
pub static LLAMA4: Family = Family {
    keys: |spec| {
        let mut keys = (LLAMA4_PUBLISHED.keys)(spec);
        keys.push(("attention.chunk_size", WINDOW.into()));
        keys.extend([
            ("attention.temperature_scale", 0.1f32.into()),
            ("attention.temperature_length", QUERY_STEP.into()),
        ]);
        keys
    },
    ..LLAMA4_PUBLISHED
};

/// Llama 4 with chunks of 8,192 tokens, as published: llama.cpp has no other. The fourth layer attends to all tokens
/// and has no rotation, and every second layer has experts.
pub static LLAMA4_PUBLISHED: Family = Family {
    name: "llama4",
    pre_tokenizer: "llama4",
    layers: 4,
    rope_base: 500_000.0,
    keys: |spec| {
        let mut keys = experts(spec);
        keys.push(("interleave_moe_layer_step", 2u32.into()));
        keys
    },
    down_gain: MOE_DOWN_GAIN,
    ..PLAIN
};

/// ERNIE 4.5: a llama with another name.
pub static ERNIE4_5: Family = Family { name: "ernie4_5", rope_base: 500_000.0, ..PLAIN };

/// Ministral 3: a llama with queries that grow with the position.
pub static MISTRAL3: Family = Family {
    name: "mistral3",
    pre_tokenizer: "tekken",
    rope_base: 1_000_000.0,
    keys: |_| {
        vec![
            ("attention.temperature_scale", 0.1f32.into()),
            ("rope.scaling.original_context_length", QUERY_STEP.into()),
            ("rope.scaling.yarn_log_multiplier", 1f32.into()),
        ]
    },
    ..PLAIN
};

/// Llama with experts, each as wide as an MLP: Mixtral.
pub static MIXTRAL: Family = Family { keys: wide_experts, ..LLAMA };

/// EXAONE 3: RoPE over halves.
pub static EXAONE: Family = Family { name: "exaone", pre_tokenizer: "exaone", ..PLAIN };

/// The text part of Qwen 2 VL: positions have three components.
pub static QWEN2VL: Family = Family { name: "qwen2vl", keys: sections, ..QWEN2 };

/// Qwen 3: RoPE over halves, and an RMSNorm over each head of queries and keys.
pub static QWEN3: Family = Family { name: "qwen3", pre_tokenizer: "qwen2", rope_base: 1_000_000.0, ..PLAIN };

/// Qwen 3 with experts.
pub static QWEN3MOE: Family = Family { name: "qwen3moe", keys: experts, ..QWEN3 };

/// The text part of Qwen 3 VL: positions have three components.
pub static QWEN3VL: Family = Family { name: "qwen3vl", keys: sections_and_deepstack, ..QWEN3 };

/// The text part of Qwen 3 VL with experts.
pub static QWEN3VLMOE: Family = Family {
    name: "qwen3vlmoe",
    keys: |spec| {
        let mut keys = experts(spec);
        keys.extend(sections_and_deepstack(spec));
        keys
    },
    ..QWEN3
};

/// Qwen 2: biases on queries, keys and values.
pub static QWEN2: Family = Family {
    name: "qwen2",
    pre_tokenizer: "qwen2",
    rope_base: 1_000_000.0,
    has_tensor: |name| ["attn_q.bias", "attn_k.bias", "attn_v.bias"].iter().any(|bias| name.ends_with(bias)),
    ..PLAIN
};

/// Qwen 2 with experts and a weighted shared one.
pub static QWEN2MOE: Family =
    Family { name: "qwen2moe", tied: Some(false), keys: weighted_experts, down_gain: MOE_DOWN_GAIN, ..QWEN2 };

/// Qwen 3 Next: linear attention, attention with a gated output, and experts.
pub static QWEN3NEXT: Family = Family {
    name: "qwen3next",
    keys: |spec| {
        let mut keys = weighted_experts(spec);
        keys.extend(linear_attention(spec));
        keys
    },
    down_gain: MOE_DOWN_GAIN,
    ..QWEN3
};

/// Qwen 3.5, dense.
pub static QWEN35: Family =
    Family { name: "qwen35", pre_tokenizer: "qwen35", keys: linear_attention_with_sections, ..QWEN3 };

/// Qwen 3.5 with experts.
pub static QWEN35MOE: Family = Family {
    name: "qwen35moe",
    pre_tokenizer: "qwen35",
    keys: |spec| {
        let mut keys = weighted_experts(spec);
        keys.extend(linear_attention_with_sections(spec));
        keys
    },
    ..QWEN3NEXT
};

/// Nemotron H: each layer is an MLP of squared ReLU, attention without positions, or a state space model.
pub static NEMOTRON_H: Family = Family {
    name: "nemotron_h",
    pre_tokenizer: "pixtral",
    layers: 3,
    keys: |spec| {
        let mut keys = state_spaces(spec, 2);
        keys.extend(single_parts(spec));
        keys.extend(layer_norm(spec));
        keys
    },
    has_tensor: |name| name.ends_with(".ssm_conv1d.bias"),
    down_gain: 0.5,
    ..PLAIN
};

/// Nemotron 3: experts of squared ReLU and a shared one instead of MLPs.
pub static NEMOTRON_H_MOE: Family = Family {
    name: "nemotron_h_moe",
    keys: |spec| {
        let mut keys = (NEMOTRON_H.keys)(spec);
        keys.extend(weighted_experts(spec));
        keys.extend([("expert_weights_norm", true.into()), ("expert_weights_scale", 1.5f32.into())]);
        keys.extend([("expert_group_count", 1u32.into()), ("expert_shared_count", 1u32.into())]);
        keys
    },
    has_tensor: |name| name.ends_with("exp_probs_b.bias") || (NEMOTRON_H.has_tensor)(name),
    ..NEMOTRON_H
};

/// The same with experts that work on projections of half the width.
pub static NEMOTRON_H_LATENT: Family = Family {
    keys: |spec| {
        let latent = u32::try_from(spec.width / 2).expect("a width fits into a u32");
        let mut keys = (NEMOTRON_H_MOE.keys)(spec);
        keys.push(("moe_latent_size", latent.into()));
        keys
    },
    ..NEMOTRON_H_MOE
};

/// OLMo 2: norms over outputs of parts, and over whole rows of queries and keys.
pub static OLMO2: Family = Family { name: "olmo2", tied: Some(false), ..PLAIN };

/// OLMoE: experts as wide as an MLP, and norms over whole rows of queries and keys.
pub static OLMOE: Family =
    Family { tied: Some(false), name: "olmoe", keys: wide_experts, down_gain: MOE_DOWN_GAIN, ..PLAIN };

/// Phi 2: parallel parts with one norm, LayerNorm, biases everywhere.
pub static PHI2: Family = Family {
    name: "phi2",
    pre_tokenizer: "phi-2",
    tied: Some(false),
    keys: layer_norm_and_partial_rotation,
    has_tensor: |name| name.ends_with(".bias"),
    down_gain: 0.5,
    ..PLAIN
};

/// Phi 3: fused tensors.
pub static PHI3: Family = Family { name: "phi3", ..PLAIN };

/// Seed-OSS: biases on queries, keys and values.
pub static SEED_OSS: Family = Family { name: "seed_oss", pre_tokenizer: "seed-coder", ..QWEN2 };

/// SmolLM 3: no rotation in every fourth layer.
pub static SMOLLM3: Family = Family { name: "smollm3", pre_tokenizer: "smaug-bpe", ..PLAIN };

/// StableLM: LayerNorm, half of each head rotated, biases on queries, keys and values.
pub static STABLELM: Family = Family {
    name: "stablelm",
    pre_tokenizer: "stablelm2",
    tied: Some(false),
    keys: layer_norm_and_partial_rotation,
    has_tensor: |name| name.ends_with("_norm.bias") || (QWEN2.has_tensor)(name),
    ..PLAIN
};

/// StarCoder 2: LayerNorm, and biases everywhere.
///
/// Without a gate, elements inside its MLP have a mean of 0.28 (GELU of a normal variable). So a part of the MLP's
/// output is the same for every token and raises the same logits. Without `down_gain`, logits would be ambiguous at up
/// to 1/8 of the positions.
pub static STARCODER2: Family = Family {
    name: "starcoder2",
    pre_tokenizer: "starcoder",
    keys: layer_norm,
    has_tensor: is_layer_bias,
    down_gain: 0.5,
    ..PLAIN
};

/// BERT: learned positions, norms of sums, biases everywhere.
pub static BERT: Family = Family {
    name: "bert",
    word_pieces: true,
    tied: Some(false),
    keys: encoder,
    has_tensor: |name| name == "token_types.weight" || is_layer_bias(name),
    ..PLAIN
};

/// BERT that scores pairs of texts.
pub static CROSS_ENCODER: Family = Family {
    keys: |spec| {
        let mut keys = encoder(spec);
        keys.push((Pooling::KEY, Pooling::Rank.into()));
        keys
    },
    has_tensor: |name| name == "cls.weight" || (BERT.has_tensor)(name),
    ..BERT
};

/// EmbeddingGemma: Gemma 3 in both directions, with two matrices behind the mean.
pub static GEMMA_EMBEDDING: Family = Family {
    name: "gemma-embedding",
    tied: Some(false),
    keys: |spec| {
        let width = u32::try_from(spec.width).expect("a width fits into a u32");
        let mut keys = (GEMMA3.keys)(spec);
        keys.extend([(Pooling::KEY, Pooling::Mean.into()), ("dense_2_feat_in", width.into())]);
        keys.extend([("dense_2_feat_out", 48u32.into()), ("dense_3_feat_in", 48u32.into())]);
        keys.push(("dense_3_feat_out", width.into()));
        keys
    },
    has_tensor: |name| matches!(name, "dense_2.weight" | "dense_3.weight"),
    ..GEMMA3
};

/// Nomic Embed: rotary positions, a gated MLP, biases in norms only.
pub static NOMIC_BERT: Family = Family {
    name: "nomic-bert",
    rope_base: 1000.0,
    has_tensor: |name| name == "token_types.weight" || name.ends_with("_norm.bias"),
    ..BERT
};

/// Qwen 3 with the last row as the vector of a text.
pub static QWEN3_EMBEDDING: Family = Family { keys: |_| vec![(Pooling::KEY, Pooling::Last.into())], ..QWEN3 };

/// T5 1.1: MLPs with gates, a separate output matrix.
pub static T5: Family = Family {
    name: "t5",
    tied: Some(false),
    keys: |_| vec![("attention.relative_buckets_count", 32u32.into()), ("decoder_start_token_id", 3u32.into())],
    has_tensor: |name| name.ends_with(".ffn_gate.weight"),
    unscaled_scores: true,
    ..PLAIN
};

/// T5 of the first version: no gates, and the embedding is the output matrix.
pub static T5_PLAIN: Family = Family { tied: Some(true), has_tensor: |_| false, ..T5 };

/// [`T5_PLAIN`] with another number of layers in the decoder.
pub static T5_UNEVEN: Family = Family {
    keys: |spec| {
        let mut keys = (T5.keys)(spec);
        keys.push(("decoder_block_count", 3u32.into()));
        keys
    },
    ..T5_PLAIN
};

/// All families with an encoder and a decoder, in the order of `cairn_models::ENCODER_DECODERS`.
pub static ENCODER_DECODERS: &[&Family] = &[&T5];

/// All encoders, in the order of `cairn_models::ENCODERS`.
pub static ENCODERS: &[&Family] = &[&BERT, &GEMMA_EMBEDDING, &NOMIC_BERT];

/// All families of decoders, in the order of `cairn_models::ARCHITECTURES`.
#[rustfmt::skip]
pub static ALL: &[&Family] = &[
    &COMMAND_R,
    &COHERE2,
    &DEEPSEEK2,
    &DOTS1,
    &ERNIE4_5_MOE,
    &EXAONE4,
    &FALCON,
    &GEMMA,
    &GEMMA2,
    &GEMMA3,
    &GEMMA3N,
    &GEMMA4,
    &GLM4,
    &GLM4MOE,
    &GPT2,
    &GPT_OSS,
    &GPTNEOX,
    &GRANITE,
    &GRANITE_MOE,
    &GRANITE_HYBRID,
    &HUNYUAN_DENSE,
    &LFM2,
    &LFM2MOE,
    &LLAMA,
    &ERNIE4_5,
    &MISTRAL3,
    &LLAMA4,
    &NEMOTRON_H,
    &NEMOTRON_H_MOE,
    &OLMO2,
    &OLMOE,
    &PHI2,
    &PHI3,
    &QWEN2,
    &EXAONE,
    &QWEN2VL,
    &QWEN2MOE,
    &QWEN3,
    &QWEN3VL,
    &QWEN3MOE,
    &QWEN3VLMOE,
    &QWEN3NEXT,
    &QWEN35,
    &QWEN35MOE,
    &SEED_OSS,
    &SMOLLM3,
    &STABLELM,
    &STARCODER2,
];
