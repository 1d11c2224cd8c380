//! Names of tensors in checkpoints, by those in GGUF.

/// Parts of a name of GGUF.
pub(super) struct Name<'a> {
    /// The layer, if it is in one.
    layer: Option<&'a str>,
    /// Name inside the layer, without ending.
    pub(super) part: &'a str,
    /// "weight", "bias", or empty.
    pub(super) ending: &'a str,
}

impl<'a> Name<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        let (layer, inner) = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, inner)) => (Some(layer), inner),
            None => (None, name),
        };
        let (part, ending) = inner.rsplit_once('.').unwrap_or((inner, ""));
        Self { layer, part, ending }
    }

    /// Returns the name in a checkpoint without its ending; `*` is the number of an expert.
    pub(super) fn path(&self, family: &str) -> Option<String> {
        let path = match self.layer {
            // Factors beside matrices.
            Some(_) if self.ending == "scale" && self.part == "ffn_gate_inp" => "router.scale",
            Some(_) if self.ending == "scale" => "router.per_expert_scale",
            Some(_) => part(family, self.part)?,
            None => table(family, self.part)?,
        };
        let layers = match family {
            "exaone" | "falcon" | "gpt2" => "transformer.h.",
            "gemma-embedding" => "layers.",
            "nomic-bert" => "encoder.layers.",
            "gptneox" => "gpt_neox.layers.",
            "nemotron_h" | "nemotron_h_moe" => "backbone.layers.",
            "qwen3vl" | "qwen3vlmoe" | "gemma3n" => "model.language_model.layers.",
            _ => "model.layers.",
        };
        Some(self.layer.map_or_else(|| path.to_owned(), |layer| format!("{layers}{layer}.{path}")))
    }
}

/// Whether a name in a checkpoint has no further ending.
pub(super) fn is_whole(path: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_gemma = ["layer_scalar", "scale", "per_expert_scale", "correct_output_scale"].contains(&last)
        || path.contains(".experts.gate_up")
        || path.ends_with(".experts.down_proj");
    let is_stacked = is_gemma || path.contains("feed_forward.experts.") && last != "w1" && last != "w2" && last != "w3";
    last.ends_with("_bias") && last != "relative_attention_bias" || last == "A_log" || last == "D" || is_stacked
}

/// Returns the name of a matrix of a vision tower that cannot be converted, if the family has one.
pub(in super::super) fn tower(family: &str) -> Option<&'static str> {
    match family {
        "gemma3n" => Some("model.embed_vision.embedding_projection"),
        _ => None,
    }
}

/// Returns the name of a tensor outside of layers.
fn table(family: &str, part: &str) -> Option<&'static str> {
    let path = match (family, part) {
        ("exaone" | "gpt2", "token_embd") => "transformer.wte",
        ("gpt2", "position_embd") => "transformer.wpe",
        ("falcon", "token_embd") => "transformer.word_embeddings",
        ("gptneox", "token_embd") => "gpt_neox.embed_in",
        ("nemotron_h" | "nemotron_h_moe", "token_embd") => "backbone.embeddings",
        ("qwen3vl" | "qwen3vlmoe" | "gemma3n", "token_embd") => "model.language_model.embed_tokens",
        ("gemma-embedding", "token_embd") => "embed_tokens",
        ("gemma-embedding", "output_norm") => "norm",
        ("gemma-embedding", "dense_2") => "2_Dense/linear",
        ("gemma-embedding", "dense_3") => "3_Dense/linear",
        ("nomic-bert", "token_embd") => "embeddings.word_embeddings",
        ("nomic-bert", "token_types") => "embeddings.token_type_embeddings",
        ("nomic-bert", "token_embd_norm") => "emb_ln",
        (_, "token_embd") => "model.embed_tokens",
        ("exaone" | "falcon" | "gpt2", "output_norm") => "transformer.ln_f",
        ("gptneox", "output_norm") => "gpt_neox.final_layer_norm",
        ("lfm2" | "lfm2moe", "token_embd_norm") => "model.embedding_norm",
        ("nemotron_h" | "nemotron_h_moe", "output_norm") => "backbone.norm_f",
        ("phi2", "output_norm") => "model.final_layernorm",
        ("qwen3vl" | "qwen3vlmoe" | "gemma3n", "output_norm") => "model.language_model.norm",
        (_, "output_norm") => "model.norm",
        ("gemma4", "per_layer_token_embd") => "model.embed_tokens_per_layer",
        ("gemma4", "per_layer_model_proj") => "model.per_layer_model_projection",
        ("gemma4", "per_layer_proj_norm") => "model.per_layer_projection_norm",
        ("gemma3n", "per_layer_token_embd") => "model.language_model.embed_tokens_per_layer",
        ("gemma3n", "per_layer_model_proj") => "model.language_model.per_layer_model_projection",
        ("gemma3n", "per_layer_proj_norm") => "model.language_model.per_layer_projection_norm",
        ("gemma3n", "altup_proj") => "model.language_model.altup_projections.*",
        ("gemma3n", "altup_unembd_proj") => "model.language_model.altup_unembed_projections.*",
        ("gptneox", "output") => "embed_out",
        (_, "output") => "lm_head",
        _ => return None,
    };
    Some(path)
}

