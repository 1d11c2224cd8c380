//! Keys of the configs of families with names of their own.

use cairn_gguf::{Metadata, Value as Number};
use serde_json::{Value, json};

use super::super::CheckpointSpec;
use super::super::layout::EXTRA_TOKENS;
use crate::spec::ModelSpec;

/// Families without a size of heads in their configs.
pub(super) const WITHOUT_HEAD: [&str; 13] = [
    "command-r",
    "cohere2",
    "deepseek2",
    "exaone",
    "falcon",
    "gpt2",
    "gptneox",
    "granitehybrid",
    "lfm2",
    "lfm2moe",
    "phi2",
    "qwen2vl",
    "stablelm",
];

/// Numbers and flags of a model's metadata.
struct Facts<'a> {
    family: &'a str,
    metadata: &'a Metadata,
}

impl Facts<'_> {
    fn get(&self, key: &str) -> Option<Value> {
        match self.metadata.get(&format!("{}.{key}", self.family)) {
            Some(Number::U32(value)) => Some(json!(value)),
            Some(Number::F32(value)) => Some(json!(value)),
            Some(Number::Bool(value)) => Some(json!(value)),
            _ => None,
        }
    }

    fn count(&self, key: &str) -> u64 {
        self.get(key).and_then(|value| value.as_u64()).unwrap_or_else(|| panic!("{} has no {key}", self.family))
    }
}

