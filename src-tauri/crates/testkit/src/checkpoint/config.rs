//! `config.json` of checkpoints.

mod families;

use cairn_gguf::{Metadata, Value as Number};
use serde_json::{Value, json};

use super::{CheckpointSpec, Storage, Vocabulary};
use crate::spec::{ModelSpec, RopeScaling};

/// Keys of GGUF, without the prefix of the family, and of the config.
const RENAMED: [(&str, &str); 11] = [
    ("attention.sliding_window", "sliding_window"),
    ("attention.sliding_window_pattern", "sliding_window_pattern"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
    ("embedding_scale", "embedding_multiplier"),
    ("residual_scale", "residual_multiplier"),
    ("attention.scale", "attention_multiplier"),
    ("logit_scale", "logits_scaling"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_count", "num_local_experts"),
];

pub(super) fn config(spec: &CheckpointSpec, metadata: &Metadata) -> Value {
    let ModelSpec { family, layers, width, heads, kv_heads, head_dim, ffn, vocab, context, .. } = spec.model;
    let family = family.name;
    match family {
        "t5" => return families::t5(spec, metadata),
        "nomic-bert" => return families::nomic_bert(spec),
        _ => {}
    }
    let number = |key: &str| match metadata.get(&format!("{family}.{key}")) {
        Some(Number::U32(value)) => Some(json!(value)),
        Some(Number::F32(value)) => Some(json!(value)),
        _ => None,
    };
    let mut config = json!({
        "architectures": [spec.architecture],
        "model_type": spec.model_type,
        "_name_or_path": "someone/tiny",
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": context,
        "vocab_size": vocab,
        "rope_theta": spec.model.rope_base,
        "tie_word_embeddings": spec.model.tied,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    });
    let mut set = |key: &str, value: Value| config[key] = value;
    match family {
        "starcoder2" => {
            set("norm_epsilon", json!(spec.model.norm_epsilon));
            set("hidden_act", json!("gelu_pytorch_tanh"));
            set("use_bias", json!(true));
        }
        "falcon" | "gpt2" | "exaone" | "nemotron_h" | "nemotron_h_moe" => {
            set("layer_norm_epsilon", json!(spec.model.norm_epsilon));
        }
        "command-r" | "cohere2" | "gptneox" | "phi2" | "stablelm" => {
            set("layer_norm_eps", json!(spec.model.norm_epsilon));
        }
        "lfm2" | "lfm2moe" => set("norm_eps", json!(spec.model.norm_epsilon)),
        _ => set("rms_norm_eps", json!(spec.model.norm_epsilon)),
    }
    // Configs of the other families have no size of heads.
    let without_head =
        ["phi3", "qwen2", "qwen2moe", "granite", "granitemoe", "olmo2", "olmoe", "smollm3", "starcoder2"];
    if !without_head.contains(&family) && !families::WITHOUT_HEAD.contains(&family) {
        set("head_dim", json!(head_dim));
    }
    for (from, to) in RENAMED {
        if let Some(value) = number(from) {
            set(to, value);
        }
    }
    match family {
        "gemma2" | "gemma3" | "gemma-embedding" => {
            set("hidden_act", json!("gelu_pytorch_tanh"));
            set("hidden_activation", json!("gelu_pytorch_tanh"));
            set("query_pre_attn_scalar", json!(head_dim));
            if family == "gemma-embedding" {
                set("use_bidirectional_attention", json!(true));
                set("tie_word_embeddings", Value::Null);
            }
            if family != "gemma2" {
                set("rope_local_base_freq", json!(10_000.0));
                let kinds = ["sliding_attention", "full_attention"];
                set("layer_types", (0..layers as usize).map(|layer| json!(kinds[layer % 2])).collect());
            }
        }
        "granitemoe" => {
            let shared = number("expert_shared_feed_forward_length").expect("a model with a shared expert");
            set("shared_intermediate_size", shared);
        }
        "smollm3" => {
            set("no_rope_layer_interval", json!(4));
            set("no_rope_layers", (0..layers).map(|layer| json!(u8::from(layer % 4 != 3))).collect());
        }
        "olmoe" => {
            set("num_experts", number("expert_count").expect("a model with experts"));
            set("num_local_experts", Value::Null);
            set("norm_topk_prob", json!(false));
        }
        "qwen2moe" | "qwen3moe" => {
            set("num_experts", number("expert_count").expect("a model with experts"));
            set("num_local_experts", Value::Null);
            set("norm_topk_prob", json!(family == "qwen3moe"));
            if let Some(shared) = number("expert_shared_feed_forward_length") {
                set("shared_expert_intermediate_size", shared);
            }
            set("decoder_sparse_step", json!(1));
            set("mlp_only_layers", json!([]));
        }
        // The width inside an expert.
        "gpt-oss" => {
            set("intermediate_size", number("expert_feed_forward_length").expect("a model with experts"));
            set("moe_intermediate_size", Value::Null);
            set("quantization_config", json!({"quant_method": "mxfp4"}));
        }
        "phi3" => {
            set("original_max_position_embeddings", json!(context));
            set("sliding_window", json!(1000));
        }
        _ => families::add(spec, metadata, &mut config),
    }
    let mut set = |key: &str, value: Value| config[key] = value;
    let ids = super::tokenizer::ids(spec);
    for (role, id) in [("bos", ids[0]), ("eos", ids[1]), ("pad", ids[0])] {
        set(&format!("{role}_token_id"), json!(id));
    }
    if spec.vocabulary == Vocabulary::Pieces {
        set("unk_token_id", json!(0));
    }
    if let Some(scaling) = rope_scaling(&spec.model) {
        if let RopeScaling::Long { original_context, .. } = spec.model.rope_scaling {
            set("original_max_position_embeddings", json!(original_context));
        }
        set("rope_scaling", scaling);
    }
    families::add_scaling(family, metadata, &mut config);
    let mut set = |key: &str, value: Value| config[key] = value;
    match spec.storage {
        Storage::Float(_) => {}
        Storage::Float8Blocks(block) => {
            let scheme = json!({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": block});
            set("quantization_config", scheme);
        }
        Storage::Float8Rows => {
            let weights = json!({"num_bits": 8, "type": "float", "strategy": "channel", "dynamic": false});
            let groups = json!({"group_0": {"weights": weights, "targets": ["Linear"]}});
            let scheme =
                json!({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": groups});
            set("quantization_config", scheme);
        }
    }
    let object = config.as_object_mut().expect("it is an object");
    object.retain(|_, value| !value.is_null());
    families::nest(family, spec.tower.is_some(), metadata, config)
}

fn rope_scaling(model: &ModelSpec) -> Option<Value> {
    let factors = |name: &str| model.rope_scaling.factors(name, model.rope_base, model.head_dim);
    let scaling = match model.rope_scaling {
        RopeScaling::None => return None,
        RopeScaling::Linear(factor) => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Llama3 { factor, original_context } => json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": original_context
        }),
        RopeScaling::Yarn { factor, original_context } => json!({
            "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original_context
        }),
        RopeScaling::Long { .. } => json!({
            "type": "longrope",
            "long_factor": factors("rope_factors_long.weight"),
            "short_factor": factors("rope_factors_short.weight")
        }),
    };
    Some(scaling)
}