/// Returns the name of a tensor inside a layer.
fn part(family: &str, part: &str) -> Option<&'static str> {
    let of_family = match family {
        "deepseek2" => latent(part),
        "ernie4_5-moe" if part == "exp_probs_b" => Some("mlp.moe_statics.e_score_correction_bias"),
        "ernie4_5-moe" => sparse(part),
        "dots1" | "glm4moe" => sparse(part),
        "exaone" => match part {
            "attn_output" => Some("attn.attention.out_proj"),
            "ffn_gate" => Some("mlp.c_fc_0"),
            "ffn_up" => Some("mlp.c_fc_1"),
            "ffn_down" => Some("mlp.c_proj"),
            part => gpt2(part),
        },
        "falcon" => falcon(part),
        "gemma3n" => gemma3n(part),
        "gemma4" => gemma4(part),
        "glm4" => glm4(part),
        "gpt2" => match part {
            "attn_output" => Some("attn.c_proj"),
            "ffn_up" => Some("mlp.c_fc"),
            "ffn_down" => Some("mlp.c_proj"),
            part => gpt2(part),
        },
        "gptneox" => gptneox(part),
        "granitehybrid" => state_space("mamba", part),
        "hunyuan-dense" => match part {
            "attn_q_norm" => Some("self_attn.query_layernorm"),
            "attn_k_norm" => Some("self_attn.key_layernorm"),
            _ => None,
        },
        "lfm2" | "lfm2moe" => lfm2(part),
        "llama4" => llama4(part),
        "nemotron_h" | "nemotron_h_moe" => state_space("mixer", part).or_else(|| nemotron(part)),
        "phi2" => match part {
            "attn_output" => Some("self_attn.dense"),
            "ffn_up" => Some("mlp.fc1"),
            "ffn_down" => Some("mlp.fc2"),
            _ => None,
        },
        "nomic-bert" => match part {
            "attn_qkv" => Some("attn.Wqkv"),
            "attn_output" => Some("attn.out_proj"),
            "attn_output_norm" => Some("norm1"),
            "ffn_up" => Some("mlp.fc11"),
            "ffn_gate" => Some("mlp.fc12"),
            "ffn_down" => Some("mlp.fc2"),
            "layer_output_norm" => Some("norm2"),
            _ => None,
        },
        "qwen3next" | "qwen35" | "qwen35moe" => linear(family, part),
        _ => None,
    };
    of_family.or_else(|| common(family, part))
}

