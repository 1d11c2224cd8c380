//! OLMo 2 and 3: norms after attention and MLP, and over all heads of queries and keys together.

use serde_json::Value;

use super::super::config::{CONFIG, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, PLAIN, Row, row};
use super::super::error::invalid;

const NORMS: &[Row] = &[
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
    row("post_feedforward_layernorm", "post_ffw_norm", &[Dim::Width]),
    row("self_attn.q_norm", "attn_q_norm", &[Dim::Query]),
    row("self_attn.k_norm", "attn_k_norm", &[Dim::KeyValue]),
];

pub(super) const OLMO_2: Decoder = Decoder {
    architectures: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
    name: "olmo2",
    layer: &[ATTENTION, MLP, NORMS],
    more: |config, metadata| {
        let Some(window) = config.optional_count(&["sliding_window"], MAX_WIDTH)? else { return Ok(()) };
        let layers = config.count("num_hidden_layers", MAX_LAYERS)? as usize;
        let flags: Vec<bool> = match config.value("layer_types") {
            // Three of four layers have a window.
            Value::Null => (1..=layers).map(|layer| layer % 4 != 0).collect(),
            Value::Array(kinds) if kinds.len() == layers => {
                kinds.iter().map(|kind| kind == "sliding_attention").collect()
            }
            _ => return Err(invalid(CONFIG, format!("layer_types is not a list of {layers} layers"))),
        };
        metadata.set("olmo2.attention.sliding_window", window);
        metadata.set("olmo2.attention.sliding_window_pattern", flags);
        Ok(())
    },
    ..PLAIN
};