/// Adds the keys of a family.
pub(super) fn add(spec: &CheckpointSpec, metadata: &Metadata, config: &mut Value) {
    let ModelSpec { family, layers, kv_heads, head_dim, ffn, .. } = spec.model;
    let family = family.name;
    let facts = Facts { family, metadata };
    let kinds = |first: &str, second: &str| -> Value {
        (0..layers).map(|layer| json!(if layer % 2 == 0 { first } else { second })).collect()
    };
    const SPARSE: &[(&str, &str)] = &[
        ("expert_count", "n_routed_experts"),
        ("none", "num_local_experts"),
        ("expert_shared_count", "n_shared_experts"),
        ("leading_dense_block_count", "first_k_dense_replace"),
        ("expert_weights_scale", "routed_scaling_factor"),
        ("expert_weights_norm", "norm_topk_prob"),
    ];
    match family {
        "command-r" => copy(config, &facts, &[("logit_scale", "logit_scale")]),
        "cohere2" => {
            copy(config, &facts, &[("logit_scale", "logit_scale")]);
            config["rotary_pct"] = json!(0.5);
        }
        "deepseek2" => {
            copy(config, &facts, SPARSE);
            copy(
                config,
                &facts,
                &[("attention.kv_lora_rank", "kv_lora_rank"), ("attention.q_lora_rank", "q_lora_rank")],
            );
            copy(
                config,
                &facts,
                &[("rope.dimension_count", "qk_rope_head_dim"), ("attention.value_length_mla", "v_head_dim")],
            );
            copy(config, &facts, &[("expert_group_count", "n_group"), ("expert_group_used_count", "topk_group")]);
            let plain = facts.count("attention.key_length_mla") - facts.count("rope.dimension_count");
            config["qk_nope_head_dim"] = json!(plain);
            config["scoring_func"] = json!("sigmoid");
            config["topk_method"] = json!("noaux_tc");
            // Each head has keys and values of its own, from one latent state.
            config["num_key_value_heads"] = config["num_attention_heads"].clone();
            config["moe_layer_freq"] = json!(1);
        }
        "dots1" | "glm4moe" => {
            copy(config, &facts, SPARSE);
            if family == "glm4moe" {
                config["partial_rotary_factor"] = json!(1.0);
            } else {
                config["scoring_func"] = json!("sigmoid");
            }
        }
        "gemma" => config["hidden_act"] = json!("gelu_pytorch_tanh"),
        "gemma3n" => {
            config["hidden_activation"] = json!("gelu_pytorch_tanh");
            config["hidden_act"] = Value::Null;
            config["layer_types"] = kinds("sliding_attention", "full_attention");
            config["rope_local_base_freq"] = json!(10_000.0);
            config["intermediate_size"] = json!(vec![ffn; layers as usize]);
            config["activation_sparsity_pattern"] = json!(vec![0.95; layers as usize]);
            config["vocab_size_per_layer_input"] = json!(spec.model.vocab);
            config["vocab_size"] = json!(spec.model.vocab + EXTRA_TOKENS);
            config["altup_coef_clip"] = json!(120.0);
            config["laurel_rank"] = json!(64);
            copy(config, &facts, &[("altup.num_inputs", "altup_num_inputs"), ("altup.active_idx", "altup_active_idx")]);
            copy(config, &facts, &[("attention.shared_kv_layers", "num_kv_shared_layers")]);
            copy(config, &facts, &[("embedding_length_per_layer_input", "hidden_size_per_layer_input")]);
        }
        "gemma4" => {
            config["hidden_activation"] = json!("gelu_pytorch_tanh");
            config["hidden_act"] = Value::Null;
            copy(config, &facts, &[("expert_count", "num_experts"), ("none", "num_local_experts")]);
            copy(config, &facts, &[("expert_used_count", "top_k_experts"), ("none", "num_experts_per_tok")]);
            config["num_kv_shared_layers"] = facts.get("attention.shared_kv_layers").unwrap_or(json!(0));
            copy(config, &facts, &[("embedding_length_per_layer_input", "hidden_size_per_layer_input")]);
            copy(config, &facts, &[("attention.key_length_swa", "head_dim")]);
            config["global_head_dim"] = json!(head_dim);
            config["num_global_key_value_heads"] = json!(kv_heads / 2);
            config["attention_k_eq_v"] = json!(true);
            config["use_double_wide_mlp"] = json!(facts.get("feed_forward_length").is_none());
            config["layer_types"] = kinds("sliding_attention", "full_attention");
            let full = json!({"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": config["rope_theta"].take()});
            let local = json!({"rope_type": "default", "rope_theta": 10_000.0});
            config["rope_parameters"] = json!({"full_attention": full, "sliding_attention": local});
        }
        "glm4" | "stablelm" | "phi2" => {
            config["partial_rotary_factor"] = json!(0.5);
            if family == "phi2" {
                config["hidden_act"] = json!("gelu_new");
            }
        }
        "ernie4_5-moe" => {
            copy(config, &facts, &[("expert_count", "moe_num_experts"), ("none", "num_local_experts")]);
            copy(config, &facts, &[("expert_used_count", "moe_k"), ("none", "num_experts_per_tok")]);
            copy(config, &facts, &[("leading_dense_block_count", "moe_layer_start_index")]);
            copy(config, &facts, &[("interleave_moe_layer_step", "moe_layer_interval")]);
            let inner = facts.count("expert_feed_forward_length");
            config["moe_num_shared_experts"] = json!(facts.count("expert_shared_feed_forward_length") / inner);
            config["moe_layer_end_index"] = json!(layers - 1);
        }
        "exaone" => {
            config["num_layers"] = json!(layers);
            config["num_hidden_layers"] = Value::Null;
            config["activation_function"] = json!("silu");
        }
        "falcon" => {
            config["new_decoder_architecture"] = json!(true);
            config["num_kv_heads"] = json!(kv_heads);
            config["num_key_value_heads"] = Value::Null;
            config["hidden_act"] = Value::Null;
            config["ffn_hidden_size"] = json!(ffn);
            config["intermediate_size"] = Value::Null;
        }
        "gpt2" => {
            for (key, old) in [
                ("n_layer", "num_hidden_layers"),
                ("n_embd", "hidden_size"),
                ("n_head", "num_attention_heads"),
                ("n_inner", "intermediate_size"),
                ("n_positions", "max_position_embeddings"),
            ] {
                let value = config[old].take();
                config[key] = value;
            }
            config["n_ctx"] = config["n_positions"].clone();
            config["activation_function"] = json!("gelu_new");
            config["hidden_act"] = Value::Null;
            config["num_key_value_heads"] = Value::Null;
        }
        "gptneox" => {
            copy(config, &facts, &[("use_parallel_residual", "use_parallel_residual")]);
            config["rotary_pct"] = json!(0.5);
            config["hidden_act"] = json!("gelu");
            config["num_key_value_heads"] = Value::Null;
        }
        "granitehybrid" => {
            config["layer_types"] = kinds("mamba", "attention");
            state_space(&facts, &mut |key, value| config[key] = value);
            config["mamba_expand"] = json!(facts.count("ssm.inner_size") / spec.model.width);
            let shared = facts.get("expert_shared_feed_forward_length");
            config["shared_intermediate_size"] = shared.unwrap_or(json!(ffn));
            config["num_local_experts"] = facts.get("expert_count").unwrap_or(json!(0));
        }
        "lfm2" | "lfm2moe" => {
            config["layer_types"] = kinds("conv", "full_attention");
            copy(
                config,
                &facts,
                &[("shortconv.l_cache", "conv_L_cache"), ("leading_dense_block_count", "num_dense_layers")],
            );
            if family == "lfm2" {
                copy(config, &facts, &[("feed_forward_length", "block_ff_dim"), ("none", "intermediate_size")]);
                config["block_auto_adjust_ff_dim"] = json!(false);
                config["block_ffn_dim_multiplier"] = json!(1.0);
                config["block_multiple_of"] = json!(256);
            } else {
                copy(config, &facts, &[("expert_count", "num_experts"), ("none", "num_local_experts")]);
                config["norm_topk_prob"] = json!(true);
            }
        }
        "llama4" => {
            copy(
                config,
                &facts,
                &[("expert_feed_forward_length", "intermediate_size"), ("none", "moe_intermediate_size")],
            );
            copy(config, &facts, &[("interleave_moe_layer_step", "interleave_moe_layer_step")]);
            copy(config, &facts, &[("attention.chunk_size", "attention_chunk_size")]);
            copy(
                config,
                &facts,
                &[("attention.temperature_length", "floor_scale"), ("attention.temperature_scale", "attn_scale")],
            );
            config["intermediate_size_mlp"] = json!(ffn);
            config["use_qk_norm"] = json!(true);
            config["no_rope_layers"] = (0..layers).map(|layer| json!(u8::from(layer % 4 != 3))).collect();
        }
        "nemotron_h" | "nemotron_h_moe" => {
            copy(config, &facts, &[("expert_count", "n_routed_experts"), ("none", "num_local_experts")]);
            copy(config, &facts, &[("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size")]);
            copy(config, &facts, &[("expert_shared_count", "n_shared_experts"), ("expert_group_count", "n_group")]);
            copy(
                config,
                &facts,
                &[("expert_weights_norm", "norm_topk_prob"), ("expert_weights_scale", "routed_scaling_factor")],
            );
            copy(config, &facts, &[("moe_latent_size", "moe_latent_size")]);
            config["hidden_act"] = Value::Null;
            config["mlp_hidden_act"] = json!("relu2");
            config["attention_head_dim"] = json!(head_dim);
            let is_moe = family == "nemotron_h_moe";
            let letter = |layer: u64| match layer % 3 {
                0 if is_moe => 'E',
                0 => '-',
                1 => '*',
                _ => 'M',
            };
            config["hybrid_override_pattern"] = json!((0..layers).map(letter).collect::<String>());
            config["head_dim"] = Value::Null;
            for (from, to) in [
                ("conv_kernel", "conv_kernel"),
                ("state_size", "ssm_state_size"),
                ("group_count", "n_groups"),
                ("time_step_rank", "mamba_num_heads"),
            ] {
                config[to] = json!(facts.count(&format!("ssm.{from}")));
            }
            config["mamba_head_dim"] = json!(facts.count("ssm.inner_size") / facts.count("ssm.time_step_rank"));
        }
        "qwen3vlmoe" => {
            copy(config, &facts, &[("expert_count", "num_experts"), ("none", "num_local_experts")]);
            config["norm_topk_prob"] = json!(true);
            config["decoder_sparse_step"] = json!(1);
            config["mlp_only_layers"] = json!([]);
        }
        "qwen3next" | "qwen35" | "qwen35moe" => {
            copy(
                config,
                &facts,
                &[("ssm.conv_kernel", "linear_conv_kernel_dim"), ("ssm.state_size", "linear_key_head_dim")],
            );
            copy(
                config,
                &facts,
                &[("ssm.group_count", "linear_num_key_heads"), ("ssm.time_step_rank", "linear_num_value_heads")],
            );
            copy(config, &facts, &[("expert_count", "num_experts"), ("none", "num_local_experts")]);
            copy(config, &facts, &[("expert_shared_feed_forward_length", "shared_expert_intermediate_size")]);
            config["linear_value_head_dim"] = json!(facts.count("ssm.inner_size") / facts.count("ssm.time_step_rank"));
            config["layer_types"] = kinds("linear_attention", "full_attention");
            config["full_attention_interval"] = json!(2);
            config["partial_rotary_factor"] = json!(0.5);
        }
        _ => {}
    }
}