fn common(family: &str, part: &str) -> Option<&'static str> {
    let path = match (family, part) {
        (_, "attn_norm") => "input_layernorm",
        (_, "attn_q") => "self_attn.q_proj",
        (_, "attn_k") => "self_attn.k_proj",
        (_, "attn_v") => "self_attn.v_proj",
        (_, "attn_qkv") => "self_attn.qkv_proj",
        (_, "attn_output") => "self_attn.o_proj",
        (_, "attn_q_norm") => "self_attn.q_norm",
        (_, "attn_k_norm") => "self_attn.k_norm",
        (_, "attn_sinks") => "self_attn.sinks",
        (_, "post_attention_norm") => "post_attention_layernorm",
        (_, "post_ffw_norm") => "post_feedforward_layernorm",
        ("gemma2" | "gemma3" | "gemma-embedding", "ffn_norm") => "pre_feedforward_layernorm",
        (_, "ffn_norm") => "post_attention_layernorm",
        ("phi3", "ffn_up") => "mlp.gate_up_proj",
        ("starcoder2", "ffn_up") => "mlp.c_fc",
        ("starcoder2", "ffn_down") => "mlp.c_proj",
        ("granitehybrid", "ffn_gate" | "ffn_up") => "shared_mlp.input_linear",
        ("granitehybrid", "ffn_down") => "shared_mlp.output_linear",
        (_, "ffn_gate") => "mlp.gate_proj",
        (_, "ffn_up") => "mlp.up_proj",
        (_, "ffn_down") => "mlp.down_proj",
        ("llama", "ffn_gate_inp") => "block_sparse_moe.gate",
        ("llama", "ffn_gate_exps") => "block_sparse_moe.experts.*.w1",
        ("llama", "ffn_down_exps") => "block_sparse_moe.experts.*.w2",
        ("llama", "ffn_up_exps") => "block_sparse_moe.experts.*.w3",
        ("granitemoe" | "granitehybrid", "ffn_gate_inp") => "block_sparse_moe.router.layer",
        ("granitemoe" | "granitehybrid", "ffn_gate_exps" | "ffn_up_exps") => "block_sparse_moe.input_linear",
        ("granitemoe" | "granitehybrid", "ffn_down_exps") => "block_sparse_moe.output_linear",
        ("granitemoe" | "granitehybrid", "ffn_gate_shexp" | "ffn_up_shexp") => "shared_mlp.input_linear",
        ("granitemoe" | "granitehybrid", "ffn_down_shexp") => "shared_mlp.output_linear",
        (_, "ffn_gate_shexp") => "mlp.shared_expert.gate_proj",
        (_, "ffn_up_shexp") => "mlp.shared_expert.up_proj",
        (_, "ffn_down_shexp") => "mlp.shared_expert.down_proj",
        (_, "ffn_gate_inp_shexp") => "mlp.shared_expert_gate",
        ("gpt-oss", "ffn_gate_inp") => "mlp.router",
        ("gpt-oss", "ffn_gate_exps" | "ffn_up_exps") => "mlp.experts.gate_up_proj",
        ("gpt-oss", "ffn_down_exps") => "mlp.experts.down_proj",
        (_, "ffn_gate_inp") => "mlp.gate",
        ("qwen3vlmoe", "ffn_gate_exps" | "ffn_up_exps") => "mlp.experts.gate_up_proj",
        ("qwen3vlmoe", "ffn_down_exps") => "mlp.experts.down_proj",
        (_, "ffn_gate_exps") => "mlp.experts.*.gate_proj",
        (_, "ffn_up_exps") => "mlp.experts.*.up_proj",
        (_, "ffn_down_exps") => "mlp.experts.*.down_proj",
        (_, "exp_probs_b") => "mlp.gate.e_score_correction_bias",
        _ => return None,
    };
    Some(path)
}

/// Shared experts of the families after DeepSeek.
fn sparse(part: &str) -> Option<&'static str> {
    match part {
        "ffn_gate_shexp" => Some("mlp.shared_experts.gate_proj"),
        "ffn_up_shexp" => Some("mlp.shared_experts.up_proj"),
        "ffn_down_shexp" => Some("mlp.shared_experts.down_proj"),
        _ => None,
    }
}

fn latent(part: &str) -> Option<&'static str> {
    match part {
        "attn_q_a" => Some("self_attn.q_a_proj"),
        "attn_q_a_norm" => Some("self_attn.q_a_layernorm"),
        "attn_q_b" => Some("self_attn.q_b_proj"),
        "attn_kv_a_mqa" => Some("self_attn.kv_a_proj_with_mqa"),
        "attn_kv_a_norm" => Some("self_attn.kv_a_layernorm"),
        "attn_k_b" | "attn_v_b" => Some("self_attn.kv_b_proj"),
        part => sparse(part),
    }
}

