//! Llama 4, text: chunks of the context in three of four layers. Layers with MLPs and with experts alternate; gate and
//! linear part of experts are halves of one tensor, with rows and columns swapped.

use serde_json::Value;

use super::super::config::MAX_WIDTH;
use super::super::decoder::{ATTENTION, Decoder, Dim, NORMS, PLAIN, Row, flag, optional_count, row};
use super::super::error::unsupported;
use super::super::family::Select;
use super::llama::add_rotated_dims;

/// The last of these many layers has no rotation.
const PERIOD: usize = 4;

const MLP: &[Row] = &[
    row("feed_forward.gate_proj", "ffn_gate", &[Dim::Width, Dim::Inner]),
    row("feed_forward.up_proj", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("feed_forward.down_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

const EXPERTS: &[Row] = &[
    row("feed_forward.router", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("feed_forward.experts.gate_up_proj", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::FirstHalf)
        .transposed(),
    row("feed_forward.experts.gate_up_proj", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::SecondHalf)
        .transposed(),
    row("feed_forward.experts.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]).transposed(),
    row("feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", &[Dim::Width, Dim::ExpertInner]),
    row("feed_forward.shared_expert.up_proj", "ffn_up_shexp", &[Dim::Width, Dim::ExpertInner]),
    row("feed_forward.shared_expert.down_proj", "ffn_down_shexp", &[Dim::ExpertInner, Dim::Width]),
];

pub(super) const LLAMA_4: Decoder = Decoder {
    architectures: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
    name: "llama4",
    keys: &[
        optional_count("vocab_size", &["vocab_size"]),
        optional_count("interleave_moe_layer_step", &["interleave_moe_layer_step"]),
        optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
        optional_count("attention.chunk_size", &["attention_chunk_size"]),
        optional_count("attention.temperature_length", &["floor_scale"]),
        flag("use_qk_norm", &["use_qk_norm"]),
    ],
    layer: &[ATTENTION, NORMS, MLP, EXPERTS],
    prepare: |config| {
        let inner = config.count("intermediate_size", MAX_WIDTH)?;
        config.set("moe_intermediate_size", inner);
        let inner = config.count("intermediate_size_mlp", MAX_WIDTH)?;
        config.set("intermediate_size", inner);
        // Some configs have it as a float.
        if let Some(scale) = config.optional_number(&["floor_scale"])? {
            config.set("floor_scale", scale as u32);
        }
        Ok(())
    },
    more: |config, metadata| {
        let is_usual = match config.value("no_rope_layers") {
            Value::Array(flags) => {
                let usual = |(layer, flag): (usize, &Value)| (*flag == 0) == (layer % PERIOD == PERIOD - 1);
                flags.iter().enumerate().all(usual)
            }
            _ => true,
        };
        if !is_usual {
            return Err(unsupported(format!("llama4 with rotation in other layers than three of {PERIOD}")));
        }
        let growth = match config.flag("attn_temperature_tuning") {
            Ok(Some(false)) => Some(0.0),
            // Older configs have a number.
            _ => config.optional_number(&["attn_scale"])?,
        };
        if let Some(growth) = growth {
            metadata.set("llama4.attention.temperature_scale", growth);
        }
        add_rotated_dims(config, "llama4", metadata)
    },
    ..PLAIN
};