/// Copies values of a model's metadata; a key without a value is removed.
fn copy(config: &mut Value, facts: &Facts<'_>, pairs: &[(&str, &str)]) {
    for (from, to) in pairs {
        config[*to] = facts.get(from).unwrap_or(Value::Null);
    }
}

/// Adds the sizes of Granite's state space models.
fn state_space(facts: &Facts<'_>, set: &mut dyn FnMut(&str, Value)) {
    for (from, to) in [
        ("conv_kernel", "mamba_d_conv"),
        ("state_size", "mamba_d_state"),
        ("group_count", "mamba_n_groups"),
        ("time_step_rank", "mamba_n_heads"),
    ] {
        set(to, json!(facts.count(&format!("ssm.{from}"))));
    }
    set("mamba_d_head", json!(facts.count("ssm.inner_size") / facts.count("ssm.time_step_rank")));
}

/// Returns the config of a T5.
pub(super) fn t5(spec: &CheckpointSpec, metadata: &Metadata) -> Value {
    let ModelSpec { family, layers, width, heads, head_dim, ffn, vocab, context, .. } = spec.model;
    let facts = Facts { family: family.name, metadata };
    let has_gates = (family.has_tensor)("enc.blk.0.ffn_gate.weight");
    let mut config = json!({
        "architectures": [spec.architecture],
        "model_type": "t5",
        "_name_or_path": "someone/tiny",
        "num_layers": layers,
        "d_model": width,
        "d_kv": head_dim,
        "d_ff": ffn,
        "num_heads": heads,
        "n_positions": context,
        "vocab_size": vocab,
        "layer_norm_epsilon": spec.model.norm_epsilon,
        "relative_attention_num_buckets": facts.count("attention.relative_buckets_count"),
        "relative_attention_max_distance": 128,
        "decoder_start_token_id": facts.count("decoder_start_token_id"),
        "pad_token_id": 0,
        "eos_token_id": 1,
        "is_encoder_decoder": true,
        "tie_word_embeddings": spec.model.tied,
        "feed_forward_proj": if has_gates { "gated-gelu" } else { "relu" },
    });
    if let Some(layers) = facts.get("decoder_block_count") {
        config["num_decoder_layers"] = layers;
    }
    config
}