fn glm4(part: &str) -> Option<&'static str> {
    match part {
        "post_attention_norm" => Some("post_self_attn_layernorm"),
        "ffn_norm" => Some("post_attention_layernorm"),
        "post_ffw_norm" => Some("post_mlp_layernorm"),
        "ffn_up" => Some("mlp.gate_up_proj"),
        _ => None,
    }
}

fn gemma3n(part: &str) -> Option<&'static str> {
    match part {
        "altup_correct_scale" => Some("altup.correct_output_scale"),
        "altup_correct_coef" => Some("altup.correction_coefs"),
        "altup_predict_coef" => Some("altup.prediction_coefs"),
        "altup_router" => Some("altup.modality_router"),
        "altup_router_norm" => Some("altup.router_norm"),
        "laurel_l" => Some("laurel.linear_left"),
        "laurel_r" => Some("laurel.linear_right"),
        "laurel_post_norm" => Some("laurel.post_laurel_norm"),
        part => gemma4(part),
    }
}

fn gemma4(part: &str) -> Option<&'static str> {
    match part {
        "ffn_norm" => Some("pre_feedforward_layernorm"),
        "inp_gate" => Some("per_layer_input_gate"),
        "proj" => Some("per_layer_projection"),
        "post_norm" => Some("post_per_layer_input_norm"),
        "layer_output_scale" => Some("layer_scalar"),
        "post_ffw_norm_1" => Some("post_feedforward_layernorm_1"),
        "pre_ffw_norm_2" => Some("pre_feedforward_layernorm_2"),
        "post_ffw_norm_2" => Some("post_feedforward_layernorm_2"),
        "ffn_gate_inp" => Some("router.proj"),
        "ffn_gate_up_exps" => Some("experts.gate_up_proj"),
        "ffn_down_exps" => Some("experts.down_proj"),
        _ => None,
    }
}

/// GPT-2 and EXAONE 3.
fn gpt2(part: &str) -> Option<&'static str> {
    match part {
        "attn_norm" => Some("ln_1"),
        "ffn_norm" => Some("ln_2"),
        "attn_qkv" => Some("attn.c_attn"),
        "attn_q" => Some("attn.attention.q_proj"),
        "attn_k" => Some("attn.attention.k_proj"),
        "attn_v" => Some("attn.attention.v_proj"),
        _ => None,
    }
}

fn falcon(part: &str) -> Option<&'static str> {
    match part {
        "attn_norm_2" => Some("ln_attn"),
        "attn_qkv" => Some("self_attention.query_key_value"),
        "attn_output" => Some("self_attention.dense"),
        "ffn_up" => Some("mlp.dense_h_to_4h"),
        "ffn_down" => Some("mlp.dense_4h_to_h"),
        _ => None,
    }
}

fn gptneox(part: &str) -> Option<&'static str> {
    match part {
        "attn_qkv" => Some("attention.query_key_value"),
        "attn_output" => Some("attention.dense"),
        part => falcon(part),
    }
}

fn lfm2(part: &str) -> Option<&'static str> {
    match part {
        "attn_norm" => Some("operator_norm"),
        "ffn_norm" => Some("ffn_norm"),
        "attn_output" => Some("self_attn.out_proj"),
        "attn_q_norm" => Some("self_attn.q_layernorm"),
        "attn_k_norm" => Some("self_attn.k_layernorm"),
        "shortconv.conv" => Some("conv.conv"),
        "shortconv.in_proj" => Some("conv.in_proj"),
        "shortconv.out_proj" => Some("conv.out_proj"),
        "ffn_gate" => Some("feed_forward.w1"),
        "ffn_down" => Some("feed_forward.w2"),
        "ffn_up" => Some("feed_forward.w3"),
        "ffn_gate_inp" => Some("feed_forward.gate"),
        "ffn_gate_exps" => Some("feed_forward.experts.*.w1"),
        "ffn_down_exps" => Some("feed_forward.experts.*.w2"),
        "ffn_up_exps" => Some("feed_forward.experts.*.w3"),
        "exp_probs_b" => Some("feed_forward.expert_bias"),
        _ => None,
    }
}

