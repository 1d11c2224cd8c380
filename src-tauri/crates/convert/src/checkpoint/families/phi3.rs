//! Phi 3 and 4: queries, keys and values in one tensor, gate and linear part in another.

use super::super::config::MAX_WIDTH;
use super::super::decoder::{Decoder, Dim, NORMS, PLAIN, Row, optional_count, row};
use super::llama::add_rotated_dims;

const FUSED: &[Row] = &[
    row("self_attn.qkv_proj", "attn_qkv", &[Dim::Width, Dim::Fused]),
    row("self_attn.o_proj", "attn_output", &[Dim::Query, Dim::Width]),
    row("mlp.gate_up_proj", "ffn_up", &[Dim::Width, Dim::TwoInner]),
    row("mlp.down_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

pub(super) const PHI_3: Decoder = Decoder {
    architectures: &["Phi3ForCausalLM"],
    name: "phi3",
    keys: &[optional_count("rope.scaling.original_context_length", &["original_max_position_embeddings"])],
    layer: &[FUSED, NORMS],
    more: |config, metadata| {
        add_rotated_dims(config, "phi3", metadata)?;
        // Zero marks Phi 4, which has no window.
        let window = config.optional_count(&["sliding_window"], MAX_WIDTH)?.unwrap_or(0);
        metadata.set("phi3.attention.sliding_window", window);
        Ok(())
    },
    ..PLAIN
};