/// Moves the keys of the text part into an object of their own, beside that of the tower.
pub(super) fn nest(family: &str, has_tower: bool, metadata: &Metadata, config: Value) -> Value {
    let tower = match family {
        "qwen3vl" | "qwen3vlmoe" => {
            let layers = Facts { family, metadata }.count("n_deepstack_layers");
            json!({"depth": 4, "hidden_size": 8, "deepstack_visual_indexes": (0..layers).collect::<Vec<u64>>()})
        }
        "gemma3n" => json!({"architecture": "mobilenetv5_300m_enc", "hidden_size": 8}),
        "gemma4" => json!({"model_type": "gemma4_vision", "hidden_size": 8}),
        "mistral3" => json!({"model_type": "pixtral", "hidden_size": 8}),
        "gemma3" | "llama" if has_tower => Value::Null,
        _ => return config,
    };
    let shared = |key: &str| config[key].clone();
    let mut text = config.clone();
    match family {
        "gemma3" => text["model_type"] = json!("gemma3_text"),
        "gemma4" => text["model_type"] = json!("gemma4_text"),
        "llama" => text["model_type"] = json!("llama"),
        "mistral3" => text["model_type"] = json!("ministral3"),
        _ => {}
    }
    json!({"architectures": shared("architectures"), "model_type": shared("model_type"),
           "_name_or_path": shared("_name_or_path"), "text_config": text, "vision_config": tower})
}