fn llama4(part: &str) -> Option<&'static str> {
    match part {
        "ffn_gate" => Some("feed_forward.gate_proj"),
        "ffn_up" => Some("feed_forward.up_proj"),
        "ffn_down" => Some("feed_forward.down_proj"),
        "ffn_gate_inp" => Some("feed_forward.router"),
        "ffn_gate_exps" | "ffn_up_exps" => Some("feed_forward.experts.gate_up_proj"),
        "ffn_down_exps" => Some("feed_forward.experts.down_proj"),
        "ffn_gate_shexp" => Some("feed_forward.shared_expert.gate_proj"),
        "ffn_up_shexp" => Some("feed_forward.shared_expert.up_proj"),
        "ffn_down_shexp" => Some("feed_forward.shared_expert.down_proj"),
        _ => None,
    }
}

fn nemotron(part: &str) -> Option<&'static str> {
    match part {
        "attn_norm" => Some("norm"),
        "attn_q" => Some("mixer.q_proj"),
        "attn_k" => Some("mixer.k_proj"),
        "attn_v" => Some("mixer.v_proj"),
        "attn_output" => Some("mixer.o_proj"),
        "ffn_up" => Some("mixer.up_proj"),
        "ffn_down" => Some("mixer.down_proj"),
        "ffn_gate_inp" => Some("mixer.gate"),
        "exp_probs_b" => Some("mixer.gate.e_score_correction_bias"),
        "ffn_latent_down" => Some("mixer.fc1_latent_proj"),
        "ffn_latent_up" => Some("mixer.fc2_latent_proj"),
        "ffn_up_exps" => Some("mixer.experts.*.up_proj"),
        "ffn_down_exps" => Some("mixer.experts.*.down_proj"),
        "ffn_up_shexp" => Some("mixer.shared_experts.up_proj"),
        "ffn_down_shexp" => Some("mixer.shared_experts.down_proj"),
        _ => None,
    }
}

/// State space models of Granite and Nemotron.
fn state_space(family: &str, part: &str) -> Option<&'static str> {
    match (family, part) {
        ("mamba", "ssm_in") => Some("mamba.in_proj"),
        ("mamba", "ssm_conv1d") => Some("mamba.conv1d"),
        ("mamba", "ssm_dt") => Some("mamba.dt_bias"),
        ("mamba", "ssm_a") => Some("mamba.A_log"),
        ("mamba", "ssm_d") => Some("mamba.D"),
        ("mamba", "ssm_norm") => Some("mamba.norm"),
        ("mamba", "ssm_out") => Some("mamba.out_proj"),
        (_, "ssm_in") => Some("mixer.in_proj"),
        (_, "ssm_conv1d") => Some("mixer.conv1d"),
        (_, "ssm_dt") => Some("mixer.dt_bias"),
        (_, "ssm_a") => Some("mixer.A_log"),
        (_, "ssm_d") => Some("mixer.D"),
        (_, "ssm_norm") => Some("mixer.norm"),
        (_, "ssm_out") => Some("mixer.out_proj"),
        _ => None,
    }
}

/// Linear attention of Qwen.
fn linear(family: &str, part: &str) -> Option<&'static str> {
    match (family, part) {
        ("qwen3next", "attn_qkv" | "attn_gate") => Some("linear_attn.in_proj_qkvz"),
        (_, "attn_qkv") => Some("linear_attn.in_proj_qkv"),
        (_, "attn_gate") => Some("linear_attn.in_proj_z"),
        (_, "ssm_ba") => Some("linear_attn.in_proj_ba"),
        (_, "ssm_beta") => Some("linear_attn.in_proj_b"),
        (_, "ssm_alpha") => Some("linear_attn.in_proj_a"),
        (_, "ssm_conv1d") => Some("linear_attn.conv1d"),
        (_, "ssm_dt") => Some("linear_attn.dt_bias"),
        (_, "ssm_a") => Some("linear_attn.A_log"),
        (_, "ssm_norm") => Some("linear_attn.norm"),
        (_, "ssm_out") => Some("linear_attn.out_proj"),
        _ => None,
    }
}
