//! StableLM: LayerNorm with biases, a gated MLP, and a rotation of a part of each head.

use super::super::decoder::{Decoder, PLAIN};
use super::super::error::unsupported;
use super::llama::add_rotated_dims;

pub(super) const STABLE_LM: Decoder = Decoder {
    architectures: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
    name: "stablelm",
    prepare: |config| {
        config.rename(&[("rope_pct", "partial_rotary_factor"), ("norm_eps", "layer_norm_eps")]);
        config.set_default("partial_rotary_factor", 0.25);
        Ok(())
    },
    more: |config, metadata| {
        for key in ["use_parallel_residual", "qk_layernorm"] {
            if config.flag(key)? == Some(true) {
                return Err(unsupported(format!("stablelm with {key}")));
            }
        }
        add_rotated_dims(config, "stablelm", metadata)
    },
    ..PLAIN
};