/// Returns the config of Nomic's code, with the names of GPT-2.
pub(super) fn nomic_bert(spec: &CheckpointSpec) -> Value {
    let ModelSpec { layers, width, heads, ffn, vocab, context, rope_base, norm_epsilon, .. } = spec.model;
    json!({
        "architectures": [spec.architecture], "model_type": spec.model_type, "_name_or_path": "someone/tiny",
        "n_layer": layers, "n_embd": width, "n_head": heads, "n_inner": ffn, "vocab_size": vocab,
        // llama.cpp's converter accepts only the numbers of published models.
        "n_positions": 4 * context, "max_trained_positions": context,
        "activation_function": "swiglu", "causal": false, "layer_norm_epsilon": norm_epsilon,
        "mlp_fc1_bias": false, "mlp_fc2_bias": false, "qkv_proj_bias": false, "parallel_block": false, "prenorm": false,
        "rotary_emb_base": rope_base, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": false,
        "rotary_emb_scale_base": null, "rotary_scaling_factor": null, "tie_word_embeddings": true,
        "type_vocab_size": 2, "use_rms_norm": false, "torch_dtype": "float32",
    })
}

/// Adds the parameters of rotations that only some families have.
pub(super) fn add_scaling(family: &str, metadata: &Metadata, config: &mut Value) {
    let facts = Facts { family, metadata };
    let sections = match metadata.get(&format!("{family}.rope.dimension_sections")) {
        Some(Number::Array(cairn_gguf::Array::I32(sections))) => json!(sections[..3]),
        _ => Value::Null,
    };
    let number = |key: &str| facts.get(key).unwrap_or(Value::Null);
    let multiplier = facts.get("rope.scaling.yarn_log_multiplier").and_then(|value| value.as_f64());
    match family {
        "deepseek2" => {
            if config["rope_scaling"].is_null() {
                config["rope_scaling"] = json!({"type": "default"});
            }
            config["rope_scaling"]["mscale_all_dim"] = json!(multiplier.map(|multiplier| 10.0 * multiplier));
            config["rope_scaling"]["llama_4_scaling_beta"] = number("attention.temperature_scale");
            if facts.get("attention.temperature_length").is_some() {
                config["rope_scaling"]["original_max_position_embeddings"] = number("attention.temperature_length");
            }
        }
        "mistral3" => {
            config["rope_scaling"]["mscale_all_dim"] = json!(multiplier);
            config["rope_scaling"]["llama_4_scaling_beta"] = number("attention.temperature_scale");
            config["rope_scaling"]["original_max_position_embeddings"] = number("rope.scaling.original_context_length");
        }
        "qwen35" | "qwen35moe" => config["rope_scaling"] = json!({"type": "default", "mrope_section": sections}),
        "qwen2vl" => config["rope_scaling"] = json!({"type": "mrope", "mrope_section": sections}),
        "qwen3vl" | "qwen3vlmoe" => {
            let kind = json!({"rope_type": "default", "mrope_interleaved": true, "mrope_section": sections});
            config["rope_scaling"] = kind;
        }
        _ => {}
    }
}
