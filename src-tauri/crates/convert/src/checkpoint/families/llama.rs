//! Llama 1 to 3, Mistral, Mixtral, Mistral Small 3.1 and later, SmolLM 3, and the text parts of LLaVA and Pixtral, with
//! the names of the `transformers` library. Sliding windows of Mistral are left out, as in llama.cpp.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::super::config::{Config, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, NORMS, PLAIN, Row, optional_count, rotated_dims, row};
use super::super::error::{ConvertError, unsupported};

/// Experts of Mixtral.
const EXPERTS: &[Row] = &[
    row("block_sparse_moe.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("block_sparse_moe.experts.*.w1", "ffn_gate_exps", &[Dim::Width, Dim::Inner, Dim::Experts]),
    row("block_sparse_moe.experts.*.w2", "ffn_down_exps", &[Dim::Inner, Dim::Width, Dim::Experts]),
    row("block_sparse_moe.experts.*.w3", "ffn_up_exps", &[Dim::Width, Dim::Inner, Dim::Experts]),
];

pub(super) const LLAMA: Decoder = Decoder {
    architectures: &["LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"],
    name: "llama",
    keys: &[optional_count("vocab_size", &["vocab_size"])],
    layer: &[ATTENTION, MLP, NORMS, EXPERTS],
    interleaves_heads: true,
    more: |config, metadata| add_rotated_dims(config, "llama", metadata),
    ..PLAIN
};

/// The text parts of LLaVA and Pixtral. Their configs leave out the defaults of `transformers`.
pub(super) const LLAVA: Decoder = Decoder {
    architectures: &["LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration"],
    applies: |config| MODELS.iter().any(|model| config.value("model_type") == model),
    prepare: |config| {
        let is_mistral = config.value("model_type") == MODELS[1];
        let (inner, context) = if is_mistral { (14_336, 131_072) } else { (11_008, 2048) };
        for (key, count) in [
            ("hidden_size", 4096),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("vocab_size", 32_000),
            ("intermediate_size", inner),
            ("max_position_embeddings", context),
        ] {
            config.set_default(key, count);
        }
        if is_mistral {
            config.set_default("num_key_value_heads", 8);
        }
        config.set_default("rms_norm_eps", 1e-6);
        Ok(())
    },
    ..LLAMA
};

/// Text models of LLaVA and Pixtral.
const MODELS: [&str; 2] = ["llama", "mistral"];

/// Mistral Small 3.1 and Ministral 3: queries may grow with the position.
pub(super) const MISTRAL_3: Decoder = Decoder {
    architectures: &["Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"],
    name: "mistral3",
    more: |config, metadata| {
        if config.optional_text("model_type")? == Some("mistral4") {
            return Err(unsupported("the model_type \"mistral4\""));
        }
        for (key, name) in [
            ("mscale_all_dim", "rope.scaling.yarn_log_multiplier"),
            ("llama_4_scaling_beta", "attention.temperature_scale"),
        ] {
            if let Some(number) = config.rotation_number(key)? {
                metadata.set(format!("mistral3.{name}"), number as f32);
            }
        }
        add_rotated_dims(config, "mistral3", metadata)
    },
    ..LLAMA
};

/// SmolLM 3: every fourth layer has no rotation, which GGUF does not contain.
pub(super) const SMOL_LM_3: Decoder = Decoder {
    architectures: &["SmolLM3ForCausalLM"],
    name: "smollm3",
    more: |config, metadata| {
        const PERIOD: usize = 4;
        // 0 marks a layer without rotation.
        let is_usual = match config.value("no_rope_layers") {
            Value::Array(flags) => {
                let usual = |(layer, flag): (usize, &Value)| (*flag == 0) == (layer % PERIOD == PERIOD - 1);
                flags.iter().enumerate().all(usual)
            }
            _ => config.optional_count(&["no_rope_layer_interval"], MAX_LAYERS)?.is_none_or(|at| at as usize == PERIOD),
        };
        if !is_usual {
            return Err(unsupported(format!("smollm3 with rotation in other layers than three of {PERIOD}")));
        }
        add_rotated_dims(config, "smollm3", metadata)
    },
    ..LLAMA
};

/// Adds the number of rotated elements of a head.
pub(super) fn add_rotated_dims(
    config: &Config,
    architecture: &str,
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    let dims = rotated_dims(config)?.min(u64::from(MAX_WIDTH));
    metadata.set(format!("{architecture}.rope.dimension_count"), dims as u32);
    Ok(())
}
